/**
 * conversation: one chat with one model: sends, retries, stops, and tells the views what happens.
 * Knows the package's chat object and the transcript; no form, no layout.
 * @module
 */
import { codeOf } from './errors.js';
import { plural, rate, shortTime } from './format.js';

/** How often the running numbers change, in milliseconds. */
const STATS_EVERY = 250;

/** @typedef {import('../js/index.js').Model} Model */
/** @typedef {import('./transcript.js').Answer} Answer */

/**
 * @typedef {object} Hooks
 * @property {() => object} options          of the next answer
 * @property {() => string} system           the system prompt of the next chat
 * @property {(busy: boolean) => void} busy
 * @property {(used: number) => void} used   tokens of context in use
 * @property {(error: unknown) => void} lost   the model can no longer be used
 */

export class Conversation {
  /** @type {Model} */ #model;
  /** @type {import('./transcript.js').Transcript} */ #transcript;
  /** @type {Hooks} */ #hooks;
  /** @type {ReturnType<Model['chat']> | null} */ #chat = null;
  /** @type {AbortController | null} */ #abort = null;
  /** @type {Promise<void>} */ #running = Promise.resolve();
  /** @type {Answer | null} */ #last = null;

  /**
   * @param {Model} model
   * @param {import('./transcript.js').Transcript} transcript
   * @param {Hooks} hooks
   */
  constructor(model, transcript, hooks) {
    this.#model = model;
    this.#transcript = transcript;
    this.#hooks = hooks;
    this.#empty();
  }

  get busy() {
    return this.#abort !== null;
  }

  #empty() {
    this.#chat = null;
    this.#last = null;
    this.#transcript.clear('Ask something', 'The answer is made here, on this computer.');
    this.#hooks.used(0);
  }

  /** The chat begins with its first message, so that it takes the system prompt of that moment. */
  #open() {
    const system = this.#hooks.system();
    this.#chat ??= this.#model.chat(system ? { system } : {});
    return this.#chat;
  }

  /** @param {string} text */
  send(text) {
    if (this.busy) return;
    this.#transcript.addUser(text);
    this.#last = this.#transcript.addAnswer();
    this.#start((options) => this.#open().send(text, options), text);
  }

  /** @param {string} text   the message that is being answered */
  #retry(text) {
    if (this.busy || !this.#last) return;
    this.#last.waiting('Reading…');
    const answered = this.#chat?.messages.some((message) => message.role === 'assistant' || message.role === 'user');
    this.#start((options) => (answered ? this.#open().retry(options) : this.#open().send(text, options)), text);
  }

  /**
   * @param {(options: object) => import('../js/index.js').Generation} generate
   * @param {string} text
   */
  #start(generate, text) {
    const abort = new AbortController();
    const answer = /** @type {Answer} */ (this.#last);
    this.#abort = abort;
    this.#hooks.busy(true);
    this.#running = this.#answer(answer, abort.signal, generate, () => this.#retry(text)).finally(() => {
      this.#abort = null;
      this.#hooks.busy(false);
    });
  }

  /**
   * @param {Answer} answer
   * @param {AbortSignal} signal
   * @param {(options: object) => import('../js/index.js').Generation} generate
   * @param {() => void} retry
   */
  async #answer(answer, signal, generate, retry) {
    try {
      const onPrefillProgress = (/** @type {{ done: number, total: number }} */ { done, total }) => {
        if (!answer.text && total > 0) answer.waiting(`Reading… ${Math.floor(100 * done / total)} %`);
      };
      const out = generate({ ...this.#hooks.options(), signal, onPrefillProgress });
      await this.#stream(answer, out);
      const result = await out.result();
      answer.finish(summary(result), retry);
      this.#hooks.used(result.usage.totalTokens);
    } catch (error) {
      if (codeOf(error) === 'aborted') answer.finish('stopped', retry);
      else answer.fail(error, retry);
      if (['worker-failed', 'disposed'].includes(codeOf(error))) this.#hooks.lost(error);
    }
  }

  /** @param {Answer} answer @param {AsyncIterable<string>} out */
  async #stream(answer, out) {
    let pieces = 0;
    let first = 0;
    let shown = 0;
    for await (const piece of out) {
      const now = performance.now();
      if (!piece) continue;
      if (!answer.text) first = shown = now;
      answer.add(piece);
      pieces++;
      if (now - shown < STATS_EVERY) continue;
      shown = now;
      answer.stats(`${rate((pieces - 1) / ((now - first) / 1000))}`);
    }
  }

  stop() {
    this.#abort?.abort();
  }

  /** Stop what runs, and wait until it has. */
  async halt() {
    this.stop();
    await this.#running;
  }

  async reset() {
    await this.halt();
    this.#empty();
  }
}

/** Why an answer ended, where that is not obvious. @type {Record<string, string>} */
const ENDS = {
  length: 'cut at the maximum of tokens',
  context: 'the context is full: start a new chat',
  aborted: 'stopped',
};

/** The numbers under an answer. @param {import('../js/index.js').GenerateResult} result */
function summary({ usage, timings, finishReason }) {
  const parts = [plural(usage.completionTokens, 'token')];
  if (timings.decodeTokensPerSecond > 0) parts.push(rate(timings.decodeTokensPerSecond));
  if (timings.firstTokenMs > 0) parts.push(`first after ${shortTime(timings.firstTokenMs)}`);
  if (ENDS[finishReason]) parts.push(ENDS[finishReason]);
  return parts.join(' · ');
}
