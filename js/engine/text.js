/* text: assembles the bytes of tokens into text that can be shown: only complete characters, and nothing that may be
 * the beginning of a stop sequence. */
import { joined, textDecoder } from './heap.js';

/** Collects the text of one answer. */
export class TextAssembler {
  #decoder = textDecoder();
  #stops;
  #pending = '';
  text = '';
  /** The stop sequence that ended the text. @type {string | null} */
  stopped = null;
  /** Number of bytes of an incomplete character at the end of the text. */
  cut = 0;
  /** The last three bytes of the text so far: an incomplete character has at most as many. @type {Uint8Array} */
  #last = new Uint8Array();

  /** @param {string[]} stops */
  constructor(stops) {
    this.#stops = stops;
  }

  /** Appends bytes. Returns the text that can now be shown. @param {Uint8Array} bytes */
  add(bytes) {
    this.#last = joined(this.#last, bytes).slice(-3);
    const text = this.#pending + this.#decoder.decode(bytes, { stream: true });
    const cut = this.#earliest(text);
    this.#pending = cut === null ? longestPrefix(text, this.#stops) : '';
    return this.#show(text.slice(0, cut ?? text.length - this.#pending.length));
  }

  /** Ends the text. Returns the part that was held back, without an incomplete character. */
  end() {
    const isCut = this.#decoder.decode() !== '';
    const begins = (/** @type {number} */ n) => textDecoder().decode(this.#last.slice(-n), { stream: true }) === '';
    this.cut = isCut ? ([3, 2].find((n) => n <= this.#last.length && begins(n)) ?? 1) : 0;
    return this.#show(this.#pending);
  }

  /** @param {string} piece */
  #show(piece) {
    this.text += piece;
    return piece;
  }

  /** Returns the offset of the first stop sequence, or null if there is none. Sets `stopped` to the sequence.
   * @param {string} text */
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

/** Returns the longest suffix of a text that is the beginning of a stop sequence. @param {string} text
 * @param {string[]} stops */
function longestPrefix(text, stops) {
  for (let from = 0; from < text.length; from++) {
    const end = text.slice(from);
    if (stops.some((stop) => stop.startsWith(end))) return end;
  }
  return '';
}
