/* engine: one WebAssembly instance, its helper threads, and the C functions of src/api.h as methods that throw
 * ModelError. */
/** @import { Exports } from './heap.js' */
/** @import { ErrorCode, ModelError } from '../errors.js' */
/** @import { ToThread } from '../protocol.js' */
/** @import { OpenStore, Port } from '../platform/env.js' */
/** @typedef {Port<ToThread, boolean>} Helper a helper thread */
import { relayed } from '../errors.js';
import { features } from '../platform/features.js';
import { MAX_THREADS } from '../protocol.js';
import { checkerOf } from './checker.js';
import * as errors from './errors.js';
import { Heap, createMemory, exportsOf, imports, utf8 } from './heap.js';

/** Number of bytes that WebAssembly can address. */
export const ADDRESSES = 2 ** 32;
const HELPER_TIMEOUT_MS = 20_000;
/** The number of threads is limited to PER_CORE per reported core, because each further thread takes about 12 ms to
 * start and makes every step slower (docs/reports/threads.md). LEAST_MOST threads are always allowed, because browsers
 * may report fewer cores than there are. */
const PER_CORE = 2;
const LEAST_MOST = 4;
const MAX_TOP = 64;
/** Maximum capacity, in token ids, of the buffer for the first attempt to encode a text. Longer texts need further
 * attempts. */
const FIRST_IDS = 2 ** 20;

/** Flags of gw_encode (src/api.h). */
const CONTINUES = 2;
const MORE = 4;

/** Results of gw_load_commit and gw_run (src/api.h). */
export const LOAD = { PLAN: 1, READY: 3 };
export const RUN = { DONE: 0, LOGITS: 2, LOOK: 3, ROWS: 4 };

/** Functions of the engine worker that differ between browsers and Node. compile: compiles the wasm file with a
 * name; load: imports a module that is loaded on first use (platform/files.js); yield: resolves after the worker has
 * received queued messages.
 * @typedef {{ compile: (name: string) => Promise<WebAssembly.Module>, load: (part: string) => Promise<any>,
 *   parallelism: () => number,
 *   createThread: () => Helper, yield: () => Promise<unknown>,
 *   openStore: OpenStore,
 *   createTemporary?: (bytes: number, folder?: string) => Promise<import('../download/source.js').TemporaryFile>,
 *   openFile?: (path: string) => import('../download/source.js').FileReader }} Platform */
/** @typedef {{ update: (bytes: Uint8Array) => void, hex: () => string }} Hash */
/** @typedef {{ exports: Exports, memory: WebAssembly.Memory, module: WebAssembly.Module }} Parts */

/** One model (gw_model of src/api.h) in a WebAssembly instance, with its session: context, KV cache and sampler. */
export class Engine {
  #parts;
  #exports;
  #heap;
  #helpers;
  #pool;
  #model;
  #vocab = 0;
  #piece = { address: 0, size: 0 };
  #tops = 0;

  /** @param {Parts} parts @param {Helper[]} helpers helper threads that have instantiated the module
   * @param {number} [pool] address of the thread pool, if the helpers have entered it already */
  constructor(parts, helpers, pool) {
    const { exports, memory } = parts;
    this.#parts = parts;
    this.#exports = exports;
    this.#heap = new Heap(memory, exports);
    this.#helpers = helpers;
    this.threads = helpers.length + 1;
    this.variant = this.#heap.string(exports.gw_build()) ?? '';
    this.#pool = pool ?? exports.gw_pool_new(this.threads) >>> 0;
    this.#model = this.#pool && exports.gw_model_new(this.#pool) >>> 0;
    if (!this.#model) throw errors.noMemoryForThreads(this.threads);
    if (pool) return;
    helpers.forEach((port, i) => {
      const stack = exports.gw_pool_stack(this.#pool, i + 1) >>> 0;
      port.post({ kind: 'enter', pool: this.#pool, index: i + 1, stack });
    });
  }

  /** Returns an engine for another model in the same heap, with the same threads. Never close the returned engine. */
  beside() {
    return new Engine(this.#parts, this.#helpers, this.#pool);
  }

  /** The instructions that the kernels avoid on this platform, and why; '' if there are none. */
  get variantNote() {
    return this.#heap.string(this.#exports.gw_build_note()) ?? '';
  }

  /** Sets the number of threads that compute; the other helpers sleep. @param {number} threads */
  useThreads(threads) {
    this.threads = threads;
    this.#exports.gw_pool_use(this.#pool, threads);
  }

  /** Stops the helper threads. The engine must not be used afterwards. */
  close() {
    this.#exports.gw_pool_stop(this.#pool);
    for (const port of this.#helpers) port.terminate();
  }

  /** Calls gw_NAME(model, ...args) without checking the result. @param {string} name @param {number[]} args */
  #raw(name, ...args) {
    return this.#exports[`gw_${name}`](this.#model, ...args);
  }

  /** Calls gw_NAME(model, ...args). Throws on a negative result. @param {string} name @param {number[]} args */
  call(name, ...args) {
    const result = this.#raw(name, ...args);
    if (result < 0) throw this.#error(result);
    return result;
  }

  /** @param {string} name @param {string} text @param {number[]} args */
  #ask(name, text, ...args) {
    return this.#heap.withText(text, (p) => this.#raw(name, ...args, p));
  }

  /** @param {number} result */
  #error(result) {
    const name = /** @type {ErrorCode} */ (this.#heap.string(this.#exports.gw_error_name(result)) ?? 'bad-state');
    const noted = this.#noted();
    return noted.code === name ? noted : errors.unexplained(name);
  }

  #noted() {
    const [code, what] = ['code', 'what'].map((part) => this.#heap.string(this.#ask('error_text', part)) ?? '');
    const canGrow = code === 'context-exceeded' && this.number('n_ctx') < this.number('context_length');
    return relayed(/** @type {ErrorCode} */ (code), canGrow ? what + errors.LONGER_CONTEXT : what);
  }

  /** Calls gw_NAME(model, bytes, length) and returns the address of the created object. Throws on 0.
   * @param {string} name @param {Uint8Array} bytes */
  make(name, bytes) {
    const address = this.#heap.with(bytes, (p) => this.#raw(name, p, bytes.length)) >>> 0;
    return address || this.refuse();
  }

  /** Calls gw_NAME(model, object, ...more, data, length). Throws on a negative result.
   * @param {string} name @param {number} object @param {Uint8Array | Int32Array} data @param {number[]} more */
  send(name, object, data, ...more) {
    return this.#heap.with(data, (p) => this.call(name, object, ...more, p, data.length));
  }

  /** Calls gw_NAME(model, object) and returns a copy of `count` words at the returned address. Throws on 0.
   * @param {string} name @param {number} object @param {number} count */
  words(name, object, count) {
    const address = this.#raw(name, object) >>> 0;
    return this.#heap.copy(Uint32Array, address || this.refuse(), count);
  }

  /** Calls gw_NAME(model, object, buffer, size) and returns a copy of the bytes that it wrote, at most `most`.
   * @param {string} name @param {number} object @param {number} most */
  bytes(name, object, most) {
    const room = this.#heap.reserve(most);
    try {
      return this.#heap.copy(Uint8Array, room, this.call(name, object, room, most));
    } finally {
      this.#heap.release(room);
    }
  }

  /** Copies bytes to the address that gw_NAME(model, i) returns. @param {string} name @param {number} i
   * @param {Uint8Array} bytes */
  put(name, i, bytes) {
    this.#heap.view(this.#raw(name, i), bytes.length).set(bytes);
  }

  /** Throws the engine's last error. @returns {never} */
  refuse() {
    throw this.#noted();
  }

  /** Returns the part of the heap to which the caller must copy the next bytes of the model file. Valid until the next
   * call of the engine. */
  window() {
    const room = this.#raw('load_room') >>> 0;
    return this.#heap.view(this.#raw('load_window'), room);
  }

  /** Starts computing a SHA-256. hex() of the result ends the computation and frees its memory. @returns {Hash} */
  hasher() {
    const { gw_sha256_new: start, gw_sha256_update: update, gw_sha256_hex: hex } = this.#exports;
    const heap = this.#heap;
    const hash = start();
    if (!hash) throw errors.noMemoryForHash();
    return {
      update: (bytes) => {
        heap.with(bytes, (p) => update(hash, p, bytes.length));
      },
      hex: () => {
        const text = heap.string(hex(hash));
        heap.release(hash);
        return text ?? '';
      },
    };
  }

  /** Returns the SHA-256 of a text. @param {string} text */
  hash(text) {
    const { update, hex } = this.hasher();
    update(utf8(text));
    return hex();
  }

  /** Returns functions that compute checksums of bytes outside the heap (checker.js). */
  checker() {
    return checkerOf(this.#parts.module, { heap: this.#heap, exports: this.#exports });
  }

  /** Sets an option of the loader. Must be called before reserve(). @param {string} name @param {string} value */
  loadOption(name, value) {
    this.#heap.withText(name, (p) => this.#heap.withText(value, (q) => this.call('load_option', p, q)));
  }

  /** Reserves the memory of the model. Throws `no-memory`. @param {number} contextLength in tokens */
  reserve(contextLength) {
    const before = this.heapBytes;
    const need = this.planBytes(contextLength, 'heap');
    try {
      this.call('load_reserve', contextLength);
    } catch (cause) {
      if (need > ADDRESSES || /** @type {ModelError} */ (cause).code !== 'no-memory') throw cause;
      // The platform grants less memory than the model needs. The memory plan counts the heap as used. grow() has
      // enlarged the heap by `most - before` bytes, so these bytes are added to the limit.
      const most = this.#heap.grow(need);
      const fits = this.call('largest_context', 2 * most - before);
      throw errors.contextTooLarge(contextLength, { need, most, fits, cause });
    }
    this.#vocab = this.number('n_vocab');
    this.#tops = this.#heap.reserve(MAX_TOP * 8);
  }

  /** Returns the size in bytes of a part of the memory that a context would need; NaN if the context is too long for
   * the model.
   * @param {number} contextLength in tokens @param {string} part see gw_plan_bytes in src/api.h */
  planBytes(contextLength, part) {
    return this.#ask('plan_bytes', part, contextLength);
  }

  /** Returns a numeric property of the model, NaN if it is missing. @param {string} key */
  number(key) {
    return this.#ask('model_number', key);
  }

  /** Returns a text property of the model, or null if it is missing. @param {string} key */
  text(key) {
    return this.#heap.string(this.#ask('model_text', key));
  }

  /** Returns the parsed JSON objects of gw_metadata_json or gw_tensor_json (src/api.h), in the order of the file.
   * @param {'metadata' | 'tensor'} what */
  list(what) {
    const rows = [];
    for (let json; (json = this.#heap.string(this.#raw(`${what}_json`, rows.length))) !== null; ) {
      rows.push(JSON.parse(json));
    }
    return rows;
  }

  /** Returns the token ids of a whole text, without BOS and EOS.
   * @param {string} text @param {boolean} special whether to match names of control tokens @returns {Int32Array} */
  encode(text, special) {
    return this.#encode(utf8(text), Number(special));
  }

  /** Encodes a part of a text. Returns token ids and `taken`, the number of bytes that these ids cover. If another part
   * follows (`more`), the caller passes the bytes after `taken` again with that part, because it can change their ids.
   * begun: whether the text has earlier parts. @param {Uint8Array} bytes
   * @param {{ special: boolean, begun: boolean, more: boolean }} of */
  encodePart(bytes, { special, begun, more }) {
    const ids = this.#encode(bytes, Number(special) | (begun ? CONTINUES : 0) | (more ? MORE : 0));
    return { ids, taken: this.#raw('encode_taken') };
  }

  /** Returns the token ids of bytes that continue a text. @param {Uint8Array} bytes */
  encodeMore(bytes) {
    return this.#encode(bytes, CONTINUES);
  }

  /** @param {Uint8Array} bytes @param {number} flags @returns {Int32Array} */
  #encode(bytes, flags) {
    const { length } = bytes;
    /** @param {number} p address of the bytes @param {number} room capacity in ids. Twice the number of bytes always
     * suffices (a tokenizer that inserts a leading space can return more ids than bytes)
     * @returns {Int32Array<ArrayBuffer>} */
    const into = (p, room) => {
      try {
        return this.#heap.with(new Int32Array(room), (ids) => {
          return this.#heap.copy(Int32Array, ids, this.call('encode', p, length, flags, ids, room));
        });
      } catch (error) {
        if (room === 2 * length || /** @type {ModelError} */ (error).code !== 'bad-option') throw error;
      }
      return into(p, Math.min(2 * length, 4 * room));
    };
    return this.#heap.with(bytes, (p) => into(p, Math.min(2 * length, FIRST_IDS)));
  }

  /** Returns the token ids below `count` for which gw_NAME returns 1. @param {string} name @param {number} count */
  where(name, count) {
    const test = this.#exports[`gw_${name}`];
    const ids = [];
    for (let id = 0; id < count; id++) if (test(this.#model, id) === 1) ids.push(id);
    return ids;
  }

  /** Returns a copy of the bytes of a token.
   * @param {number} id @param {boolean} special whether to return the names of control tokens
   * @param {number} [before] the previous token, -1 at the beginning of a text */
  decode(id, special, before = -1) {
    const piece = this.#piece;
    const read = () => this.call('decode', before, id, Number(special), piece.address, piece.size);
    let n = read();
    if (n > piece.size) {
      const size = Math.max(256, n);
      const address = this.#heap.reserve(size);
      this.#heap.release(piece.address);
      Object.assign(piece, { address, size });
      n = read();
    }
    return this.#heap.copy(Uint8Array, piece.address, n);
  }

  /** Id of the chat that restored the session's state; '' if the session evaluated everything itself. A saved state can
   * be forged with valid checksums, so other chats do not reuse it. */
  restoredFor = '';

  /** Sets the token ids of the context. Returns how many of these ids the KV cache already has.
   * @param {ArrayLike<number>} ids @param {string} [owner] id of the calling chat */
  sync(ids, owner = '') {
    if (this.restoredFor && this.restoredFor !== owner) {
      this.restoredFor = '';
      this.sync([0]); // drops the KV cache: sync() never keeps the last id of a context
    }
    return this.#heap.with(Int32Array.from(ids), (p) => this.call('sync', p, ids.length));
  }

  /** Sets texts to embed instead of a context. After the evaluation, vector() returns their vectors.
   * @param {number[]} ids token ids of all texts, in order @param {number[]} lengths
   * numbers of ids @param {boolean} last whether a text's vector is that of its last token, not the mean */
  pack(ids, lengths, last) {
    this.#heap.with(Int32Array.from(ids), (p) =>
      this.#heap.with(Int32Array.from(lengths), (q) => {
        return this.call('pack', p, q, lengths.length, Number(last));
      }),
    );
  }

  /** Returns a copy of the vector of an embedded text, not normalised.
   * @param {number} text index of the text @param {number} width number of dimensions */
  vector(text, width) {
    return this.#heap.copy(Float32Array, this.#raw('vector', text), width);
  }

  /** Returns a number that describes the current stage of an inspection (gw_look_number in src/api.h).
   * @param {'stage' | 'layer' | 'global' | 'first' | 'rows'} key */
  look(key) {
    return this.#ask('look_number', key);
  }

  /** Returns `count` numbers that gw_look_NAME writes (api.h). @param {'norms' | 'attention'} name
   * @param {number} count @param {number[]} args */
  lookAt(name, count, ...args) {
    const out = new Float32Array(count);
    return this.#heap.with(new Int32Array(out.buffer), (p) => {
      this.#raw(`look_${name}`, ...args, p);
      return this.#heap.copy(Float32Array, p, count);
    });
  }

  /** Fingerprint of engine and model, 16 hexadecimal digits. Only a saved state with the same fingerprint can be
   * restored. */
  get stateName() {
    return this.#heap.string(this.#raw('state_name')) ?? '';
  }

  /** Starts to save the session's state after the given ids; saveNext() then returns the `savedBytes` bytes of the
   * state in parts. Returns false if the session does not have that state. @param {number[]} ids empty for the current
   * state */
  saves(ids) {
    return this.#heap.with(Int32Array.from(ids), (p) => this.call('save', p, ids.length)) === 0;
  }

  /** Size in bytes of the state that is being saved. */
  get savedBytes() {
    return this.#raw('save_bytes');
  }

  /** Returns the next bytes of the state that is being saved, none at its end. Valid until the next call of the
   * engine. */
  saveNext() {
    const count = this.#raw('save_next');
    return this.#heap.view(this.#raw('state_window'), count);
  }

  /** Returns the part of the heap to which the caller must copy the next bytes of a saved state. */
  stateRoom() {
    return this.#heap.view(this.#raw('state_window'), this.#raw('state_left'));
  }

  /** Returns a copy of the first rows of logits. Throws `not-finite`. @param {number} [rows] */
  logits(rows = 1) {
    this.call('check_logits');
    return this.#heap.copy(Float32Array, this.#row(0), rows * this.#vocab);
  }

  /** @param {number} row */
  #row(row) {
    return this.#raw('logits') + row * this.#vocab * 4;
  }

  /** Returns the natural log probability of a token under the raw logits, NaN for an unknown id.
   * @param {number} id @param {number} [row] row of logits */
  logprob(id, row = 0) {
    return this.#exports.gw_logprob(this.#row(row), this.#vocab, id);
  }

  /** Returns the k most likely ids of the first row of logits, best first. @param {number} k */
  topLogprobs(k) {
    const ids = this.#tops;
    const values = this.#tops + MAX_TOP * 4;
    const n = this.#exports.gw_top_logprobs(this.#row(0), this.#vocab, k, ids, values);
    const logprobs = this.#heap.copy(Float32Array, values, n);
    return Array.from(this.#heap.copy(Int32Array, ids, n), (id, i) => ({ id, logprob: logprobs[i] }));
  }

  /** Makes the next `run` abort. sync() clears the flag. */
  setAbort() {
    this.#heap.store(this.#raw('abort_flag') >>> 0, 1);
  }

  /** Restores the default sampling options, clears biases, and forgets accepted tokens. */
  resetSampler() {
    this.#exports.gw_sampler_reset(this.#raw('sampler_of'));
  }

  /** Sets a sampling option. Throws `bad-option` for an unknown name or a value outside its range.
   * @param {string} name as in the table of src/run/sampler.c @param {number} value */
  setOption(name, value) {
    this.#heap.withText(name, (p) => this.call('set_option', p, value));
  }

  /** Records the next token of the context for the sampler's penalties. @param {number} id */
  accept(id) {
    this.#exports.gw_sampler_accept(this.#raw('sampler_of'), id);
  }

  /** Draws a token, and returns its id. Throws `not-finite`, or `bad-state` if all tokens are banned.
   * @param {number} [back] index of the row of logits, counted from the last row, which has index 0 */
  draw(back = 0) {
    return this.call('draw', this.#row(-back));
  }

  /** Draws a token that a grammar allows. @param {number} matcher address of the matcher @param {boolean} masked
   * mask the logits even if the draw does not need it, for log probabilities @param {number} [back] see draw() */
  drawUnder(matcher, masked, back = 0) {
    return this.call('match_draw', matcher, this.#row(-back), Number(masked));
  }

  /** Size of the WebAssembly memory in bytes. It never shrinks. */
  get heapBytes() {
    return this.#heap.buffer.byteLength;
  }
}

/** Creates an engine with a build that the platform supports. With `auto`, uses the simd128 build if the platform
 * computes relaxed SIMD wrongly; `flaw` of the result says why. Throws `unsupported-platform`, `unsupported-variant`,
 * `engine-missing` or `no-memory`. @param {{ variant?: string, threads?: number }} options
 * @param {Platform} platform */
export async function createEngine({ variant = 'auto', threads }, platform) {
  const here = features();
  const { isolated } = here;
  const name = chooseVariant(variant, here);
  const cores = platform.parallelism();
  const wanted = Math.min(threads ?? cores, Math.max(PER_CORE * cores, LEAST_MOST), MAX_THREADS);
  const threaded = isolated && wanted > 1;
  let { reason } = here;
  if (isolated && !threaded) reason = threads ? 'threads is 1' : 'there is one core';
  let parts = await instantiate(name, threaded, platform);
  const { flaw } = parts;
  if (flaw && variant !== 'auto') throw errors.variantFails(variant, flaw);
  if (flaw) parts = await instantiate('simd128', threaded, platform);
  const { memory, module } = parts;
  const helpers = threaded ? await startHelpers(wanted - 1, { module, memory }, platform) : [];
  if (threaded && !helpers.length) reason = 'the helper workers could not be started';
  return { engine: new Engine(parts, helpers), isolated, reason, flaw };
}

/** Instantiates a build. `flaw` of the result says what this platform computes wrongly, '' if nothing.
 * @param {string} name @param {boolean} threaded @param {Platform} platform */
async function instantiate(name, threaded, platform) {
  const module = await compile(`gemma-${threaded ? `${name}-threads` : name}.wasm`, platform);
  const memory = createMemory(threaded);
  const exports = exportsOf(await WebAssembly.instantiate(module, imports(memory)));
  const flaw = exports.gw_prove_build() < 0 ? (new Heap(memory, exports).string(exports.gw_build_note()) ?? '') : '';
  return { exports, memory, module, flaw };
}

/** @param {string} variant @param {{ simd: boolean, relaxed: boolean }} features */
function chooseVariant(variant, { simd, relaxed }) {
  if (!simd) throw errors.noSimd();
  if (variant === 'auto') return relaxed ? 'relaxed' : 'simd128';
  if (variant !== 'relaxed' || relaxed) return variant;
  throw errors.noRelaxedSimd();
}

/** @param {string} name @param {Platform} platform */
async function compile(name, platform) {
  try {
    return await platform.compile(name);
  } catch (cause) {
    throw errors.notLoaded(name, cause);
  }
}

/** Starts helper threads. Returns the ones ready within HELPER_TIMEOUT_MS, and terminates the rest.
 * @param {number} count @param {{ module: WebAssembly.Module, memory: WebAssembly.Memory }} parts
 * @param {Platform} platform */
async function startHelpers(count, parts, platform) {
  const started = Array.from({ length: count }, async () => {
    const port = platform.createThread();
    /** @type {any} */
    let timer;
    const ready = await new Promise((resolve) => {
      port.onMessage(resolve);
      port.onFailure(() => resolve(false));
      timer = setTimeout(resolve, HELPER_TIMEOUT_MS, false);
      port.post({ kind: 'prepare', ...parts });
    });
    clearTimeout(timer);
    if (!ready) port.terminate();
    return ready ? [port] : [];
  });
  return (await Promise.all(started.map((helper) => helper.catch(() => [])))).flat();
}
