/* ollama-answers: implements /api/chat and /api/generate of Ollama's API. Answers with one JSON object, or with lines
 * of JSON (NDJSON). */
/** @import { Generation } from '../generation.js' */
/** @import { Model } from '../model.js' */
/** @import { GenerateResult, Step, ToolCall } from '../protocol.js' */
import { tokenOf } from '../openai/logprobs.js';
import { streamed } from '../openai/sse.js';
import { cannotThink, notWithRaw, textOnly, unsupportedField, wrongType } from './errors.js';
import { checkAbsent, messagesOf, optionsOf, toolsOf } from './ollama-request.js';

const NDJSON = 'application/x-ndjson';
/** Values of Ollama's `done_reason` by `finishReason` of generate(). All other reasons become `stop`.
 * @type {Record<string, string>} */
const REASONS = { length: 'length', context: 'length' };

/** A request to answer. describe: returns status and message for an error, with Ollama's names of options.
 * @typedef {{ id: string, model: Model, body: any, request: Request, signal: AbortSignal,
 *   describe: (error: unknown) => { status: number, message: string } }} Question */
/** Returns the fields of a response for a part of an answer.
 * @typedef {(said: { text?: string, thoughts?: string, toolCalls?: ToolCall[] }) => object} Shape */

/** Handles POST /api/chat. @param {Question} question */
export async function chat(question) {
  const { model, body, signal } = question;
  const messages = messagesOf(body.messages ?? []);
  if (!messages.length) return loaded(question, { message: { role: 'assistant', content: '' } });
  const options = { ...optionsOf(body, model.info), ...thinkingOf(question), tools: toolsOf(body.tools), signal };
  return respond(question, model.generate(messages, options), ({ text = '', thoughts, toolCalls = [] }) => ({
    message: {
      role: 'assistant',
      content: text,
      ...(thoughts && { thinking: thoughts }),
      ...(toolCalls.length && { tool_calls: toolCalls.map(callOf) }),
    },
  }));
}

/** Handles POST /api/generate. @param {Question} question */
export async function generate(question) {
  const { model, body, signal } = question;
  const { raw } = body;
  const [prompt, system] = ['prompt', 'system'].map((name) => {
    const text = body[name] ?? '';
    if (typeof text !== 'string') throw wrongType(`\`${name}\``, 'a string');
    return text;
  });
  checkAbsent(body, ['images'], textOnly);
  checkAbsent(body, ['suffix', 'template', 'context'], unsupportedField);
  if (raw) checkAbsent(body, ['system'], notWithRaw);
  if (prompt === '') return loaded(question, { response: '' });
  const isText = raw || !model.info.chatTemplate;
  const messages = messagesOf([
    ...(system ? [{ role: 'system', content: system }] : []),
    { role: 'user', content: prompt },
  ]);
  const options = { ...optionsOf(body, model.info), ...(isText ? {} : thinkingOf(question)), signal };
  const generation = model.generate(isText ? prompt : messages, options);
  return respond(question, generation, ({ text = '', thoughts }) => ({
    response: text,
    ...(thoughts && { thinking: thoughts }),
  }));
}

/** Returns the option `thinking` for Ollama's `think`. All levels of `think` count as true.
 * @param {Question} question */
function thinkingOf({ id, model, body: { think } }) {
  if (think === undefined || think === null) return {};
  if (think && !model.info.thinking) throw cannotThink(id);
  return { thinking: Boolean(think) };
}

/** Returns the response to a request without a prompt, which clients send to load or unload a model.
 * @param {Question} question @param {object} fields */
function loaded({ id, body }, fields) {
  const reason = body.keep_alive === 0 || body.keep_alive === '0' ? 'unload' : 'load';
  return Response.json({ ...head(id), ...fields, done: true, done_reason: reason });
}

/** @param {object} value */
const line = (value) => `${JSON.stringify(value)}\n`;

/** @param {string} id */
const head = (id) => ({ model: id, created_at: new Date().toISOString() });

/** Answers with one JSON object, or with lines of JSON. If the generation fails before the first token, rejects, so
 * that the response can have an error status.
 * @param {Question} question @param {Generation} generation @param {Shape} shape */
async function respond({ id, body, request, signal, describe }, generation, shape) {
  const began = performance.now();
  if (body.stream === false) {
    const logprobs = [];
    for await (const step of generation.steps()) logprobs.push(...logprobsOf(step));
    const result = await generation.result();
    return Response.json({
      ...head(id),
      ...shape(result),
      ...(result.logprobs && { logprobs }),
      ...ending(result, performance.now() - began),
    });
  }
  const lines = (async function* () {
    for await (const step of generation.steps()) {
      const { kind, text } = step;
      const logprobs = logprobsOf(step);
      if (!text && !logprobs.length) continue;
      const said = shape(kind === 'thought' ? { thoughts: text } : { text });
      yield line({ ...head(id), ...said, ...(logprobs.length && { logprobs }), done: false });
    }
    const result = await generation.result();
    const { toolCalls } = result;
    if (toolCalls?.length) yield line({ ...head(id), ...shape({ toolCalls }), done: false });
    yield line({ ...head(id), ...shape({}), ...ending(result, performance.now() - began) });
  })();
  const failed = (/** @type {unknown} */ error) => line({ error: describe(error).message });
  const stream = await streamed(lines, failed, { request, signal, abort: () => void lines.return() });
  return new Response(stream, { headers: { 'content-type': NDJSON } });
}

/** @param {ToolCall} call @param {number} index */
const callOf = ({ id, name, arguments: args }, index) => ({ id, function: { index, name, arguments: args } });

/** @param {GenerateResult} result @param {number} ms */
function ending({ finishReason, usage, timings }, ms) {
  const ns = (/** @type {number} */ time) => Math.round(time * 1e6);
  return {
    done: true,
    done_reason: REASONS[finishReason] ?? 'stop',
    total_duration: ns(ms),
    load_duration: 0,
    prompt_eval_count: usage.promptTokens,
    prompt_eval_duration: ns(timings.prefillMs),
    eval_count: usage.completionTokens,
    eval_duration: ns(timings.decodeMs),
  };
}

/** Returns the log probabilities of a step in Ollama's form. @param {Step} step */
function logprobsOf({ logprobs = [] }) {
  return logprobs.map((one) => ({
    ...tokenOf(one),
    ...(one.top.length && { top_logprobs: one.top.map(tokenOf) }),
  }));
}
