/* drafts: speculative decoding without a draft model. Drafts the next tokens of an answer, so that one step
 * evaluates several. The draft repeats the tokens that followed the latest tokens at their last occurrence in the
 * context (Saxena 2023, prompt lookup decoding). The caller draws each token from its own logits and accepts a draft
 * token only if it is the token drawn, so answers do not change. Bytes that a constraint requires next are also only
 * drafted, because different tokens can spell them. */

/** Number of latest tokens that are looked up in the context to draft the next tokens. */
const SEEN = 3;
/** Maximum number of draft tokens in a step, because a step computes at most four rows of logits. */
const MOST = 3;
/** Weight of the latest measurement in moving averages. */
const LATEST = 0.2;
/** Drafts save time if a step with draft tokens takes at most this share of the time that single steps would take for
 * the same tokens. */
const LEAST_GAIN = 0.9;
/** Maximum number of drafts that are skipped after drafts that cost more time than they saved. */
const LONGEST_REST = 64;

export class Drafts {
  /** @type {number[]} */
  #ids = [];
  /** Position in the context after the last occurrence of each run of SEEN tokens, by the hash of the run.
   * @type {Map<number, number>} */
  #places = new Map();
  /** @type {number[]} */
  #times = [];
  #meanAccepted = MOST;
  #rest = 0;
  #nextRest = 1;
  #size = 0;
  /** Draft tokens that are evaluated but not drawn yet. @type {number[]} */
  waiting = [];
  drafted = 0;
  accepted = 0;

  /** @param {readonly number[]} prompt */
  constructor(prompt) {
    for (const id of prompt) this.add(id);
  }

  /** Adds a token to the context. Returns whether the token equals the next draft token, so that the logits after it
   * are computed already. @param {number} id */
  add(id) {
    this.#places.set(this.#hash(), this.#ids.length);
    this.#ids.push(id);
    if (!this.waiting.length || this.waiting[0] !== id) return false;
    this.waiting.shift();
    this.accepted++;
    return true;
  }

  /** Returns a hash of the latest tokens. A collision only causes a bad draft. */
  #hash() {
    return this.#ids.slice(-SEEN).reduce((hash, id) => (Math.imul(hash, 0x9e3779b1) ^ id) >>> 0, 1);
  }

  /** Returns a draft of the next tokens, at most `room` tokens; none while drafting is paused. @param {number} room
   * @param {readonly number[]} forced tokens of the text that a constraint requires next */
  draft(room, forced = []) {
    const ids = forced.length ? forced : this.#continuation();
    if (!ids.length || this.#rest-- > 0) return [];
    this.waiting = ids.slice(0, Math.min(MOST, room));
    this.#size = this.waiting.length;
    this.drafted += this.#size;
    return this.waiting.slice();
  }

  /** Returns the tokens that followed the last occurrence of the latest tokens. Repeats them if the context ends before
   * MOST tokens. */
  #continuation() {
    const at = this.#places.get(this.#hash());
    if (at === undefined) return [];
    const period = this.#ids.length - at;
    return Array.from({ length: MOST }, (_, i) => this.#ids[at + (i % period)]);
  }

  /** Ends the current draft. Returns how many of the draft tokens were not accepted. */
  end() {
    const rejected = this.waiting.length;
    if (this.#size) this.#judge(this.#size - rejected);
    this.waiting = [];
    this.#size = 0;
    return rejected;
  }

  /** Pauses drafting, longer each time, while steps with draft tokens take more time than single steps.
   * @param {number} accepted number of accepted tokens of a draft */
  #judge(accepted) {
    this.#meanAccepted += LATEST * (accepted - this.#meanAccepted);
    const one = this.#times[1];
    const many = this.#times[this.#size + 1];
    // While one of the durations is undefined (not yet measured), the comparison is false, so drafting continues.
    if (!(many > LEAST_GAIN * one * (1 + this.#meanAccepted))) {
      this.#nextRest = 1;
      return;
    }
    this.#rest = this.#nextRest;
    this.#nextRest = Math.min(2 * this.#nextRest, LONGEST_REST);
  }

  /** Records the duration of a step that evaluated `tokens` tokens. @param {number} tokens @param {number} ms */
  measured(tokens, ms) {
    const before = this.#times[tokens] ?? ms;
    this.#times[tokens] = before + LATEST * (ms - before);
  }
}
