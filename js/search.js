/* gemma-wasm/search in browsers: an index of vectors, in memory or in the origin private file system. */
/** @import { SearchOptions } from './search/open.js' */
import { openFolder } from './search/folder-browser.js';
import { deleteWith, openWith } from './search/open.js';

export { ModelError } from './errors.js';
export { SearchIndex } from './search/index.js';

async function compile() {
  const response = await fetch(new URL('./gemma-simd128.wasm', import.meta.url));
  if (!response.ok) throw new Error(`the server answered status ${response.status}`);
  return WebAssembly.compile(await response.arrayBuffer());
}

/** Opens or creates an index. Fails with `index-failed` if its files are damaged. @param {SearchOptions} options */
export function openIndex(options) {
  return openWith(options, { compile, openFolder, place: 'name' });
}

/** Deletes an index with its files, even if they are damaged.
 * @param {Pick<Required<SearchOptions>, 'name'>} options */
export function deleteIndex(options) {
  return deleteWith(options, { openFolder, place: 'name' });
}
