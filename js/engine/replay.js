/* replay: bytes that only the client has are given once; they are kept until the engine has proved its kernels, so that
 * another engine can read them from the beginning. */

/** Asks for the next bytes of a part; null: the end. @typedef {(part: number) => Promise<Uint8Array | null>} Pull */

export class Replay {
  #pull;
  /** By part. @type {(Uint8Array | null)[][]} */
  #kept = [];
  #keeping = true;

  /** @param {Pull} pull */
  constructor(pull) {
    this.#pull = pull;
  }

  /** Whether all that was given can be read again. */
  get possible() {
    return this.#keeping || !this.#kept.length;
  }

  /** Gives a part's bytes, from the beginning. @param {number} part */
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

  /** Nothing is read again. */
  forget() {
    this.#keeping = false;
    for (const pieces of this.#kept) pieces.length = 0;
  }
}
