/* open: an index from what a user says of it. */
/** @import { Folder } from './segments.js' */
import { GemmaError, failure } from '../errors.js';
import { SearchIndex } from './index.js';
import { makeScan } from './scan.js';

const MOST_DIMENSIONS = 4096;
const NAME = /^[\w.-]{1,100}$/;

/** name: of what is kept in the browser; folder: a path, in Node. Without either the index is in memory only.
 * @typedef {{ dimensions: number, name?: string, folder?: string }} SearchOptions */
/** @typedef {{ compile: () => Promise<WebAssembly.Module>, openFolder: (place: string) => Promise<Folder>,
 *   place: 'name' | 'folder' }} SearchPlatform */

/** @param {SearchOptions} options @param {SearchPlatform} platform */
export async function openWith(options, { compile, openFolder, place }) {
  const { dimensions } = options ?? {}, where = options?.[place];
  const known = ['dimensions', place], other = Object.keys(options ?? {}).find((name) => !known.includes(name));
  if (other) throw new GemmaError('bad-option', `there is no option "${other}"`, { expected: `one of ${known.join(', ')}` });
  if (!Number.isInteger(dimensions) || dimensions < 1 || dimensions > MOST_DIMENSIONS) {
    const expected = `an integer from 1 to ${MOST_DIMENSIONS}`;
    throw new GemmaError('bad-option', 'dimensions', { expected, got: String(dimensions) });
  }
  const fits = place === 'folder' ? typeof where === 'string' : NAME.test(where ?? '') && !/^\.+$/.test(where ?? '');
  if (where !== undefined && !fits) {
    throw new GemmaError('bad-option', place, { expected: 'letters, digits, _, - and dots', got: String(where) });
  }
  const scan = await makeScan(await compile().catch((cause) => {
    throw failure('engine-missing', 'gemma-simd128.wasm could not be loaded', cause);
  }), dimensions);
  const folder = where === undefined ? null : await openFolder(where).catch((cause) => {
    throw failure('index-failed', 'the search index could not be opened', cause);
  });
  const index = new SearchIndex(scan, dimensions, folder);
  await index.load();
  return index;
}
