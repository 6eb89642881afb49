/* loading: the steps from what the client described to weights in the heap: the options, the parts opened one after
 * the other, their bytes through the loader, and the faster way of reading the weights. */
/** @import { DownloadDeps } from '../download/download.js' */
/** @import { Source } from '../download/source.js' */
/** @import { Asking } from '../rpc/asking.js' */
/** @import { ModelInfo, OpenOptions, Place, Progress, SourceDescriptor, Store } from '../protocol.js' */
/** @import { Engine, Platform } from './engine.js' */
/** @import { Replay } from './replay.js' */
import { openSource } from '../download/source.js';
import { ModelError } from '../errors.js';
import { Meter } from './meter.js';
import { loadInto } from './stream.js';

/** Weights larger than any cache, and the number of parts on which one and several streams are timed. */
const MEMORY_BOUND = 2e8;
const QUARTERS = 4;
const DEFAULT_CONTEXT = 4096;

/** Dependencies of a load. report: receives its progress; pieces: of parts that the client holds.
 * @typedef {{ native: Engine, platform: Platform, asking: Asking, pieces: Replay,
 *   report: (progress: Progress) => void }} LoadDeps */

/** @param {SourceDescriptor[]} descriptors @param {OpenOptions} options @param {LoadDeps} deps
 * @returns {Promise<Pick<ModelInfo, 'cache' | 'notices'>>} */
export async function load(descriptors, options, deps) {
  const { native, platform, pieces } = deps;
  const { headerOnly = false, contextLength } = options;
  setOptions(native, options);
  const meter = new Meter(deps.report);
  const digests = [options.sha256 ?? []].flat();
  const download = downloadDeps(options, deps, meter);
  const open = (/** @type {number} */ i) => {
    return openSource(descriptors[i], platform, pieces.reader(i), { ...download, expected: digests[i] });
  };
  const plan = () => {
    native.reserve(chooseContext(native, contextLength));
    pieces.forget();
  };
  /** @type {Source[]} */
  const sources = [];
  try {
    await loadInto(native, sources, { count: descriptors.length, open, digests, plan, headerOnly, meter });
  } catch (error) {
    await closeAll(sources, /** @type {ModelError} */ (error));
    throw error;
  }
  await closeAll(sources);
  if (!headerOnly) {
    chooseStreams(native);
    meter.finish();
  }
  return { cache: keptOf(sources), notices: meter.notices };
}

/** Those of the engine's loader. @param {Engine} native @param {OpenOptions} options */
function setOptions(native, { quantizeFloats, kvType }) {
  for (const [name, value] of Object.entries({ quantizeFloats, kvType })) if (value) native.loadOption(name, value);
}

/** Returns what a load may use of a store that it only reads: nothing of it writes, locks or removes.
 * @param {Store} store @returns {Store} */
function readingOf(store) {
  const nothing = async () => {};
  return { ...store, write: nothing, remove: nothing, lock: undefined, tidy: undefined, flush: undefined };
}

/** @param {OpenOptions} options @param {LoadDeps} deps @param {Meter} meter @returns {DownloadDeps} */
function downloadDeps({ cache, headerOnly = false }, { native, platform, asking }, meter) {
  const store = storeOf(cache, { platform, asking });
  return {
    store: store && headerOnly ? readingOf(store) : store,
    readOnly: headerOnly,
    hasher: () => native.hasher(),
    ...native.checker(),
    hash: (text) => native.hash(text),
    counted: (bytes, cached) => meter.add(bytes, cached),
    watched: (have, total) => meter.watch(have, total),
    notice: (code, message) => meter.notice(code, message),
  };
}

/** Where models are kept, if they are.
 * @param {OpenOptions['cache']} cache @param {Pick<LoadDeps, 'platform' | 'asking'>} deps */
export function storeOf(cache, { platform, asking }) {
  return cache && (cache.remote ? asking.store() : platform.openStore(cache.folder));
}

/** @param {Source[]} sources @param {ModelError} [error] why loading failed, if it did */
async function closeAll(sources, error) {
  for (const source of sources) await source.close(error);
}

/** @param {Source[]} sources @returns {ModelInfo['cache']} */
function keptOf(sources) {
  const kept = sources.map(({ download }) => download?.kept ?? 'none');
  return kept.includes('none') ? 'none' : kept.includes('stored') ? 'stored' : 'cached';
}

/** Some processors read one stream of weights fastest, others many at once: these are asked. The first turns do not
 * count, for the code is not optimised yet; no turn finds in a cache what the last one read. Quarters may be of
 * different types, so each is compared with itself. Other variants have one way only. @param {Engine} native */
function chooseStreams(native) {
  if (!native.variant.startsWith('relaxed') || native.planBytes(1, 'weights') < MEMORY_BOUND) return;
  /** @type {number[]} */
  const one = [];
  /** @type {number[]} */
  const many = [];
  for (let turn = -1; turn < QUARTERS; turn++) {
    const first = (turn + QUARTERS) % QUARTERS;
    const second = (first + 2) % QUARTERS;
    one[first] = native.autotune(1, first);
    many[second] = native.autotune(0, second);
  }
  const [, low, high] = one.map((ms, quarter) => ms / many[quarter]).sort((a, b) => a - b);
  native.autotune(Number(low * high < 1), QUARTERS);
}

/** @param {Engine} native @param {number} [wanted] */
export function chooseContext(native, wanted) {
  const trained = native.number('context_length');
  if (wanted === undefined) return Math.min(trained, DEFAULT_CONTEXT);
  if (wanted <= trained) return wanted;
  throw new ModelError('bad-option', `\`contextLength\` must be at most ${trained}, the model's own (got ${wanted}).`);
}
