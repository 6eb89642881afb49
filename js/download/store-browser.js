/* store-browser: models in the origin private file system. A worker writes and reads through synchronous
 * handles, which lock the file: other tabs cannot write it then, and may have to read it by a slower way.
 * Of each handle of a folder, a file or its bytes that Chromium gives, it keeps 64 bytes for good (docs/limits.md):
 * those of the folder and of files are asked for once. */
import { filler, pumpOf } from './pump.js';

const LOCK_TRIES = 10;
const LOCK_MS = 100;
/** Others may be writing the journal that is looked at: for so little a file is not locked. */
const SMALL = 1 << 16;

/** NoModificationAllowedError: a tab that reads, or was closed a moment ago, still has the file. NotReadableError: the
 * file was written after it was looked at. */
const PASSING = ['NoModificationAllowedError', 'NotReadableError'];

/** Calls f again while its failure may pass. @template T @param {() => Promise<T>} f @returns {Promise<T>} */
async function withRetry(f) {
  for (let tries = 1; ; tries++) {
    try {
      return await f();
    } catch (error) {
      if (tries === LOCK_TRIES || !PASSING.includes(/** @type {Error} */ (error).name)) throw error;
      await new Promise((resolve) => {
        setTimeout(resolve, LOCK_MS);
      });
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
  const findFolder = async () => {
    if (!storage?.getDirectory) {
      const why = isSecureContext ? 'this browser has none' : 'a page has one only over https';
      throw new Error(`storage for files: ${why}`);
    }
    return (await storage.getDirectory()).getDirectoryHandle('gemma-wasm', { create: true });
  };
  /** @type {Promise<any> | undefined} */
  let folder;
  const knownFolder = () =>
    (folder ??= findFolder().catch((error) => {
      folder = undefined;
      throw error;
    }));
  /** Of files. @type {Map<string, any>} */
  const handles = new Map();
  /** What f gives, with handles that were kept; with new ones where what they are of is gone: another tab may have
   * removed it, or somebody the site's data.
   * @template T @param {(folder: any) => Promise<T>} f @returns {Promise<T>} */
  const inFolder = async (f) => {
    const kept = folder;
    try {
      return await f(await knownFolder());
    } catch (error) {
      if (!kept || /** @type {Error} */ (error).name !== 'NotFoundError') throw error;
      if (kept === folder) folder = undefined;
      handles.clear();
      return f(await knownFolder());
    }
  };
  /** Files that are open, or about to be: from the first call on, for a second one would wait for the first's lock.
   * @type {Map<string, { file: Promise<any>, writable: boolean }>} */
  const open = new Map();
  /** What f gives of a file. @template T @param {string} name @param {boolean} create
   * @param {(file: any) => Promise<T>} f */
  const ofFile = (name, create, f) =>
    inFolder(async (from) => {
      const file = handles.get(name) ?? (await from.getFileHandle(name, { create }));
      handles.set(name, file);
      return f(file);
    });
  /** @param {string} name @returns {Promise<Blob>} */
  const blob = (name) => ofFile(name, false, (file) => file.getFile());
  /** Many tabs may read, where the browser knows of that; nothing if it does not. @param {string} name */
  const reader = (name) =>
    ofFile(name, false, async (file) => {
      return file.createSyncAccessHandle?.({ mode: 'read-only' }).catch(() => {});
    });
  /** @param {string} name */
  const writer = (name) => ofFile(name, true, (file) => withRetry(() => file.createSyncAccessHandle()));
  /** Who reads has the file closed when somebody is to write. @param {string} name @param {boolean} writable */
  const opened = (name, writable) => {
    const known = open.get(name);
    if (known && (known.writable || !writable)) return known.file;
    const file = Promise.resolve(known?.file)
      .catch(() => {})
      .then((old) => {
        old?.close();
        return (writable ? writer : reader)(name);
      });
    open.set(name, { file, writable });
    const forget = () => void (open.get(name)?.file === file && open.delete(name));
    file.then((there) => there ?? forget(), forget);
    return file;
  };
  /** Of one that is open. @param {string} name */
  const openNow = async (name) => open.get(name)?.file;
  return {
    list() {
      return inFolder(async (from) => {
        const names = [];
        for await (const [name, { kind }] of from.entries()) if (kind !== 'directory') names.push(name);
        return names;
      });
    },
    size: async (name) => (await openNow(name))?.getSize() ?? (await blob(name).catch(absent))?.size ?? 0,
    async read(name, at, into, wanted = () => true) {
      const file = await (into.length > SMALL ? opened(name, false) : openNow(name));
      if (!wanted()) return 0;
      if (file) return file.read(into, { at });
      return withRetry(async () => {
        const part = (await blob(name)).slice(at, at + into.length);
        // Not by arrayBuffer(): that memory is collected late, in Firefox hundreds of megabytes of it.
        if (into.length > SMALL) return filler(pumpOf(part.stream()))(into, wanted);
        // A stream that is left before its end stays open; behind hundreds of them Chromium lets one wait without end.
        const bytes = new Uint8Array(await part.arrayBuffer());
        if (!wanted()) return 0;
        into.set(bytes);
        return bytes.length;
      });
    },
    async write(name, at, bytes) {
      if ((await opened(name, true)).write(bytes, { at }) === bytes.length) return;
      throw new DOMException('the storage is full', 'QuotaExceededError');
    },
    flush: async (name) => void (open.get(name)?.writable && (await openNow(name)).flush()),
    async close(name) {
      const file = openNow(name);
      open.delete(name);
      (await file.catch(() => {}))?.close();
    },
    async remove(name) {
      await this.close?.(name);
      handles.delete(name);
      await inFolder((from) => withRetry(() => from.removeEntry(name)));
    },
    lock: (name) =>
      new Promise((resolve, reject) => {
        navigator.locks
          .request(`gemma-wasm ${name}`, { ifAvailable: true }, (lock) => {
            if (lock)
              return new Promise((free) => {
                resolve({ lost: false, free: () => free(null) });
              });
            return resolve(undefined);
          })
          .catch(reject);
      }),
    estimate: async () => ({ ...(await storage.estimate()), persisted: await storage.persisted() }),
    persist: () => storage.persist(),
  };
}
