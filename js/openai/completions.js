/* completions: implements the endpoint POST /v1/completions, which continues text without a chat template. */
/** @import { Model } from '../model.js' */
/** @import { Step } from './answer.js' */
/** @import { Context } from './context.js' */
import { allOf, chunksOf, eventsOf, finishOf, usageOf } from './answer.js';
import { newId } from '../answer-parts.js';
import { unixTime } from './context.js';
import { echoWithLogprobs, unsupportedField, wrongField } from './errors.js';
import { completionLogprobs } from './logprobs.js';
import { COMMON, commonOptions, field, fieldsOf, isBoolean, isInteger, required, seedsOf } from './options.js';
import { eventStream } from './sse.js';

const KNOWN = COMMON.concat('prompt max_tokens logprobs echo best_of'.split(' '));
/** OpenAI's default of `max_tokens` for this endpoint. */
const MAX_TOKENS = 16;

/** Handles POST /v1/completions. @param {Context} context */
export async function completions(context) {
  const body = fieldsOf(context.body, KNOWN);
  required(body, 'prompt');
  const prompts = promptsOf(body.prompt);
  const { stream, count, seed, usage, options } = commonOptions(body);
  const none = /** @type {number | undefined} */ (undefined);
  const logprobs = field(body, 'logprobs', 'an integer between 0 and 20', isInteger(0, 20), none);
  const echo = field(body, 'echo', 'true or false', isBoolean, false);
  if (echo && logprobs !== undefined) throw echoWithLogprobs();
  if ((body.best_of ?? count) !== count) throw unsupportedField('best_of');
  const { id, model } = await context.models.get(body.model);
  const before = echo ? await Promise.all(prompts.map((prompt) => textOf(prompt, model))) : [];
  const all = { ...options, maxTokens: body.max_tokens ?? MAX_TOKENS, logprobs, signal: context.signal };
  const answers = prompts.flatMap((prompt) => {
    return seedsOf(seed, count).map((seed) => eventsOf(model.generate(prompt, { ...all, seed })));
  });
  const head = { id: newId('cmpl-'), object: 'text_completion', created: unixTime(), model: id };
  const echoed = (/** @type {number} */ index) => before[Math.floor(index / count)] ?? '';
  if (stream) return eventStream(chunksOf(answers, head, { usage, count }, choicesOf(echoed)), context);
  const done = await allOf(answers);
  const choices = done.map((answer, index) => {
    const { text, logprobs } = answer.result;
    return {
      index,
      text: echoed(index) + text,
      logprobs: completionLogprobs(logprobs, 0),
      finish_reason: finishOf(answer),
    };
  });
  return Response.json({ ...head, choices, usage: usageOf(done, count) });
}

/** Returns a function that yields the elements of `choices` for a step.
 * @param {(index: number) => string} echoed returns the prompt to repeat before an answer, '' without `echo` */
function choicesOf(echoed) {
  let offset = 0;
  return function* (/** @type {Step} */ { index, first, event, answer }) {
    const base = { index, text: '', logprobs: null, finish_reason: null };
    if (first) offset = 0;
    if (first && echoed(index)) yield { ...base, text: echoed(index) };
    if (event?.kind === 'text') {
      const logprobs = completionLogprobs(event.logprobs, offset);
      for (const token of logprobs?.tokens ?? []) offset += token.length;
      yield { ...base, text: event.text, logprobs };
    }
    if (answer) yield { ...base, finish_reason: finishOf(answer) };
  };
}

/** @param {any} prompt @returns {(string | number[])[]} */
function promptsOf(prompt) {
  const list = Array.isArray(prompt) && typeof prompt[0] !== 'number' ? prompt : [prompt];
  const isPrompt = (/** @type {any} */ one) => typeof one === 'string' || (Array.isArray(one) && one.length > 0);
  if (list.length && list.every(isPrompt)) return list;
  throw wrongField('prompt', 'a string, an array of token ids, or an array of such prompts', prompt);
}

/** @param {string | number[]} prompt @param {Model} model */
const textOf = async (prompt, model) => (typeof prompt === 'string' ? prompt : model.detokenize(prompt));
