/* folder-browser: an index's files in the origin private file system. */
/** @import { Folder } from './segments.js' */

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
    read: async (file) => (await (await folder.getFileHandle(file)).getFile()).arrayBuffer(),
    async write(file, bytes) {
      // What is written is there when it is closed, all of it.
      const stream = await (await folder.getFileHandle(file, { create: true })).createWritable();
      await stream.write(bytes);
      await stream.close();
    },
    remove: (file) => folder.removeEntry(file),
  };
}
