/* generation: what generate() returns: pieces to iterate, one by one or with their ids, a result, which it awaits to,
 * and a stream. It begins by itself. */
/** @import { Connection } from './rpc/connection.js' */
/** @import { ReconnectingConnection } from './rpc/reconnecting.js' */
/** @import { Event, GenerateAnswer, GenerateArgs, GenerateResult, PartialCall as Call } from './protocol.js' */
/** @import { PostedPrompt as Prompt, PrefillProgress, Prefix, Step, TokenLogprob, ToolCall } from './protocol.js' */
/** @import { GenerateOptions } from './options.js' */
import { GemmaError } from './errors.js';
import { onAbort } from './rpc/signals.js';

const ACK_EVERY = 16;
/** A chat template of a stranger's may keep the worker busy for seconds. */
const PATIENCE_MS = 200;

/** onAnswer: the prompt of the next answer, null: this is the last.
 * @typedef {{ onAnswer?: (answer: GenerateResult, signal: AbortSignal) => Promise<Prompt | null>,
 *   onResult?: (result: GenerateResult, built: { next?: Prefix, why?: string }) => void,
 *   onError?: () => void }} Hooks */
/** schema: validates the value.
 * @typedef {Pick<GenerateOptions, 'signal' | 'onPrefillProgress'> & Hooks & { schema?: unknown,
 *   line: ReconnectingConnection, prepare: () => GenerateArgs }} Plan prepare is called when it starts */

/** @template [V=any] @implements {AsyncIterable<string>} @implements {PromiseLike<GenerateResult<V>>} */
export class Generation {
  #plan;
  /** @type {Promise<GenerateResult<V>> | null} */
  #result = null;
  #id = 0;
  /** @type {Connection | null} that was asked last */
  #connection = null;
  /** @type {Step[]} */
  #steps = [];
  #text = '';
  /** Steps, of which some have no text. */ #given = false;
  /** Of a text that is still coming. @type {((text: string) => unknown) | null} */
  #reader = null;
  #leaving = new AbortController();
  /** Of this answer, and of those before it. @type {Call[]} */
  #calls = [];
  /** @type {ToolCall[]} */
  #earlier = [];
  #unacked = 0;
  #settled = false;
  #iterated = false;
  #awaited = false;
  /** The engine may run ahead of the consumer. */
  #free = false;
  #wake = () => {};

  /** @internal @param {Plan} plan */
  constructor(plan) {
    this.#plan = plan;
    this.#start();
    // Whoever iterates what is returned holds the engine back from the first piece on; it waits for nobody else.
    queueMicrotask(() => {
      this.#free ||= !this.#iterated;
    });
  }

  /** Can be asked for once, as strings or as steps; leaving the loop ends generating. */
  [Symbol.asyncIterator]() {
    return this.#leavable(texts(this.steps()));
  }

  /** What comes, step by step, with the ids. */
  steps() {
    if (this.#iterated) {
      throw new GemmaError('bad-state', 'an answer can be iterated once; use result() or text()');
    }
    this.#iterated = true;
    this.#free = this.#awaited;
    return this.#leavable(this.#iterate());
  }

  /** What the answer's text comes to so far: with a format that is JSON the value, as far as it can be told (undefined:
   * not at all); else the text. */
  partial() {
    return this.#reader ? this.#reader(this.#text) : this.#text;
  }

  result() {
    this.#free = this.#awaited = true;
    const result = this.#start();
    this.#ack(this.#unacked);
    return result;
  }

  async text() {
    return (await this.result()).text;
  }

  /** What is called so far, of an answer with tools: arguments as far as they can be told, until they are `done`.
   * @returns {Call[]} */
  calls() {
    const before = this.#earlier.map(({ name, arguments: args }) => ({ name, arguments: args, done: true }));
    return [...before, ...this.#calls];
  }

  /** `await generation` is `await generation.result()`.
   * @template [T=GenerateResult<V>], [F=never]
   * @param {((result: GenerateResult<V>) => T | PromiseLike<T>) | null} [done]
   * @param {((error: any) => F | PromiseLike<F>) | null} [failed] @returns {Promise<T | F>} */
  then(done, failed) {
    return this.result().then(done, failed);
  }

  /** The pieces as a stream; cancelling it ends generating. @returns {ReadableStream<string>} */
  stream() {
    const pieces = this[Symbol.asyncIterator]();
    return new ReadableStream(
      {
        async pull(controller) {
          const { done, value } = await pieces.next();
          if (done) controller.close();
          else controller.enqueue(value);
        },
        cancel: () => void pieces.return(),
      },
      { highWaterMark: 0 },
    );
  }

  /** @returns {AsyncGenerator<Step, void, undefined>} */
  async *#iterate() {
    for (;;) {
      while (this.#steps.length) {
        yield/** @type {Step} */ (this.#steps.shift());
        const taken = this.#unacked - this.#steps.length;
        if (taken >= ACK_EVERY || !this.#steps.length) this.#ack(taken);
      }
      if (this.#settled) break;
      await new Promise((resolve) => {
        this.#wake = () => resolve(null);
      });
    }
    await this.#start();
  }

  /** A generator by itself would not hear that it is left before it began, or while it waits for what comes next.
   * @template T @param {AsyncGenerator<T, void, undefined>} pieces */
  #leavable(pieces) {
    for (const how of /** @type {const} */ (['return', 'throw'])) {
      const end = pieces[how].bind(pieces);
      pieces[how] = async (value) => {
        this.#leave();
        const [ended] = await Promise.all([end(value), this.#start().catch(() => {})]);
        return ended;
      };
    }
    return pieces;
  }

  #leave() {
    if (this.#settled) return;
    this.#leaving.abort();
    this.#connection?.abort(this.#id);
  }

  #start() {
    this.#result ??= this.#run();
    this.#result.catch(() => {});
    return this.#result;
  }

  /** @returns {Promise<GenerateResult<V>>} */
  async #run() {
    const { prepare, onResult, onError } = this.#plan;
    try {
      const args = prepare();
      const { format, tools } = args;
      const schemas = format || tools ? await import('./schemas.js') : null;
      schemas?.convert(format, tools?.list);
      if (isJson(args)) this.#reader = (await import('./tool-calling/partial.js')).partialJson;
      const { prefix, why, ...answer } = await this.#rounds(args);
      const read = valueOf(answer, args);
      // A number at the end is whole now.
      if (this.#reader && 'value' in read) this.#reader = JSON.parse;
      const result = { ...answer, ...('value' in read && (await schemas?.validated(this.#plan.schema, read.value))) };
      onResult?.(result, { next: prefix, why });
      return this.#earlier.length ? { ...result, toolCalls: [...this.#earlier, ...(result.toolCalls ?? [])] } : result;
    } catch (error) {
      onError?.();
      throw error;
    } finally {
      this.#settled = true;
      this.#wake();
    }
  }

  /** Answers until one is the last. @param {GenerateArgs} args */
  async #rounds(args) {
    const { signal, onAnswer } = this.#plan;
    const { signal: left } = this.#leaving;
    const unsubscribe = onAbort(signal, () => this.#leaving.abort());
    if (signal?.aborted) this.#leaving.abort();
    try {
      let answer = await this.#ask(args);
      for (let prompt; (prompt = await onAnswer?.(answer, left)); ) {
        this.#earlier.push(...(answer.toolCalls ?? []));
        this.#calls = [];
        this.#unacked = 0;
        answer = await this.#ask({ ...args, prompt });
      }
      const stopped = left.aborted && answer.finishReason === 'tool-calls';
      return stopped ? { ...answer, finishReason: /** @type {const} */ ('aborted') } : answer;
    } finally {
      unsubscribe();
    }
  }

  /** An abort is no error, be it while a worker is started again. @param {GenerateArgs} args
   * @returns {Promise<GenerateAnswer>} */
  async #ask(args) {
    try {
      const ask = (/** @type {Connection} */ connection) => this.#askOnce(connection, args);
      return await this.#plan.line.ask(ask, this.#leaving.signal, () => !this.#given);
    } catch (error) {
      if (!this.#leaving.signal.aborted || /** @type {GemmaError} */ (error).code !== 'aborted') throw error;
      return emptyResult(args);
    }
  }

  /** @param {Connection} connection @param {GenerateArgs} args @returns {Promise<GenerateAnswer>} */
  async #askOnce(connection, args) {
    const { signal } = this.#plan;
    if (this.#leaving.signal.aborted) return emptyResult(args);
    this.#connection = connection;
    let heard = false;
    let leave = () => {};
    const onEvent = (/** @type {Event} */ event) => {
      heard = true;
      this.#onEvent(event);
    };
    const left = new Promise((resolve) => {
      leave = () => void setTimeout(() => heard || resolve(emptyResult(args)), PATIENCE_MS);
    });
    const { id, answer } = connection.call('generate', args, signal, onEvent);
    this.#id = id;
    const unsubscribe = onAbort(signal, () => leave());
    try {
      return await Promise.race([answer, left]);
    } finally {
      unsubscribe();
    }
  }

  /** @param {Event} event */
  #onEvent(event) {
    if (event.kind === 'progress') return this.#plan.onPrefillProgress?.(/** @type {PrefillProgress} */ (event.value));
    this.#calls = event.calls ?? this.#calls;
    this.#given ||= event.steps.length > 0;
    this.#steps.push(...event.steps);
    for (const { text } of event.steps) this.#text += text;
    this.#unacked += event.steps.length;
    if (this.#free) this.#ack(this.#unacked);
    this.#wake();
  }

  /** @param {number} count */
  #ack(count) {
    if (!count) return;
    this.#unacked -= count;
    this.#connection?.ack(this.#id, count);
  }
}

/** @param {GenerateArgs} args */
function isJson({ format }) {
  return format === 'json' || (format !== null && 'schema' in format);
}

/** @param {GenerateResult} result @param {GenerateArgs} args */
function valueOf({ text, finishReason }, args) {
  if (!args.format || finishReason !== 'stop') return {};
  return { value: isJson(args) ? JSON.parse(text) : text };
}

/** What can be shown of each. @param {AsyncIterable<Step>} steps @returns {AsyncGenerator<string, void, undefined>} */
async function* texts(steps) {
  for await (const { text } of steps) if (text) yield text;
}

/** Of an answer that never began. @param {GenerateArgs} args @returns {GenerateAnswer} */
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
