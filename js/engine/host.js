/* host: the engine worker's side of protocol.js: loads one model, then answers calls. Those that
 * evaluate run one at a time, in order; the others are answered at once, also in between. */
/** @import { Calls, Call, FromWorker, Open, ToWorker } from '../link/protocol.js' */
/** @import { Engine, Platform } from './engine.js' */
/** @import { Context, EvaluationJob } from './jobs.js' */
import { GemmaError } from '../errors.js';
import { Asking } from '../link/asking.js';
import { packError } from '../link/protocol.js';
import { createEngine } from './engine.js';
import { describe } from './info.js';
import { generate, logits, perplexity } from './jobs.js';
import { chooseContext, load } from './loading.js';
import { Runner } from './runner.js';
import { Vocabulary } from './vocabulary.js';

/** Calls that have the session for themselves. */
const EVALUATING = { generate, logits, perplexity };

/** Calls that do not touch the session. @type {{ [M in Exclude<keyof Calls, keyof typeof EVALUATING>]:
 *   (c: Context, args: Calls[M]['args']) => Calls[M]['value'] }} */
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
  #asking;

  /** @param {Post} post @param {Platform} platform */
  constructor(post, platform) {
    this.#post = post;
    this.#platform = platform;
    this.#asking = new Asking(post);
  }

  /** @param {ToWorker} message */
  receive(message) {
    switch (message.kind) {
      case 'open': return void this.#answer(message.id, () => this.#load(message));
      case 'call': return this.#call(message);
      case 'abort': return this.#abort(message.id);
      case 'ack': return this.#ack(message);
      case 'answer': return this.#asking.receive(message);
      case 'dispose':
        this.#engine?.close();
        return this.#post({ kind: 'disposed' });
    }
  }

  /** @param {number} id @param {() => any} f */
  async #answer(id, f) {
    try {
      const value = await f();
      const transfer = value instanceof Float32Array ? [value.buffer] : [];
      this.#post({ kind: 'done', id, value }, transfer);
    } catch (error) {
      this.#fail(id, error);
    }
  }

  /** @param {Open} message */
  async #load({ id, source, options }) {
    const platform = this.#platform, { variant, headerOnly } = options;
    const wanted = { variant, threads: headerOnly ? 1 : options.threads };
    const { engine: native, flaw, ...facts } = await createEngine(wanted, platform);
    this.#engine = native;
    const loaded = await load(source, options, {
      native, platform, asking: this.#asking, report: (value) => this.#post({ kind: 'progress', id, value }),
    });
    this.#context = {
      runner: new Runner(native, platform),
      vocabulary: new Vocabulary(native),
      contextLength: chooseContext(native, options.contextLength),
    };
    const variantReason = [flaw, native.variantNote].filter(Boolean).join('; ');
    return describe(this.#context, { ...facts, variantReason, ...loaded });
  }

  /** @param {Call} message */
  #call({ id, method, args }) {
    const context = /** @type {Context} */ (this.#context);
    // A method and its arguments go together (protocol.js), which the types of tables do not say.
    const quick = Object.hasOwn(QUICK, method) && /** @type {Record<string, Function>} */ (QUICK)[method];
    if (quick) return void this.#answer(id, () => quick(context, args));
    const evaluate = /** @type {Record<string, Function>} */ (EVALUATING)[method];
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
