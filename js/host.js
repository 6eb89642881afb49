/* host: the engine worker's side of protocol.js: loads one model, then answers calls. Those that
 * evaluate run one at a time, in order; the others are answered at once, also in between. */
/** @import { Engine, Platform } from './engine.js' */
/** @import { Store } from './env.js' */
/** @import { Context, EvaluationJob } from './jobs.js' */
/** @import { Source } from './source.js' */
/** @import { FromWorker, SourceDescriptor, ToWorker } from './protocol.js' */
/** @import { Notice } from './stream.js' */
import { ADDRESSES, createEngine } from './engine.js';
import { GemmaError } from './errors.js';
import { utf8 } from './heap.js';
import { generate, logits, perplexity } from './jobs.js';
import { STORE_METHODS, packError, unpackError } from './protocol.js';
import { Runner } from './runner.js';
import { openSource } from './source.js';
import { Meter, loadInto } from './stream.js';
import { Vocabulary } from './vocabulary.js';

/** Weights that are more than any cache holds, and the parts of them that both ways of reading are tried with. */
const MEMORY_BOUND = 2e8, QUARTERS = 4;
const DEFAULT_CONTEXT = 4096;

/** Calls that have the session for themselves. */
const EVALUATING = { generate, logits, perplexity };

/** Calls that do not touch the session. @type {Record<string, (c: Context, args: any) => unknown>} */
const QUICK = {
  tokenize: ({ vocabulary }, { text, ...options }) => vocabulary.encode(text, options),
  detokenize: ({ vocabulary }, { ids, special }) => vocabulary.decode(ids, special),
  count: ({ vocabulary }, { prompt }) => vocabulary.ids(prompt).ids.length,
  heapBytes: ({ runner }) => runner.native.heapBytes,
  inspect: ({ runner: { native } }) => ({
    version: native.number('gguf_version'),
    alignment: native.number('alignment'),
    metadata: native.list('metadata'),
    tensors: native.list('tensor'),
  }),
};

/** headerOnly: stop after the header; only the quick calls are possible then. cache: a folder or the usual
 * place, or the client's store.
 * @typedef {{ variant?: string, threads?: number, contextLength?: number, sha256?: string | string[],
 *   headerOnly?: boolean, cache?: { folder?: string, remote?: boolean },
 *   floatMatrices?: string, kvType?: string }} OpenOptions */
/** @typedef {(message: FromWorker, transfer?: any[]) => void} Post */
/** @typedef {EvaluationJob & { run: () => Promise<unknown>, wake: (_?: unknown) => void }} HostJob */

export class Host {
  #post;
  #platform;
  /** @type {Engine | null} */
  #engine = null;
  /** @type {Context | null} */
  #context = null;
  /** @type {HostJob[]} the first one is running */
  #queue = [];
  /** Questions to the client. @type {Map<number, (answer: any) => void>} */
  #asked = new Map();
  #questions = 0;

  /** @param {Post} post @param {Platform} platform */
  constructor(post, platform) {
    this.#post = post;
    this.#platform = platform;
  }

  /** @param {ToWorker} message */
  receive(message) {
    switch (message.kind) {
      case 'open': return void this.#answer(message.id, () => this.#load(message));
      case 'call': return this.#call(message);
      case 'abort': return this.#abort(message.id);
      case 'ack': return this.#ack(message);
      case 'answer': return this.#asked.get(message.question)?.(message);
      case 'dispose':
        this.#engine?.close();
        return this.#post({ kind: 'disposed' });
    }
  }

  /** @param {number} id @param {() => unknown} f */
  async #answer(id, f) {
    try {
      const value = await f();
      const transfer = value instanceof Float32Array ? [value.buffer] : [];
      this.#post({ kind: 'done', id, value }, transfer);
    } catch (error) {
      this.#fail(id, error);
    }
  }

  /** @param {{ id: number, source: SourceDescriptor[], options: OpenOptions }} message */
  async #load({ id, source: descriptors, options }) {
    const { variant, threads, contextLength, sha256 = [], headerOnly = false, cache, ...settings } = options;
    const wanted = { variant, threads: headerOnly ? 1 : threads };
    const { engine: native, flaw, ...facts } = await createEngine(wanted, this.#platform);
    this.#engine = native;
    for (const [name, value] of Object.entries(settings)) if (value) native.loadOption(name, value);
    const meter = new Meter((value) => this.#post({ kind: 'progress', id, value }));
    const store = cache && (cache.remote ? this.#clientStore() : this.#platform.openStore(cache.folder));
    const digests = [sha256].flat();
    /** @type {Source[]} */
    const sources = [];
    /** @param {GemmaError} [error] */
    const close = async (error) => {
      for (const source of sources) await source.close(error);
    };
    const open = (/** @type {number} */ i) => openSource(descriptors[i], this.#platform, () => {
      return this.#ask('pull', i).catch((error) => { throw unpackError(error); });
    }, {
      store,
      readOnly: headerOnly,
      expected: digests[i],
      hash(text) {
        const hasher = native.hasher();
        hasher.update(utf8(text));
        return hasher.hex();
      },
      counted: (bytes, cached) => meter.add(bytes, cached),
      notice: (code, message) => meter.notice(code, message),
    });
    try {
      const plan = () => native.reserve(chooseContext(native, contextLength));
      await loadInto(native, sources, { count: descriptors.length, open, digests, plan, headerOnly, meter });
      await close();
      if (!headerOnly) {
        chooseStreams(native);
        meter.finish();
      }
    } catch (error) {
      await close(/** @type {GemmaError} */ (error));
      throw error;
    }
    const context = {
      runner: new Runner(native, this.#platform),
      vocabulary: new Vocabulary(native),
      contextLength: chooseContext(native, contextLength),
    };
    this.#context = context;
    const variantReason = [flaw, native.variantNote].filter(Boolean).join('; ');
    return describe(context, { ...facts, variantReason, cache: keptOf(sources), notices: meter.notices });
  }

  /** What the client has (see protocol.js). @param {string} method @param {any[]} args @returns {Promise<any>} */
  #ask(method, ...args) {
    return new Promise((resolve, reject) => {
      const question = ++this.#questions;
      this.#asked.set(question, ({ value, error }) => {
        this.#asked.delete(question);
        if (error) reject(error);
        else resolve(value);
      });
      this.#post({ kind: 'ask', question, method, args });
    });
  }

  /** The store that the client has, for this side. @returns {Store} */
  #clientStore() {
    const [list, size, read, write, remove, flush, close, estimate] = STORE_METHODS.map((method) => {
      return (/** @type {any[]} */ ...args) => this.#ask(method, ...args);
    });
    return {
      list, size, remove, flush, close, estimate,
      write: (name, at, bytes) => write(name, at, bytes.slice()),
      async read(name, at, into) {
        const bytes = await read(name, at, into.length);
        into.set(bytes);
        return bytes.length;
      },
    };
  }

  /** @param {{ id: number, method: string, args: any }} message */
  #call({ id, method, args }) {
    const context = /** @type {Context} */ (this.#context);
    const quick = Object.hasOwn(QUICK, method) && QUICK[method];
    if (quick) return void this.#answer(id, () => quick(context, args));
    const evaluate = EVALUATING[/** @type {keyof typeof EVALUATING} */ (method)];
    /** @type {HostJob} */
    const job = {
      id,
      aborted: false,
      unacked: 0,
      post: this.#post,
      othersWait: () => this.#queue.length > 1,
      stalled: () => new Promise((resolve) => { job.wake = resolve; }),
      wake() {},
      run: () => evaluate(context, job, args),
    };
    this.#queue.push(job);
    this.#queue[0].wake();
    if (this.#queue.length === 1) this.#work();
  }

  async #work() {
    for (let job; (job = this.#queue[0]); this.#queue.shift()) {
      await this.#answer(job.id, job.run);
    }
  }

  /** An error that is not ours is a bug or a trap: the heap is lost. @param {number} id @param {unknown} error */
  #fail(id, error) {
    const kind = error instanceof GemmaError ? 'failed' : 'fatal';
    this.#post({ kind, id, error: packError(error) });
  }

  /** @param {number} id */
  #abort(id) {
    const at = this.#queue.findIndex((job) => job.id === id);
    if (at < 0) return;
    this.#queue[at].aborted = true;
    this.#queue[at].wake();
    if (at === 0) return;
    this.#queue.splice(at, 1);
    this.#fail(id, new GemmaError('aborted', 'the call was aborted'));
  }

  /** @param {{ id: number, count: number }} message */
  #ack({ id, count }) {
    const job = this.#queue[0];
    if (job?.id !== id) return;
    job.unacked -= count;
    job.wake();
  }
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
    const first = (turn + QUARTERS) % QUARTERS, second = (first + 2) % QUARTERS;
    one[first] = native.rehearse(1, first);
    many[second] = native.rehearse(0, second);
  }
  const [, low, high] = one.map((ms, quarter) => ms / many[quarter]).sort((a, b) => a - b);
  native.rehearse(Number(low * high < 1), QUARTERS);
}

/** @param {Engine} native @param {number} [wanted] */
function chooseContext(native, wanted) {
  const trained = native.number('context_length');
  if (wanted === undefined) return Math.min(trained, DEFAULT_CONTEXT);
  if (wanted <= trained) return wanted;
  throw new GemmaError('bad-option', 'contextLength',
    { expected: `an integer from 1 to ${trained}, the model's own`, got: wanted });
}

/** @typedef {{ architecture: string, name: string, quantisation: string, parameters: number,
 *   contextLength: number, trainedContextLength: number, vocabSize: number,
 *   memory: { weights: number, kv: number, scratch: number, total: number, heap: number }, largestContext: number,
 *   threads: number, variant: string, variantReason: string,
 *   isolated: boolean, reason: string, fileBytes: number,
 *   chatTemplate: boolean, bosToken: number | null, endTokens: number[],
 *   cache: 'cached' | 'stored' | 'none', notices: Notice[] }} ModelInfo */

/** @param {Source[]} sources @returns {ModelInfo['cache']} */
function keptOf(sources) {
  const kept = sources.map(({ download }) => download?.kept ?? 'none');
  return kept.includes('none') ? 'none' : kept.includes('stored') ? 'stored' : 'cached';
}

/** @param {Context} context
 * @param {Pick<ModelInfo, 'isolated' | 'reason' | 'variantReason' | 'cache' | 'notices'>} facts
 * @returns {ModelInfo} */
function describe({ runner: { native }, vocabulary, contextLength }, facts) {
  const [weights, kv, scratch, total, heap] = ['weights', 'kv', 'scratch', 'total', 'heap']
    .map((part) => native.planBytes(contextLength, part));
  return {
    architecture: native.text('architecture') ?? '',
    name: native.text('name') ?? '',
    quantisation: native.text('quantisation') ?? '',
    parameters: native.number('parameters'),
    contextLength,
    trainedContextLength: native.number('context_length'),
    vocabSize: vocabulary.size,
    memory: { weights, kv, scratch, total, heap },
    largestContext: native.call('largest_context', ADDRESSES),
    threads: native.threads,
    variant: native.variant,
    ...facts,
    fileBytes: native.number('file_bytes'),
    chatTemplate: native.text('chat_template') !== null,
    bosToken: vocabulary.bos,
    endTokens: vocabulary.endTokens,
  };
}
