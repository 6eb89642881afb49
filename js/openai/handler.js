/* handler: finds the endpoint for a request, reads the body, and converts errors to responses. */
/** @import { Context } from './context.js' */
/** @import { HandlerModels } from './models.js' */
import { isA } from '../errors.js';
import { chatCompletions } from './chat.js';
import { completions } from './completions.js';
import { newId } from '../answer-parts.js';
import { embeddings } from './embeddings.js';
import { bodyTooLarge, errorResponse, notAllowed, notJson, unknownUrl } from './errors.js';
import { ModelRegistry, listModels, retrieveModel } from './models.js';
import { ResponseStore } from './response-store.js';
import * as responses from './responses.js';
import { checkOptions, rule } from '../options.js';

const MAX_BODY_BYTES = 16 * 2 ** 20;
const OPTIONS = { maxBodyBytes: rule('a positive number', (value) => typeof value === 'number' && value > 0) };

/** Options of a handler.
 * @typedef {object} HandlerOptions
 * @property {number} [maxBodyBytes] Maximum bytes of a request's body. Larger bodies get status 413. Default: 16 MiB.
 */
/** A function with the signature of `fetch`.
 * @typedef {(request: Request | string | URL, init?: RequestInit) => Promise<Response>} Handler */
/** @typedef {[method: string, path: RegExp, answer: (context: Context) => Promise<Response>]} Route */

/** @type {Route[]} */
const ROUTES = [
  ['GET', /^\/v1\/models$/, listModels],
  ['GET', /^\/v1\/models\/(.+)$/, retrieveModel],
  ['POST', /^\/v1\/chat\/completions$/, chatCompletions],
  ['POST', /^\/v1\/completions$/, completions],
  ['POST', /^\/v1\/embeddings$/, embeddings],
  ['POST', /^\/v1\/responses$/, responses.createResponse],
  ['POST', /^\/v1\/responses\/input_tokens$/, responses.countInputTokens],
  ['POST', /^\/v1\/responses\/compact$/, responses.compactResponse],
  ['GET', /^\/v1\/responses\/([^/]+)$/, responses.retrieveResponse],
  ['DELETE', /^\/v1\/responses\/([^/]+)$/, responses.deleteResponse],
  ['POST', /^\/v1\/responses\/([^/]+)\/cancel$/, responses.cancelResponse],
  ['GET', /^\/v1\/responses\/([^/]+)\/input_items$/, responses.listInputItems],
];

/** Returns a function that answers requests to OpenAI's API, to pass as `fetch` to its client. Errors become responses.
 * The promise rejects only if the request is aborted, with the reason of its signal. Throws `bad-option`.
 * @param {HandlerModels} models @param {HandlerOptions} [options] @returns {Handler} */
export function createHandler(models, options = {}) {
  checkOptions(options, OPTIONS);
  const { maxBodyBytes = MAX_BODY_BYTES } = options;
  const shared = { models: new ModelRegistry(models), responses: new ResponseStore() };
  return async (input, init) => {
    const request = isA('Request', input) && !init ? /** @type {Request} */ (input) : new Request(input, init);
    return answerOrAbort(request, (control) => answer(request, control, shared, maxBodyBytes));
  };
}

/** @param {Request} request @param {(control: AbortController) => Promise<Response>} respond
 * @returns {Promise<Response>} */
function answerOrAbort({ signal }, respond) {
  const control = new AbortController();
  return new Promise((resolve, reject) => {
    const abort = () => {
      control.abort(signal.reason);
      reject(signal.reason);
    };
    if (signal.aborted) return abort();
    signal.addEventListener('abort', abort, { once: true });
    respond(control).then(resolve, reject);
  });
}

/** @param {Request} request @param {AbortController} control
 * @param {Pick<Context, 'models' | 'responses'>} shared @param {number} maxBodyBytes */
async function answer(request, control, shared, maxBodyBytes) {
  const id = newId('req_');
  let body = /** @type {Record<string, any>} */ ({});
  try {
    const { respond, params } = routeOf(request);
    if (request.method === 'POST') body = parsedBody((await textOf(request, maxBodyBytes)) || '{}');
    const { signal } = control;
    const response = await respond({ ...shared, request, params, body, signal, abort: () => control.abort() });
    response.headers.set('x-request-id', id);
    return response;
  } catch (error) {
    // An error in one answer of a request aborts the request's other answers.
    control.abort();
    const prompt = ['prompt', 'input'].find((name) => name in body);
    return errorResponse(error, { 'x-request-id': id }, prompt);
  }
}

/** @param {Request} request */
function routeOf({ method, url }) {
  const path = new URL(url).pathname.replace(/\/$/, '');
  const matching = ROUTES.filter(([, pattern]) => pattern.test(path));
  const route = matching.find(([name]) => name === method);
  if (route) return { respond: route[2], params: (route[1].exec(path) ?? []).slice(1).map(decoded) };
  if (matching.length) {
    throw notAllowed(
      path,
      matching.map(([name]) => name),
    );
  }
  throw unknownUrl(method, path);
}

/** @param {string} part of a path */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Returns the JSON object in the body of a request. @param {string} text @returns {Record<string, any>} */
export function parsedBody(text) {
  try {
    const body = JSON.parse(text);
    if (typeof body === 'object' && body && !Array.isArray(body)) return body;
  } catch {
    // The error for invalid JSON is thrown after this block.
  }
  throw notJson();
}

/** @param {Request} request @param {number} most bytes */
async function textOf(request, most) {
  const check = (/** @type {number} */ bytes) => {
    if (bytes > most) throw bodyTooLarge(most);
  };
  check(Number(request.headers.get('content-length')));
  // In Firefox, requests have no property `body`.
  if (!request.body) {
    const bytes = new Uint8Array(await request.arrayBuffer());
    check(bytes.length);
    return new TextDecoder().decode(bytes);
  }
  const decoder = new TextDecoder();
  const reader = request.body.getReader();
  let text = '';
  let size = 0;
  for (let part; !(part = await reader.read()).done; ) {
    check((size += part.value.length));
    text += decoder.decode(part.value, { stream: true });
  }
  return text + decoder.decode();
}
