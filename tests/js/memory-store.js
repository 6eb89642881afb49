/** memory-store: a store of the package in memory, for tests. @module */

/** Returns an empty store of files in memory, with the methods of store-node.js. @template [Extra={}]
 * @param {Extra} [extra] methods to add or replace */
export function memoryStore(extra) {
  /** @type {Map<string, Uint8Array>} */
  const files = new Map();
  return {
    files,
    list: async () => [...files.keys()],
    size: async (/** @type {string} */ name) => files.get(name)?.length ?? 0,
    read: async (/** @type {string} */ name, /** @type {number} */ at, /** @type {Uint8Array} */ into) => {
      const bytes = (files.get(name) ?? new Uint8Array()).subarray(at, at + into.length);
      into.set(bytes);
      return bytes.length;
    },
    write: async (/** @type {string} */ name, /** @type {number} */ at, /** @type {Uint8Array} */ bytes) => {
      const old = files.get(name) ?? new Uint8Array();
      const file = at + bytes.length > old.length ? new Uint8Array(at + bytes.length) : old;
      if (file !== old) file.set(old);
      file.set(bytes, at);
      files.set(name, file);
    },
    remove: async (/** @type {string} */ name) => void files.delete(name),
    .../** @type {Extra} */ (extra),
  };
}
