/* response-events: builds the output items of a response, and the stream events about them. A response that is not
 * streamed is built from the events too. */
/** @import { GenerateResult } from '../protocol.js' */
/** @import { Answer, AnswerEvent } from './answer.js' */
/** @import { Item } from './response-store.js' */
import { newId } from '../answer-parts.js';
import { unixTime } from './context.js';
import { errorOf } from './errors.js';
import { chatLogprobs } from './logprobs.js';
import { PREFIXES } from './response-items.js';

/** @typedef {Record<string, any> & { type: string, sequence_number: number }} ResponseEvent */
/** An output item that is not complete yet. index: the item's index in the output; text: text of its only part so far,
 * or arguments of a call so far.
 * @typedef {{ item: Item, index: number, text: string, logprobs: any[] }} OpenItem */

/** Prefixes of the names of delta and done events, by type of item. @type {Record<string, string>} */
const DELTAS = {
  message: 'response.output_text',
  reasoning: 'response.reasoning_text',
  function_call: 'response.function_call_arguments',
};
/** OpenAI's reasons for an incomplete answer, by `finishReason`. @type {Record<string, string>} */
const INCOMPLETE = { length: 'max_output_tokens', context: 'max_output_tokens' };

/** Yields the events of an answer, and sets output, usage and status of the response. Throws errors that occur before
 * the first event; without `streams`, throws all errors.
 * @param {Record<string, any>} response @param {AsyncGenerator<AnswerEvent, Answer, undefined>} answer
 * @param {{ streams: boolean, begun: Promise<unknown>, finished: () => void }} how begun: resolves when the
 *   prompt is accepted; finished: called before the last event
 * @returns {AsyncGenerator<ResponseEvent, void, undefined>} */
export async function* responseEvents(response, answer, { streams, begun, finished }) {
  const writer = new ResponseWriter(response);
  const first = answer.next();
  await Promise.race([first, begun]);
  yield writer.lifecycle('created');
  yield writer.lifecycle('in_progress');
  try {
    let next = await first;
    for (; !next.done; next = await answer.next()) {
      const { value } = next;
      if (value.kind === 'call') yield* writer.call(value.id, value.name);
      else if (value.kind === 'arguments') yield* writer.text('function_call', value.text);
      else if (value.kind === 'thought') yield* writer.text('reasoning', value.text);
      else yield* writer.text('message', value.text, chatLogprobs(value.logprobs)?.content);
    }
    yield* writer.end(next.value.result);
  } catch (error) {
    if (!streams) throw error;
    yield* writer.fail(error);
  }
  finished();
  yield writer.lifecycle(response.status);
}

class ResponseWriter {
  #response;
  #sequence = 0;
  /** @type {OpenItem | null} */
  #open = null;
  /** Log probabilities of tokens without text, which are sent with the next text. @type {any[]} */
  #logprobs = [];

  /** @param {Record<string, any>} response */
  constructor(response) {
    this.#response = response;
  }

  /** @param {string} type @param {Record<string, any>} fields @returns {ResponseEvent} */
  #event(type, fields) {
    return { type, sequence_number: this.#sequence++, ...fields };
  }

  /** @param {string} name */
  lifecycle(name) {
    return this.#event(`response.${name}`, { response: { ...this.#response, output: [...this.#response.output] } });
  }

  /** @param {'message' | 'reasoning' | 'function_call'} type @param {string} text @param {any[]} [logprobs] */
  *text(type, text, logprobs = []) {
    this.#logprobs.push(...logprobs);
    if (!text) return;
    if (this.#open?.item.type !== type) yield* this.#begin(newItem(type));
    const open = /** @type {OpenItem} */ (this.#open);
    open.text += text;
    open.logprobs.push(...this.#logprobs);
    const more = type === 'message' ? { logprobs: this.#logprobs } : {};
    this.#logprobs = [];
    yield this.#event(`${DELTAS[type]}.delta`, { ...placeOf(open), delta: text, ...more });
  }

  /** @param {string} id @param {string} name */
  *call(id, name) {
    this.#logprobs = [];
    yield* this.#begin({ ...newItem('function_call'), call_id: id, name, arguments: '' });
  }

  /** @param {Item} item */
  *#begin(item) {
    yield* this.#close('completed');
    const open = (this.#open = { item, index: this.#response.output.length, text: '', logprobs: [] });
    yield this.#event('response.output_item.added', { output_index: open.index, item });
    if (item.content) yield this.#event('response.content_part.added', { ...placeOf(open), part: partOf(open) });
  }

  /** @param {'completed' | 'incomplete'} status */
  *#close(status) {
    const open = this.#open;
    if (!open) return;
    const { item, index, text, logprobs } = open;
    const done = `${DELTAS[item.type]}.done`;
    const place = placeOf(open);
    /** @type {Item} */
    let whole = { ...item, status };
    if (item.type === 'function_call') {
      whole = { ...whole, arguments: text };
      yield this.#event(done, { ...place, name: item.name, arguments: text });
    } else {
      const part = partOf(open);
      whole = { ...whole, content: [part] };
      yield this.#event(done, { ...place, text, ...(item.type === 'message' && { logprobs }) });
      yield this.#event('response.content_part.done', { ...place, part });
    }
    this.#open = null;
    this.#response.output.push(whole);
    yield this.#event('response.output_item.done', { output_index: index, item: whole });
  }

  /** Completes the output. An aborted answer counts as complete, because answers that are limited to one call are
   * aborted after it. @param {GenerateResult} result */
  *end({ finishReason, usage }) {
    const response = this.#response;
    if (!this.#open && !response.output.length) yield* this.#begin(newItem('message'));
    const reason = INCOMPLETE[finishReason];
    const status = reason ? 'incomplete' : 'completed';
    yield* this.#close(status);
    response.status = status;
    response.incomplete_details = reason ? { reason } : null;
    response.completed_at = reason ? null : unixTime();
    response.usage = usageOf(usage);
  }

  /** @param {unknown} error */
  *fail(error) {
    const { body } = errorOf(error);
    const { code, message, param } = body.error;
    this.#response.status = 'failed';
    this.#response.error = { code: code ?? 'server_error', message };
    yield this.#event('error', { code, message, param, error: body.error });
  }
}

/** @type {Record<string, Record<string, any>>} */
const EMPTY = { message: { role: 'assistant', content: [] }, reasoning: { summary: [], content: [] } };

/** @param {string} type @returns {Item} */
const newItem = (type) => ({ id: newId(PREFIXES[type]), type, status: 'in_progress', ...EMPTY[type] });

/** @param {OpenItem} open */
function placeOf({ item, index }) {
  return { item_id: item.id, output_index: index, ...(item.content && { content_index: 0 }) };
}

/** @param {OpenItem} open */
function partOf({ item, text, logprobs }) {
  if (item.type === 'reasoning') return { type: 'reasoning_text', text };
  return { type: 'output_text', text, annotations: [], logprobs: [...logprobs] };
}

/** @param {GenerateResult['usage']} usage */
function usageOf({ promptTokens, reusedTokens, completionTokens, thoughtTokens = 0 }) {
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: reusedTokens },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: thoughtTokens },
    total_tokens: promptTokens + completionTokens,
  };
}
