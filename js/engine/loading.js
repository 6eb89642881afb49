/* loading: loads a model into the heap: sets options, opens the sources one after the other, passes their bytes to
 * the engine's loader, and runs autotune.js. */
/** @import { DownloadDeps } from '../download/download.js' */
/** @import { Source } from '../download/source.js' */
/** @import { Asking } from '../rpc/asking.js' */
/** @import { ModelInfo, OpenOptions, Progress, SourceDescriptor, Store } from '../protocol.js' */
/** @import { Drafter } from './drafts.js' */
/** @import { Engine, Platform } from './engine.js' */
/** @import { Replay } from './replay.js' */
/** @import { Rows } from './rows.js' */
import { openSource } from '../download/source.js';
import { ModelError } from '../errors.js';
import { chooseContext } from './context.js';
import { Meter } from './meter.js';
import { loadInto } from './stream.js';

/** Minimum size of weights, in bytes, for which autotune compares orders of reading them. Larger than CPU caches. */
const MEMORY_BOUND = 2e8;

/** Dependencies of a load. report: called with the progress of the load; reportRest: called with the progress of
 * embedding tables that are downloaded after the load; pieces: bytes that the client sends; meter and reserve: for a
 * draft model, count its progress and reserve its memory.
 * @typedef {{ native: Engine, platform: Platform, asking: Asking, pieces: Pick<Replay, 'reader' | 'forget'>,
 *   report: (progress: Progress) => void, reportRest: (progress: Progress) => void,
 *   meter?: Meter, reserve?: () => void }} LoadDeps */

/** Loads a model. Fails with an error of the kinds `file`, `network`, `option`, `engine` or `cache`.
 * @param {SourceDescriptor[]} descriptors @param {OpenOptions} options @param {LoadDeps} deps
 * @returns {Promise<Pick<ModelInfo, 'cache' | 'notices' | 'threadsMeasured'>
 *   & { rows?: Rows, draftModel?: Drafter }>} */
export async function load(descriptors, options, deps) {
  const { native, platform, pieces } = deps;
  const { headerOnly = false } = options;
  setOptions(native, options);
  const { meter = new Meter(deps.report) } = deps;
  const reserve = () => {
    if (headerOnly) return;
    native.reserve(chooseContext(native, options.contextLength));
    pieces.forget();
  };
  const digests = [options.sha256 ?? []].flat();
  const download = downloadDeps(options, deps, meter);
  const open = (/** @type {number} */ i) => {
    return openSource(descriptors[i], platform, pieces.reader(i), { ...download, expected: digests[i] });
  };
  /** @type {Source[]} */
  const sources = [];
  /** @type {import('./rows.js').TablesPart | undefined} */
  let part;
  /** @type {Drafter | undefined} */
  let draftModel;
  const plan = async () => {
    if (native.planBytes(1, 'disk')) {
      part = await (await platform.load('rows')).plan(sources, options, { ...deps, meter });
    }
    if (!part) native.loadOption('tables', 'memory'); // no embedding tables, or no room for them on disk
    if (options.draftModel?.length) {
      const drafts = await platform.load('drafts');
      draftModel = await drafts.loadDraftModel(load, options, { ...deps, meter, reserve, descriptors });
    } else (deps.reserve ?? reserve)();
    return headerOnly ? undefined : part;
  };
  let rows;
  try {
    await loadInto(native, sources, { count: descriptors.length, open, digests, plan, headerOnly, meter });
    rows = part && !headerOnly ? await part.rowsOf(native, sources, deps) : await closeAll(sources);
  } catch (error) {
    await closeAll(sources, /** @type {ModelError} */ (error));
    throw error;
  }
  let threadsMeasured = false;
  if (!headerOnly) {
    try {
      threadsMeasured = await tune(native, platform, options);
    } catch (error) {
      await rows?.close(); // frees the lock of the cached copy, which a load with another build needs
      throw error;
    }
    meter.finish((notice) => rows?.notice(notice));
    rows?.fetchRest();
  }
  return { cache: keptOf(sources), notices: meter.notices, threadsMeasured, rows, draftModel };
}

/** Lets autotune.js choose the number of threads, unless the caller set it, and in relaxed builds the order in
 * which weights of large models are read. Keeps the defaults if the module is missing. Returns whether threads were
 * measured. @param {Engine} native @param {Platform} platform @param {OpenOptions} options */
async function tune(native, platform, options) {
  const threads = options.threads === undefined && native.threads > 2;
  const streams = native.variant.startsWith('relaxed') && native.planBytes(1, 'weights') >= MEMORY_BOUND;
  if (!threads && !streams) return false;
  /** @type {typeof import('./autotune.js') | undefined} */
  const part = await platform.load('autotune').catch(() => undefined);
  part?.autotune(native, { threads, streams });
  return threads && part !== undefined;
}

/** @param {Engine} native @param {OpenOptions} options */
function setOptions(native, { quantizeFloats, kvType, kvTokens, sequences, rowsOnDisk = 'auto' }) {
  const tables = rowsOnDisk === true ? 'file' : rowsOnDisk && 'large';
  for (const [name, value] of Object.entries({ quantizeFloats, kvType, kvTokens, sequences, tables })) {
    if (value) native.loadOption(name, `${value}`);
  }
}

/** @param {Store} store @returns {Store} */
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

/** Returns the store of models, undefined without a cache.
 * @param {OpenOptions['cache']} cache @param {Pick<LoadDeps, 'platform' | 'asking'>} deps */
export function storeOf(cache, { platform, asking }) {
  return cache && (cache.remote ? asking.store() : platform.openStore(cache.folder));
}

/** @param {Source[]} sources @param {ModelError} [error] why loading failed, if it did @returns {Promise<undefined>} */
async function closeAll(sources, error) {
  for (const source of sources) await source.close(error);
}

/** @param {Source[]} sources @returns {ModelInfo['cache']} */
function keptOf(sources) {
  const kept = sources.map(({ download }) => download?.kept ?? 'none');
  return kept.includes('none') ? 'none' : kept.includes('stored') ? 'stored' : 'cached';
}
