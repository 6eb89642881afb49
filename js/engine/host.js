/* host: the worker's side of protocol.js. Loads one model, then answers calls. Calls that evaluate run one after the
 * other, but several calls of generate() run together if the model has several sequences. All other calls run
 * immediately. */
/** @import { Calls, Call, FromWorker, Open, ToWorker } from '../protocol.js' */
/** @import { Engine, Platform } from './engine.js' */
/** @import { Context, EvaluationJob } from './jobs.js' */
import { ModelError, abortError } from '../errors.js';
import { Asking } from '../rpc/asking.js';
import { packError } from '../protocol.js';
import { chooseContext } from './context.js';
import { createEngine } from './engine.js';
import { scriptMemoryFull } from './errors.js';
import { describe } from './info.js';
import { generate } from './jobs.js';
import { load, storeOf } from './loading.js';
import { Replay } from './replay.js';
import { Runner } from './runner.js';
import { PromptEncoder } from './prompt-encoder.js';

/** Returns a function that calls an export of a module, which is imported on first use (platform/files.js).
 * @param {'look' | 'grammar'} part @param {string} name
 * @returns {(context: Context, ...args: any[]) => Promise<any>} */
function inPart(part, name) {
  return async (context, ...args) => (await context.load(part))[name](context, ...args);
}

/** Calls that use the session, which holds the KV cache and the sampler. */
const EVALUATING = {
  generate,
  logits: inPart('look', 'logits'),
  perplexity: inPart('look', 'perplexity'),
  save: inPart('look', 'save'),
  restore: inPart('look', 'restore'),
  embed: inPart('look', 'embed'),
  inside: inPart('look', 'inside'),
};

/** Calls that do not use the session.
 * @type {{ [M in Exclude<keyof Calls, keyof typeof EVALUATING>]:
 *   (c: Context, args: Calls[M]['args'], job: QuickJob) => Calls[M]['value'] | Promise<Calls[M]['value']> }} */
const QUICK = {
  tokenize: ({ encoder, runner }, { text, ...options }, job) => {
    return encoder.encodeAll(text, options, runner.pauses(job));
  },
  detokenize: ({ encoder, runner }, { ids, special = false }, job) => {
    return encoder.decodeAll(ids, special, runner.pauses(job));
  },
  count: async ({ encoder, runner }, { prompt }, job) => {
    return (await encoder.prompted(prompt, runner.pauses(job))).ids.length;
  },
  match: inPart('grammar', 'match'),
  stored: inPart('look', 'stored'),
  heapBytes: ({ runner }) => runner.native.heapBytes,
  inspect: ({ runner: { native } }) => ({
    version: native.number('gguf_version'),
    alignment: native.number('alignment'),
    metadata: native.list('metadata'),
    tensors: native.list('tensor'),
  }),
};

/** Matches the error messages of JavaScript engines for failed allocations. */
const NO_ROOM = /allocat|invalid (typed )?array|array buffer|(array|string) length|too (large|big|long)|out of memory/i;

const CHAT_CACHE_BYTES = 2 ** 30;

/** @typedef {(message: FromWorker, transfer?: any[]) => void} Post */
/** @typedef {{ aborted: boolean }} QuickJob */
/** A call in the queue of calls that evaluate. alone: whether the call runs only while no other call of the queue
 * runs.
 * @typedef {EvaluationJob & { run: () => Promise<unknown>, wake: (_?: unknown) => void, alone: boolean, begun: boolean
 *   }} HostJob */

/** Minimum interval, in milliseconds, of heartbeats that the worker sends unasked. */
const SIGN_MS = 250;

/** Receives the messages of one client, and answers them with one model. */
export class Host {
  #post;
  #platform;
  /** @type {Engine | null} */
  #engine = null;
  /** @type {Context | null} */
  #context = null;
  /** Calls that evaluate, in the order of their arrival; the running ones come first. @type {HostJob[]} */
  #queue = [];
  /** @type {import('./sequences.js').Sequences | undefined} */
  #sequences;
  /** @type {Map<number, QuickJob>} */
  #quick = new Map();
  #asking;
  #lastSign = -Infinity;

  /** @param {Post} post @param {Platform} platform */
  constructor(post, platform) {
    this.#post = post;
    this.#platform = platform;
    this.#asking = new Asking(post);
  }

  /** Sends a heartbeat during synchronous work, while the worker cannot return the client's heartbeats. */
  #alive = () => {
    if (performance.now() - this.#lastSign < SIGN_MS) return;
    this.#lastSign = performance.now();
    this.#post({ kind: 'beat' });
  };

  /** Handles a message of the client. The result for `dispose` resolves when the engine is closed.
   * @param {ToWorker} message */
  receive(message) {
    switch (message.kind) {
      case 'open':
        return void this.#answer(message.id, () => this.#load(message));
      case 'call':
        return this.#call(message);
      case 'abort':
        return this.#abort(message.id);
      case 'ack':
        return this.#ack(message);
      case 'answer':
        return this.#asking.receive(message);
      case 'beat':
        return this.#post(message);
      case 'dispose':
        return this.#dispose();
    }
  }

  async #dispose() {
    const closing = this.#context?.runner.rows?.close();
    this.#engine?.close();
    await closing?.catch(() => {});
    this.#post({ kind: 'disposed' });
  }

  /** @param {number} id @param {() => any} f */
  async #answer(id, f) {
    try {
      const value = await f();
      const transfer = ArrayBuffer.isView(value) ? [value.buffer] : [];
      this.#post({ kind: 'done', id, value }, transfer);
    } catch (error) {
      this.#fail(id, error);
    }
  }

  /** Loads the model. If the relaxed build computes wrongly on this platform, loads the model again in the simd128
   * build. Fails instead if the caller chose the variant or the source cannot be read again. @param {Open} message */
  async #load(message) {
    const { variant = 'auto' } = message.options;
    const pieces = new Replay((part) => this.#asking.pull(part));
    try {
      return await this.#open(message, variant, pieces);
    } catch (error) {
      const { code, message: why } = /** @type {ModelError} */ (error);
      const faulty = this.#engine;
      if (code !== 'engine-fault' || variant !== 'auto' || !pieces.possible) throw error;
      if (!faulty?.variant.startsWith('relaxed')) throw error;
      faulty.close();
      this.#engine = null;
      return this.#open(message, 'simd128', pieces, why);
    }
  }

  /** Creates an engine and loads the model into it. Returns model.info.
   * @param {Open} message @param {string} variant @param {Replay} pieces @param {string} [fault] why another build
   * cannot be used */
  async #open({ id, source, options }, variant, pieces, fault) {
    const platform = this.#platform;
    const { headerOnly } = options;
    const wanted = { variant, threads: headerOnly ? 1 : options.threads };
    const { engine: native, flaw, ...facts } = await createEngine(wanted, platform);
    this.#engine = native;
    const { rows, draftModel, ...loaded } = await load(source, options, {
      native,
      platform,
      asking: this.#asking,
      pieces,
      report: (value) => this.#post({ kind: 'progress', id, value }),
      reportRest: (value) => this.#post({ kind: 'rest', value }),
    });
    const runner = new Runner(native, platform, rows);
    this.#context = {
      runner,
      encoder: new PromptEncoder(native, (part) => platform.load(part), this.#alive),
      contextLength: chooseContext(native, options.contextLength),
      load: (part) => platform.load(part),
      draftModel,
      store: storeOf(options.cache, { platform, asking: this.#asking }),
      chatCacheBytes: options.chatCacheBytes ?? CHAT_CACHE_BYTES,
    };
    if (!headerOnly && native.number('sequences') > 1) {
      this.#sequences = new (await platform.load('sequences')).Sequences(this.#context, runner, this.#wake);
    }
    const variantReason = [fault ?? flaw, native.variantNote].filter(Boolean).join('; ');
    return describe(this.#context, { ...facts, variantReason, ...loaded, ...draftModel?.facts });
  }

  /** @param {Call} message */
  #call({ id, method, args }) {
    const context = /** @type {Context} */ (this.#context);
    // A cast, because TypeScript cannot infer that `args` belongs to `method` in the tables of calls.
    const quick = Object.hasOwn(QUICK, method) && /** @type {Record<string, Function>} */ (QUICK)[method];
    if (quick) return void this.#callQuick(id, (job) => quick(context, args, job));
    const evaluate = /** @type {Record<string, any>} */ (EVALUATING)[method];
    /** @type {HostJob} */
    const job = {
      id,
      aborted: false,
      unacked: 0,
      alone: method !== 'generate',
      begun: false,
      post: this.#post,
      othersWait: () => this.#sequences?.isFull || this.#queue.some(({ begun }) => !begun),
      stalled: () =>
        new Promise((resolve) => {
          job.wake = resolve;
        }),
      wake() {},
      run: () => (this.#sequences ? this.#sequences.run(evaluate, job, args) : evaluate(context, job, args)),
    };
    this.#queue.push(job);
    this.#wake();
    this.#beginNext();
  }

  /** Wakes the calls that wait for their consumers or for room in the KV cache. */
  #wake = () => {
    for (const { wake } of this.#queue) wake();
  };

  /** @param {number} id @param {(job: QuickJob) => unknown} f */
  async #callQuick(id, f) {
    const job = { aborted: false };
    this.#quick.set(id, job);
    await this.#answer(id, () => f(job));
    this.#quick.delete(id);
  }

  #beginNext() {
    const next = this.#queue.findIndex(({ begun }) => !begun);
    if (next < 0) return;
    const job = this.#queue[next];
    const isShared = next < (this.#sequences?.count ?? 1) && !job.alone && !this.#queue[0].alone;
    if (next > 0 && !isShared) return;
    job.begun = true;
    void this.#work(job);
    this.#beginNext();
  }

  /** @param {HostJob} job */
  async #work(job) {
    await this.#answer(job.id, job.run);
    this.#queue.splice(this.#queue.indexOf(job), 1);
    this.#beginNext();
  }

  /** Reports a failed call to the client. The failure is fatal if a helper thread is lost, or if the exception is
   * unknown: then a bug or a trap may have damaged the heap. A failed allocation in JavaScript does no
   * damage.
   * @param {number} id @param {unknown} cause */
  #fail(id, cause) {
    const ours = cause instanceof ModelError;
    const full = cause instanceof RangeError && NO_ROOM.test(cause.message);
    const error = full ? scriptMemoryFull(cause) : cause;
    const kind = full || (ours && cause.code !== 'worker-failed') ? 'failed' : 'fatal';
    this.#post({ kind, id, error: packError(error) });
  }

  /** @param {number} id */
  #abort(id) {
    const at = this.#queue.findIndex((job) => job.id === id);
    const quick = this.#quick.get(id);
    if (quick) quick.aborted = true;
    if (at < 0) return;
    this.#queue[at].aborted = true;
    this.#queue[at].wake();
    if (this.#queue[at].begun) return;
    this.#queue.splice(at, 1);
    this.#fail(id, abortError());
  }

  /** @param {{ id: number, count: number }} message */
  #ack({ id, count }) {
    const job = this.#queue.find((one) => one.id === id);
    if (!job) return;
    job.unacked -= count;
    job.wake();
  }
}
