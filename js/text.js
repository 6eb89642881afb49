/* text: bytes of tokens -> text that may be shown. A character is never shown before it is whole,
 * and nothing that may turn out to be a stop sequence is shown before it has turned out not to be. */
import { textDecoder } from './heap.js';

export class TextAssembler {
  #decoder = textDecoder();
  #stops;
  #held = '';
  #open = 0;
  /** All text so far that may be shown. */
  text = '';
  /** @type {string | null} the stop sequence that was met */
  stopped = null;

  /** @param {string[]} stops */
  constructor(stops) {
    this.#stops = stops;
  }

  /** Whether the last bytes given were the beginning of a character. */
  get incomplete() {
    return this.#open > 0;
  }

  /** The text that becomes showable with these bytes. @param {Uint8Array} bytes @returns {string} */
  add(bytes) {
    this.#open = openBytes(bytes, this.#open);
    const text = this.#held + this.#decoder.decode(bytes, { stream: true });
    const cut = this.#earliest(text);
    this.#held = cut === null ? longestHeld(text, this.#stops) : '';
    return this.#show(text.slice(0, cut ?? text.length - this.#held.length));
  }

  /** What was held back, when no more comes. The bytes of a character that was cut off are dropped. */
  end() {
    const rest = this.#held;
    this.#held = '';
    return this.#show(rest);
  }

  /** @param {string} piece */
  #show(piece) {
    this.text += piece;
    return piece;
  }

  /** Where the first stop sequence begins. @param {string} text */
  #earliest(text) {
    let cut = null;
    for (const stop of this.#stops) {
      const at = text.indexOf(stop);
      if (at < 0 || (cut !== null && at >= cut)) continue;
      cut = at;
      this.stopped = stop;
    }
    return cut;
  }
}

/** The longest end of text with which a stop sequence begins. @param {string} text @param {string[]} stops */
function longestHeld(text, stops) {
  let held = '';
  for (const stop of stops) {
    for (let n = Math.min(stop.length - 1, text.length); n > held.length; n--) {
      if (!text.endsWith(stop.slice(0, n))) continue;
      held = stop.slice(0, n);
      break;
    }
  }
  return held;
}

/** Continuation bytes still missing after these bytes, when `open` were missing before.
 * @param {Uint8Array} bytes @param {number} open */
function openBytes(bytes, open) {
  for (const byte of bytes) {
    if ((byte & 0xc0) === 0x80) open = Math.max(open - 1, 0);
    else open = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : byte >= 0xc0 ? 1 : 0;
  }
  return open;
}
