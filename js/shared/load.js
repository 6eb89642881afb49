/* load: implements loadModel() of gemma-wasm/shared, whose engine may run in another tab. See docs/shared.md. */
/** @import { ModelInfo } from '../protocol.js' */
/** @import { ModelConnection } from '../rpc/reconnecting.js' */
/** @import { LoadOptions, ModelSource } from '../options.js' */
import { cacheOf } from '../download/cache.js';
import { abortError } from '../errors.js';
import { onAbort } from '../rpc/signals.js';
import { Model, openEngine, partsOf } from '../model.js';
import { LOAD_OPTIONS, checkOptions } from '../options.js';
import { whyNotShared } from './channel.js';
import { cannotShare, cannotShareSource, loadFailed } from './errors.js';
import { Peer } from './peer.js';

/** Options that are part of a model's identity: tabs with other values use another engine. For all other options, the
 * values of the first tab count. @type {(keyof LoadOptions)[]} */
const DISTINCT = ['contextLength', 'variant', 'quantizeFloats', 'kvType', 'rowsOnDisk', 'rowsLater', 'sha256', 'hub'];

/** A model that several tabs share. */
export class SharedModel extends Model {
  #peer;

  /** @internal @param {Peer} peer @param {ModelInfo} info */
  constructor(peer, info) {
    /** @type {ModelConnection} */
    const connection = {
      get lost() {
        return peer.router.lost;
      },
      call: (method, args, options) => peer.router.call(method, args, options),
      restart: () => peer.restart(),
      close: (reason) => peer.leave(reason),
    };
    super(connection, info);
    this.#peer = peer;
  }

  /** Whether the engine currently runs in this tab. */
  get owner() {
    return this.#peer.owns;
  }
}

/** Loads a model as loadModel() of gemma-wasm does, or uses the engine of another tab that has loaded the same model
 * or is loading it. Fails with `cannot-share` if tabs cannot share, besides the errors of loadModel().
 * @param {ModelSource} source @param {LoadOptions} [options] @returns {Promise<SharedModel>} */
export async function loadModel(source, options = {}) {
  checkOptions(options, LOAD_OPTIONS);
  const why = whyNotShared();
  const { signal, onProgress = () => {}, ...others } = options;
  if (why) throw cannotShare(why);
  if (signal?.aborted) throw abortError(signal);
  const key = await keyOf(source, options);
  const load = (/** @type {AbortSignal} */ signal, /** @type {LoadOptions['onProgress']} */ tell) => {
    return openEngine(source, { ...others, signal, onProgress: tell });
  };
  const peer = new Peer(key, load, onProgress);
  const unsubscribe = onAbort(signal, () => void peer.leave(abortError(signal)));
  try {
    if (signal?.aborted) throw abortError(signal);
    return new SharedModel(peer, await peer.enter());
  } catch (error) {
    await peer.leave(loadFailed());
    throw error;
  } finally {
    unsubscribe();
  }
}

/** Returns a model's name for the channel, the same in every tab. It is a hash, so that other code of the origin cannot
 * read URL and headers.
 * @param {ModelSource} source @param {LoadOptions} options */
async function keyOf(source, options) {
  const { cache } = options;
  const { draftModel } = options;
  const parts = [...(await partsOf(source, options)), ...(draftModel ? await partsOf(draftModel, options) : [])];
  const what = parts.map(({ descriptor }) => {
    if (descriptor.kind === 'url') return [descriptor.url, descriptor.headers, descriptor.key];
    throw cannotShareSource(descriptor.kind);
  });
  const how = [!draftModel, ...DISTINCT.map((name) => String(options[name] ?? ''))];
  const text = JSON.stringify([what, how, cache === false ? null : cacheOf(cache).descriptor]);
  const sum = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  return [...new Uint8Array(sum)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
