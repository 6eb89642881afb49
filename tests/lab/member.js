/* member: methods that tests/lab calls in a tab or a Node process (a member). member-page.js and member-node.js tell
 * it where files are, and make its cache fail on demand. Arguments and results are JSON. */
import { randoms } from '../support/random.js';
import { abortions } from './aborting.js';
import { KINDS, disturbed, sleep } from './inject.js';
import { round } from './soaking.js';
import { ROUNDS, conversation, next } from './talking.js';

/** @import { Kind, StoreFault } from './inject.js' */

export const IDS = [2, 300, 310, 305];

/** Result of a load. `is` is the index of a known model, -1 for other bytes.
 * @typedef {{ is: number } | { code?: string, stack?: string }} Outcome */
/** Step of a test. `wait`: ms before the step begins; `after`: ms until a load is aborted.
 * @typedef {{ what: 'load' | 'abort' | 'inspect' | 'list' | 'delete' | 'save' | 'restore', wait?: number,
 *   after?: number, rounds?: number }} Step */
/** @typedef {{ logits?: string, kept?: string, code?: string, message?: string, saved?: any }} Done */

/** @param {any} api @param {any} source @param {object} options */
async function logitsOf(api, source, options) {
  const model = await api.loadModel(source, { threads: 1, contextLength: 64, ...options });
  try {
    return { logits: String(await model.debug.logits(IDS)), kept: model.info.cache };
  } finally {
    await model.dispose();
  }
}

const same = (/** @type {Uint8Array} */ a, /** @type {Uint8Array} */ b) =>
  a.length === b.length && a.every((byte, i) => byte === b[i]);

/**
 * Returns the methods of a member. load(), disturb() and work() do not reject if a load fails: they return its code.
 * @param {object} around
 * @param {any} around.api            the package
 * @param {any} around.environment     tune() sets its `tuning`
 * @param {string} around.address     the model's URL
 * @param {{ all: () => Promise<Map<string, Uint8Array>>, put: (files: Map<string, Uint8Array>) => Promise<void>,
 *   end?: (inTime: boolean) => Promise<void> }} around.files     reads, replaces and removes the cache's files
 * @param {(fault?: StoreFault) => any} around.cacheOf     returns a model cache whose store has the fault
 * @param {() => void} [around.calm]     ends the faults of stores in workers
 * @param {(url: string, options: any) => Promise<Uint8Array>} [around.read]     reads a model without an engine
 */
export function memberOf({ api, environment, address, files, cacheOf, calm, read }) {
  /** @type {{ bytes: Uint8Array, logits: string }[]} */
  const known = [];
  /** @type {Record<string, Map<string, Uint8Array>>} */
  const copies = { empty: new Map() };
  const load = (/** @type {any} */ source, /** @type {object} */ options = {}) => logitsOf(api, source, options);
  /** @param {Promise<any>} loading @returns {Promise<Outcome>} */
  const outcome = (loading) =>
    coded(async () => {
      const got = await loading;
      return { is: known.findIndex(({ bytes, logits }) => (got.logits ? got.logits === logits : same(got, bytes))) };
    });

  return {
    tune: async (/** @type {object} */ tuning) => void (environment.tuning = tuning),
    /** Downloads the server's current model, and adds it to the known models. */
    async know() {
      const bytes = new Uint8Array(await (await fetch(address, { cache: 'no-store' })).arrayBuffer());
      known.push({ bytes, ...(await load(bytes.slice())) });
    },
    /** Copies the cache's files under a name, by which begin() restores them. */
    keep: async (/** @type {string} */ name) => void (copies[name] = await files.all()),
    begin: (/** @type {string} */ from) => files.put(copies[from]),
    end: async (/** @type {boolean} */ inTime) => files.end?.(inTime),
    async damage(/** @type {string} */ kind, /** @type {number} */ seed) {
      const { rest } = /** @type {Kind} */ (KINDS.find(({ name }) => name === kind));
      const broken = new Map();
      for (const [name, copy] of await files.all()) {
        const left = rest?.(copy, { bytes: known[0].bytes, other: known[1].bytes, random: randoms(seed) });
        if (left) broken.set(name, left);
      }
      await files.end?.(true);
      await files.put(broken);
    },
    /** Loads the model. If `engine` is false and `read` exists, only reads the bytes, without an engine.
     * @param {{ sha256?: string, engine?: boolean, fault?: StoreFault, told?: () => void }} [options] */
    async load({ sha256, fault, engine = true, told } = {}) {
      const options = { cache: cacheOf(fault), ...(sha256 && { sha256 }) };
      const proves = (/** @type {Uint8Array} */ got) => known.some(({ bytes }) => same(got, bytes));
      const loading = outcome(
        engine || !read
          ? load(address, { ...options, ...(told && { onProgress: told }) })
          : read(address, { ...options, proves }),
      );
      loading.finally(() => cacheOf());
      return loading;
    },
    disturb(/** @type {string} */ what, /** @type {number} */ moment, /** @type {object} */ options) {
      const cache = cacheOf();
      const again = (/** @type {object | undefined} */ more) => load(address, { ...options, cache, ...more });
      return outcome(
        disturbed({ load: again, inspect: () => api.inspectModel(address, { cache }), cache }, what, moment),
      );
    },
    async there() {
      const list = (await cacheOf().list()).map((/** @type {any} */ { complete, stored }) => ({ complete, stored }));
      return { list, names: [...(await files.all()).keys()] };
    },
    work: (/** @type {Step} */ step) => worked({ api, address, cache: cacheOf(), load }, step),
    ...openedMethods({ api, address, cacheOf, calm }),
  };
}

/** Returns methods that use one model, which `open` or `start` loads.
 * @param {{ api: any, address: string, cacheOf: (fault?: StoreFault) => any, calm?: () => void }} around */
function openedMethods({ api, address, cacheOf, calm }) {
  /** @type {any} */
  let opened;
  /** @type {StoreFault | undefined} */
  let storeFault;
  /** @param {object & { fault?: StoreFault }} options of loadModel(), and a fault of the store */
  const open = async ({ fault, ...options }) => {
    storeFault = fault;
    const before = opened;
    opened = undefined;
    await before?.dispose();
    opened = await api.loadModel(address, { cache: cacheOf(fault), ...options });
    return opened.info.cache;
  };
  return {
    open,
    /** Opens the model. Returns `info.cache` or the error. @param {Parameters<typeof open>[0]} options */
    start: (options) => coded(async () => ({ kept: await open(options) })),
    /** @param {number[]} ids */
    ask: (ids) => coded(async () => ({ logits: String(await opened.debug.logits(ids)) })),
    async calm() {
      if (storeFault) storeFault.over = true;
      calm?.();
    },
    round: (/** @type {any} */ talks, /** @type {number} */ n) => round(opened, talks, n),
    abortions: (/** @type {string} */ what, /** @type {number} */ count, /** @type {number} */ seed) =>
      abortions(opened, what, count, seed),
  };
}

/** Returns the result of f(), or the error's code and stack. @template T @param {() => Promise<T>} f
 * @returns {Promise<T | { code?: string, stack: string }>} */
const coded = (f) => f().catch((error) => ({ code: error?.code, stack: String(error?.stack ?? error) }));

/** @param {any} member @param {Step} step @returns {Promise<Done>} */
async function worked({ api, address, cache, load }, { what, wait = 0, after = 0, rounds = ROUNDS }) {
  await sleep(wait);
  try {
    if (what === 'load') return await load(address, { cache });
    if (what === 'abort') return await load(address, { cache, signal: AbortSignal.timeout(after) });
    if (what === 'list') await cache.list();
    if (what === 'inspect') await api.inspectModel(address, { cache });
    if (what === 'delete') for (const { key } of await cache.list()) await cache.delete(key);
    if (what !== 'save' && what !== 'restore') return {};
    const model = await api.loadModel(address, { threads: 1, cache });
    const saved = what === 'save' ? await saves(model, rounds) : await restored(model);
    await model.dispose();
    return { saved };
  } catch (error) {
    const { code, stack } = /** @type {any} */ (error);
    return { code: code ?? 'none', message: String(stack) };
  }
}

/** Saves conversations under the same name, one after another. @param {any} model @param {number} rounds */
async function saves(model, rounds) {
  for (let i = 0; i < rounds; i++) await model.chatCache.put('x', await (await conversation(model, i)).save());
}

/** @param {any} model */
async function restored(model) {
  const saved = await model.chatCache.get('x');
  const { length: count } = await model.chatCache.list();
  if (!saved) return { count };
  const chat = model.chat({ saved });
  const { tokens = null } = await chat.restored;
  return { count, round: parseInt(chat.messages[0].content, 10), tokens, next: await next(chat) };
}
