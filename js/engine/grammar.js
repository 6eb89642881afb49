/* grammar: matches texts with a compiled grammar (js/grammar/lower.js) in the engine, token by token. */

/** @import { Engine } from './engine.js' */

const MAX_FORCED = 1024;

/** The state of matching one text with a grammar. Its DFA cache lives until dispose(). */
export class Matcher {
  #native;
  /** Address in the heap, 0 after dispose(). */
  #address;
  #words;

  /** Throws `bad-format` if the bytes are not a grammar. @param {Engine} native
   * @param {Uint8Array} grammar as lower() returns it */
  constructor(native, grammar) {
    this.#native = native;
    this.#address = native.make('match_new', grammar);
    this.#words = Math.ceil(native.number('n_vocab') / 32);
  }

  /** Appends a token to the text. Returns false if the grammar does not allow the token. @param {number} id */
  accept(id) {
    return this.#native.call('match_accept', this.#address, id) === 1;
  }

  /** Appends bytes to the text. If the grammar does not allow them, appends none and returns false.
   * @param {Uint8Array} bytes */
  acceptBytes(bytes) {
    return this.#native.send('match_text', this.#address, bytes) === 1;
  }

  /** Returns whether the grammar allows a token next. Does not change the matcher. @param {number} id */
  allows(id) {
    return this.#native.call('match_allows', this.#address, id) === 1;
  }

  /** Returns the mask of allowed tokens. A token is allowed if bit id % 32 of word id / 32 is set. */
  mask() {
    return this.#native.words('match_mask', this.#address, this.#words);
  }

  /** Computes the mask of allowed tokens without copying it, to measure the duration. */
  touch() {
    this.#native.words('match_mask', this.#address, 0);
  }

  /** Whether the grammar allows the text to end after the accepted tokens. */
  get complete() {
    return this.#native.call('match_complete', this.#address) > 0;
  }

  /** Whether the grammar requires the text to end after the accepted tokens. */
  get finished() {
    return this.#native.call('match_complete', this.#address) === 2;
  }

  /** Whether the matcher accepted an end token. */
  get ended() {
    return this.#native.call('match_ended', this.#address) === 1;
  }

  /** Returns the bytes that must come next in the text: the common prefix of all continuations that the grammar
   * allows. */
  forced() {
    return this.#native.bytes('match_forced', this.#address, MAX_FORCED);
  }

  /** Returns whether a token may begin inside `text` and extend beyond its end. @param {Uint8Array} text
   * @param {number} forced number of bytes at the end of `text` that are not accepted yet, but must come next */
  joins(text, forced) {
    return this.#native.send('match_joins', this.#address, text, forced) === 1;
  }

  /** Number of DFA states whose masks were computed. Increases when a mask is not in the cache. */
  get found() {
    return this.#native.call('match_found', this.#address);
  }

  /** Size of the matcher in the heap, in bytes. */
  get heapBytes() {
    return this.#native.call('match_bytes', this.#address);
  }

  /** Draws a token that the grammar allows, and returns its id. Throws `bad-state` if it allows none.
   * @param {boolean} masked mask the logits even if the draw does not need it, for log probabilities
   * @param {number} [back] see Engine.draw() */
  draw(masked, back) {
    return this.#native.drawUnder(this.#address, masked, back);
  }

  /** Announces that the token after the pending ones will be drawn with this matcher in its current state. The
   * engine then computes only logits of allowed tokens. */
  want() {
    this.#native.call('match_want', this.#address);
  }

  /** Starts an empty text. Keeps the DFA cache. */
  reset() {
    this.#native.call('match_reset', this.#address);
  }

  /** Frees the matcher's memory. A second call does nothing. */
  dispose() {
    if (this.#address) this.#native.call('match_free', this.#address);
    this.#address = 0;
  }
}
