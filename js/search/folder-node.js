/* folder-node: stores a search index in a folder. */
/** @import { Folder } from './segments.js' */
import { mkdir, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';

/** Opens the folder of an index, or creates it. @param {string} name a path @returns {Promise<Folder>} */
export async function openFolder(name) {
  const folder = resolve(name);
  await mkdir(folder, { recursive: true });
  return {
    list: () => readdir(folder),
    async read(file) {
      try {
        const { buffer, byteOffset, byteLength } = await readFile(join(folder, file));
        return /** @type {ArrayBuffer} */ (buffer).slice(byteOffset, byteOffset + byteLength);
      } catch (/** @type {any} */ error) {
        if (error.code === 'ENOENT') return null;
        throw error;
      }
    },
    async write(file, bytes) {
      const unfinished = join(folder, `${file}.tmp`);
      try {
        await writeFile(unfinished, bytes, { flush: true });
        await rename(unfinished, join(folder, file));
      } catch (error) {
        await rm(unfinished, { force: true });
        throw error;
      }
    },
    remove: (file) => rm(join(folder, file), { force: true }),
  };
}
