/* errors: errors in the shape of OpenAI's API, with their HTTP status. */
import { ModelError, messageOf } from '../errors.js';

/** An error that the response reports with its status. `param` and `code` are null if they are unknown. */
export class RequestError extends Error {
  /** @param {number} status HTTP status @param {string} message a sentence @param {string | null} [param] field at
   * fault @param {string | null} [code] */
  constructor(status, message, param = null, code = null) {
    super(message);
    this.status = status;
    this.param = param;
    this.code = code;
    /** For status 405, the header Allow (RFC 9110, section 15.5.6): the methods that the path supports. Else ''. */
    this.allow = '';
  }
}

/** Returns the error for a method that a path does not support. @param {string} path @param {string[]} methods */
export function notAllowed(path, methods) {
  const error = new RequestError(
    405,
    `${path} takes ${methods.join(' and ')} requests only.`,
    null,
    'method_not_supported',
  );
  error.allow = methods.join(', ');
  return error;
}

/** Returns the error for a value that is wrong. @param {string} message @param {string | null} param
 * @param {string} [code] */
export const invalid = (message, param, code = 'invalid_value') => new RequestError(400, message, param, code);

/** Returns the error for a feature that is not supported. @param {string} what a noun in the singular, or a field in
 * backticks
 * @param {string | null} param @param {string} [remedy] a sentence */
export function unsupported(what, param, remedy = 'Leave it out.') {
  return invalid(`${what} is not supported. ${remedy}`, param, 'unsupported_parameter');
}

/** @type {Record<string, string>} */
const NAMES = { 'context-exceeded': 'context_length_exceeded', 'bad-option': 'invalid_value' };
/** Error codes that count as the client's mistake (status 400) although their kind is not `option`. */
const CAUSED = ['template-error', 'no-memory'];

/** @param {string} option */
function fieldOf(option) {
  if (option === 'format') return 'response_format';
  return option.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Returns status, message, field and code for a ModelError, with OpenAI's field names. @param {ModelError} error
 * @param {string} prompt name of the field with the prompt */
function ofModel({ code, kind, message }, prompt) {
  const name = NAMES[code] ?? code.replaceAll('-', '_');
  if (kind !== 'option' && !CAUSED.includes(code)) {
    return { status: code === 'disposed' || code === 'bad-state' ? 503 : 500, message, param: null, code: name };
  }
  const text = message.replace(/`([a-z]+[A-Z]\w*|format)`/g, (_, option) => `\`${fieldOf(option)}\``);
  const [, param = null] = /`([a-z_]+)`/.exec(text) ?? [];
  return { status: 400, message: text, param: code === 'context-exceeded' ? prompt : param, code: name };
}

/** Returns status, body and headers of an error, without its stack and cause.
 * @param {unknown} error @param {string} [prompt] name of the field with the prompt
 * @returns {{ status: number, body: { error: { message: string, type: string, param: string | null,
 *   code: string | null } }, headers: Record<string, string> }} */
export function errorOf(error, prompt = 'messages') {
  const known = error instanceof RequestError ? error : error instanceof ModelError ? ofModel(error, prompt) : null;
  const { status, message, param, code } = known ?? {
    status: 500,
    message: `The request failed: ${messageOf(error)}`,
    param: null,
    code: 'internal_error',
  };
  const type = status < 500 ? 'invalid_request_error' : 'server_error';
  const allow = error instanceof RequestError ? error.allow : '';
  return { status, body: { error: { message, type, param, code } }, headers: allow ? { allow } : {} };
}

/** Returns the response for an error. @param {unknown} error @param {Record<string, string>} [more] headers
 * @param {string} [prompt] name of the field with the prompt */
export function errorResponse(error, more, prompt) {
  const { status, body, headers } = errorOf(error, prompt);
  const response = Response.json(body, { status, headers: { ...headers, ...more } });
  // Without this header, OpenAI's clients repeat the request after any 5xx status, and it would fail again.
  if (status >= 500) response.headers.set('x-should-retry', 'false');
  return response;
}
