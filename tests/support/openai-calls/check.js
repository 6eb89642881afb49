/* check: arguments and helpers of calls of OpenAI's client. */
import OpenAI from 'openai';
import { failureOf } from '../checks.js';

/** OpenAI's client, and the ids of three models: `chat` has a template with tools, `story` writes sensible text,
 * `embed` embeds.
 * @typedef {{ client: OpenAI, chat: string, story: string, embed: string }} Given */
/** Calls by name. @typedef {Record<string, (given: Given) => Promise<void>>} Calls */

/** Returns the error of a promise, which must reject with an error of the given class.
 * @template {Error} E @param {PromiseLike<unknown>} promise @param {new (...args: any[]) => E} type
 * @returns {Promise<E>} */
export async function rejects(promise, type) {
  const error = await failureOf(promise, type.name);
  if (error instanceof type) return error;
  throw error;
}

/** Returns the error of a request, which must be refused as invalid. @param {PromiseLike<unknown>} request */
export const refused = (request) => rejects(request, OpenAI.BadRequestError);

/** Returns the messages of a chat that has one message. @param {string} content
 * @returns {[{ role: 'user', content: string }]} */
export const user = (content) => [{ role: 'user', content }];

/** Returns a value as `any`, to pass it where the client's types reject it. @param {unknown} value
 * @returns {any} */
export const untyped = (value) => value;

const integer = { type: 'integer', minimum: -99, maximum: 99 };
export const ADD = /** @type {const} */ ({
  type: 'function',
  function: {
    name: 'add',
    description: 'Adds two numbers',
    parameters: {
      type: 'object',
      properties: { a: integer, b: integer },
      required: ['a', 'b'],
      additionalProperties: false,
    },
    strict: true,
  },
});
export const SAY = /** @type {const} */ ({
  type: 'function',
  function: {
    name: 'say',
    parameters: {
      type: 'object',
      properties: { what: { type: 'string', maxLength: 8 } },
      required: ['what'],
      additionalProperties: false,
    },
  },
});
/** Options that make models with random weights write varied text. */
export const WILD = { temperature: 2, top_p: 1, max_tokens: 400 };
