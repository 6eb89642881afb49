/* app: answers HTTP requests. A request passes the guard and the queue, then goes to a handler: OpenAI's API under
 * /v1/, Ollama's under /api/. */
/** @import { IncomingMessage, ServerResponse } from 'node:http' */
/** @import { Model } from '../model.js' */
/** @import { Limits, ServeOptions } from './options.js' */
/** @import { Usage } from '../protocol.js' */
import { AsyncLocalStorage } from 'node:async_hooks';
import { ModelError } from '../errors.js';
import { RequestError, errorOf, notAllowed } from '../openai/errors.js';
import { createHandler } from '../openai/handler.js';
import { clientClosed, refusesRequests, stopsRequest } from './errors.js';
import { Bodies, send } from './exchange.js';
import { Guard } from './guard.js';
import { Metrics } from './metrics.js';
import { createOllamaHandler } from './ollama.js';
import { DEFAULTS } from './options.js';
import { Queue } from './queue.js';

/** Status in the log if the client closed the connection before the response began, as in nginx. */
const CLIENT_CLOSED = 499;
/** Paths whose requests evaluate a model and therefore wait in the queue. */
const EVALUATING = [
  ...['chat/completions', 'completions', 'embeddings', 'responses'].map((name) => `/v1/${name}`),
  ...['chat', 'generate', 'embed', 'embeddings'].map((name) => `/api/${name}`),
];
const ROUTES = [
  ...EVALUATING,
  ...['/', '/health', '/metrics', '/v1/models', '/api/tags', '/api/show', '/api/ps', '/api/version'],
];
/** Patterns of paths with a parameter, and their names in log and metrics. */
const PATTERNS = /** @type {[RegExp, string][]} */ ([
  [/^\/v1\/models\/./, '/v1/models/{model}'],
  [/^\/v1\/responses\/./, '/v1/responses/{id}'],
]);

/** A log entry for a request. answers: promises of the token counts of each answer that the request started.
 * @typedef {{ method: string, route: string, status: number, answers: Promise<Usage | null>[] }} Entry */
/** Line of the log. @typedef {Pick<Entry, 'method' | 'route' | 'status'> & { ms: number, usage: Usage }} LogLine */

/** The requests of one server, from node:http to the handlers and back. */
export class App {
  #models;
  #guard;
  #queue;
  #bodies;
  #metrics = new Metrics();
  #log;
  #handlers;
  /** Log entry of the request that the running code serves. @type {AsyncLocalStorage<Entry>} */
  #current = new AsyncLocalStorage();
  /** @type {Set<AbortController>} */
  #open = new Set();
  #isStopping = false;
  #wake = () => {};

  /** @param {Record<string, Model>} models @param {ServeOptions} options @param {Limits} limits
   * @param {(line: LogLine) => void} [log] */
  constructor(models, options, limits, log) {
    this.limits = limits;
    this.#models = models;
    this.#guard = new Guard(options);
    this.#queue = new Queue(options.queue ?? DEFAULTS.queue, (id) => models[id]?.info.sequences ?? 1);
    this.#bodies = new Bodies(limits);
    this.#log = log;
    for (const model of Object.values(models)) this.#meter(model);
    this.#handlers = {
      openai: createHandler(models, { maxBodyBytes: limits.bodyBytes }),
      ollama: createOllamaHandler(models),
    };
  }

  /** Number of requests that are not finished. */
  get size() {
    return this.#open.size;
  }

  /** Rejects new requests from now on, and aborts running requests after `graceMs`. @param {number} graceMs */
  stop(graceMs) {
    this.#isStopping = true;
    const end = () => {
      for (const control of this.#open) control.abort(stopsRequest());
    };
    if (graceMs <= 0) end();
    else setTimeout(end, graceMs).unref();
  }

  /** Resolves when no request is open. @returns {Promise<void>} */
  async idle() {
    while (this.#open.size) {
      await new Promise((resolve) => {
        this.#wake = () => resolve(null);
      });
    }
  }

  /** Wraps generate() of a model to record the usage of each answer. This also turns off back-pressure, so that a slow
   * client does not block the engine.
   * @param {Model} model */
  #meter(model) {
    const generate = model.generate.bind(model);
    Object.assign(model, {
      generate: (/** @type {any} */ prompt, /** @type {any} */ options) => {
        const generation = generate(prompt, options);
        const usage = generation.result().then(
          (result) => result.usage,
          () => null,
        );
        this.#current.getStore()?.answers.push(usage);
        return generation;
      },
    });
  }

  /** Answers a request of node:http. Errors become responses, or close the connection.
   * @param {IncomingMessage} req @param {ServerResponse} res */
  onRequest(req, res) {
    /** @type {Entry} */
    const entry = { method: req.method ?? '', route: 'other', status: CLIENT_CLOSED, answers: [] };
    this.#current.run(entry, () => this.#serve(req, res, entry));
  }

  /** Serves a request. Never rejects. @param {IncomingMessage} req @param {ServerResponse} res @param {Entry} entry */
  async #serve(req, res, entry) {
    const began = performance.now();
    const control = new AbortController();
    this.#open.add(control);
    // Errors of the connection need no handling: the event `close` follows.
    res.on('error', () => {});
    res.on('close', () => {
      if (!res.writableFinished) control.abort(clientClosed());
    });
    /** @type {(() => void)[]} */
    const cleanups = [];
    try {
      const response = await this.#respond(req, entry, control.signal, cleanups);
      if (this.#isStopping || response.status === 408 || response.status === 413) {
        response.headers.set('connection', 'close');
      }
      if (!res.destroyed) entry.status = response.status;
      await send(res, response, this.limits.stallMs);
    } catch {
      entry.status = 500;
      res.destroy();
    }
    const usages = await Promise.all(entry.answers);
    for (const cleanup of cleanups) cleanup();
    this.#open.delete(control);
    if (!this.#open.size) this.#wake();
    this.#note(entry, usages, performance.now() - began);
  }

  /** @param {Entry} entry @param {(Usage | null)[]} usages @param {number} ms */
  #note({ method, route, status }, usages, ms) {
    const usage = { promptTokens: 0, reusedTokens: 0, completionTokens: 0 };
    for (const one of usages) {
      if (!one) continue;
      this.#metrics.answer(one);
      for (const key of /** @type {(keyof typeof usage)[]} */ (Object.keys(usage))) usage[key] += one[key];
    }
    this.#metrics.request({ route, status, seconds: ms / 1000 });
    this.#log?.({ method, route, status, ms, usage });
  }

  /** Returns the response to a request. Never rejects: errors become responses. @param {IncomingMessage} req
   * @param {Entry} entry
   * @param {AbortSignal} signal @param {(() => void)[]} cleanups called when the response is sent */
  async #respond(req, entry, signal, cleanups) {
    const { origin } = req.headers;
    const isOllama = /^\/(api\/|$)/.test(req.url ?? '');
    let cors = {};
    /** @type {Response} */
    let response;
    try {
      const { path, search } = this.#guard.admit(req);
      cors = this.#guard.corsHeaders(origin);
      entry.route = routeOf(path);
      if (req.method === 'OPTIONS') response = this.#guard.preflight(req.headers);
      else {
        this.#guard.checkKey(path, req.headers.authorization);
        if (this.#isStopping) throw refusesRequests();
        response =
          (await this.#own(req.method ?? '', entry.route)) ??
          (await this.#evaluate(req, path + search, entry, signal, cleanups));
      }
    } catch (error) {
      response = refusal(error, isOllama, this.#queue.retryAfter);
    }
    const headers = { ...cors, 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' };
    for (const [name, value] of Object.entries(headers)) response.headers.set(name, value);
    return response;
  }

  /** Answers the routes of the server itself, such as /health and /metrics. Resolves with null for other routes.
   * @param {string} method @param {string} route */
  async #own(method, route) {
    if (!['/', '/health', '/metrics'].includes(route)) return null;
    if (method !== 'GET' && method !== 'HEAD') {
      throw notAllowed(route, ['GET', 'HEAD']);
    }
    if (route === '/') return new Response('gemma-wasm is running\n');
    if (route === '/health') return Response.json({ status: 'ok' });
    const text = await this.#metrics.text(this.#models, this.#queue);
    return new Response(text, { headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' } });
  }

  /** Passes a request to OpenAI's or Ollama's API. A request that evaluates a model first waits in the queue.
   * @param {IncomingMessage} req @param {string} target @param {Entry} entry @param {AbortSignal} signal
   * @param {(() => void)[]} cleanups */
  async #evaluate(req, target, entry, signal, cleanups) {
    const evaluates = req.method === 'POST' && EVALUATING.includes(entry.route);
    if (evaluates) this.#queue.check();
    const hasBody = req.method !== 'GET' && req.method !== 'HEAD';
    const { bytes, release } = hasBody ? await this.#bodies.read(req) : { bytes: undefined, release: () => {} };
    cleanups.push(release);
    if (evaluates) {
      // A request enters the queue after its body is read, so that a slow body takes no place in the queue.
      const ticket = this.#queue.enter();
      cleanups.push(() => ticket.leave());
      await ticket.turn(this.#lineOf(bytes), signal);
    }
    const request = new Request(new URL(`http://localhost${target}`), {
      // A Request cannot have the method TRACE. OPTIONS replaces it, because the handlers reject both.
      method: req.method === 'TRACE' ? 'OPTIONS' : req.method,
      headers: headersOf(req),
      body: bytes,
      signal,
    });
    const handler = target.startsWith('/api/') ? this.#handlers.ollama : this.#handlers.openai;
    return handler(request);
  }

  /** Returns the id of the model that a request's body names. Returns '' if there is no such model; the handler rejects
   * the request later.
   * @param {Uint8Array} [bytes] */
  #lineOf(bytes) {
    try {
      const id = String(JSON.parse(new TextDecoder().decode(bytes)).model).replace(/:latest$/, '');
      return Object.hasOwn(this.#models, id) ? id : '';
    } catch {
      return '';
    }
  }
}

/** Returns the name of a path in queue, log and metrics, one of a fixed set. Ignores a trailing slash, as the handlers
 * do. @param {string} given */
function routeOf(given) {
  const path = given.replace(/(.)\/$/, '$1');
  if (ROUTES.includes(path)) return path;
  return PATTERNS.find(([pattern]) => pattern.test(path))?.[1] ?? 'other';
}

/** @param {IncomingMessage} req */
function headersOf({ headers }) {
  return Object.fromEntries(
    ['content-type', 'accept'].flatMap((name) => (headers[name] ? [[name, String(headers[name])]] : [])),
  );
}

/** @param {unknown} error @param {boolean} isOllama @param {number} retryAfter seconds */
function refusal(error, isOllama, retryAfter) {
  const isAborted = error instanceof ModelError && error.code === 'aborted';
  const { status, body, headers } = errorOf(isAborted ? new RequestError(503, error.message, null, 'aborted') : error);
  if (status === 429 || status === 503) headers['retry-after'] = String(retryAfter);
  if (status === 401) headers['www-authenticate'] = 'Bearer';
  return Response.json(isOllama ? { error: body.error.message } : body, { status, headers });
}
