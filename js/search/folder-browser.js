/* folder-browser: stores a search index in the origin private file system. */
/** @import { Folder } from './segments.js' */
import { noFileSystem } from './errors.js';

/** @param {any} error */
const absent = (error) => error?.name === 'NotFoundError';

/** Opens the folder of an index, or creates it. @param {string} name @returns {Promise<Folder>} */
export async function openFolder(name) {
  const { storage } = navigator;
  if (!storage?.getDirectory) throw noFileSystem();
  const all = await (await storage.getDirectory()).getDirectoryHandle('gemma-wasm-search', { create: true });
  const folder = await all.getDirectoryHandle(name, { create: true });
  return {
    async list() {
      const names = [];
      for await (const entry of /** @type {any} */ (folder).keys()) names.push(entry);
      return names;
    },
    async read(file) {
      try {
        const blob = await (await folder.getFileHandle(file)).getFile();
        // A file stays empty until its writer closes it, so empty files are ignored.
        return blob.size ? await blob.arrayBuffer() : null;
      } catch (error) {
        // Another tab may have removed the file since it was listed.
        if (await folder.getFileHandle(file).then(() => false, absent)) return null;
        throw error;
      }
    },
    async write(file, bytes) {
      try {
        // The write is atomic: close() makes all bytes visible at the same time.
        const stream = await (await folder.getFileHandle(file, { create: true })).createWritable();
        await stream.write(bytes);
        await stream.close();
      } catch (error) {
        await folder.removeEntry(file).catch(() => {});
        throw error;
      }
    },
    async remove(file) {
      await folder.removeEntry(file).catch((error) => {
        if (!absent(error)) throw error;
      });
    },
  };
}
