/**
 * conversation: one chat with one model: sends, retries, stops, and tells the views what happens.
 * Knows the package's chat object and the transcript; no form, no layout.
 * @module
 */
import { action } from './dom.js';
import { codeOf } from './errors.js';
import { plural, rate, shortTime } from './format.js';

/** How often the running numbers change, in milliseconds. */
const STATS_EVERY = 250;

const READING = 'Reading…';

/** @typedef {import('../js/index.js').Model} Model */
/** @typedef {import('./transcript.js').Answer} Answer */

/**
 * @typedef {object} Turn
 * @property {string} text
 * @property {Answer} answer
 * @property {boolean} kept     the chat holds an answer to it
 * @property {number} before    tokens of context in use before it
 * @property {number} prompt    and with its message, as far as known
 */

/**
 * @typedef {object} Hooks
 * @property {() => object} options          of the next answer
 * @property {() => string} system           the system prompt of the next chat
 * @property {() => (Node | string)[]} welcome          what an empty conversation shows
 * @property {(busy: boolean) => void} busy
 * @property {(text: string) => void} edit  put a message back into its field
 * @property {(used: number) => void} used   tokens of context in use
 * @property {(error: unknown) => void} lost   the model can no longer be used
 */

export class Conversation {
  /** @type {Model} */ #model;
  /** @type {import('./transcript.js').Transcript} */ #transcript;
  /** @type {Hooks} */ #hooks;
  /** @type {ReturnType<Model['chat']> | null} */ #chat = null;
  /** @type {AbortController | null} */ #abort = null;
  #used = 0;
  /** @type {Promise<void>} */ #running = Promise.resolve();

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
    this.#transcript.clear(this.#hooks.welcome());
    this.#used = 0;
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
    const answer = this.#transcript.addTurn(text);
    this.#start({ text, answer, kept: false, before: this.#used, prompt: 0 });
  }

  /** @param {Turn} turn */
  #retry(turn) {
    if (this.busy) return;
    turn.answer.waiting(READING);
    this.#start(turn);
  }

  /** @param {Turn} turn */
  #start(turn) {
    const abort = new AbortController();
    this.#abort = abort;
    this.#hooks.busy(true);
    this.#running = this.#run(turn, abort.signal).finally(() => {
      this.#abort = null;
      this.#hooks.busy(false);
    });
  }

  /**
   * The package's chat keeps a turn only when it has an answer: what it does not hold is sent, what it
   * holds is retried.
   * @param {Turn} turn @param {AbortSignal} signal */
  async #run(turn, signal) {
    const { answer, text } = turn;
    const retry = () => this.#retry(turn);
    const onPrefillProgress = (/** @type {{ done: number, total: number }} */ { done, total }) => {
      turn.prompt = Math.max(turn.prompt, turn.before + total);   // a retry evaluates less anew
      this.#hooks.used(turn.prompt);
      if (!answer.text && done < total) answer.waiting(`${READING} ${Math.floor(100 * done / total)} %`);
    };
    const options = { ...this.#hooks.options(), signal, onPrefillProgress };
    try {
      const out = turn.kept ? this.#open().retry(options) : this.#open().send(text, options);
      await this.#stream(answer, out, (pieces) => this.#hooks.used(turn.prompt + pieces));
      const result = await out.result();
      this.#finish(turn, result, retry);
    } catch (error) {
      answer.fail(error, this.#wayOut(error, turn));
      if (['worker-failed', 'disposed'].includes(codeOf(error))) this.#hooks.lost(error);
    }
  }

  /** A message that is too long is better edited than sent again. @param {unknown} error @param {Turn} turn */
  #wayOut(error, turn) {
    if (codeOf(error) !== 'context-exceeded') return action('Try again', () => this.#retry(turn));
    return action('Edit the message', () => this.#hooks.edit(turn.text));
  }

  /** @param {Turn} turn @param {import('../js/generation.js').GenerateResult} result @param {() => void} retry */
  #finish(turn, result, retry) {
    const { usage, seed } = result;
    const nothing = result.finishReason === 'aborted' && result.text === '';
    if (nothing && turn.answer.restore(retry)) return;
    turn.kept ||= !nothing;
    turn.answer.finish({ stats: summary(result), hint: `seed ${seed}`, kept: turn.kept }, retry);
    if (nothing) return;
    this.#used = usage.promptTokens + usage.completionTokens;
    this.#hooks.used(this.#used);
  }

  /** @param {Answer} answer @param {AsyncIterable<string>} out @param {(pieces: number) => void} used */
  async #stream(answer, out, used) {
    let pieces = 0;
    let first = 0;
    let shown = 0;
    for await (const piece of out) {
      if (!piece) continue;
      const now = performance.now();
      if (!pieces++) first = shown = now;
      answer.add(piece);
      if (now - shown < STATS_EVERY) continue;
      shown = now;
      answer.stats(rate((pieces - 1) / ((now - first) / 1000)));
      used(pieces);
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

/** The numbers under an answer. @param {import('../js/generation.js').GenerateResult} result */
function summary({ usage, timings, finishReason }) {
  const parts = [plural(usage.completionTokens, 'token')];
  if (timings.decodeTokensPerSecond > 0) parts.push(rate(timings.decodeTokensPerSecond));
  if (timings.firstTokenMs > 0) parts.push(`first after ${shortTime(timings.firstTokenMs)}`);
  if (ENDS[finishReason]) parts.push(ENDS[finishReason]);
  return parts.join(' · ');
}
