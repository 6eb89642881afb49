/* generation: what generate() returns: pieces to iterate, and a result; begun when either is asked for. */
/** @import { Connection } from './link/connection.js' */
/** @import { GenerateAnswer, GenerateArgs, TokenLogprob } from './engine/jobs.js' */
/** @import { Prefix } from './engine/template.js' */
/** @import { Event, PrefillProgress } from './link/protocol.js' */
/** @import { GenerateOptions } from './model.js' */
import { GemmaError } from './errors.js';

const ACK_EVERY = 16;
/** A chat template of a stranger's may keep the worker busy for seconds. */
const PATIENCE_MS = 200;

/** @typedef {'stop' | 'length' | 'stop-sequence' | 'aborted' | 'context'} FinishReason */
/** @typedef {{ text: string, tokens: number[], finishReason: FinishReason, stopSequence?: string,
 *   usage: { promptTokens: number, reusedTokens: number, completionTokens: number },
 *   timings: { firstTokenMs: number, prefillMs: number, decodeMs: number,
 *     prefillTokensPerSecond: number, decodeTokensPerSecond: number },
 *   seed: number, logprobs?: TokenLogprob[] }} GenerateResult */
/** @typedef {{ onResult?: (result: GenerateResult, prefix?: Prefix) => void, onError?: () => void }} Hooks */
/** @typedef {Pick<GenerateOptions, 'signal' | 'onPrefillProgress'> & Hooks & {
 *   connection: Connection, prepare: () => GenerateArgs }} Plan prepare is called when it starts */

/** @implements {AsyncIterable<string>} */
export class Generation {
  #plan;
  /** @type {Promise<GenerateResult> | null} */
  #result = null;
  #id = 0;
  /** @type {string[]} */
  #pieces = [];
  #unacked = 0;
  #settled = false;
  #iterated = false;
  /** The engine may run ahead of the consumer. */
  #free = false;
  #wake = () => {};

  /** @param {Plan} plan */
  constructor(plan) {
    this.#plan = plan;
  }

  /** Can be asked for once; leaving the loop ends generating. */
  [Symbol.asyncIterator]() {
    if (this.#iterated) {
      throw new GemmaError('bad-state', 'an answer can be iterated once; use result() or text()');
    }
    this.#iterated = true;
    return this.#iterate();
  }

  result() {
    this.#free = true;
    const result = this.#start();
    this.#ack(this.#unacked);
    return result;
  }

  async text() {
    return (await this.result()).text;
  }

  /** @returns {AsyncGenerator<string, void, undefined>} */
  async *#iterate() {
    const result = this.#start();
    try {
      for (;;) {
        while (this.#pieces.length) {
          yield /** @type {string} */ (this.#pieces.shift());
          const taken = this.#unacked - this.#pieces.length;
          if (taken >= ACK_EVERY || !this.#pieces.length) this.#ack(taken);
        }
        if (this.#settled) break;
        await new Promise((resolve) => { this.#wake = () => resolve(null); });
      }
      await result;
    } finally {
      if (!this.#settled) {
        this.#plan.connection.abort(this.#id);
        await result.catch(() => {});
      }
    }
  }

  #start() {
    this.#result ??= this.#run();
    this.#result.catch(() => {});
    return this.#result;
  }

  /** @returns {Promise<GenerateResult>} */
  async #run() {
    const { prepare, onResult, onError } = this.#plan;
    try {
      const { prefix, ...result } = await this.#ask(prepare());
      onResult?.(result, prefix);
      return result;
    } catch (error) {
      onError?.();
      throw error;
    } finally {
      this.#settled = true;
      this.#wake();
    }
  }

  /** @param {GenerateArgs} args @returns {Promise<GenerateAnswer>} */
  async #ask(args) {
    const { connection, signal } = this.#plan;
    if (signal?.aborted) return emptyResult(args);
    let heard = false, leave = () => {};
    const onEvent = (/** @type {Event} */ event) => {
      heard = true;
      this.#onEvent(event);
    };
    const left = new Promise((resolve) => {
      leave = () => void setTimeout(() => heard || resolve(emptyResult(args)), PATIENCE_MS);
    });
    const { id, answer } = connection.call('generate', args, signal, onEvent);
    this.#id = id;
    signal?.addEventListener('abort', leave);
    try {
      return await Promise.race([answer, left]);
    } catch (error) {
      if (error instanceof GemmaError && error.code === 'aborted') return emptyResult(args);
      throw error;
    } finally {
      signal?.removeEventListener('abort', leave);
    }
  }

  /** @param {Event} event */
  #onEvent(event) {
    if (event.kind === 'progress') return this.#plan.onPrefillProgress?.(/** @type {PrefillProgress} */ (event.value));
    this.#pieces.push(...event.pieces);
    this.#unacked += event.pieces.length;
    if (this.#free) this.#ack(this.#unacked);
    this.#wake();
  }

  /** @param {number} count */
  #ack(count) {
    if (!count) return;
    this.#unacked -= count;
    this.#plan.connection.ack(this.#id, count);
  }
}

/** Of an answer that never began. @param {GenerateArgs} args @returns {GenerateResult} */
function emptyResult({ seed, logprobs }) {
  return {
    text: '',
    tokens: [],
    finishReason: 'aborted',
    usage: { promptTokens: 0, reusedTokens: 0, completionTokens: 0 },
    timings: { firstTokenMs: 0, prefillMs: 0, decodeMs: 0, prefillTokensPerSecond: 0, decodeTokensPerSecond: 0 },
    seed,
    ...(logprobs !== null && { logprobs: [] }),
  };
}
