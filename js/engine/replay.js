/* replay: keeps the bytes of streams, which the client can send only once, until the engine has tested its kernels.
 * If the test fails, an engine of another build reads the bytes again. */

/** Function that requests the next bytes of a file from the client. Returns null at the end of the file.
 * @typedef {(part: number) => Promise<Uint8Array | null>} Pull */

/** The bytes that one load has received from the client. */
export class Replay {
  #pull;
  /** @type {(Uint8Array | null)[][]} */
  #kept = [];
  #keeping = true;

  /** @param {Pull} pull */
  constructor(pull) {
    this.#pull = pull;
  }

  /** Whether all bytes received so far can be read again. */
  get possible() {
    return this.#keeping || !this.#kept.length;
  }

  /** Returns a function that reads a file from its beginning. @param {number} part */
  reader(part) {
    let next = 0;
    return async () => {
      const kept = (this.#kept[part] ??= []);
      if (next < kept.length) return kept[next++];
      const piece = await this.#pull(part);
      if (this.#keeping) next = kept.push(piece);
      return piece;
    };
  }

  /** Frees the kept bytes. Called when no other engine will need them. */
  forget() {
    this.#keeping = false;
    this.#kept = this.#kept.map(() => []); // map() skips files that were never pulled
  }
}
