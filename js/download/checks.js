/* checks: checksums of a cached copy. The copy is divided into pieces of equal size. The checksum of a piece is written
 * with the piece, and compared when the piece is read. The checksums are stored between the model's bytes and the
 * journal (entries.js). A piece counts as stored only when all its bytes are stored. */

const ROW = 2;
const MOST_ROWS = 4096;
const LEAST_PIECE = 1 << 14;
/** Files of more than LARGE_FILE bytes have pieces of SMALL_PIECE bytes, because the embedding tables of large models
 * can stay on disk (engine/rows.js), and reading a row of a table means checking a whole piece. */
const LARGE_FILE = 1 << 30;
const SMALL_PIECE = 1 << 15;

/** Returns the size of a piece in bytes. Each piece lies within one lane (lanes.js).
 * @param {number} total size of the file in bytes @param {number} lane size of a lane in bytes */
export function pieceOf(total, lane) {
  let piece = total > LARGE_FILE ? SMALL_PIECE : LEAST_PIECE;
  while (piece * MOST_ROWS < total && total <= LARGE_FILE) piece *= 2;
  while (lane % piece) piece /= 2;
  return piece;
}

/** Returns the size of all checksums in bytes. @param {{ total: number, piece: number }} copy */
export const tableBytes = ({ total, piece }) => Math.ceil(total / piece) * ROW * 4;

/** The checksums of one copy, one row per piece. */
export class Checks {
  #rows;
  #from = Infinity;
  #to = 0;

  /** @param {Uint8Array} table the checksums as they are stored */
  constructor(table) {
    this.#rows = new Uint32Array(table.buffer);
  }

  /** Returns whether the stored checksum of a piece equals `sum`. @param {number} i @param {number[]} sum */
  fits(i, [a, b]) {
    return this.#rows[i * ROW] === a && this.#rows[i * ROW + 1] === b;
  }

  /** Sets the checksum of a piece. The next take() returns it.
   * @param {number} i index of the piece @param {number[]} sum */
  set(i, sum) {
    this.#rows.set(sum, i * ROW);
    this.#from = Math.min(this.#from, i);
    this.#to = Math.max(this.#to, i + 1);
  }

  /** Returns the part of the table of checksums that changed since the last call, and its offset in bytes; undefined if
   * nothing changed. */
  take() {
    const [from, to] = [this.#from, this.#to];
    if (to <= from) return undefined;
    [this.#from, this.#to] = [Infinity, 0];
    return { at: from * ROW * 4, bytes: new Uint8Array(this.#rows.slice(from * ROW, to * ROW).buffer) };
  }
}
