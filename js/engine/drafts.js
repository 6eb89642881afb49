/* drafts: speculative decoding. Drafts the next tokens of an answer, so that one step evaluates several. The draft
 * repeats the tokens that followed the latest tokens at their last occurrence in the context (Saxena 2023, prompt
 * lookup decoding). If they occur for the first time, a draft model drafts, if there is one. The caller draws each
 * token from the logits of its position and accepts a draft token only if it is the token drawn, so answers do not
 * change. Bytes that a constraint requires next are also only drafted, because different tokens can spell them. */

/** @import { DraftModelInfo, GenerateArgs } from '../protocol.js' */
/** @import { Matcher } from './grammar.js' */
/** @import { CallRunner } from './runner.js' */

/** A draft model (draft-model.js). facts: its properties, for model.info; draft: returns at most `room` draft tokens
 * for a context, none if they are unlikely to save time. `answered` is the number of tokens of the answer so far;
 * `position` is the number of ids that the model has evaluated; `times` has the milliseconds of its steps by their
 * number of tokens; judge: learns how many tokens of a draft were accepted.
 * @typedef {{ facts: { draftModel: DraftModelInfo },
 *   draft: (ids: readonly number[], how: { room: number, times: readonly number[], answered: number, position: number },
 *     job: { aborted: boolean }) => Promise<number[]>,
 *   judge: (size: number, accepted: number, times: readonly number[]) => void }} Drafter */
/** The parts of an answer (jobs.js) that are needed to draft its next tokens.
 * @typedef {{ native: CallRunner['native'], runner: CallRunner, job: { aborted: boolean }, prompt: number[],
 *   part: Pick<typeof import('./jump-forward.js'), 'jumpForwardTokens'> | null, matcher: Matcher | null,
 *   tokens: number[], contextLength: number, args: GenerateArgs }} Drafting */

/** Number of latest tokens that are looked up in the context to draft the next tokens. */
const SEEN = 3;
/** Maximum number of draft tokens in a step, because a step computes at most four rows of logits. */
export const MOST = 3;
/** Weight of the latest measurement in moving averages. */
export const LATEST = 0.2;
/** Drafts save time if a step with draft tokens takes at most this share of the time that single steps would take for
 * the same tokens. */
export const LEAST_GAIN = 0.9;
/** Maximum number of drafts that are skipped after drafts that cost more time than they saved. */
const LONGEST_REST = 64;
/** Number of drafts after which a step without draft tokens is measured again. */
const OLD = 64;

/** Drafts tokens of one answer, and pauses while drafts cost more time than they save. */
export class Drafts {
  /** @type {number[]} */
  #ids = [];
  /** Position in the context after the last occurrence of each run of SEEN tokens, by the hash of the run.
   * @type {Map<number, number>} */
  #places = new Map();
  /** @type {number[]} */
  #times = [];
  #meanSaved = MOST;
  /** Number of steps that the current draft has saved. */
  #saved = 0;
  /** Number of drafts since the last measurement of a step without draft tokens. */
  #age = OLD;
  #rest = 0;
  #nextRest = 1;
  #size = 0;
  #isComparable = false;
  /** Time at which the latest draft was complete. */
  #drafted = 0;
  /** The model that made the current draft; null if the draft repeats tokens of the context.
   * @type {Drafter | null} */
  #drafter = null;
  #model;
  /** Draft tokens that are evaluated but not drawn yet. @type {number[]} */
  waiting = [];
  drafted = 0;
  accepted = 0;

  /** @param {readonly number[]} prompt @param {Drafter} [model] */
  constructor(prompt, model) {
    this.#model = model;
    this.add(prompt);
  }

  /** Adds tokens to the context: a drawn token and its jump-forward tokens. Returns how many of them, from the first
   * on, equal the next draft tokens, so that they are evaluated already. @param {readonly number[]} ids */
  add(ids) {
    let same = 0;
    for (const [i, id] of ids.entries()) {
      this.#places.set(this.#hash(), this.#ids.length);
      this.#ids.push(id);
      if (same < i || this.waiting[0] !== id) continue;
      this.waiting.shift();
      same++;
    }
    this.accepted += same;
    if (same === ids.length) this.#saved++;
    return same;
  }

  /** Returns a hash of the latest tokens. A collision only causes a bad draft. */
  #hash() {
    return this.#ids.slice(-SEEN).reduce((hash, id) => (Math.imul(hash, 0x9e3779b1) ^ id) >>> 0, 1);
  }

  /** Returns draft tokens for an answer. @param {Drafting} answer
   * @param {number} pending number of the answer's last tokens that are not evaluated yet */
  async next({ native, runner, job, part, matcher, prompt, tokens, contextLength, args }, pending) {
    const length = prompt.length + tokens.length;
    const forced = part && matcher && !args.jumpForward ? part.jumpForwardTokens(native, matcher, tokens) : [];
    const isShared = runner.isShared?.();
    this.#isComparable = pending === 1 && !isShared;
    // While other answers run, evaluating draft tokens would slow these answers down.
    const most = isShared ? 0 : Math.min(contextLength - length, args.maxTokens - tokens.length - 1);
    let ids = this.draft(most, forced);
    if (!ids.length && most > 0 && this.#model && this.#age < OLD) {
      const [room, answered, position] = [Math.min(MOST, most), tokens.length, native.call('position')];
      const how = { room, times: this.#times, answered, position };
      ids = this.#begin(await this.#model.draft(this.#ids, how, job), this.#model);
    }
    native.call('want_last', 1 + ids.length);
    this.#drafted = performance.now();
    return ids;
  }

  /** Returns a draft of the next tokens, at most `room` tokens; none while drafting is paused, or while a step without
   * draft tokens has to be measured. @param {number} room
   * @param {readonly number[]} forced tokens of the text that a constraint requires next */
  draft(room, forced = []) {
    const ids = forced.length ? forced : this.#continuation();
    if (!ids.length || this.#rest-- > 0 || this.#age >= OLD) return [];
    return this.#begin(ids.slice(0, Math.min(MOST, room)), null);
  }

  /** @param {number[]} ids @param {Drafter | null} drafter */
  #begin(ids, drafter) {
    this.#age++;
    this.#saved = 0;
    this.#drafter = drafter;
    this.waiting = ids;
    this.#size = ids.length;
    this.drafted += this.#size;
    return ids.slice();
  }

  /** Finds the previous occurrence of the last SEEN tokens in the context, and returns the MOST tokens after it. If the
   * context has fewer, repeats them. Returns none if there is no previous occurrence. */
  #continuation() {
    const at = this.#places.get(this.#hash());
    if (at === undefined) return [];
    const period = this.#ids.length - at;
    return Array.from({ length: MOST }, (_, i) => this.#ids[at + (i % period)]);
  }

  /** Ends the current draft, and removes its rejected tokens from the KV cache, before another call can share them.
   * @param {Pick<Drafting, 'native' | 'prompt' | 'tokens'>} answer
   * @param {number} [pending] number of the answer's last tokens that are not evaluated yet */
  drop({ native, prompt, tokens }, pending = 0) {
    if (this.end()) native.call('truncate', prompt.length + tokens.length - pending);
  }

  /** Ends the current draft. Returns how many of the draft tokens were not accepted. */
  end() {
    const rejected = this.waiting.length;
    if (this.#size && this.#drafter) this.#drafter.judge(this.#size, this.#size - rejected, this.#times);
    else if (this.#size) this.#judge();
    this.waiting = [];
    this.#size = 0;
    return rejected;
  }

  /** Pauses drafting, longer each time, while steps with draft tokens take more time than single steps. */
  #judge() {
    this.#meanSaved += LATEST * (this.#saved - this.#meanSaved);
    const one = this.#times[1];
    const many = this.#times[this.#size + 1];
    // While the duration with draft tokens is undefined (not yet measured), the comparison is false, so drafting
    // continues.
    if (!(many > LEAST_GAIN * one * (1 + this.#meanSaved))) {
      this.#nextRest = 1;
      return;
    }
    this.#rest = this.#nextRest;
    this.#nextRest = Math.min(2 * this.#nextRest, LONGEST_REST);
  }

  /** Records the duration of the step with the latest draft, if it is comparable to that of single steps: without
   * jump-forward tokens, and without other answers that ran meanwhile. @param {CallRunner} runner */
  evaluated(runner) {
    const isComparable = this.#isComparable && !runner.isShared?.();
    if (isComparable) this.measured(1 + this.#size, performance.now() - this.#drafted);
  }

  /** Records the duration of a step that evaluated `tokens` tokens. @param {number} tokens @param {number} ms */
  measured(tokens, ms) {
    const before = this.#times[tokens] ?? ms;
    this.#times[tokens] = before + LATEST * (ms - before);
    if (tokens === 1) this.#age = 0;
  }
}
