/* answers: handles the worker's requests to the client: for the next bytes of a source that the client reads, and for
 * calls of the store that the caller passed. */
/** @import { Feeders } from '../download/feeder.js' */
/** @import { Questions, Store } from '../protocol.js' */
import { badCount, storeFailed } from './later-errors.js';

/** @typedef {(method: keyof Questions, args: any[]) => unknown} Answering */

/** Returns a function that handles the worker's requests to the client. @param {Feeders} feeders @param {Store} [store]
 * @returns {Answering} */
export function answersOf(feeders, store) {
  return async (method, args) => {
    if (method === 'pull') return feeders.next(args[0]);
    try {
      const own = /** @type {any} */ (store);
      return await (method === 'read' ? read(own, ...args) : own?.[method]?.(...args));
    } catch (error) {
      // A caller's store may reject with any value, even undefined.
      throw Object(error) === error ? error : storeFailed(error);
    }
  };
}

/** Reads bytes from the store into a new buffer, because the client cannot access the worker's buffer.
 * @param {Store} store @param {any[]} args */
async function read(store, ...[name, at, most]) {
  const into = new Uint8Array(most);
  const count = await store.read(name, at, into);
  if (!(count >= 0 && count <= most)) throw badCount(most, count);
  return into.subarray(0, count);
}
