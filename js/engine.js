/* engine: one WebAssembly instance, its helper threads, and the C functions of src/api.h as
 * methods that throw GemmaError. Knows nothing of prompts, sources or messages. */
import { GemmaError } from './errors.js';
import { probe } from './features.js';
import { Heap, PAGE, imports, utf8 } from './heap.js';
import { THREAD } from './protocol.js';

/* Literal URLs, one by one, so that bundlers see the files. */
const FILES = {
  'simd128': new URL('./gemma-simd128.wasm', import.meta.url),
  'simd128-threads': new URL('./gemma-simd128-threads.wasm', import.meta.url),
  'relaxed': new URL('./gemma-relaxed.wasm', import.meta.url),
  'relaxed-threads': new URL('./gemma-relaxed-threads.wasm', import.meta.url),
};

const INITIAL_PAGES = 16;
const MAXIMUM_PAGES = 65536;
const MAX_THREADS = 64;
const HELPER_TIMEOUT = 5000;
const TOP_LOGPROBS = 64;

/** States of gw_load_commit and results of gw_run, as in api.h. */
export const LOAD = Object.freeze({ HEADER: 0, PLAN: 1, WEIGHTS: 2, READY: 3 });
export const RUN = Object.freeze({ DONE: 0, MORE: 1, LOGITS: 2 });

/**
 * What differs between platforms on the worker's side.
 * @typedef {object} Platform
 * @property {(url: URL) => Promise<WebAssembly.Module>} compile
 * @property {() => number} parallelism
 * @property {() => import('./env.js').Port} createThread starts thread.js or thread.node.js
 * @property {() => Promise<void>} breathe lets waiting messages be handled
 * @property {(path: string) => FileReader} [openFile]
 * @property {() => Hash} [createHash]
 */
/** @typedef {{ size: number, read: (into: Uint8Array) => number, close: () => void }} FileReader */
/** @typedef {{ update: (bytes: Uint8Array) => unknown, hex: () => string }} Hash */
/** @typedef {Record<string, (...args: number[]) => number>} Exports */

export class Engine {
  /** @type {Exports} */
  exports;
  /** @type {Heap} */
  heap;
  /** @type {import('./env.js').Port[]} */
  #helpers;
  #pool = 0;

  /**
   * @param {Exports} exports
   * @param {WebAssembly.Memory} memory
   * @param {import('./env.js').Port[]} helpers workers that hold the module and wait
   */
  constructor(exports, memory, helpers) {
    this.exports = exports;
    this.heap = new Heap(memory, exports.gw_alloc, exports.gw_free);
    this.#helpers = helpers;
    exports.__wasm_call_ctors?.();
    this.#pool = exports.gw_pool_new(helpers.length + 1) >>> 0;
    if (!this.#pool) throw new GemmaError('no-memory', 'thread pool');
    this.variant = this.heap.string(exports.gw_build()) ?? '';
    this.threads = helpers.length + 1;
    helpers.forEach((port, i) => {
      const stack = exports.gw_pool_stack(this.#pool, i + 1) >>> 0;
      port.post({ kind: THREAD.enter, pool: this.#pool, index: i + 1, stack });
    });
  }

  newModel() {
    const address = this.exports.gw_model_new(this.#pool) >>> 0;
    if (!address) throw new GemmaError('no-memory', 'model');
    return new NativeModel(this, address);
  }

  /** Ends the helper threads; the engine cannot be used afterwards. */
  close() {
    this.exports.gw_pool_stop(this.#pool);
    for (const port of this.#helpers) port.terminate();
  }
}

/**
 * @param {{ variant?: string, threads?: number }} options
 * @param {Platform} platform
 * @returns {Promise<{ engine: Engine, isolated: boolean, reason: string }>}
 */
export async function createEngine({ variant = 'auto', threads }, platform) {
  const features = probe();
  const name = chooseVariant(variant, features);
  const wanted = Math.min(threads ?? platform.parallelism(), MAX_THREADS);
  const threaded = features.isolated && wanted > 1;
  let reason = features.reason;
  if (features.isolated && !threaded) reason = threads === 1 ? 'one thread was asked for' : 'one core';
  const file = /** @type {keyof typeof FILES} */ (threaded ? `${name}-threads` : name);
  const module = await compile(FILES[file], platform);
  const { instance, memory } = await instantiate(module, threaded);
  const helpers = threaded ? await startHelpers(wanted - 1, module, memory, platform) : [];
  if (threaded && !helpers.length) reason = 'the helper workers could not be started';
  const exports = /** @type {Exports} */ (/** @type {unknown} */ (instance.exports));
  return { engine: new Engine(exports, memory, helpers), isolated: features.isolated, reason };
}

/**
 * @param {string} variant
 * @param {import('./features.js').Features} features
 */
function chooseVariant(variant, { simd, relaxed }) {
  if (!simd) throw new GemmaError('unsupported-platform', 'WebAssembly SIMD is not available');
  if (variant === 'auto') return relaxed ? 'relaxed' : 'simd128';
  if (variant === 'relaxed' && !relaxed) {
    throw new GemmaError('unsupported-variant', 'variant', {
      expected: '"auto" or "simd128", as this platform has no relaxed SIMD', got: '"relaxed"',
    });
  }
  return variant;
}

/** @param {URL} url @param {Platform} platform */
async function compile(url, platform) {
  try {
    return await platform.compile(url);
  } catch (cause) {
    const name = url.pathname.split('/').pop();
    throw new GemmaError('engine-missing', `the engine file ${name} could not be loaded (is it `
      + 'built, and served beside the scripts?)', { cause });
  }
}

/** Instantiate on a memory as large as the platform grants. Used by helper threads too.
 * @param {WebAssembly.Module} module @param {boolean} shared */
async function instantiate(module, shared) {
  for (let maximum = MAXIMUM_PAGES; ; maximum /= 2) {
    let memory;
    try {
      memory = new WebAssembly.Memory({ initial: INITIAL_PAGES, maximum, shared });
    } catch (cause) {
      if (maximum > MAXIMUM_PAGES / 4) continue;
      throw new GemmaError('no-memory', 'WebAssembly memory',
        { expected: `${maximum * PAGE} bytes of address space`, cause });
    }
    return { memory, instance: await WebAssembly.instantiate(module, imports(memory)) };
  }
}

/** Start up to `count` helper workers; those that do not get ready in time are left out.
 * @param {number} count
 * @param {WebAssembly.Module} module
 * @param {WebAssembly.Memory} memory
 * @param {Platform} platform
 * @returns {Promise<import('./env.js').Port[]>} */
async function startHelpers(count, module, memory, platform) {
  const started = await Promise.all(Array.from({ length: count }, () => {
    return startHelper(module, memory, platform).catch(() => null);
  }));
  return started.filter((port) => port !== null);
}

/** @param {WebAssembly.Module} module @param {WebAssembly.Memory} memory @param {Platform} platform */
async function startHelper(module, memory, platform) {
  const port = platform.createThread();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  try {
    await new Promise((resolve, reject) => {
      port.onMessage(resolve);
      port.onFailure(reject);
      timer = setTimeout(() => reject(new Error('timeout')), HELPER_TIMEOUT);
      port.post({ kind: THREAD.prepare, module, memory });
    });
    return port;
  } catch (error) {
    port.terminate();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** A gw_model of one engine: loading, tokenizer, evaluation, sampler. */
export class NativeModel {
  #engine;
  #exports;
  #heap;
  #address;
  #vocab = 0;
  #textBuffer = { address: 0, size: 0 };
  #tops = 0;

  /** @param {Engine} engine @param {number} address */
  constructor(engine, address) {
    this.#engine = engine;
    this.#exports = engine.exports;
    this.#heap = engine.heap;
    this.#address = address;
  }

  /** @param {number} result @returns {number} */
  #check(result) {
    if (result >= 0) return result;
    const code = this.#errorText('code');
    if (code && code !== 'ok') {
      throw new GemmaError(code, this.#errorText('what'),
        { expected: this.#errorText('expected'), got: this.#errorText('got') });
    }
    const name = this.#heap.string(this.#exports.gw_error_name(result)) ?? 'bad-state';
    throw new GemmaError(name, 'the engine refused a call');
  }

  /** @param {string} part */
  #errorText(part) {
    return this.#with(utf8(`${part}\0`), (p) => {
      return this.#heap.string(this.#exports.gw_error_text(this.#address, p)) ?? '';
    });
  }

  /** Run f with a copy of `data` in the heap.
   * @template T
   * @param {ArrayBufferView} data @param {(address: number) => T} f @returns {T} */
  #with(data, f) {
    const address = this.#heap.reserve(data.byteLength);
    if (!address) throw new GemmaError('no-memory', 'heap block', { expected: data.byteLength });
    try {
      this.#heap.write(address, data);
      return f(address);
    } finally {
      this.#heap.release(address);
    }
  }

  // Loading

  /** Where the next bytes of the file go; valid until the next call. */
  window() {
    const room = this.#exports.gw_load_room(this.#address) >>> 0;
    return this.#heap.view(this.#exports.gw_load_window(this.#address), room);
  }

  /** @param {number} n @returns {number} one of LOAD */
  commit(n) {
    return this.#check(this.#exports.gw_load_commit(this.#address, n));
  }

  /** The source has ended: throws `truncated` unless all tensors are in place. */
  end() {
    this.#check(this.#exports.gw_load_end(this.#address));
  }

  /** @param {number} contextLength */
  reserve(contextLength) {
    this.#check(this.#exports.gw_load_reserve(this.#address, contextLength));
    this.#vocab = this.number('n_vocab');
    this.#tops = this.#heap.reserve(TOP_LOGPROBS * 8);
  }

  /** @param {number} contextLength @param {string} part */
  planBytes(contextLength, part) {
    return this.#with(utf8(`${part}\0`),
      (p) => this.#exports.gw_plan_bytes(this.#address, contextLength, p));
  }

  // What is in the file

  /** NaN for what is not there. @param {string} key */
  number(key) {
    return this.#with(utf8(`${key}\0`), (p) => this.#exports.gw_model_number(this.#address, p));
  }

  /** @param {string} key */
  text(key) {
    return this.#with(utf8(`${key}\0`),
      (p) => this.#heap.string(this.#exports.gw_model_text(this.#address, p)));
  }

  /** All rows of "metadata" or "tensor" as objects. @param {'metadata' | 'tensor'} what */
  list(what) {
    const next = what === 'tensor' ? this.#exports.gw_tensor_json : this.#exports.gw_metadata_json;
    const rows = [];
    for (let i = 0; ; i++) {
      const json = this.#heap.string(next(this.#address, i));
      if (json === null) return rows;
      rows.push(JSON.parse(json));
    }
  }

  // Tokenizer

  /** @param {string} text @param {boolean} special control pieces in the text match */
  encode(text, special) {
    const bytes = utf8(text);
    if (!bytes.length) return new Int32Array(0);
    return this.#with(bytes, (p) => {
      const ids = this.#heap.reserve(bytes.length * 4);
      if (!ids) throw new GemmaError('no-memory', 'heap block', { expected: bytes.length * 4 });
      try {
        const n = this.#exports.gw_encode(this.#address, p, bytes.length, Number(special), ids,
          bytes.length);
        return this.#heap.ints(ids, this.#check(n));
      } finally {
        this.#heap.release(ids);
      }
    });
  }

  /** The bytes of one token. @param {number} id @param {boolean} special name control tokens */
  decode(id, special) {
    const buffer = this.#textBuffer;
    const read = () => this.#check(this.#exports.gw_decode(this.#address, id, Number(special),
      buffer.address, buffer.size));
    let n = read();
    if (n > buffer.size) {
      this.#heap.release(buffer.address);
      buffer.size = Math.max(256, n);
      buffer.address = this.#heap.reserve(buffer.size);
      n = read();
    }
    return this.#heap.copyOut(buffer.address, n);
  }

  /** @param {number} id */
  isEnd(id) {
    return this.#exports.gw_is_end(this.#address, id) === 1;
  }

  /** @param {number} id */
  isControl(id) {
    return this.#exports.gw_is_control(this.#address, id) === 1;
  }

  // Evaluation

  /** Ids kept from before. @param {Int32Array} ids */
  sync(ids) {
    return this.#with(ids, (p) => this.#check(this.#exports.gw_sync(this.#address, p, ids.length)));
  }

  /** @param {number} id */
  append(id) {
    this.#check(this.#exports.gw_append(this.#address, id));
  }

  /** @param {number} layers 0: all @returns {number} one of RUN */
  run(layers) {
    return this.#check(this.#exports.gw_run(this.#address, layers));
  }

  wantAll() {
    this.#exports.gw_want_all(this.#address, 1);
  }

  clear() {
    this.#exports.gw_clear(this.#address);
  }

  get pending() {
    return this.#exports.gw_pending(this.#address);
  }

  get position() {
    return this.#exports.gw_position(this.#address);
  }

  /** Rows that gw_logits holds after RUN.LOGITS, and the position of the first. */
  logitRows() {
    return {
      rows: this.#exports.gw_logit_rows(this.#address),
      first: this.#exports.gw_logit_first(this.#address),
    };
  }

  /** @param {number} [rows] */
  logits(rows = 1) {
    return this.#heap.floats(this.#exports.gw_logits(this.#address), rows * this.#vocab);
  }

  /** Natural-log probability of id by one row of logits. @param {number} id @param {number} [row] */
  logprob(id, row = 0) {
    return this.#exports.gw_logprob(this.#row(row), this.#vocab, id);
  }

  /** @param {number} k @returns {{ id: number, logprob: number }[]} */
  topLogprobs(k) {
    const at = this.#tops;
    const n = this.#exports.gw_top_logprobs(this.#row(0), this.#vocab, k, at, at + TOP_LOGPROBS * 4);
    const ids = this.#heap.ints(at, n);
    const logprobs = this.#heap.floats(at + TOP_LOGPROBS * 4, n);
    return Array.from(ids, (id, i) => ({ id, logprob: logprobs[i] }));
  }

  /** @param {number} row */
  #row(row) {
    return this.#exports.gw_logits(this.#address) + row * this.#vocab * 4;
  }

  get abortFlag() {
    return this.#exports.gw_abort_flag(this.#address) >>> 0;
  }

  /** Make the next run() end with `aborted`. */
  setAbort() {
    this.#heap.store(this.abortFlag, 1);
  }

  // Sampler

  resetSampler() {
    this.#exports.gw_sampler_reset(this.#sampler);
  }

  /** @param {string} name @param {number} value */
  setOption(name, value) {
    this.#with(utf8(`${name}\0`),
      (p) => this.#check(this.#exports.gw_set_option(this.#address, p, value)));
  }

  /** @param {number} id @param {number} bias */
  setBias(id, bias) {
    this.#check(this.#exports.gw_set_bias(this.#address, id, bias));
  }

  /** @param {number} id */
  accept(id) {
    this.#exports.gw_sampler_accept(this.#sampler, id);
  }

  draw() {
    const id = this.#exports.gw_sampler_draw(this.#sampler, this.#row(0));
    if (id >= 0) return id;
    throw new GemmaError(this.#heap.string(this.#exports.gw_error_name(id)) ?? 'bad-state',
      'no token can be drawn', { expected: 'finite logits', got: 'NaN, or every token banned' });
  }

  get #sampler() {
    return this.#exports.gw_sampler_of(this.#address) >>> 0;
  }

  get heapBytes() {
    return this.#engine.heap.byteLength;
  }
}
