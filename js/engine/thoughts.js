/* thoughts: separates the thoughts of one answer from its text, token by token. Thoughts are recognised by the ids of
 * the tokens around them, so text that spells such a token stays text. */
import { textDecoder } from './heap.js';
/** @import { ThoughtMarks } from './thinking.js' */

const NEWLINE = 0x0a;

/** Token ids of the texts in ThoughtMarks.
 * @typedef {{ begin: number, end: number, head: number[], close: number[], gap: number[] }} MarkIds */

/** Part of the answer to which the last token belongs, and the phases that may follow (head, gap: see ThoughtMarks).
 *   answer  outside of thoughts                       head
 *   head    in the head of a thought                  blank text end
 *   blank   after the head, only line breaks          text end
 *   text    in the text of a thought                  end
 *   end     at the end of a thought                   gap first head
 *   gap     only line breaks have followed a thought  first head
 *   first   the first other token after a thought     answer head
 * @typedef {'answer' | 'head' | 'blank' | 'text' | 'end' | 'gap' | 'first'} Phase */

/** Reads the tokens of one answer, and collects the text of its thoughts. */
export class ThoughtReader {
  #head;
  #ids;
  #budget;
  #decoder = textDecoder();
  /** Text that is not shown yet: part of a head (ThoughtMarks), or line breaks that may be the end of the thought. */
  #held = '';
  /** @type {Phase} */
  #phase;
  /** Number of tokens of thoughts so far, without their marks, and whether a thought has just begun. */
  #spent = 0;
  #fresh;
  /** Whether any thought has ended. */
  done = false;
  /** Whether the answer ended inside a character of a thought. */
  cut = false;
  text = '';
  /** Number of tokens of the thoughts, including their marks and the gap after a thought. */
  tokens = 0;

  /** @param {ThoughtMarks} marks @param {MarkIds} ids
   * @param {{ inside: boolean, begun: boolean, budget?: number }} options inside: whether the prompt ends inside a
   * thought; begun: whether the prompt has text of that thought; budget: maximum number of tokens of all thoughts */
  constructor({ head }, ids, { inside, begun, budget = Infinity }) {
    this.#head = head;
    this.#ids = ids;
    this.#budget = budget;
    this.#phase = !inside ? 'answer' : begun ? 'text' : 'blank';
    this.#fresh = inside;
  }

  /** Whether the last token is inside a thought. */
  get inside() {
    return ['head', 'blank', 'text'].includes(this.#phase);
  }

  /** Returns the token to append for a drawn token: inside a thought, the end of the thought replaces an end of the
   * answer. @param {number} id @param {boolean} isEnd whether it would end the answer */
  instead(id, isEnd) {
    return this.inside && isEnd ? this.#ids.end : id;
  }

  /** Returns whether a token would be part of a thought. @param {number} id */
  takes(id) {
    return this.inside || id === this.#ids.begin;
  }

  /** Appends a token. Returns the text of a thought that can now be shown, or undefined for a token of the answer.
   * @param {number} id @param {Uint8Array} bytes of the token @returns {string | undefined} */
  add(id, bytes) {
    if (!this.takes(id)) return this.#pass(bytes);
    const { inside } = this;
    this.tokens++;
    if (inside && id !== this.#ids.end) {
      this.#spent++;
      this.#fresh = false;
      return id === this.#ids.begin ? '' : this.#show(this.#decoder.decode(bytes, { stream: true }));
    }
    this.#phase = inside ? 'end' : 'head';
    this.#fresh = !inside;
    this.done ||= inside;
    this.#held = '';
    this.#decoder = textDecoder();
    return '';
  }

  /** Handles a token outside of thoughts. Line breaks between a thought and the answer count as part of the thought.
   * @param {Uint8Array} bytes */
  #pass(bytes) {
    const follows = this.#phase === 'end' || this.#phase === 'gap';
    const blank = follows && bytes.length > 0 && bytes.every((byte) => byte === NEWLINE);
    this.#phase = blank ? 'gap' : follows ? 'first' : 'answer';
    if (!blank) return undefined;
    this.tokens++;
    return '';
  }

  /** Returns the tokens that must follow: the end of a thought whose budget is exhausted, or the gap after a thought if
   * a constraint applies to the answer. @param {boolean} constrained */
  next(constrained) {
    const { head, close, end, gap } = this.#ids;
    if (this.#phase === 'end') return constrained ? gap : [];
    if (!this.inside) return [];
    const rest = this.#phase === 'head' ? head : [];
    if (this.#fresh && this.#spent >= this.#budget) return [...rest, ...close, end, ...gap];
    return this.#spent >= this.#budget + rest.length ? [...close, end, ...gap] : [];
  }

  /** Returns the bytes of the last token without the line breaks between a thought and the answer.
   * @param {Uint8Array} bytes */
  trimmed(bytes) {
    return this.#phase === 'first' ? bytes.subarray(bytes.findIndex((byte) => byte !== NEWLINE)) : bytes;
  }

  /** Ends the answer. Returns the part of a thought that was held back. */
  finish() {
    this.cut = this.inside && this.#decoder.decode() !== '';
    const rest = this.#phase === 'text' ? this.#held : '';
    this.text += rest;
    return rest;
  }

  /** @param {string} more */
  #show(more) {
    let text = this.#held + more;
    this.#held = '';
    if (this.#phase === 'head') {
      if (text.length < this.#head.length && this.#head.startsWith(text)) {
        this.#held = text;
        return '';
      }
      if (text.startsWith(this.#head)) text = text.slice(this.#head.length);
      this.#phase = 'blank';
    }
    if (this.#phase === 'blank') {
      text = text.replace(/^\n+/, '');
      if (!text) return '';
      this.#phase = 'text';
      if (this.text) text = `\n\n${text}`;
    }
    const shown = text.replace(/\n+$/, '');
    this.#held = text.slice(shown.length);
    this.text += shown;
    return shown;
  }
}
