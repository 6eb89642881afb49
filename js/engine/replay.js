/* replay: keeps the bytes of streams, which the client can send only once, until the engine has proved its kernels. If
 * it cannot, the next engine reads the bytes again from the beginning. */

/** Gets the next bytes of a file, null at its end. @typedef {(part: number) => Promise<Uint8Array | null>} Pull */

/** Bytes of one load. */
export class Replay {
  #pull;
  /** Bytes by file. @type {(Uint8Array | null)[][]} */
  #kept = [];
  #keeping = true;

  /** @param {Pull} pull */
  constructor(pull) {
    this.#pull = pull;
  }

  /** Whether all bytes so far can be read again. */
  get possible() {
    return this.#keeping || !this.#kept.length;
  }

  /** Returns a function that reads a file from its beginning. @param {number} part */
  reader(part) {
    const kept = (this.#kept[part] ??= []);
    let next = 0;
    return async () => {
      if (next < kept.length) return kept[next++];
      const piece = await this.#pull(part);
      if (this.#keeping) next = kept.push(piece);
      return piece;
    };
  }

  /** Frees the bytes: no engine reads them again. */
  forget() {
    this.#keeping = false;
    for (const pieces of this.#kept) pieces.length = 0;
  }
}
