/* page: the laboratory's part in a page: loads, and what the store has. Of models it says which of those that it knows
 * they are. */
import { inspectModel, loadModel, modelCache } from '../../js/index.js';
import { environment } from '../../js/platform/env.js';
import { disturbed } from './client.js';
import { KINDS } from './faults.js';
import { randoms } from '../support/random.js';

/** @typedef {{ is: number } | { code?: string, stack?: string }} Outcome is: which model, -1 for another one */

const ADDRESS = new URL('model.gguf', location.href).href;
const OPTIONS = { threads: 1, contextLength: 64 };
/** @type {string[]} */
const known = [];
/** @type {Record<string, Map<string, Uint8Array>>} */
const copies = { empty: new Map() };
/** For the workers that are begun. @type {object | undefined} */
let fault;
/** @type {Uint8Array} */
let bytes;

const Usual = window.Worker;
window.Worker = class extends Usual {
  /** @param {[string | URL, WorkerOptions?]} how */
  constructor(...how) {
    super(...how);
    if (fault) this.postMessage({ fault });
  }
};

const folder = async () => (await navigator.storage.getDirectory()).getDirectoryHandle('gemma-wasm', { create: true });

/** A worker that has ended may have its files for a moment. @param {() => Promise<unknown>} f */
async function soon(f) {
  for (const end = Date.now() + 5000; ; ) {
    try {
      return await f();
    } catch (error) {
      if (Date.now() > end || /** @type {any} */ (error).name === 'NotFoundError') throw error;
      await new Promise((done) => {
        setTimeout(done, 20);
      });
    }
  }
}

/** @param {any} source @param {object} [options] */
async function logits(source, options) {
  const model = await loadModel(source, { ...OPTIONS, ...options });
  try {
    return await model.logits([2, 300, 310, 305]);
  } finally {
    await model.dispose();
  }
}

/** @param {Promise<Float32Array>} load @returns {Promise<Outcome>} */
const outcome = (load) =>
  load.then(
    (got) => ({ is: known.indexOf(String(got)) }),
    ({ code, stack }) => ({ code, stack }),
  );

/** @param {object} tuning */
export const tune = (tuning) => void (environment.tuning = tuning);

/** A model that the server has now. */
export async function know() {
  const model = new Uint8Array(await (await fetch(ADDRESS, { cache: 'no-store' })).arrayBuffer());
  bytes ??= model;
  known.push(String(await logits(model)));
}

/** Every file of the store. */
async function files() {
  const all = new Map();
  for await (const [name, handle] of /** @type {any} */ (await folder()).entries()) {
    all.set(name, new Uint8Array(await (await handle.getFile()).arrayBuffer()));
  }
  return all;
}

/** @param {string} name of what the store has now */
export const keep = async (name) => void (copies[name] = await files());

/** @param {Map<string, Uint8Array>} wanted the store has this, and nothing else */
async function put(wanted) {
  const into = await folder();
  for (const name of (await files()).keys()) await soon(() => into.removeEntry(name));
  for (const [name, data] of wanted) {
    const file = await (await into.getFileHandle(name, { create: true })).createWritable();
    await file.write(/** @type {any} */ (data));
    await file.close();
  }
}

/** @param {string} from a name of keep(), or 'empty' */
export const begin = (from) => put(copies[from]);

/** @param {string} kind @param {number} seed */
export async function damage(kind, seed) {
  const { rest } = /** @type {import('./faults.js').Kind} */ (KINDS.find(({ name }) => name === kind));
  const broken = new Map();
  for (const [name, copy] of await files()) {
    const left = rest?.(copy, { bytes, other: bytes, random: randoms(seed) });
    if (left) broken.set(name, left);
  }
  await put(broken);
}

/** @param {{ sha256?: string, fault?: object }} [options] @returns {Promise<Outcome>} */
export async function load({ sha256, fault: how } = {}) {
  fault = how;
  const loading = outcome(logits(ADDRESS, { sha256 }));
  loading.finally(() => {
    fault = undefined;
  });
  return loading;
}

/** @param {string} what @param {number} moment @param {{ sha256?: string }} options */
export function disturb(what, moment, options) {
  const means = {
    load: (/** @type {object} */ more) => logits(ADDRESS, { ...options, ...more }),
    cache: modelCache,
    inspect: () => inspectModel(ADDRESS),
  };
  return outcome(disturbed(means, what, moment));
}

/** How much of each copy there is, and all names. */
export async function there() {
  const list = (await modelCache.list()).map(({ complete, stored }) => ({ complete, stored }));
  return { list, names: [...(await files()).keys()] };
}
