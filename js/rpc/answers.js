/* answers: what the client answers when the worker asks: the next bytes of parts that the client holds, and things of
 * a store of one's own. */
/** @import { Feeders } from '../download/feeder.js' */
/** @import { Questions, Store } from '../protocol.js' */

/** @typedef {(method: keyof Questions, args: any[]) => unknown} Answering */

/** @param {Feeders} feeders @param {Store} [store] @returns {Answering} */
export function answersOf(feeders, store) {
  const known = store ? storeAnswers(store) : {};
  return async (method, args) => {
    if (method === 'pull') return feeders.next(args[0]);
    try {
      return await known[method]?.(...args);
    } catch (error) {
      // Stores may reject with anything, also with nothing.
      throw error instanceof Object ? error : new Error(`the store failed: ${error}`);
    }
  };
}

/** The worker has no buffer that the store could fill. @param {Store} store @returns {Record<string, Function>} */
function storeAnswers(store) {
  return {
    list: () => store.list(),
    size: store.size.bind(store),
    write: store.write.bind(store),
    remove: store.remove.bind(store),
    flush: (/** @type {string} */ name) => store.flush?.(name),
    close: (/** @type {string} */ name) => store.close?.(name),
    estimate: () => store.estimate?.(),
    async read(/** @type {string} */ name, /** @type {number} */ at, /** @type {number} */ most) {
      const into = new Uint8Array(most);
      const count = await store.read(name, at, into);
      if (!(count >= 0 && count <= most)) throw new Error(`the store says that it read ${count} of ${most} bytes`);
      return into.subarray(0, count);
    },
  };
}
