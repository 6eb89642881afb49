/* store-browser: models in the origin private file system. A worker writes through a synchronous handle,
 * which locks the file: other tabs cannot write it then. */
const LOCK_TRIES = 10;
const LOCK_MS = 100;

/** A worker that was ended a moment ago may still have it. @param {any} file */
async function lock(file) {
  for (let tries = 1; ; tries++) {
    try {
      return await file.createSyncAccessHandle();
    } catch (error) {
      if (tries === LOCK_TRIES || /** @type {Error} */ (error).name !== 'NoModificationAllowedError') throw error;
      await new Promise((resolve) => { setTimeout(resolve, LOCK_MS); });
    }
  }
}

/** @type {import('./env.js').OpenStore} */
export function openStore() {
  const { storage } = navigator;
  const folder = async () => {
    if (!storage?.getDirectory) throw new Error('a page has storage for files only over https');
    return (await storage.getDirectory()).getDirectoryHandle('gemma-wasm', { create: true });
  };
  /** Files that are open for writing. @type {Map<string, any>} */
  const open = new Map();
  /** @param {string} name @param {boolean} create */
  const handle = async (name, create) => (await folder()).getFileHandle(name, { create });
  /** @param {string} name @returns {Promise<Blob>} */
  const blob = (name) => handle(name, false).then((file) => file.getFile());
  return {
    async list() {
      const names = [];
      for await (const name of /** @type {any} */ (await folder()).keys()) names.push(name);
      return names;
    },
    size: async (name) => open.get(name)?.getSize() ?? (await blob(name).catch(() => null))?.size ?? 0,
    async read(name, at, into) {
      if (open.has(name)) return open.get(name).read(into, { at });
      const bytes = new Uint8Array(await (await blob(name)).slice(at, at + into.length).arrayBuffer());
      into.set(bytes);
      return bytes.length;
    },
    async write(name, at, bytes) {
      if (!open.has(name)) open.set(name, await lock(await handle(name, true)));
      if (open.get(name).write(bytes, { at }) === bytes.length) return;
      throw new DOMException('the storage is full', 'QuotaExceededError');
    },
    flush: async (name) => open.get(name)?.flush(),
    async close(name) {
      open.get(name)?.close();
      open.delete(name);
    },
    async remove(name) {
      await this.close?.(name);
      await (await folder()).removeEntry(name);
    },
    estimate: async () => ({ ...await storage.estimate(), persisted: await storage.persisted() }),
    persist: () => storage.persist(),
  };
}
