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
    if (!storage?.getDirectory) {
      const why = isSecureContext ? 'this browser has none' : 'a page has one only over https';
      throw new Error(`storage for files: ${why}`);
    }
    return (await storage.getDirectory()).getDirectoryHandle('gemma-wasm', { create: true });
  };
  /** Files that are open, or about to be: from the first call on, for a second one would wait for the first's lock.
   * @type {Map<string, { file: Promise<any>, writable: boolean }>} */
  const open = new Map();
  /** @param {string} name @param {boolean} create @returns {Promise<any>} */
  const handle = async (name, create) => (await folder()).getFileHandle(name, { create });
  /** @param {string} name @returns {Promise<Blob>} */
  const blob = (name) => handle(name, false).then((file) => file.getFile());
  /** Many tabs may read, where the browser knows of that; nothing if it does not. @param {string} name */
  const reader = async (name) => {
    const file = await handle(name, false);
    return file.createSyncAccessHandle?.({ mode: 'read-only' }).catch(() => {});
  };
  /** @param {string} name */
  const writer = async (name) => {
    const file = await handle(name, true);
    return patiently(() => file.createSyncAccessHandle());
  };
  /** Who reads has the file closed when somebody is to write. @param {string} name @param {boolean} writable */
  const opened = (name, writable) => {
    const known = open.get(name);
    if (known && (known.writable || !writable)) return known.file;
    const file = Promise.resolve(known?.file).catch(() => {}).then((old) => {
      old?.close();
      return (writable ? writer : reader)(name);
    });
    open.set(name, { file, writable });
    const forget = () => void (open.get(name)?.file === file && open.delete(name));
    file.then((there) => there ?? forget(), forget);
    return file;
  };
  /** Of one that is open. @param {string} name */
  const known = async (name) => open.get(name)?.file;
  return {
    async list() {
      const names = [];
      for await (const name of /** @type {any} */ (await folder()).keys()) names.push(name);
      return names;
    },
    size: async (name) => (await known(name))?.getSize() ?? (await blob(name).catch(absent))?.size ?? 0,
    async read(name, at, into) {
      const file = await (into.length > SMALL ? opened(name, false) : known(name));
      if (file) return file.read(into, { at });
      const part = (await blob(name)).slice(at, at + into.length);
      // Not by arrayBuffer(): that memory is collected late, in Firefox hundreds of megabytes of it.
      if (into.length > SMALL) return filler(pumpOf(part.stream()))(into);
      // A stream that is left before its end stays open; behind hundreds of them Chromium lets one wait for ever.
      const bytes = new Uint8Array(await part.arrayBuffer());
      into.set(bytes);
      return bytes.length;
    },
    async write(name, at, bytes) {
      if ((await opened(name, true)).write(bytes, { at }) === bytes.length) return;
      throw new DOMException('the storage is full', 'QuotaExceededError');
    },
    flush: async (name) => void (open.get(name)?.writable && (await known(name)).flush()),
    async close(name) {
      const file = known(name);
      open.delete(name);
      (await file.catch(() => {}))?.close();
    },
    async remove(name) {
      await this.close?.(name);
      const from = await folder();
      await patiently(() => from.removeEntry(name));
    },
    lock: (name) => new Promise((resolve, reject) => {
      navigator.locks.request(`gemma-wasm ${name}`, { ifAvailable: true }, (lock) => {
        if (lock) return new Promise((free) => { resolve({ lost: false, free: () => free(null) }); });
        return resolve(undefined);
      }).catch(reject);
    }),
    estimate: async () => ({ ...await storage.estimate(), persisted: await storage.persisted() }),
    persist: () => storage.persist(),
  };
}
