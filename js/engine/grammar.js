/* grammar: a grammar in the engine, and a text that is matched with it token by token. The bytes of a grammar are made
 * by js/grammar/lower.js. */

/** @import { Engine } from './engine.js' */

/** Forced bytes that are looked for at once. */
const MOST_FORCED = 1024;

/** Compiled once, for texts one after another. Its cached states stay until it is disposed of. */
export class Grammar {
  #native;
  #bytes;

  /** @param {Engine} native @param {Uint8Array} bytes of lower() */
  constructor(native, bytes) {
    this.#native = native;
    this.#bytes = bytes;
  }

  /** Stands at the beginning of a text. Throws `bad-format` for bytes that are no grammar. */
  matcher() {
    return new Matcher(this.#native, this.#native.make('match_new', this.#bytes));
  }
}

export class Matcher {
  #native;
  #address;
  #words;

  /** @param {Engine} native @param {number} address */
  constructor(native, address) {
    this.#native = native;
    this.#address = address;
    this.#words = Math.ceil(native.number('n_vocab') / 32);
  }

  /** Where the engine has it; 0 when it is disposed of. */
  get address() {
    return this.#address;
  }

  /** Takes a token, if it is allowed. @param {number} id */
  accept(id) {
    return this.#native.call('match_accept', this.#address, id) === 1;
  }

  /** Takes bytes of text, all of them or none. @param {Uint8Array} bytes */
  acceptBytes(bytes) {
    return this.#native.send('match_text', this.#address, bytes) === 1;
  }

  /** @param {number} id */
  allows(id) {
    return this.#native.call('match_allows', this.#address, id) === 1;
  }

  /** Bit id % 32 of word id / 32: whether the token is allowed. */
  mask() {
    return this.#native.words('match_mask', this.#address, this.#words);
  }

  /** Computes the mask without copying it: for measuring. */
  touch() {
    this.#native.words('match_mask', this.#address, 0);
  }

  /** Whether the text so far is a whole one. */
  get complete() {
    return this.#native.call('match_complete', this.#address) > 0;
  }

  /** Whether it is one, and nothing can follow. */
  get finished() {
    return this.#native.call('match_complete', this.#address) === 2;
  }

  /** Whether a token that ends texts was accepted. */
  get ended() {
    return this.#native.call('match_ended', this.#address) === 1;
  }

  /** Bytes that must come next, whatever the text becomes. */
  forced() {
    return this.#native.bytes('match_forced', this.#address, MOST_FORCED);
  }

  /** Whether a token can begin inside of `text`, whose last bytes are so many forced ones, and end behind it.
   * @param {Uint8Array} text @param {number} forced */
  joins(text, forced) {
    return this.#native.send('match_joins', this.#address, text, forced) === 1;
  }

  /** How many states' tokens masks had to look for: where it grows, a mask was that of a new state. */
  get found() {
    return this.#native.call('match_found', this.#address);
  }

  /** Bytes of the heap that it holds. */
  get heapBytes() {
    return this.#native.call('match_bytes', this.#address);
  }

  /** A token of those that are allowed. @param {boolean} masked the logits are masked, too: for log probabilities */
  draw(masked) {
    return this.#native.drawUnder(this.#address, masked);
  }

  /** Evaluates pending tokens for the tokens allowed now, which must not change until then. */
  want() {
    this.#native.call('match_want', this.#address);
  }

  reset() {
    this.#native.call('match_reset', this.#address);
  }

  dispose() {
    if (this.#address) this.#native.call('match_free', this.#address);
    this.#address = 0;
  }
}
