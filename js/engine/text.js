/* text: bytes of tokens -> text that may be shown: whole characters, and nothing that may still turn
 * out to be a stop sequence. */
import { textDecoder } from './heap.js';

export class TextAssembler {
  #decoder = textDecoder();
  #stops;
  #held = '';
  text = '';
  /** @type {string | null} the stop sequence that was met */
  stopped = null;
  /** Whether a character was cut off at the end. */
  incomplete = false;

  /** @param {string[]} stops */
  constructor(stops) {
    this.#stops = stops;
  }

  /** The text that becomes showable. @param {Uint8Array} bytes */
  add(bytes) {
    const text = this.#held + this.#decoder.decode(bytes, { stream: true });
    const cut = this.#earliest(text);
    this.#held = cut === null ? longestHeld(text, this.#stops) : '';
    return this.#show(text.slice(0, cut ?? text.length - this.#held.length));
  }

  /** What was held back, when no more comes; without a character that was cut off. */
  end() {
    this.incomplete = this.#decoder.decode() !== '';
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
