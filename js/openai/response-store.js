/* response-store: keeps finished responses in memory for `previous_response_id` and for requests that retrieve them.
 * Its size is limited; the least recently used responses are dropped first. */

const MAX_RESPONSES = 1000;
/** Maximum total size of all stored items, in bytes of UTF-16. */
const MAX_BYTES = 64 << 20;

/** An item of a conversation: a message, a call, its output, or reasoning. @typedef {Record<string, any>} Item */
/** A stored response. input: all items that the answer was generated from, including those of previous responses; the
 * output is part of `response`.
 * @typedef {{ response: Record<string, any>, input: Item[] }} StoredResponse */

/** The stored responses of one handler. */
export class ResponseStore {
  /** Responses by id, the least recently used first. @type {Map<string, StoredResponse & { bytes: number }>} */
  #entries = new Map();
  #bytes = 0;
  #maxResponses;
  #maxBytes;

  constructor(maxResponses = MAX_RESPONSES, maxBytes = MAX_BYTES) {
    this.#maxResponses = maxResponses;
    this.#maxBytes = maxBytes;
  }

  /** Stores a response, and drops others until the limits hold. Does not store a response that alone exceeds the limit.
   * @param {StoredResponse} stored */
  put(stored) {
    // Items that several responses share count for each of them, so that the limit holds whichever response is dropped.
    const bytes = 2 * JSON.stringify(stored).length;
    if (bytes > this.#maxBytes) return;
    this.#entries.set(stored.response.id, { ...stored, bytes });
    this.#bytes += bytes;
    for (const id of this.#entries.keys()) {
      if (this.#bytes <= this.#maxBytes && this.#entries.size <= this.#maxResponses) break;
      this.delete(id);
    }
  }

  /** Returns a response, which becomes the most recently used one; undefined if it is not stored.
   * @param {string} id @returns {StoredResponse | undefined} */
  get(id) {
    const found = this.#entries.get(id);
    if (!found) return undefined;
    this.#entries.delete(id);
    this.#entries.set(id, found);
    return found;
  }

  /** Returns an output item of a stored response by id. Input items are not searched: clients choose their ids, which
   * may repeat.
   * @param {string} id @returns {Item | undefined} */
  item(id) {
    for (const { response } of this.#entries.values()) {
      const found = response.output.find((/** @type {Item} */ item) => item.id === id);
      if (found) return found;
    }
    return undefined;
  }

  /** Deletes a response, and returns whether it existed. @param {string} id */
  delete(id) {
    this.#bytes -= this.#entries.get(id)?.bytes ?? 0;
    return this.#entries.delete(id);
  }
}
