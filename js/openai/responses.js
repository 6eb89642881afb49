/* responses: implements the endpoints under /v1/responses. Responses are kept in memory (response-store.js). */
/** @import { Model } from '../model.js' */
/** @import { Context } from './context.js' */
/** @import { ResponseEvent } from './response-events.js' */
/** @import { ResponseRequest } from './response-request.js' */
import { ModelError } from '../errors.js';
import { eventsOf } from './answer.js';
import {
  RequestError,
  badLimit,
  errorOf,
  noCompaction,
  notInBackground,
  streamOfStored,
  unknownResponse,
} from './errors.js';
import { responseEvents } from './response-events.js';
import { reasoningOf, requestOf, responseOf } from './response-request.js';
import { eventStream, sseEvent } from './sse.js';

/** Names of the fields of /v1/responses, by their names in chat completions, for error messages.
 * @type {Record<string, string>} */
const FIELDS = { messages: 'input', response_format: 'text.format', max_tokens: 'max_output_tokens' };

/** Handles POST /v1/responses. @param {Context} context */
export async function createResponse(context) {
  const { models, responses } = context;
  const request = requestOf(context.body, responses);
  const { id, model } = await models.get(request.body.model);
  const response = responseOf(request, id, model.info);
  try {
    const messages = request.truncates ? await shortened(model, request, context.signal) : request.messages;
    const events = eventsFor(model, { ...request, messages }, response, context);
    if (request.stream) return await eventStream(written(events), context);
    for await (const _ of events);
    return Response.json(response);
  } catch (error) {
    throw renamed(error);
  }
}

/** @param {Model} model @param {ResponseRequest} request
 * @param {Record<string, any>} response
 * @param {Context} context */
function eventsFor(
  model,
  { body, messages, options, parallel, stream, store, items },
  response,
  { signal, responses },
) {
  let onPrefillProgress = () => {};
  const begun = new Promise((resolve) => {
    onPrefillProgress = () => resolve(null);
  });
  const maxTokens = options.maxTokens ?? model.info.contextLength;
  const thinking = reasoningOf(body, model.info);
  const all = { ...options, maxTokens, thinking, signal, onPrefillProgress };
  const answer = eventsOf(model.generate(messages, all), !parallel);
  const finished = () => {
    if (store && !signal.aborted && response.status !== 'failed') responses.put({ response, input: items });
  };
  return responseEvents(response, answer, { streams: stream, begun, finished });
}

/** @param {AsyncGenerator<ResponseEvent, void, undefined>} events */
async function* written(events) {
  for await (const event of events) yield sseEvent(event, event.type);
  yield sseEvent('[DONE]');
}

/** Replaces the field names of chat completions in an error by those of /v1/responses. @param {unknown} error */
function renamed(error) {
  if (!(error instanceof ModelError)) return error;
  const { status, body } = errorOf(error);
  const { message, param, code } = body.error;
  const text = message.replace(/`(\w+)`/g, (whole, name) => (FIELDS[name] ? `\`${FIELDS[name]}\`` : whole));
  return new RequestError(status, text, param && (FIELDS[param] ?? param), code);
}

/** @param {Context} context */
function storedOf({ responses, params: [id] }) {
  const found = responses.get(id);
  if (found) return found;
  throw unknownResponse(id);
}

/** Handles GET /v1/responses/{id}. @param {Context} context */
export async function retrieveResponse(context) {
  const { response } = storedOf(context);
  if (new URL(context.request.url).searchParams.get('stream') === 'true') {
    throw streamOfStored();
  }
  return Response.json(response);
}

/** Handles DELETE /v1/responses/{id}. @param {Context} context */
export async function deleteResponse(context) {
  const { id } = storedOf(context).response;
  context.responses.delete(id);
  return Response.json({ id, object: 'response', deleted: true });
}

/** Handles POST /v1/responses/{id}/cancel. @param {Context} context @returns {Promise<Response>} */
export async function cancelResponse(context) {
  const { id } = storedOf(context).response;
  throw notInBackground(id);
}

/** Handles GET /v1/responses/{id}/input_items. @param {Context} context */
export async function listInputItems(context) {
  const { input } = storedOf(context);
  const query = new URL(context.request.url).searchParams;
  const limit = Number(query.get('limit') ?? 20);
  if (!Number.isInteger(limit) || limit < 1 || limit > 100) throw badLimit();
  const items = query.get('order') === 'asc' ? input : [...input].reverse();
  const after = items.findIndex(({ id }) => id === query.get('after'));
  const rest = items.slice(after + 1);
  const data = rest.slice(0, limit);
  const [first_id = null, last_id = null] = [data[0]?.id, data.at(-1)?.id];
  return Response.json({ object: 'list', data, first_id, last_id, has_more: rest.length > limit });
}

/** Handles POST /v1/responses/input_tokens. @param {Context} context */
export async function countInputTokens({ body, models, responses, signal }) {
  const request = requestOf(body, responses);
  const { model } = await models.get(request.body.model);
  const formatted = request.options.format !== undefined;
  const prompt = { ...promptOf(model, request), tools: toolsIn(request), formatted };
  const input_tokens = await model.call('count', { prompt }, signal);
  return Response.json({ object: 'response.input_tokens', input_tokens });
}

/** @param {ResponseRequest} request @returns {any} */
const toolsIn = ({ options: { tools, toolChoice } }) => (toolChoice === 'none' ? undefined : tools);

/** Returns the prompt of a request as the worker's call `count` accepts it, without tools.
 * @param {Model} model @param {ResponseRequest} request */
function promptOf(model, { body, messages }) {
  const thinking = reasoningOf(body, model.info);
  return { ...model.describePrompt(messages), ...(thinking !== undefined && { thinking: Boolean(thinking) }) };
}

/** Returns the messages of a request, without the oldest turns if the whole conversation leaves too little of the
 * context for the answer.
 * @param {Model} model @param {ResponseRequest} request @param {AbortSignal} signal */
async function shortened(model, request, signal) {
  const { shortened: fitting } = await import('../overflow.js');
  const { contextLength } = model.info;
  const list = toolsIn(request);
  const fit = await fitting(
    {
      prompt: promptOf(model, request),
      tools: list && { list },
      format: request.options.format ?? null,
      maxTokens: request.options.maxTokens ?? contextLength,
    },
    { count: (prompt, signal) => model.call('count', { prompt }, signal), contextLength, signal },
  );
  return fit.messages;
}

/** Rejects POST /v1/responses/compact, which is not supported. @returns {Promise<Response>} */
export async function compactResponse() {
  throw noCompaction();
}
