/* answer: converts an answer of a model to a sequence of events, which each endpoint writes in its own form. */
/** @import { Generation } from '../generation.js' */
/** @import { GenerateResult, PartialCall, TokenLogprob } from '../protocol.js' */
import { ArgumentWriter, newId } from '../answer-parts.js';
import { sseEvent } from './sse.js';

/** A tool call whose arguments are JSON text. @typedef {{ id: string, name: string, arguments: string }}
 * FunctionCall */
/** An event of an answer. thought: a piece of the thoughts; text: a piece of the answer, with the log probabilities of
 * its tokens if they were requested; call: the start of a tool call; arguments: a piece of the JSON of a call's
 * arguments.
 * @typedef {{ kind: 'thought', text: string } | { kind: 'text', text: string, logprobs?: TokenLogprob[] }
 *   | { kind: 'call', index: number, id: string, name: string }
 *   | { kind: 'arguments', index: number, text: string }} AnswerEvent */
/** A complete answer. logprobs: log probabilities of the text's tokens, without those of the thoughts.
 * @typedef {{ result: GenerateResult, calls: FunctionCall[], logprobs?: TokenLogprob[] }} Answer */
/** @typedef {AsyncGenerator<AnswerEvent, Answer, undefined>} Events */
/** An event of one of several answers or, at the end of an answer, the complete answer. index: index of the answer;
 * first: whether this is the answer's first step.
 * @typedef {{ index: number, first: boolean, event: AnswerEvent, answer?: undefined }
 *   | { index: number, first: boolean, event?: undefined, answer: Answer }} Step */

/** Yields the events of an answer, and returns the complete answer. Leaving the loop over them aborts the answer.
 * @param {Generation} generation @param {boolean} [single] whether to end the answer after one tool call
 * @returns {Events} */
export async function* eventsOf(generation, single = false) {
  const calls = new CallWriter(single);
  const all = [];
  for await (const { kind, text, logprobs } of generation.steps()) {
    if (kind === 'text') {
      all.push(...(logprobs ?? []));
      if (text || logprobs) yield { kind, text, logprobs };
    } else if (text) yield { kind, text };
    yield* calls.next(generation.calls());
    if (calls.isDone) break;
  }
  const result = await generation.result();
  // Ends the calls: if the answer was cut off inside a call, the call keeps its partial arguments.
  yield* calls.next((result.toolCalls ?? []).map((call) => ({ ...call, done: true })));
  return { result, calls: calls.list, ...(result.logprobs && { logprobs: all }) };
}

/** Yields the events of several answers, one answer after the other.
 * @param {Events[]} answers @returns {AsyncGenerator<Step, void, undefined>} */
async function* inTurn(answers) {
  for (const [index, events] of answers.entries()) {
    for (let first = true, next; !next?.done; first = false) {
      next = await events.next();
      yield next.done ? { index, first, answer: next.value } : { index, first, event: next.value };
    }
  }
}

/** Resolves with the complete answers. @param {Events[]} answers */
export async function allOf(answers) {
  const all = [];
  for await (const { answer } of inTurn(answers)) if (answer) all.push(answer);
  return all;
}

/** Yields the server-sent events of answers: chunks with one element of `choices` each, token counts, and [DONE].
 * @param {Events[]} answers @param {object} head fields of each chunk
 * @param {{ usage: boolean, count: number }} how usage: whether to send token counts; count: number of answers
 *   per prompt
 * @param {(step: Step) => Iterable<object>} choicesOf returns the elements of `choices` for a step */
export async function* chunksOf(answers, head, { usage, count }, choicesOf) {
  const chunk = (/** @type {object[]} */ choices, /** @type {object | null} */ counts = null) =>
    sseEvent({ ...head, choices, ...(usage && { usage: counts }) });
  /** @type {Answer[]} */
  const done = [];
  for await (const step of inTurn(answers)) {
    for (const choice of choicesOf(step)) yield chunk([choice]);
    if (step.answer) done.push(step.answer);
  }
  if (usage) yield chunk([], usageOf(done, count));
  yield sseEvent('[DONE]');
}

/** Writes the arguments of tool calls as JSON while the calls are generated. */
class CallWriter {
  #single;
  /** @type {ArgumentWriter[]} */
  #writers = [];
  /** @type {FunctionCall[]} */
  list = [];
  isDone = false;

  /** @param {boolean} single */
  constructor(single) {
    this.#single = single;
  }

  /** @param {PartialCall[]} calls @returns {Generator<AnswerEvent, void, undefined>} */
  *next(calls) {
    const wanted = this.#single ? calls.slice(0, 1) : calls;
    for (const [index, { name, arguments: args, done }] of wanted.entries()) {
      if (index === this.list.length) {
        const call = { id: newId('call_'), name, arguments: '' };
        this.list.push(call);
        this.#writers.push(new ArgumentWriter());
        yield { kind: 'call', index, id: call.id, name };
      }
      const text = this.#writers[index].next(args, done);
      this.list[index].arguments += text;
      if (text) yield { kind: 'arguments', index, text };
    }
    this.isDone = this.#single && Boolean(calls[0]?.done);
  }
}

/** Returns OpenAI's `finish_reason` of an answer. An aborted answer with a call counts as `tool_calls`: answers that
 * are limited to one call are aborted after it.
 * @param {Answer} answer @returns {'stop' | 'length' | 'tool_calls'} */
export function finishOf({ result: { finishReason }, calls }) {
  if (calls.length && /^(tool-calls|aborted)$/.test(finishReason)) return 'tool_calls';
  return /^(length|context)$/.test(finishReason) ? 'length' : 'stop';
}

/** Returns OpenAI's `usage` of answers. Counts the tokens of each prompt only once.
 * @param {Answer[]} answers @param {number} count number of answers per prompt */
export function usageOf(answers, count) {
  const all = answers.map(({ result }) => result.usage);
  const sum = (/** @type {number[]} */ numbers) => numbers.reduce((a, b) => a + b, 0);
  const prompts = all.filter((_, i) => i % count === 0);
  const prompt = sum(prompts.map(({ promptTokens }) => promptTokens));
  const completion = sum(all.map(({ completionTokens }) => completionTokens));
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: sum(prompts.map(({ reusedTokens }) => reusedTokens)) },
    completion_tokens_details: { reasoning_tokens: sum(all.map(({ thoughtTokens = 0 }) => thoughtTokens)) },
  };
}
