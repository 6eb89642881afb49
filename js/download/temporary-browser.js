/* temporary-browser: temporary files of a worker in the origin private file system. */
/** @import { TemporaryFile } from './source.js' */
import { lockOf, remove, temporaryFolder } from '../platform/left-overs.js';
import { noFileSystem, noSpace } from './errors.js';

/** Takes the lock of a file. Resolves with a function that releases the lock. @param {string} name
 * @returns {Promise<(_?: unknown) => void>} */
function lock(name) {
  return new Promise((resolve, reject) => {
    navigator.locks.request(lockOf(name), () => new Promise(resolve)).catch(reject);
  });
}

/** Creates a temporary file and reserves its storage. Rejects if the browser has no private file system for workers, or
 * too little storage. Removes the files of closed tabs first. @param {number} bytes
 * @returns {Promise<TemporaryFile>} */
export async function createTemporary(bytes) {
  if (!('FileSystemSyncAccessHandle' in globalThis)) throw noFileSystem();
  const folder = await temporaryFolder();
  for await (const old of folder.keys()) await remove(old, { ifAvailable: true });
  const { usage = 0, quota = Infinity } = await navigator.storage.estimate();
  const left = Math.max(quota - usage, 0);
  if (left < bytes) throw noSpace(bytes, left);
  const name = crypto.randomUUID();
  const free = await lock(name);
  // The page removes the file if this worker is terminated (platform/env-browser.js).
  postMessage({ kind: 'temporary', name });
  /** @type {any} */
  let handle;
  const close = async () => {
    handle?.close();
    free();
    await remove(name);
  };
  try {
    handle = await (await folder.getFileHandle(name, { create: true })).createSyncAccessHandle();
    await handle.truncate(bytes);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    read: (into, at) => handle.read(into, { at }),
    write: (part, at) => handle.write(part, { at }),
    close,
  };
}
