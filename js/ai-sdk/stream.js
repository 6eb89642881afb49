/* stream: converts the steps of an answer to the AI SDK's stream parts. */
/** @import { Generation } from '../generation.js' */
/** @import { PartialCall } from '../protocol.js' */
/** @import { ResponseV4, StreamPartV4, WarningV4 } from './specification.js' */
import { ArgumentWriter, newId } from '../answer-parts.js';
import { abortReason, sdkError } from './errors.js';
import { readable } from './readable.js';
import { FAILED, callOf, endOf } from './results.js';

/** Properties of a streamed answer. onResult: called with the result of the complete answer.
 * @typedef {{ warnings: WarningV4[], response: ResponseV4, signal?: AbortSignal,
 *   onResult: (result: Awaited<ReturnType<Generation['result']>>) => void }} Streaming */

/** A tool call that is being streamed. input: writes the call's arguments.
 * @typedef {{ id: string, input: ArgumentWriter, open: boolean }} SentCall */

/** Returns the parts of an answer as a stream, with back-pressure. Cancelling the stream ends the answer.
 * @param {Generation} generation @param {Streaming} how @returns {ReadableStream<StreamPartV4>} */
export function streamOf(generation, how) {
  const steps = generation.steps();
  return readable(partsOf(generation, steps, how), () => steps.return(), how.signal);
}

/** @param {Generation} generation @param {ReturnType<Generation['steps']>} steps @param {Streaming} how
 * @returns {AsyncGenerator<StreamPartV4, void, undefined>} */
async function* partsOf(generation, steps, { warnings, response, signal, onResult }) {
  const answer = new AnswerParts();
  yield { type: 'stream-start', warnings };
  yield { type: 'response-metadata', ...response };
  try {
    for await (const { kind, text } of steps) {
      yield* answer.text(text, kind === 'thought' ? 'reasoning' : 'text');
      yield* answer.calls(generation.calls());
    }
    const result = await generation.result();
    if (signal?.aborted && result.finishReason === 'aborted') throw abortReason(signal);
    onResult(result);
    yield* answer.end();
    yield { type: 'finish', ...endOf(result) };
  } catch (error) {
    if (signal?.aborted) throw error;
    // Sends the error as a stream part: the SDK passes error parts to onError, but not errors of the stream itself.
    yield { type: 'error', error: sdkError(error) };
    yield { type: 'finish', ...FAILED };
  }
}

/** Creates the stream parts of one answer: blocks of reasoning and text, and the input of each tool call. */
class AnswerParts {
  /** @type {{ type: 'text' | 'reasoning', id: string } | null} */
  #block = null;
  /** @type {SentCall[]} */
  #calls = [];

  /** @param {string} delta @param {'text' | 'reasoning'} type @returns {Generator<StreamPartV4>} */
  *text(delta, type) {
    if (!delta) return;
    if (this.#block?.type !== type) {
      yield* this.#endBlock();
      this.#block = { type, id: newId(`${type}_`) };
      yield { type: `${type}-start`, id: this.#block.id };
    }
    yield { type: `${type}-delta`, id: this.#block.id, delta };
  }

  /** @param {PartialCall[]} calls so far @returns {Generator<StreamPartV4>} */
  *calls(calls) {
    for (const [i, call] of calls.entries()) {
      if (!this.#calls[i]) {
        yield* this.#endBlock();
        const id = newId('call_');
        this.#calls.push({ id, input: new ArgumentWriter(), open: true });
        yield { type: 'tool-input-start', id, toolName: call.name };
      }
      if (this.#calls[i].open) yield* this.#call(this.#calls[i], call);
    }
  }

  /** @param {SentCall} sent @param {PartialCall} call @returns {Generator<StreamPartV4>} */
  *#call(sent, { name, arguments: args, done }) {
    const { id } = sent;
    const delta = sent.input.next(args, done);
    sent.open = !done;
    if (delta) yield { type: 'tool-input-delta', id, delta };
    if (!done) return;
    yield { type: 'tool-input-end', id };
    yield callOf(id, name, args);
  }

  /** Ends open parts, such as a call that `maxOutputTokens` cut off. @returns {Generator<StreamPartV4>} */
  *end() {
    yield* this.#endBlock();
    for (const { id, open } of this.#calls) if (open) yield { type: 'tool-input-end', id };
  }

  /** @returns {Generator<StreamPartV4>} */
  *#endBlock() {
    if (this.#block) yield { type: `${this.#block.type}-end`, id: this.#block.id };
    this.#block = null;
  }
}
