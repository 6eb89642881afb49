/* text: bytes of tokens -> text that may be shown: whole characters, and nothing that may still turn
 * out to be a stop sequence. */
import { joined, textDecoder } from './heap.js';

export class TextAssembler {
  #decoder = textDecoder();
  #stops;
  #held = '';
  text = '';
  /** @type {string | null} the stop sequence that was met */
  stopped = null;
  /** Bytes at the end of a character that was cut off. */
  cut = 0;
  /** @type {Uint8Array} the last bytes, of which a cut character can have three */
  #last = new Uint8Array();

  /** @param {string[]} stops */
  constructor(stops) {
    this.#stops = stops;
  }

  /** The text that becomes showable. @param {Uint8Array} bytes */
  add(bytes) {
    this.#last = joined(this.#last, bytes).slice(-3);
    const text = this.#held + this.#decoder.decode(bytes, { stream: true });
    const cut = this.#earliest(text);
    this.#held = cut === null ? longestHeld(text, this.#stops) : '';
    return this.#show(text.slice(0, cut ?? text.length - this.#held.length));
  }

  /** Returns the held-back text at the end, without a character that was cut off. */
  end() {
    const isCut = this.#decoder.decode() !== '';
    const begins = (/** @type {number} */ n) => textDecoder().decode(this.#last.slice(-n), { stream: true }) === '';
    this.cut = isCut ? ([3, 2].find((n) => n <= this.#last.length && begins(n)) ?? 1) : 0;
    return this.#show(this.#held);
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

/** The longest end of text that begins a stop sequence. @param {string} text @param {string[]} stops */
function longestHeld(text, stops) {
  for (let from = 0; from < text.length; from++) {
    const end = text.slice(from);
    if (stops.some((stop) => stop.startsWith(end))) return end;
  }
  return '';
}
