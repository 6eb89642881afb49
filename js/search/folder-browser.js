/* folder-browser: an index's files in the origin private file system. */
/** @import { Folder } from './segments.js' */

/** @param {any} error */
const absent = (error) => error?.name === 'NotFoundError';

/** @param {string} name @returns {Promise<Folder>} */
export async function openFolder(name) {
  const { storage } = navigator;
  if (!storage?.getDirectory) throw new Error('a page has storage for files only over https');
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
        // It has its bytes when its writer closes it.
        return blob.size ? await blob.arrayBuffer() : null;
      } catch (error) {
        // Another tab may remove it in the middle of that.
        if (await folder.getFileHandle(file).then(() => false, absent)) return null;
        throw error;
      }
    },
    async write(file, bytes) {
      try {
        // What is written is there when it is closed, all of it.
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
