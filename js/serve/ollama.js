/* ollama: Ollama's HTTP API as a function that takes a Request and returns a Response, for tools that support no other
 * API. Reference: https://docs.ollama.com/api. */
/** @import { Model } from '../model.js' */
import { createHash } from 'node:crypto';
import { ModelError } from '../errors.js';
import { errorOf, notAllowed } from '../openai/errors.js';
import { parsedBody } from '../openai/handler.js';
import { chat, generate } from './ollama-answers.js';
import { missingField, refusedEndpoint, unknownEndpoint, unknownModel, wrongType } from './errors.js';
import { OPTIONS } from './ollama-request.js';

/** Version of Ollama whose API is implemented. Tools compare it with the oldest version that they support. */
const VERSION = '0.12.11';
/** Value of `expires_at`. Ollama unloads models that are not used for a while; this server never does. */
const EXPIRES = '9999-12-31T23:59:59Z';
const REFUSED = ['pull', 'push', 'create', 'copy', 'delete', 'blobs', 'me', 'signout', 'experimental'];

/** @typedef {{ models: Record<string, Model>, body: any, request: Request, signal: AbortSignal, started: string }}
 * Context */
/** @typedef {[method: string, respond: (context: Context) => Promise<Response> | Response]} Route */

/** @type {Record<string, Route>} */
const ROUTES = {
  '/api/version': ['GET', () => Response.json({ version: VERSION })],
  '/api/tags': ['GET', list],
  '/api/ps': ['GET', running],
  '/api/show': ['POST', description],
  '/api/chat': ['POST', (context) => chat(question(context))],
  '/api/generate': ['POST', (context) => generate(question(context))],
  '/api/embed': ['POST', embed],
  '/api/embeddings': ['POST', embedOne],
};

/** Returns a function that answers requests of Ollama's API. Errors become responses. The promise rejects only if the
 * request is aborted, with the reason of its signal.
 * @param {Record<string, Model>} models by their ids @returns {(request: Request) => Promise<Response>} */
export function createOllamaHandler(models) {
  const started = new Date().toISOString();
  return async (request) => {
    const { signal } = request;
    try {
      const [method, respond] = routeOf(request);
      const body = method === 'POST' ? parsedBody(await request.text()) : {};
      const response = await respond({ models, body, request, signal, started });
      signal.throwIfAborted();
      return response;
    } catch (error) {
      signal.throwIfAborted();
      const { message, ...init } = describe(error);
      return Response.json({ error: message }, init);
    }
  };
}

/** Returns status, headers and message for an error. The message uses Ollama's names of options.
 * @param {unknown} error */
function describe(error) {
  const { status, headers, body } = errorOf(error);
  if (!(error instanceof ModelError)) return { status, headers, message: body.error.message };
  const names = Object.fromEntries(Object.entries(OPTIONS).map(([name, option]) => [option, name]));
  return {
    status,
    headers,
    message: error.message.replace(/`(\w+)`/g, (_, option) => `\`${names[option] ?? option}\``),
  };
}

/** @param {Request} request */
function routeOf({ method, url }) {
  const path = new URL(url).pathname.replace(/\/$/, '');
  const route = Object.hasOwn(ROUTES, path) ? ROUTES[path] : null;
  if (!route) {
    const name = path.split('/')[2];
    throw REFUSED.includes(name) ? refusedEndpoint(path) : unknownEndpoint(method, path);
  }
  if (method === route[0] || (method === 'HEAD' && route[0] === 'GET')) return route;
  throw notAllowed(path, route[0] === 'GET' ? ['GET', 'HEAD'] : [route[0]]);
}

/** @param {Context} context @returns {import('./ollama-answers.js').Question} */
const question = (context) => ({ ...context, ...modelOf(context.models, context.body.model), describe });

/** Returns the model with a name. The tag `:latest` is optional. @param {Record<string, Model>} models
 * @param {unknown} name */
function modelOf(models, name) {
  if (typeof name !== 'string' || !name) throw missingField('model');
  const id = [name, name.replace(/:latest$/, '')].find((one) => Object.hasOwn(models, one));
  if (id === undefined) throw unknownModel(name, Object.keys(models));
  return { id, model: models[id] };
}

/** @param {Model} model */
function detailsOf({ info }) {
  const [size, unit] = info.parameters < 1e9 ? [info.parameters / 1e6, 'M'] : [info.parameters / 1e9, 'B'];
  return {
    parent_model: '',
    format: 'gguf',
    family: info.architecture,
    families: [info.architecture],
    parameter_size: `${size.toFixed(size < 100 ? 1 : 0)}${unit}`,
    quantization_level: info.quantisation,
  };
}

/** @param {Model} model */
function capabilitiesOf({ info }) {
  if (info.embedding) return ['embedding'];
  return ['completion', ...(info.chatTemplate ? ['tools'] : []), ...(info.thinking ? ['thinking'] : [])];
}

/** @param {string} id @param {Model} model */
function summaryOf(id, model) {
  const { architecture, parameters, fileBytes } = model.info;
  // The digest is not that of the model file, which would take seconds to compute. Clients only compare digests.
  const digest = createHash('sha256').update(JSON.stringify([id, architecture, parameters, fileBytes]));
  return { name: id, model: id, digest: digest.digest('hex'), details: detailsOf(model) };
}

/** @param {Context} context */
function list({ models, started }) {
  const all = Object.entries(models).map(([id, model]) => ({
    ...summaryOf(id, model),
    modified_at: started,
    size: model.info.fileBytes,
    capabilities: capabilitiesOf(model),
  }));
  return Response.json({ models: all });
}

/** @param {Context} context */
function running({ models }) {
  const all = Object.entries(models).map(([id, model]) => ({
    ...summaryOf(id, model),
    size: model.info.memory.total,
    size_vram: 0,
    expires_at: EXPIRES,
    context_length: model.info.contextLength,
  }));
  return Response.json({ models: all });
}

/** @param {Context} context */
async function description({ models, body, signal, started }) {
  const { id, model } = modelOf(models, body.model ?? body.name);
  const { metadata } = await model.inspect({ signal });
  const values = metadata.map(({ key, value = null }) => [key, value]);
  const { 'tokenizer.chat_template': template = '', ...facts } = Object.fromEntries(values);
  const defaults = Object.entries(OPTIONS).flatMap(([name, option]) => {
    const value = /** @type {Record<string, unknown>} */ (model.info.defaults)[option];
    return value === undefined ? [] : [`${name} ${value}`];
  });
  return Response.json({
    modelfile: `FROM ${id}\n`,
    parameters: defaults.join('\n'),
    template,
    details: detailsOf(model),
    model_info: { ...facts, 'general.parameter_count': model.info.parameters },
    capabilities: capabilitiesOf(model),
    modified_at: started,
  });
}

/** @param {Context} context @param {unknown} input @param {object} options */
async function vectorsOf({ models, body, signal }, input, options) {
  const { id, model } = modelOf(models, body.model);
  const texts = [input].flat();
  if (!texts.every((text) => typeof text === 'string'))
    throw wrongType('The input', 'a string, or an array of strings');
  const pooling = model.info.embedding ? undefined : /** @type {const} */ ('mean');
  const vectors = await model.embed(texts, { pooling, signal, ...options });
  const counts = await Promise.all(texts.map((text) => model.countTokens(text, { signal })));
  return {
    id,
    vectors: vectors.map((vector) => Array.from(vector)),
    tokens: counts.reduce((sum, count) => sum + count, 0),
  };
}

/** @param {Context} context */
async function embed(context) {
  const { input, truncate = true, dimensions } = context.body;
  const began = performance.now();
  if (input === undefined) throw missingField('input');
  const { id, vectors, tokens } = await vectorsOf(context, input, { truncate, dimensions: dimensions || undefined });
  return Response.json({
    model: id,
    embeddings: vectors,
    total_duration: Math.round((performance.now() - began) * 1e6),
    load_duration: 0,
    prompt_eval_count: tokens,
  });
}

/** Handles POST /api/embeddings, the older endpoint for one text. @param {Context} context */
async function embedOne(context) {
  const { vectors } = await vectorsOf(context, context.body.prompt ?? '', { truncate: true });
  return Response.json({ embedding: vectors[0] });
}
