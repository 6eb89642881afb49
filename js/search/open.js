/* open: opens or deletes a search index, in browsers and in Node. */
/** @import { Folder } from './segments.js' */
import { checkNames } from './checks.js';
import { indexFailed, noModule, noPlace, wrongOption } from './errors.js';
import { SearchIndex } from './index.js';
import { isSegment } from './segments.js';
import { makeScan } from './scan.js';

const MOST_DIMENSIONS = 4096;
/** @type {Record<'name' | 'folder', { expected: string, fits: (where: any) => boolean }>} */
const PLACES = {
  name: {
    expected: '1 to 100 letters, digits, _, - and dots, but not only dots',
    fits: (name) => typeof name === 'string' && /^[\w.-]{1,100}$/.test(name) && !/^\.+$/.test(name),
  },
  folder: { expected: 'a path', fits: (path) => typeof path === 'string' && path !== '' },
};

/** Options of `openIndex`. Without `name` and `folder` the index is in memory only.
 * @typedef {object} SearchOptions
 * @property {number} dimensions Length of the vectors.
 * @property {string} [name] Name of the index in the browser's storage.
 * @property {string} [folder] Path of the index's folder, in Node.
 */
/** @typedef {{ compile: () => Promise<WebAssembly.Module>, openFolder: (place: string) => Promise<Folder>,
 *   place: 'name' | 'folder' }} SearchPlatform */

/** Opens an index and reads its files. Throws `bad-option`, `engine-missing` or `index-failed`.
 * @param {SearchOptions} options @param {SearchPlatform} platform */
export async function openWith(options, { compile, openFolder, place }) {
  checkNames('option', options, ['dimensions', place]);
  const { dimensions } = options;
  if (!Number.isInteger(dimensions) || dimensions < 1 || dimensions > MOST_DIMENSIONS) {
    throw wrongOption('dimensions', `an integer from 1 to ${MOST_DIMENSIONS}`, dimensions);
  }
  const where = placeOf(options, place);
  const scan = await makeScan(
    await compile().catch((cause) => {
      throw noModule(cause);
    }),
    dimensions,
  );
  const folder = where === undefined ? null : await opened(where, openFolder);
  const index = new SearchIndex(scan, dimensions, folder);
  await index.load();
  return index;
}

/** Deletes the files of an index, including corrupt files. Other files in its folder stay.
 * @param {Omit<SearchOptions, 'dimensions'>} options @param {Pick<SearchPlatform, 'openFolder' | 'place'>} platform */
export async function deleteWith(options, { openFolder, place }) {
  checkNames('option', options, [place]);
  const where = placeOf(options, place);
  if (where === undefined) throw noPlace(place);
  const folder = await opened(where, openFolder);
  try {
    for (const name of (await folder.list()).filter(isSegment)) await folder.remove(name);
  } catch (cause) {
    throw indexFailed('deleted', cause);
  }
}

/** @param {Partial<SearchOptions>} options @param {'name' | 'folder'} place */
function placeOf(options, place) {
  const where = options[place];
  const { expected, fits } = PLACES[place];
  if (where === undefined || fits(where)) return where;
  throw wrongOption(place, expected, where);
}

/** @param {string} where @param {SearchPlatform['openFolder']} openFolder */
function opened(where, openFolder) {
  return openFolder(where).catch((cause) => {
    throw indexFailed('opened', cause);
  });
}
