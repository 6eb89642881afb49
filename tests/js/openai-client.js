/* openai-client: OpenAI's client for models in the same process, a model with fixed thoughts and a fixed answer, and a
 * model that records its generations. */
import OpenAI from 'openai';
import { createHandler } from '../../js/openai.js';
import { wrong } from './helpers.js';

/** Returns a client that calls createHandler() directly, without a network, and never retries.
 * @param {Parameters<typeof createHandler>[0]} models */
export const clientOf = (models) =>
  new OpenAI({ apiKey: 'x', baseURL: 'http://local/v1', fetch: createHandler(models), maxRetries: 0 });

/** Returns a model that thinks `hm ha` and answers `Yes.`, and a list of the requests that it receives.
 * @param {Model} model whose thoughts are between <think> and </think> */
export async function thinker(model) {
  const [[begin], [end]] = await Promise.all(['<think>', '</think>'].map((m) => model.tokenize(m, { special: true })));
  const format = { grammar: `root ::= <[${begin}]> "\\nhm ha\\n" <[${end}]> "\\n\\nYes."` };
  const asked = /** @type {any[]} */ ([]);
  const generate = (/** @type {any} */ messages, /** @type {any} */ options) => {
    asked.push({ messages, ...options });
    return model.generate(messages, { ...options, format });
  };
  return { model: wrong({ info: model.info, generate }), asked };
}

/** @param {Model} model */
export function watched(model) {
  /** @type {Generation[]} */
  const begun = [];
  const generate = (/** @type {any} */ prompt, /** @type {any} */ options) => {
    const generation = model.generate(prompt, options);
    begun.push(generation);
    return generation;
  };
  return { begun, model: wrong({ info: model.info, generate }) };
}
