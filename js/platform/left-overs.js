/* left-overs: removes temporary files of the origin private file system (download/temporary-browser.js). The worker
 * that uses a file holds a Web Lock. The page requests the same lock, and removes the file when it gets the lock,
 * because a terminated worker cannot. Files of closed tabs are removed when the next file is created. */

const FOLDER = 'gemma-wasm-temporary';
/** Number of attempts to remove a file, and pause between attempts in ms, because browsers free a file a moment after
 * its worker ended. */
const TRIES = 20;
const WAIT_MS = 100;

/** Returns the name of the Web Lock that the user of a temporary file holds. @param {string} name */
export const lockOf = (name) => `${FOLDER} ${name}`;

/** Returns the folder of temporary files, a FileSystemDirectoryHandle. Creates the folder if it is missing.
 * @returns {Promise<any>} */
export async function temporaryFolder() {
  return (await navigator.storage.getDirectory()).getDirectoryHandle(FOLDER, { create: true });
}

/** Removes a file when no worker uses it any more. Never rejects. With `ifAvailable`, keeps a file that is in use.
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
