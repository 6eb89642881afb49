/* cached: tells whether a model can be loaded without a download. */
/** @import { LoadOptions, ModelSource } from './options.js' */
import { cacheOf } from './download/cache.js';
import { shownUrl } from './download/identity.js';
import { partsOf } from './model.js';

/** Returns whether loadModel() would need no download: the source and the draft model are local, or all their files
 * are cached completely. For a source { repo, quant }, requests the list of files from the hub.
 * @param {ModelSource} source @param {LoadOptions} [options] @returns {Promise<boolean>} */
export async function isCached(source, options = {}) {
  const { draftModel } = options;
  const parts = [...(await partsOf(source, options)), ...(draftModel ? await partsOf(draftModel, options) : [])];
  const urls = parts.flatMap(({ descriptor }) => (descriptor.kind === 'url' ? [shownUrl(descriptor.url)] : []));
  if (!urls.length) return true;
  if (options.cache === false) return false;
  const entries = (await cacheOf(options.cache).list()).filter(({ complete }) => complete);
  return urls.every((url) => entries.some((entry) => entry.url === url));
}
