/* errors: the errors of OpenAI's API with their HTTP status, and their responses. */
import { ModelError, messageOf, show } from '../errors.js';

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
const invalid = (message, param, code = 'invalid_value') => new RequestError(400, message, param, code);

/** Returns the error for a feature that is not supported. @param {string} what a noun in the singular, or a field in
 * backticks
 * @param {string | null} param @param {string} [remedy] a sentence */
const unsupported = (what, param, remedy = 'Leave it out.') =>
  invalid(`${what} is not supported. ${remedy}`, param, 'unsupported_parameter');

// Errors of options of a handler

/** @param {string} got */
export const badModels = (got) =>
  new ModelError(
    'bad-option',
    `\`models\` must be a loaded model, or an object that maps ids to models or to functions that return one (got ${got}).`,
    { got },
  );

/** The reason in the message of a failed request. @param {string} id @param {unknown} got */
export const notLoaded = (id, got) =>
  new Error(`the function for \`${id}\` returned ${show(got)}, which is not a model`);

// Errors of requests and their bodies

/** @param {string} method @param {string} path */
export const unknownUrl = (method, path) =>
  new RequestError(404, `Unknown request URL: ${method} ${path}. Check the URL.`, null, 'unknown_url');

/** The parser's message is left out, because it would quote the body. */
export const notJson = () => new RequestError(400, 'The body could not be parsed. Send a JSON object.');

/** @param {number} most bytes */
export const bodyTooLarge = (most) =>
  new RequestError(413, `The body is larger than ${most} bytes. Send a smaller one.`, null, 'request_too_large');

/** @param {string} id @param {string[]} known */
export const unknownModel = (id, known) =>
  new RequestError(
    404,
    `The model '${id}' does not exist. The models are ${known.join(', ')}.`,
    'model',
    'model_not_found',
  );

// Errors of fields

/** @param {string} name */
export const missingField = (name) =>
  new RequestError(400, `Missing required parameter: '${name}'. Add it.`, name, 'missing_required_parameter');

/** @param {string} name */
export const unknownField = (name) =>
  new RequestError(400, `Unknown parameter: '${name}'. Leave it out.`, name, 'unknown_parameter');

/** @type {Record<string, string>} */
const REMEDIES = {
  functions: 'Use `tools`.',
  function_call: 'Use `tool_choice`.',
  conversation: 'Use `previous_response_id`.',
  best_of: 'Use `n`.',
};

/** @param {string} name */
export const unsupportedField = (name) => unsupported(`\`${name}\``, name, REMEDIES[name]);

/** @param {string} name @param {string} expected completes "must be …" @param {unknown} got */
export const wrongField = (name, expected, got) => invalid(`\`${name}\` must be ${expected} (got ${show(got)}).`, name);

/** A value inside a field is wrong. @param {string} path of the value @param {string} expected completes "pass …"
 * @param {string} [param] */
export const wrongPart = (path, expected, param = path) => invalid(`Invalid '${path}': pass ${expected}.`, param);

/** Like wrongPart(), and quotes the value. @param {string} path @param {string} expected @param {unknown} got
 * @param {string} [param] */
export const wrongValue = (path, expected, got, param) => wrongPart(path, `${expected} (got ${show(got)})`, param);

/** @param {string} name */
export const notTheAssistants = (name) =>
  invalid(`\`${name}\` requires that the last message is the assistant's.`, name);

/** @param {string} path */
export const wrongArguments = (path) => wrongPart(path, 'a JSON object, encoded as a string');

/** @param {string} type @param {string} path */
export const unsupportedFormat = (type, path) =>
  unsupported(`The value \`${type}\` of \`${path}\``, path, 'Use `json_schema`.');

export const logprobsOff = () => invalid('`top_logprobs` requires `logprobs`. Set `logprobs` to true.', 'top_logprobs');

/** @param {string} item of `include` that the request needs */
export const logprobsNotIncluded = (item) =>
  invalid(`\`top_logprobs\` requires '${item}' in \`include\`.`, 'top_logprobs');

/** @param {string} item */
export const unsupportedInclude = (item) => unsupported(`\`${item}\` in \`include\``, 'include');

export const echoWithLogprobs = () => unsupported('`echo` with `logprobs`', 'echo', 'Pass only one of them.');

export const tokensToEmbed = () => unsupported('`input` of token ids', 'input', 'Pass texts.');

// Errors of tools

/** @param {string} type @param {string} path @param {string} [remedy] */
export const unsupportedTool = (type, path, remedy = 'Use `function`.') =>
  unsupported(`The tool type \`${type}\``, path, remedy);

/** @param {string} type @param {string} path */
export const hostedTool = (type, path) =>
  unsupportedTool(type, path, 'Only functions that the caller runs are supported.');

/** @param {string} type */
export const unsupportedChoice = (type) => unsupported(`The tool choice \`${type}\``, 'tool_choice', 'Use `function`.');

export const choiceWithoutTools = () =>
  invalid('`tool_choice` requires `tools`. Pass `tools`, or leave `tool_choice` out.', 'tool_choice');

// Errors of messages

/** @param {string} path */
export const functionRole = (path) => unsupported('The role `function`', path, 'Use the role `tool`.');

/** @param {string} path */
export const audioMessage = (path) => unsupported('`audio` of a message', path);

/** @param {string} path */
export const functionCallMessage = (path) => unsupported('`function_call` of a message', path, 'Use `tool_calls`.');

/** @param {string} path */
export const customCall = (path) => unsupported('A call of a custom tool', path, 'Use functions.');

/** @param {string} type @param {string} path */
export const unsupportedContent = (type, path) =>
  unsupported(`The content part \`${type}\``, path, 'Pass parts of the type `text`.');

// Errors of responses

/** @param {string} id */
export const unknownResponse = (id) =>
  new RequestError(
    404,
    `Response with id '${id}' not found. Check the id, or create the response again.`,
    null,
    'response_not_found',
  );

/** @param {string} id */
export const unknownPrevious = (id) =>
  invalid(
    `Previous response with id '${id}' not found. Send its items as \`input\`.`,
    'previous_response_id',
    'previous_response_not_found',
  );

/** @param {string} id @param {string} path */
export const unknownItem = (id, path) =>
  invalid(`Item with id '${id}' not found. Pass the item itself.`, path, 'item_not_found');

/** @param {string} type @param {string} path @param {string[]} known */
export const unsupportedItem = (type, path, known) =>
  unsupported(`The item type \`${type}\``, path, `The supported types are ${known.join(', ')}.`);

/** @param {string} id */
export const cutCall = (id) =>
  invalid(
    `The answer with the call '${id}' was cut off inside the call. Send the answer's other items as \`input\`.`,
    'input',
  );

/** @param {string} id */
export const outputWithoutCall = (id) =>
  invalid(
    `A function_call_output has the call_id '${id}', but 'input' has no function_call with this id. Add it.`,
    'input',
  );

export const streamOfStored = () => unsupported('`stream` of a stored response', 'stream');

/** @param {string} id */
export const notInBackground = (id) =>
  invalid(
    `Response '${id}' cannot be cancelled, because it does not run in the background.` +
      ' Abort the request of a response that is being generated.',
    null,
  );

export const badLimit = () => invalid('`limit` must be an integer between 1 and 100.', 'limit');

export const noCompaction = () =>
  unsupported('`/v1/responses/compact`', null, 'Send only the items to keep, as `input`.');

// HTTP responses for errors

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
    message: `The request failed: ${messageOf(error).replace(/\.$/, '')}. Try again.`,
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
