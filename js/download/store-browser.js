/* store-browser: stores models in the origin private file system. The worker uses synchronous access handles. While
 * such a handle is open, other tabs cannot write the file, and may have to read it as a Blob, which is slower. Chromium
 * never frees 64 bytes of each handle that it creates (docs/limits.md), so handles of the folder and of files are
 * reused. */
import { noFileSystem, noFolders, storageFull } from './errors.js';
import { sleep } from './http.js';
import { filler, pumpOf } from './pump.js';

const LOCK_TRIES = 10;
const LOCK_MS = 100;
/** Maximum size in bytes of a read that does not lock the file. A lock would disturb a tab that is writing the
 * journal. */
const SMALL = 1 << 14;

/** Errors that a retry may fix. NoModificationAllowedError: another tab, perhaps closed a moment ago, has locked the
 * file. NotReadableError: the file was written after getFile(). */
const TRANSIENT = ['NoModificationAllowedError', 'NotReadableError'];

/** @template T @param {() => Promise<T>} f @returns {Promise<T>} */
async function withRetry(f) {
  for (let tries = 1; ; tries++) {
    try {
      return await f();
    } catch (error) {
      if (tries === LOCK_TRIES || !TRANSIENT.includes(/** @type {Error} */ (error).name)) throw error;
      await sleep(LOCK_MS);
    }
  }
}

/** @param {Error} error */
function absent(error) {
  if (error.name !== 'NotFoundError') throw error;
}

async function findFolder() {
  const { storage } = navigator;
  if (!storage?.getDirectory) throw noFileSystem();
  return (await storage.getDirectory()).getDirectoryHandle('gemma-wasm', { create: true });
}

class Folder {
  /** @type {Promise<any> | undefined} */
  #folder;
  /** @type {Map<string, any>} */
  #handles = new Map();
  /** Files that are open or being opened. Calls share them, because a second handle would wait for the lock of the
   * first.
   * @type {Map<string, { file: Promise<any>, writable: boolean }>} */
  #open = new Map();

  #known() {
    return (this.#folder ??= findFolder().catch((error) => {
      this.#folder = undefined;
      throw error;
    }));
  }

  /** Calls f with cached handles. If the file or the folder is missing, calls f again with new handles, because another
   * tab may have removed the file, or the user may have cleared the site's data.
   * @template T @param {(folder: any) => Promise<T>} f @returns {Promise<T>} */
  async use(f) {
    const kept = this.#folder;
    try {
      return await f(await this.#known());
    } catch (error) {
      if (!kept || /** @type {Error} */ (error).name !== 'NotFoundError') throw error;
      if (kept === this.#folder) this.#folder = undefined;
      this.#handles.clear();
      return f(await this.#known());
    }
  }

  /** @template T @param {string} name @param {boolean} create
   * @param {(file: any) => Promise<T>} f */
  #file(name, create, f) {
    return this.use(async (from) => {
      const file = this.#handles.get(name) ?? (await from.getFileHandle(name, { create }));
      this.#handles.set(name, file);
      return f(file);
    });
  }

  /** @param {string} name @returns {Promise<Blob>} */
  blob(name) {
    return this.#file(name, false, (file) => file.getFile());
  }

  /** Opens a file for writing, or in the mode `read-only`, which other readers can share. Returns undefined if the
   * browser lacks the mode.
   * @param {string} name @param {boolean} writable */
  #access(name, writable) {
    return this.#file(name, writable, async (file) =>
      writable
        ? withRetry(() => file.createSyncAccessHandle())
        : file.createSyncAccessHandle?.({ mode: 'read-only' }).catch(() => {}),
    );
  }

  /** Opens a file, unless it is open. If the file is open for reading and is opened for writing, replaces its
   * handle. @param {string} name
   * @param {boolean} writable */
  open(name, writable) {
    const known = this.#open.get(name);
    if (known && (known.writable || !writable)) return known.file;
    const file = Promise.resolve(known?.file)
      .catch(() => {})
      .then((old) => {
        old?.close();
        return this.#access(name, writable);
      });
    this.#open.set(name, { file, writable });
    const forget = () => void (this.#open.get(name)?.file === file && this.#open.delete(name));
    file.then((there) => there ?? forget(), forget);
    return file;
  }

  /** Returns the handle of an open file, or undefined if the file is not open. @param {string} name
   * @param {boolean} [writable] whether the file must be open for writing */
  async opened(name, writable = false) {
    const known = this.#open.get(name);
    return writable && !known?.writable ? undefined : known?.file;
  }

  /** @param {string} name */
  async close(name) {
    const file = this.opened(name);
    this.#open.delete(name);
    (await file.catch(() => {}))?.close();
  }

  /** @param {string} name */
  async remove(name) {
    await this.close(name);
    this.#handles.delete(name);
    await this.use((from) => withRetry(() => from.removeEntry(name)));
  }
}

/** Opens the store. Operations fail if the browser has no private file system. Throws `bad-option` for a folder.
 * @type {import('../platform/env.js').OpenStore} */
export function openStore(where) {
  if (where) throw noFolders();
  const { storage } = navigator;
  const folder = new Folder();
  return {
    list() {
      return folder.use(async (from) => {
        const names = [];
        for await (const [name, { kind }] of from.entries()) if (kind !== 'directory') names.push(name);
        return names;
      });
    },
    size: async (name) => (await folder.opened(name))?.getSize() ?? (await folder.blob(name).catch(absent))?.size ?? 0,
    async read(name, at, into, wanted = () => true) {
      const file = await (into.length > SMALL ? folder.open(name, false) : folder.opened(name));
      if (!wanted()) return 0;
      if (file) return file.read(into, { at });
      return withRetry(async () => {
        const part = (await folder.blob(name)).slice(at, at + into.length);
        // Reads through a stream, because buffers from arrayBuffer() are collected late: in Firefox, hundreds of
        // megabytes pile up.
        if (into.length > SMALL) return filler(pumpOf(part.stream()))(into, wanted);
        // Small reads use no stream: a stream that is not read to its end stays open, and after hundreds of open
        // streams Chromium stalls the next one.
        const bytes = new Uint8Array(await part.arrayBuffer());
        if (!wanted()) return 0;
        into.set(bytes);
        return bytes.length;
      });
    },
    async write(name, at, bytes) {
      if ((await folder.open(name, true)).write(bytes, { at }) === bytes.length) return;
      throw storageFull();
    },
    flush: async (name) => (await folder.opened(name, true))?.flush(),
    close: (name) => folder.close(name),
    remove: (name) => folder.remove(name),
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
