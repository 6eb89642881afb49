/* generation: the result of generate(): an answer that can be iterated by pieces or steps, or read as a whole or
 * as a stream. The generation starts immediately. */
/** @import { ModelError } from './errors.js' */
/** @import { ModelConnection } from './rpc/reconnecting.js' */
/** @import { Event, GenerateAnswer, GenerateArgs, GenerateResult, PartialCall as Call } from './protocol.js' */
/** @import { PostedPrompt as Prompt, PrefillProgress, Prefix, Step, ToolCall } from './protocol.js' */
/** @import { GenerateOptions } from './options.js' */
import { iteratedTwice } from './front-errors.js';
import { onAbort } from './rpc/signals.js';

const ACK_EVERY = 16;
/** Time in ms that an aborted call waits for the worker's first event before it resolves with an empty answer. A chat
 * template can keep the worker busy for seconds. */
const ABORT_MS = 200;

/** Callbacks of a chat. onPrompt: returns the prompt to evaluate instead of the given one; onAnswer: returns the prompt
 * of the next answer, or null after the last answer.
 * @typedef {{ onPrompt?: (args: GenerateArgs, signal: AbortSignal) => Promise<Prompt>,
 *   onAnswer?: (answer: GenerateResult, signal: AbortSignal) => Promise<Prompt | null>,
 *   onResult?: (result: GenerateResult, built: { next?: Prefix, why?: string }) => void,
 *   onError?: () => void }} Hooks */
/** Dependencies of a generation. prepare: returns the arguments, called at the start.
 * @typedef {Pick<GenerateOptions, 'signal' | 'onPrefillProgress'> & Hooks & { connection: ModelConnection,
 *   prepare: () => GenerateArgs }} GenerationDeps */

/** An answer while it is generated. `generate` and `send` return it.
 * @template [V=any] @implements {AsyncIterable<string>} */
export class Generation {
  #deps;
  #result;
  /** @type {ReturnType<ModelConnection['call']> | null} */
  #sent = null;
  /** @type {Step[]} */
  #steps = [];
  #text = '';
  /** Beginning of the answer, given in the prompt. The result's `value` includes it. */
  #begun = '';
  /** Whether a step of the answer has arrived. From then on, the call to the worker must not be repeated. */
  #given = false;
  /** Parses the incomplete JSON of an answer for partial(). null if the answer is not JSON.
   * @type {((text: string) => unknown) | null} */
  #reader = null;
  /** Aborts when the caller's signal does, or when the caller stops iterating. */
  #abort = new AbortController();
  /** Tool calls of the current answer. `#earlier` has those of the previous answers of this generation.
   * @type {Call[]} */
  #calls = [];
  /** @type {ToolCall[]} */
  #earlier = [];
  #unacked = 0;
  #settled = false;
  #iterated = false;
  #awaited = false;
  /** Whether the engine runs without back-pressure, because nothing iterates the answer. */
  #free = false;
  #wake = () => {};

  /** @internal @param {GenerationDeps} deps */
  constructor(deps) {
    this.#deps = deps;
    this.#result = this.#run();
    this.#result.catch(() => {});
    // Back-pressure applies only if the caller starts iterating synchronously.
    queueMicrotask(() => {
      this.#free ||= !this.#iterated;
    });
  }

  /** Iterates the pieces of text, without thoughts. An answer can be iterated only once, by pieces or by steps.
   * Leaving the loop aborts the answer. */
  [Symbol.asyncIterator]() {
    return this.#leavable(texts(this.steps()));
  }

  /** Iterates the steps, with token ids and thoughts. */
  steps() {
    if (this.#iterated) throw iteratedTwice();
    this.#iterated = true;
    this.#free = this.#awaited;
    return this.#leavable(this.#iterate());
  }

  /** Returns the text so far; with a JSON format, the value so far, undefined before the value begins. */
  partial() {
    return this.#reader ? this.#reader(this.#begun + this.#text) : this.#text;
  }

  /** Resolves with the whole answer when it ends. */
  result() {
    this.#free = this.#awaited = true;
    this.#ack(this.#unacked);
    return this.#result;
  }

  /** Resolves with the text of the whole answer when it ends. */
  async text() {
    return (await this.result()).text;
  }

  /** Returns the tool calls so far. Arguments are partial until the call is `done`. @returns {Call[]} */
  calls() {
    const before = this.#earlier.map(({ name, arguments: args }) => ({ name, arguments: args, done: true }));
    return [...before, ...this.#calls];
  }

  /** Returns the pieces of text as a stream. Cancelling the stream aborts the answer.
   * @returns {ReadableStream<string>} */
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
    await this.#result;
  }

  /** Makes return() and throw() of a generator abort the answer. Without this, the code of a generator is not notified
   * of these calls before its first step or while it awaits.
   * @template T @param {AsyncGenerator<T, void, undefined>} pieces */
  #leavable(pieces) {
    for (const how of /** @type {const} */ (['return', 'throw'])) {
      const end = pieces[how].bind(pieces);
      pieces[how] = async (value) => {
        if (!this.#settled) this.#abort.abort();
        const [ended] = await Promise.all([end(value), this.#result.catch(() => {})]);
        return ended;
      };
    }
    return pieces;
  }

  /** Generates answers until onAnswer returns no further prompt. @returns {Promise<GenerateResult<V>>} */
  async #run() {
    const { signal, prepare, onAnswer, onResult, onError } = this.#deps;
    const { signal: aborted } = this.#abort;
    const unsubscribe = onAbort(signal, () => this.#abort.abort());
    try {
      const args = prepare();
      this.#begun = ('begin' in args.prompt && args.prompt.begin) || '';
      const { format, tools } = args;
      const schemas = format || tools ? await import('./schemas.js') : null;
      const schema = schemas?.convert(format, tools?.list);
      if (isJson(args)) this.#reader = (await import('./tool-calling/partial.js')).partialJson;
      let reply = await this.#ask(args);
      for (let prompt; (prompt = await onAnswer?.(reply, aborted)); ) {
        this.#earlier.push(...(reply.toolCalls ?? []));
        if (tools) tools.choice = tools.next;
        this.#calls = [];
        this.#unacked = 0;
        reply = await this.#ask({ ...args, prompt });
      }
      const { prefix, why, ...last } = reply;
      const stopped = aborted.aborted && last.finishReason === 'tool-calls';
      const answer = stopped ? { ...last, finishReason: /** @type {const} */ ('aborted') } : last;
      const read = valueOf({ ...answer, text: this.#begun + answer.text }, args);
      // Once the answer is complete, partial() uses JSON.parse: a number at the end of the text can no longer grow.
      if (this.#reader && 'value' in read) this.#reader = JSON.parse;
      const result = { ...answer, ...('value' in read && (await schemas?.validated(schema, read.value))) };
      onResult?.(result, { next: prefix, why });
      return this.#earlier.length ? { ...result, toolCalls: [...this.#earlier, ...(result.toolCalls ?? [])] } : result;
    } catch (error) {
      onError?.();
      throw error;
    } finally {
      unsubscribe();
      this.#settled = true;
      this.#wake();
    }
  }

  /** Generates one answer. Resolves with an empty answer if the call is aborted before the worker's first event.
   * @param {GenerateArgs} args @returns {Promise<GenerateAnswer>} */
  async #ask(args) {
    const { signal } = this.#abort;
    let heard = false;
    const onEvent = (/** @type {Event} */ event) => {
      heard = true;
      this.#onEvent(event);
    };
    let unsubscribe = () => {};
    const ignored = new Promise((resolve) => {
      unsubscribe = onAbort(signal, () => {
        setTimeout(() => heard || resolve(emptyResult(args)), ABORT_MS);
      });
    });
    try {
      const { connection, onPrompt } = this.#deps;
      const asked = onPrompt ? { ...args, prompt: await onPrompt(args, signal) } : args;
      this.#sent = connection.call('generate', asked, { signal, onEvent, retry: () => !this.#given });
      return await Promise.race([this.#sent.answer, ignored]);
    } catch (error) {
      if (!signal.aborted || /** @type {ModelError} */ (error).code !== 'aborted') throw error;
      return emptyResult(args);
    } finally {
      unsubscribe();
    }
  }

  /** @param {Event} event */
  #onEvent(event) {
    if (event.kind === 'progress') return this.#deps.onPrefillProgress?.(/** @type {PrefillProgress} */ (event.value));
    this.#calls = event.calls ?? this.#calls;
    this.#given ||= event.steps.length > 0;
    this.#steps.push(...event.steps);
    for (const { kind, text } of event.steps) if (kind === 'text') this.#text += text;
    this.#unacked += event.steps.length;
    if (this.#free) this.#ack(this.#unacked);
    this.#wake();
  }

  /** @param {number} count */
  #ack(count) {
    if (!count) return;
    this.#unacked -= count;
    this.#sent?.ack(count);
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

/** @param {AsyncIterable<Step>} steps @returns {AsyncGenerator<string, void, undefined>} */
async function* texts(steps) {
  for await (const { kind, text } of steps) if (kind === 'text' && text) yield text;
}

/** Returns the empty answer of a call that was aborted before the first token.
 * @param {GenerateArgs} args @returns {GenerateAnswer} */
export function emptyResult({ seed, logprobs }) {
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
