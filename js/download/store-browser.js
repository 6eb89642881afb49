/* store-browser: models in the origin private file system. A worker writes and reads through synchronous
 * handles, which lock the file: other tabs cannot write it then, and may have to read it by a slower way. */
import { filler, pumpOf } from './pump.js';

const LOCK_TRIES = 10;
const LOCK_MS = 100;
/** Others may be writing the journal that is looked at: for so little a file is not locked. */
const SMALL = 1 << 16;

/** Those who read, or were ended a moment ago, may still have the file.
 * @template T @param {() => Promise<T>} f @returns {Promise<T>} */
async function patiently(f) {
  for (let tries = 1; ; tries++) {
    try {
      return await f();
    } catch (error) {
      if (tries === LOCK_TRIES || /** @type {Error} */ (error).name !== 'NoModificationAllowedError') throw error;
      await new Promise((resolve) => { setTimeout(resolve, LOCK_MS); });
    }
  }
}

/** Nothing for what is not there; other failures do not mean that. @param {Error} error */
function absent(error) {
  if (error.name !== 'NotFoundError') throw error;
}

/** @type {import('../platform/env.js').OpenStore} */
export function openStore() {
  const { storage } = navigator;
  const folder = async () => {
    if (!storage?.getDirectory) throw new Error('a page has storage for files only over https');
    return (await storage.getDirectory()).getDirectoryHandle('gemma-wasm', { create: true });
  };
  /** Files that are open for writing, and those only for reading. @type {Map<string, any>[]} */
  const [writing, reading] = [new Map(), new Map()];
  /** @param {string} name @param {boolean} create @returns {Promise<any>} */
  const handle = async (name, create) => (await folder()).getFileHandle(name, { create });
  /** @param {string} name @returns {Promise<Blob>} */
  const blob = (name) => handle(name, false).then((file) => file.getFile());
  /** Many tabs may read, where the browser knows of that. @param {string} name */
  const reader = async (name) => {
    const file = await handle(name, false);
    const opened = await file.createSyncAccessHandle?.({ mode: 'read-only' }).catch(() => {});
    if (opened) reading.set(name, opened);
    return opened;
  };
  return {
    async list() {
      const names = [];
      for await (const name of /** @type {any} */ (await folder()).keys()) names.push(name);
      return names;
    },
    size: async (name) => writing.get(name)?.getSize() ?? (await blob(name).catch(absent))?.size ?? 0,
    async read(name, at, into) {
      const file = writing.get(name) ?? reading.get(name) ?? (into.length > SMALL && await reader(name));
      if (file) return file.read(into, { at });
      // Not by arrayBuffer(): that memory is collected late, in Firefox hundreds of megabytes of it.
      return filler(pumpOf((await blob(name)).slice(at, at + into.length).stream()))(into);
    },
    async write(name, at, bytes) {
      if (!writing.has(name)) {
        await this.close?.(name);
        const file = await handle(name, true);
        writing.set(name, await patiently(() => file.createSyncAccessHandle()));
      }
      if (writing.get(name).write(bytes, { at }) === bytes.length) return;
      throw new DOMException('the storage is full', 'QuotaExceededError');
    },
    flush: async (name) => writing.get(name)?.flush(),
    async close(name) {
      for (const files of [writing, reading]) {
        files.get(name)?.close();
        files.delete(name);
      }
    },
    async remove(name) {
      await this.close?.(name);
      const from = await folder();
      await patiently(() => from.removeEntry(name));
    },
    estimate: async () => ({ ...await storage.estimate(), persisted: await storage.persisted() }),
    persist: () => storage.persist(),
  };
}
