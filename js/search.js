/* gemma-wasm/search: the entry for browsers: an index of vectors, in memory or in the origin private file system. */
/** @import { SearchOptions } from './search/open.js' */
import { openFolder } from './search/folder-browser.js';
import { deleteWith, openWith } from './search/open.js';

export { ModelError } from './errors.js';
export { SearchIndex } from './search/index.js';

async function compile() {
  const response = await fetch(new URL('./gemma-simd128.wasm', import.meta.url));
  if (!response.ok) throw new Error(`status ${response.status}`);
  return WebAssembly.compile(await response.arrayBuffer());
}

/** @param {SearchOptions} options */
export function openIndex(options) {
  return openWith(options, { compile, openFolder, place: 'name' });
}

/** Deletes an index with its files, also one that `openIndex` refuses because a file is damaged.
 * @param {{ name: string }} options */
export function deleteIndex(options) {
  return deleteWith(options, { openFolder, place: 'name' });
}
