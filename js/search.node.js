/* gemma-wasm/search in Node: an index of vectors, in memory or in a folder. */
/** @import { SearchOptions } from './search/open.js' */
import { readFile } from 'node:fs/promises';
import { openFolder } from './search/folder-node.js';
import { deleteWith, openWith } from './search/open.js';

export { ModelError } from './errors.js';
export { SearchIndex } from './search/index.js';

const compile = async () => WebAssembly.compile(await readFile(new URL('./gemma-simd128.wasm', import.meta.url)));

/** Opens or creates an index. Fails with `index-failed` if its files are damaged. @param {SearchOptions} options */
export function openIndex(options) {
  return openWith(options, { compile, openFolder, place: 'folder' });
}

/** Deletes an index with its files, even if they are damaged.
 * @param {Pick<Required<SearchOptions>, 'folder'>} options */
export function deleteIndex(options) {
  return deleteWith(options, { openFolder, place: 'folder' });
}
