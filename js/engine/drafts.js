/* drafts: guesses the next tokens of an answer, so that several are evaluated in one step. The guess is the continuation
 * of the last place where the latest tokens occurred (Saxena 2023, prompt lookup decoding). The caller draws each token
 * from its own logits and keeps a guess only if it is the token drawn, so answers do not change. Under a constraint, text
 * that it leaves no choice about is guessed first: other tokens with the same bytes are allowed too. */

/** Number of latest tokens to look up. */
const SEEN = 3;
/** Largest number of tokens to guess: the engine computes four rows of logits at once. */
const MOST = 3;
/** Weight of the latest measurement in an average. */
const LATEST = 0.2;
/** Largest share of the time of single steps that a step with guesses may take. */
const LEAST_GAIN = 0.9;
/** Largest number of tokens without guesses after guesses that did not pay. */
const LONGEST_REST = 64;

/** Guesses for one answer. */
export class Drafts {
  /** The context so far. @type {number[]} */
  #ids = [];
  /** Position after the last occurrence of each sequence of SEEN tokens, by its hash.
   * @type {Map<number, number>} */
  #places = new Map();
  /** Average duration of a step by its number of tokens, in milliseconds. @type {number[]} */
  #times = [];
  /** Average number of tokens that were right. */
  #right = MOST;
  #rest = 0;
  #nextRest = 1;
  /** Size of the current guess. */
  #size = 0;
  /** Guessed tokens that are evaluated but not drawn yet. @type {number[]} */
  waiting = [];
  drafted = 0;
  accepted = 0;

  /** @param {readonly number[]} prompt */
  constructor(prompt) {
    for (const id of prompt) this.add(id);
  }

  /** Adds a token of the context. Returns whether it was guessed, so that its logits are known. @param {number} id */
  add(id) {
    this.#places.set(this.#hash(), this.#ids.length);
    this.#ids.push(id);
    if (!this.waiting.length || this.waiting[0] !== id) return false;
    this.waiting.shift();
    this.accepted++;
    return true;
  }

  /** Returns a hash of the latest tokens. A collision only makes a bad guess. */
  #hash() {
    return this.#ids.slice(-SEEN).reduce((hash, id) => (Math.imul(hash, 0x9e3779b1) ^ id) >>> 0, 1);
  }

  /** Returns guesses of the tokens that follow, at most `room`. @param {number} room
   * @param {readonly number[]} forced tokens of the text that a constraint requires next */
  guess(room, forced = []) {
    const ids = forced.length ? forced : this.#continuation();
    if (!ids.length || this.#rest-- > 0) return [];
    this.waiting = ids.slice(0, Math.min(MOST, room));
    this.#size = this.waiting.length;
    this.drafted += this.#size;
    return this.waiting.slice();
  }

  /** Returns what followed the latest tokens before. A repetition shorter than the guess continues within it. */
  #continuation() {
    const at = this.#places.get(this.#hash());
    if (at === undefined) return [];
    const period = this.#ids.length - at;
    return Array.from({ length: MOST }, (_, i) => this.#ids[at + (i % period)]);
  }

  /** Ends the current guess: returns how many of its tokens were not drawn. */
  end() {
    const wrong = this.waiting.length;
    if (this.#size) this.#judge(this.#size - wrong);
    this.waiting = [];
    this.#size = 0;
    return wrong;
  }

  /** Pauses guessing, each time for longer, while a step with guesses takes longer than the tokens it gives would.
   * @param {number} right number of tokens of a guess that were drawn */
  #judge(right) {
    this.#right += LATEST * (right - this.#right);
    const one = this.#times[1];
    const many = this.#times[this.#size + 1];
    // Both are unknown at first.
    if (!(many > LEAST_GAIN * one * (1 + this.#right))) {
      this.#nextRest = 1;
      return;
    }
    this.#rest = this.#nextRest;
    this.#nextRest = Math.min(2 * this.#nextRest, LONGEST_REST);
  }

  /** Records the duration of a step. @param {number} tokens @param {number} ms */
  measured(tokens, ms) {
    const before = this.#times[tokens] ?? ms;
    this.#times[tokens] = before + LATEST * (ms - before);
  }
}
