/* response-store: keeps finished responses in memory for `previous_response_id` and for the calls that read them back.
 * Bounded: the least recently used responses are dropped first. */

/** Maximum of stored responses. */
const MAX_RESPONSES = 1000;
/** Maximum of all stored items together, in bytes of UTF-16. */
const MAX_BYTES = 64 << 20;

/** An item of a conversation: a message, a call, its output, or reasoning. @typedef {Record<string, any>} Item */
/** input: every item that the answer was generated from, those of previous responses included; output is part of the
 * response.
 * @typedef {{ response: Record<string, any>, input: Item[] }} StoredResponse */

/** Stored responses by id. */
export class ResponseStore {
  /** The least recently used come first. @type {Map<string, StoredResponse & { bytes: number }>} */
  #entries = new Map();
  #bytes = 0;
  #maxResponses;
  #maxBytes;

  constructor(maxResponses = MAX_RESPONSES, maxBytes = MAX_BYTES) {
    this.#maxResponses = maxResponses;
    this.#maxBytes = maxBytes;
  }

  /** Stores a response, and drops others until the limits hold. One that is too large by itself is not stored.
   * @param {StoredResponse} stored */
  put(stored) {
    // Items shared with other responses count each time: the bound holds whichever of them is dropped.
    const bytes = 2 * JSON.stringify(stored).length;
    if (bytes > this.#maxBytes) return;
    this.#entries.set(stored.response.id, { ...stored, bytes });
    this.#bytes += bytes;
    for (const id of this.#entries.keys()) {
      if (this.#bytes <= this.#maxBytes && this.#entries.size <= this.#maxResponses) break;
      this.delete(id);
    }
  }

  /** Returns a response, undefined if there is none. @param {string} id @returns {StoredResponse | undefined} */
  get(id) {
    const found = this.#entries.get(id);
    if (!found) return undefined;
    this.#entries.delete(id);
    this.#entries.set(id, found);
    return found;
  }

  /** Returns an item of a stored output by its own id. Ids of input are the callers', and may repeat.
   * @param {string} id @returns {Item | undefined} */
  item(id) {
    for (const { response } of this.#entries.values()) {
      const found = response.output.find((/** @type {Item} */ item) => item.id === id);
      if (found) return found;
    }
    return undefined;
  }

  /** Returns whether there was such a response. @param {string} id */
  delete(id) {
    this.#bytes -= this.#entries.get(id)?.bytes ?? 0;
    return this.#entries.delete(id);
  }
}
