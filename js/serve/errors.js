/* errors: the errors of the HTTP server and of Ollama's API. */
import { ModelError, show } from '../errors.js';
import { RequestError } from '../openai/errors.js';

// Errors of options

/** @param {string} expected the clause "`name` must be …" @param {unknown} got */
export const wrongOption = (expected, got) => new ModelError('bad-option', `${expected} (got ${show(got)}).`);

/** The message does not quote the key, which is secret. */
export const badApiKey = () =>
  new ModelError('bad-option', '`apiKey` must be 1 to 1024 ASCII characters without white space.');

// Errors of a server that stops or is overloaded

const STOPPING = 'The server is stopping. Try again later.';

/** The error for a new request to a server that is stopping. */
export const refusesRequests = () => new RequestError(503, STOPPING, null, 'stopping');

/** The error for a running request that a stopping server aborts. */
export const stopsRequest = () => new ModelError('aborted', STOPPING);

/** Abort reason of the request's signal. The client cannot receive it, so the message has no remedy. */
export const clientClosed = () => new ModelError('aborted', 'The client closed the connection.');

export const queueFull = () =>
  new RequestError(429, 'The server has too many requests. Try again later.', null, 'rate_limit_exceeded');

export const bodiesTooLarge = () =>
  new RequestError(429, 'The server has too many large requests. Try again later.', null, 'rate_limit_exceeded');

// Errors of requests

export const bodyIncomplete = () =>
  new RequestError(400, 'The body is incomplete. Repeat the request.', null, 'bad_request');

/** @param {number} ms */
export const bodyLate = (ms) =>
  new RequestError(408, `The body did not arrive within ${ms} ms. Repeat the request.`, null, 'request_timeout');

export const badTarget = () =>
  new RequestError(400, 'The request target must be a valid path without dot segments.', null, 'bad_request');

/** @param {number} most characters */
export const targetTooLong = (most) =>
  new RequestError(414, `The request target is longer than ${most} characters. Shorten it.`, null, 'uri_too_long');

export const severalHosts = () =>
  new RequestError(400, 'The request has several Host headers. Send one.', null, 'bad_request');

export const unknownHost = () =>
  new RequestError(
    403,
    'The server does not answer to this host name. Use localhost, or start it with --allow-host NAME.',
    null,
    'host_not_allowed',
  );

export const unknownOrigin = () =>
  new RequestError(
    403,
    'Web pages of this origin may not use the server. Start it with --cors ORIGIN to allow them.',
    null,
    'origin_not_allowed',
  );

export const wrongKey = () =>
  new RequestError(
    401,
    'The API key is missing or wrong. Send it as `Authorization: Bearer KEY`.',
    null,
    'invalid_api_key',
  );

// Errors of Ollama's API

/** @param {string} method @param {string} path */
export const unknownEndpoint = (method, path) =>
  new RequestError(404, `There is no endpoint ${method} ${path}. Check the URL.`);

/** @param {string} path */
export const refusedEndpoint = (path) =>
  new RequestError(501, `${path} is not supported. The server offers only the models that it was started with.`);

/** Begins like Ollama's message, for which clients test. @param {string} name @param {string[]} known */
export const unknownModel = (name, known) =>
  new RequestError(404, `model '${name}' not found. The models are ${known.join(', ')}.`);

/** @param {string} name */
export const missingField = (name) => new RequestError(400, `\`${name}\` is required. Add it.`);

/** @param {string} what @param {string} expected completes "must be …" */
export const wrongType = (what, expected) => new RequestError(400, `${what} must be ${expected}.`);

/** @param {string} name @param {string} [remedy] */
export const unsupportedField = (name, remedy = 'Leave it out.') =>
  new RequestError(400, `\`${name}\` is not supported. ${remedy}`);

/** @param {string} name */
export const textOnly = (name) => unsupportedField(name, 'Models take text only.');

/** @param {string} name */
export const notWithRaw = (name) =>
  new RequestError(400, `\`${name}\` is not supported with \`raw\`. Write its text into \`prompt\`.`);

/** @param {string} id */
export const cannotThink = (id) => new RequestError(400, `"${id}" does not support thinking. Leave \`think\` out.`);

/** @param {string} name @param {string[]} known */
export const unknownOption = (name, known) =>
  new RequestError(400, `There is no option ${show(name)}. The options are ${known.join(', ')}.`);

/** @param {unknown} got */
export const wrongFormat = (got) => wrongType('`format`', `"json" or a JSON schema (got ${show(got)})`);
