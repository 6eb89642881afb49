/* left-overs: removes temporary files of the origin private file system (download/temporary-browser.js). Each file has a
 * Web Lock, which its worker holds. A page requests the lock of its worker's file too, and removes the file when it gets
 * the lock: a terminated worker cannot do that. Files of closed tabs are removed when the next one is created. */

const FOLDER = 'gemma-wasm-temporary';
/** The lock of a removed file's handle is freed a moment after its worker ended. */
const TRIES = 20;
const WAIT_MS = 100;

/** Returns the name of a file's lock. @param {string} name */
export const lockOf = (name) => `${FOLDER} ${name}`;

/** Opens the folder of temporary files. @returns {Promise<any>} */
export async function temporaryFolder() {
  return (await navigator.storage.getDirectory()).getDirectoryHandle(FOLDER, { create: true });
}

/** Removes a file when no worker uses it any more. Never rejects. With `ifAvailable`, does nothing to a file in use.
 * @param {string} name @param {{ ifAvailable?: boolean }} [options] */
export async function remove(name, options = {}) {
  await navigator.locks.request(lockOf(name), options, (lock) => lock && removeNow(name)).catch(() => {});
}

/** @param {string} name */
async function removeNow(name) {
  const folder = await temporaryFolder();
  for (let left = TRIES; left--; ) {
    try {
      return await folder.removeEntry(name);
    } catch (error) {
      if (/** @type {Error} */ (error).name === 'NotFoundError') return undefined;
      await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
    }
  }
}
