/* temporary-node: temporary files in the folder of the cache, because os.tmpdir() is often in memory. */
/** @import { TemporaryFile } from './source.js' */
import { randomUUID } from 'node:crypto';
import { closeSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { mkdir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { noSpace } from './errors.js';
import { folderOf } from './store-node.js';

/** Creates a temporary file. Rejects if the disk has too little space.
 * @param {number} bytes @param {string} [where] folder of the
 * cache @returns {Promise<TemporaryFile>} */
export async function createTemporary(bytes, where) {
  const folder = folderOf(where);
  await mkdir(folder, { recursive: true });
  const { bavail, bsize } = await statfs(folder);
  if (bavail * bsize < bytes) throw noSpace(bytes, bavail * bsize);
  const path = join(folder, `${randomUUID()}.tmp`);
  const file = openSync(path, 'wx+', 0o600);
  // Removes the temporary file while it is open, so that the system frees it even after a crash. Some file systems
  // refuse that.
  const remove = () => rmSync(path, { force: true });
  try {
    remove();
  } catch {
    /* If this removal fails, close() removes the temporary file. */
  }
  return {
    read: (into, at) => readSync(file, into, 0, into.length, at),
    write: (part, at) => writeSync(file, part, 0, part.length, at),
    close() {
      closeSync(file);
      remove();
    },
  };
}
