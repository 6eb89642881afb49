/** memory-store: a store of the package (js/platform/env.js) that lies in memory, for tests. @module */

/** One that is empty. */
export function memoryStore() {
  /** @type {Map<string, Uint8Array>} */
  const files = new Map();
  return {
    list: async () => [...files.keys()],
    size: async (/** @type {string} */ name) => files.get(name)?.length ?? 0,
    read: async (/** @type {string} */ name, /** @type {number} */ at, /** @type {Uint8Array} */ into) => {
      const bytes = (files.get(name) ?? new Uint8Array()).subarray(at, at + into.length);
      into.set(bytes);
      return bytes.length;
    },
    write: async (/** @type {string} */ name, /** @type {number} */ at, /** @type {Uint8Array} */ bytes) => {
      const old = files.get(name) ?? new Uint8Array();
      const file = new Uint8Array(Math.max(old.length, at + bytes.length));
      file.set(old);
      file.set(bytes, at);
      files.set(name, file);
    },
    remove: async (/** @type {string} */ name) => void files.delete(name),
  };
}
