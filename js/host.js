/* host: the engine worker's side of protocol.js: loads one model, then answers calls. Calls that
 * evaluate run one at a time, in order; those that only need the vocabulary are answered at once,
 * also while an answer is being generated. The same for browser and Node (worker*.js). */
import { createEngine } from './engine.js';
import { GemmaError } from './errors.js';
import { Sha256 } from './sha256.js';
import { generate, logits, perplexity } from './jobs.js';
import { FROM_WORKER, TO_WORKER, packError } from './protocol.js';
import { Runner } from './runner.js';
import { openSource } from './source.js';
import { loadInto } from './stream.js';
import { Vocabulary } from './vocabulary.js';

const DEFAULT_CONTEXT = 4096;

/**
 * @typedef {object} OpenOptions
 * @property {string} [variant]
 * @property {number} [threads]
 * @property {number} [contextLength]
 * @property {string} [sha256]
 * @property {boolean} [headerOnly] stop after the header: inspect, tokenize, detokenize only
 */

/** @typedef {import('./jobs.js').EvaluationJob & { run: () => Promise<unknown>, wake: () => void }} HostJob */

/**
 * @param {{ post: (message: any, transfer?: any[]) => void }} port
 * @param {import('./engine.js').Platform} platform
 * @returns {(message: any) => void} the handler of the client's messages
 */
export function serve(port, platform) {
  const host = new Host(port, platform);
  return (message) => host.receive(message);
}

class Host {
  #port;
  #platform;
  /** @type {import('./engine.js').Engine | null} */
  #engine = null;
  /** @type {import('./jobs.js').Context | null} */
  #context = null;
  /** @type {HostJob[]} the first one is running */
  #queue = [];
  /** @type {((message: { bytes: Uint8Array | null, error?: any }) => void) | null} */
  #onChunk = null;

  /** @param {{ post: (message: any, transfer?: any[]) => void }} port
   * @param {import('./engine.js').Platform} platform */
  constructor(port, platform) {
    this.#port = port;
    this.#platform = platform;
  }

  /** @param {any} message */
  receive(message) {
    switch (message.kind) {
      case TO_WORKER.open: return this.#open(message);
      case TO_WORKER.call: return this.#call(message);
      case TO_WORKER.abort: return this.#abort(message.id);
      case TO_WORKER.ack: return this.#ack(message);
      case TO_WORKER.chunk: return this.#onChunk?.(message);
      case TO_WORKER.dispose: return this.#dispose();
    }
  }

  /** @param {{ id: number, source: any, options: OpenOptions }} message */
  async #open({ id, source, options }) {
    try {
      const value = await this.#load(id, source, options);
      this.#port.post({ kind: FROM_WORKER.done, id, value });
    } catch (error) {
      this.#port.post({ kind: FROM_WORKER.failed, id, error: packError(error) });
    }
  }

  /** @param {number} id @param {any} descriptor @param {OpenOptions} options */
  async #load(id, descriptor, options) {
    const threads = options.headerOnly ? 1 : options.threads;
    const { engine, isolated, reason } = await createEngine({ ...options, threads }, this.#platform);
    this.#engine = engine;
    const native = engine.newModel();
    let contextLength = 0;
    const plan = () => {
      contextLength = chooseContext(native, options.contextLength);
      native.reserve(contextLength);
    };
    const source = await openSource(descriptor, this.#platform, () => this.#pull());
    try {
      await loadInto(native, source, {
        plan,
        headerOnly: options.headerOnly ?? false,
        report: (value) => this.#port.post({ kind: FROM_WORKER.progress, id, value }),
        digest: options.sha256
          ? { hash: this.#platform.createHash?.() ?? new Sha256(), expected: options.sha256 }
          : undefined,
      });
    } finally {
      source.close();
    }
    if (options.headerOnly) contextLength = chooseContext(native, options.contextLength);
    const vocabulary = new Vocabulary(native);
    this.#context = { runner: new Runner(native, this.#platform), vocabulary, contextLength };
    this.#shareAbortFlag(native, engine);
    return describe(native, vocabulary, engine, { contextLength, isolated, reason });
  }

  /** @param {import('./engine.js').NativeModel} native @param {import('./engine.js').Engine} engine */
  #shareAbortFlag(native, engine) {
    const { buffer } = engine.heap;
    if (typeof SharedArrayBuffer === 'undefined' || !(buffer instanceof SharedArrayBuffer)) return;
    this.#port.post({ kind: FROM_WORKER.shared, buffer, address: native.abortFlag });
  }

  /** Bytes of a source that the client holds. @returns {Promise<Uint8Array | null>} */
  #pull() {
    return new Promise((resolve, reject) => {
      this.#onChunk = ({ bytes, error }) => {
        this.#onChunk = null;
        if (!error) return resolve(bytes);
        reject(new GemmaError(error.code, error.what, { ...error, cause: error.cause || undefined }));
      };
      this.#port.post({ kind: FROM_WORKER.pull });
    });
  }

  /** @param {{ id: number, method: string, args: any }} message */
  #call({ id, method, args }) {
    const context = this.#context;
    if (!context) return this.#fail(id, new GemmaError('bad-state', 'the model is not loaded'));
    if (method in QUICK) {
      try {
        const value = QUICK[/** @type {keyof typeof QUICK} */ (method)](context, args);
        this.#port.post({ kind: FROM_WORKER.done, id, value });
      } catch (error) {
        this.#fail(id, error);
      }
      return;
    }
    const job = this.#newJob(id);
    const evaluate = EVALUATING[/** @type {keyof typeof EVALUATING} */ (method)];
    job.run = () => evaluate(context, job, args);
    this.#queue.push(job);
    this.#queue[0].wake();
    if (this.#queue.length === 1) this.#work();
  }

  /** @param {number} id @returns {HostJob} */
  #newJob(id) {
    let wake = () => {};
    return {
      id,
      aborted: false,
      unacked: 0,
      post: (kind, fields) => this.#port.post({ kind, id, ...fields }),
      stalled: () => new Promise((resolve) => { wake = resolve; }),
      othersWait: () => this.#queue.length > 1,
      wake: () => wake(),
      run: async () => {},
    };
  }

  /** Runs the queue until it is empty. */
  async #work() {
    for (let job; (job = this.#queue[0]); this.#queue.shift()) {
      this.#port.post({ kind: FROM_WORKER.started, id: job.id });
      try {
        const value = await job.run();
        const transfer = value instanceof Float32Array ? [value.buffer] : [];
        this.#port.post({ kind: FROM_WORKER.done, id: job.id, value }, transfer);
      } catch (error) {
        this.#fail(job.id, error);
      }
    }
  }

  /** An error that is not ours is a bug or a trap: the heap cannot be trusted any more.
   * @param {number} id @param {unknown} error */
  #fail(id, error) {
    const kind = error instanceof GemmaError ? FROM_WORKER.failed : FROM_WORKER.fatal;
    this.#port.post({ kind, id, error: packError(error) });
  }

  /** @param {number} id */
  #abort(id) {
    const job = this.#queue.find((j) => j.id === id);
    if (!job) return;
    job.aborted = true;
    job.wake();
    if (job === this.#queue[0]) return;
    this.#queue.splice(this.#queue.indexOf(job), 1);
    this.#fail(id, new GemmaError('aborted', 'the call was aborted'));
  }

  /** @param {{ id: number, count: number }} message */
  #ack({ id, count }) {
    const job = this.#queue.find((j) => j.id === id);
    if (!job) return;
    job.unacked -= count;
    job.wake();
  }

  #dispose() {
    this.#engine?.close();
    this.#port.post({ kind: FROM_WORKER.disposed });
  }
}

const EVALUATING = { generate, logits, perplexity };

/** Calls that do not touch the session. */
const QUICK = {
  /** @param {import('./jobs.js').Context} context @param {any} args */
  tokenize: ({ vocabulary }, { text, bos, special }) => vocabulary.encode(text, { bos, special }),
  /** @param {import('./jobs.js').Context} context @param {any} args */
  detokenize: ({ vocabulary }, { ids, special }) => vocabulary.decode(ids, { special }),
  /** @param {import('./jobs.js').Context} context @param {any} args */
  count: ({ vocabulary }, { prompt }) => vocabulary.ids(prompt).ids.length,
  /** @param {import('./jobs.js').Context} context */
  heapBytes: ({ runner }) => runner.native.heapBytes,
  /** @param {import('./jobs.js').Context} context */
  inspect: ({ runner }) => {
    const { native } = runner;
    return {
      version: native.number('gguf_version'),
      alignment: native.number('alignment'),
      metadata: native.list('metadata'),
      tensors: native.list('tensor'),
    };
  },
};

/** @param {import('./engine.js').NativeModel} native @param {number | undefined} wanted */
function chooseContext(native, wanted) {
  const trained = native.number('context_length');
  if (wanted === undefined) return Math.min(trained, DEFAULT_CONTEXT);
  if (wanted > trained) {
    throw new GemmaError('bad-option', 'contextLength', {
      expected: `an integer from 1 to ${trained}, the model's own`, got: wanted,
    });
  }
  return wanted;
}

/**
 * What a model is, and what it takes.
 * @typedef {object} ModelInfo
 * @property {string} architecture
 * @property {string} name
 * @property {string} quantisation the type that holds most of the weights
 * @property {number} parameters
 * @property {number} contextLength tokens that fit, as loaded
 * @property {number} trainedContextLength the file's own
 * @property {number} vocabSize
 * @property {{ weights: number, kv: number, scratch: number, total: number }} memory bytes
 * @property {number} threads in use, the engine's own included
 * @property {string} variant 'simd128' or 'relaxed', with '+threads' in the threaded builds
 * @property {boolean} isolated whether threads are possible here
 * @property {string} reason why there is one thread only; empty when there are more
 * @property {number} fileBytes
 * @property {boolean} chatTemplate whether the file has one
 * @property {number | null} bosToken
 * @property {number[]} endTokens ids at which an answer ends
 */

/**
 * @param {import('./engine.js').NativeModel} native
 * @param {Vocabulary} vocabulary
 * @param {import('./engine.js').Engine} engine
 * @param {{ contextLength: number, isolated: boolean, reason: string }} facts
 * @returns {ModelInfo}
 */
function describe(native, vocabulary, engine, { contextLength, isolated, reason }) {
  /** @param {string} part */
  const bytes = (part) => native.planBytes(contextLength, part);
  return {
    architecture: native.text('architecture') ?? '',
    name: native.text('name') ?? '',
    quantisation: native.text('quantisation') ?? '',
    parameters: native.number('parameters'),
    contextLength,
    trainedContextLength: native.number('context_length'),
    vocabSize: vocabulary.size,
    memory: {
      weights: bytes('weights'), kv: bytes('kv'), scratch: bytes('scratch'), total: bytes('total'),
    },
    threads: engine.threads,
    variant: engine.variant,
    isolated,
    reason,
    fileBytes: native.number('file_bytes'),
    chatTemplate: native.text('chat_template') !== null,
    bosToken: vocabulary.bos,
    endTokens: vocabulary.endTokens,
  };
}
