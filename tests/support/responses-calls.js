/* responses-calls: calls of the Responses API through OpenAI's client, each with its checks. They need a model with a
 * chat template and any weights, and run in Node, in browsers and against a server. */
/** @import { OpenAI } from 'openai' */
import { equal, failureOf, failuresOf, listOf, ok } from './checks.js';

/** @typedef {{ client: OpenAI, model: string, [key: string]: any }} Bench */

/** @param {Promise<unknown>} call @param {number} status @param {string | null} code @param {RegExp} message */
async function fails(call, status, code, message) {
  const error = await failureOf(call, String(message));
  equal([error.status, error.code], [status, code], `error ${error.message}`);
  ok(message.test(error.message), `"${error.message}" matches ${message}`);
}

const DIGIT = { type: 'integer', minimum: 0, maximum: 9 };
const ADD = {
  type: /** @type {const} */ ('function'),
  name: 'add',
  description: 'Adds two digits',
  strict: true,
  parameters: {
    type: 'object',
    properties: { a: DIGIT, b: DIGIT },
    required: ['a', 'b'],
    additionalProperties: false,
  },
};
const PICK = {
  ...ADD,
  name: 'pick',
  description: 'Picks a colour',
  parameters: {
    type: 'object',
    properties: { colour: { enum: ['red', 'green'] } },
    required: ['colour'],
    additionalProperties: false,
  },
};
const QUESTION = { input: 'Hello', seed: 1, max_output_tokens: 8 };

/** @param {any} response */
function callOf({ output }) {
  const calls = output.filter((/** @type {any} */ { type }) => type === 'function_call');
  equal(calls.length, 1, 'calls');
  return { ...calls[0], args: JSON.parse(calls[0].arguments) };
}

/** Reads a stream, and checks the sequence numbers of its events. @param {AsyncIterable<any>} stream */
async function read(stream) {
  const events = await listOf(stream);
  equal(
    events.map(({ sequence_number: number }) => number),
    events.map((_, i) => i),
    'numbers',
  );
  return events;
}

/** The calls by name. `create` calls responses.create() with the model's name.
 * @type {Record<string, (bench: Bench & { create: (body: any) => Promise<any> }) => Promise<void>>} */
const CALLS = {
  'a string as input': async ({ create }) => {
    const response = await create(QUESTION);
    ok(/^resp_\w{24}$/.test(response.id), `${response.id} is an id`);
    equal(
      [response.object, response.status, response.incomplete_details, response.error],
      ['response', 'incomplete', { reason: 'max_output_tokens' }, null],
    );
    const [{ type, role, status, content }] = response.output;
    equal([type, role, status, content.length], ['message', 'assistant', 'incomplete', 1]);
    equal([content[0].type, content[0].text, content[0].annotations], ['output_text', response.output_text, []]);
    const { input_tokens: read, output_tokens: written, total_tokens: all } = response.usage;
    ok(read > 0 && written === 8 && all === read + written, `${read} + ${written} = ${all}`);
  },
  'items of every role': async ({ create }) => {
    const { output } = await create({
      ...QUESTION,
      instructions: 'Be brief.',
      input: [
        { role: 'developer', content: 'Use English.' },
        { role: 'user', content: [{ type: 'input_text', text: 'One' }] },
        { role: 'assistant', content: [{ type: 'output_text', text: 'Two', annotations: [] }] },
        { type: 'message', role: 'user', content: 'Three' },
      ],
    });
    equal(output.length, 1, 'items');
  },
  'the same seed gives the same answer, and the response repeats the options': async ({ create }) => {
    const asked = { ...QUESTION, temperature: 0.5, top_p: 0.75, metadata: { topic: 'a' }, user: 'me' };
    const [one, other] = [await create(asked), await create(asked)];
    equal(one.output_text, other.output_text);
    equal([one.temperature, one.top_p, one.metadata, one.max_output_tokens], [0.5, 0.75, { topic: 'a' }, 8]);
    equal([one.text.format, one.tool_choice, one.tools, one.truncation], [{ type: 'text' }, 'auto', [], 'disabled']);
  },
  'a stream announces each part': async ({ create }) => {
    const whole = await create(QUESTION);
    const events = await read(await create({ ...QUESTION, stream: true }));
    const types = events.map(({ type }) => type.replace('response.', ''));
    const deltas = events.filter(({ type }) => type === 'response.output_text.delta');
    const begin = ['created', 'in_progress', 'output_item.added', 'content_part.added'];
    const end = ['output_text.done', 'content_part.done', 'output_item.done', 'incomplete'];
    equal(types, [...begin, ...deltas.map(() => 'output_text.delta'), ...end]);
    equal(deltas.map(({ delta }) => delta).join(''), whole.output_text);
    equal(events.at(-1).response.output[0].content[0].text, whole.output_text);
    equal(events.at(-1).response.usage.output_tokens, 8);
    equal(events[0].response.output, []);
  },
  'client.responses.stream() collects the response': async ({ client, model }) => {
    const stream = client.responses.stream(/** @type {any} */ ({ ...QUESTION, model }));
    let text = '';
    stream.on('response.output_text.delta', ({ delta }) => {
      text += delta;
    });
    const response = await stream.finalResponse();
    equal([response.output_text, response.status], [text, 'incomplete']);
  },
  'a stored response is retrieved, and deleted': async ({ create, client }) => {
    const response = await create(QUESTION);
    const stored = await client.responses.retrieve(response.id);
    equal([stored.output, stored.usage], [response.output, response.usage]);
    await client.responses.delete(response.id);
    await fails(client.responses.retrieve(response.id), 404, 'response_not_found', /not found/);
  },
  'a response is not stored with store: false': async ({ create, client }) => {
    const { id, store } = await create({ ...QUESTION, store: false });
    equal(store, false);
    await fails(client.responses.retrieve(id), 404, 'response_not_found', /not found/);
  },
  'previous_response_id continues the conversation, without the earlier instructions': async ({ create, client }) => {
    const first = await create({ ...QUESTION, instructions: 'Answer in one word, please, whatever the question is.' });
    const second = await create({ ...QUESTION, input: 'And then?', previous_response_id: first.id });
    equal([second.previous_response_id, second.instructions], [first.id, null]);
    const spelled = [
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: first.output_text },
      { role: 'user', content: 'And then?' },
    ];
    const stateless = await create({ ...QUESTION, input: spelled });
    equal([second.output_text, second.usage.input_tokens], [stateless.output_text, stateless.usage.input_tokens]);
    const items = await listOf(client.responses.inputItems.list(second.id, { limit: 1, order: 'asc' }));
    equal(
      items.map((/** @type {any} */ { role, content }) => [role, content[0].text]),
      spelled.map(({ role, content }) => [role, content]),
    );
  },
  'an unknown previous response is rejected': async ({ create }) => {
    const call = create({ ...QUESTION, previous_response_id: 'resp_unknown' });
    await fails(call, 400, 'previous_response_not_found', /resp_unknown/);
  },
  'a required call, answered in a second step': async ({ create }) => {
    const first = await create({ ...QUESTION, max_output_tokens: 200, tools: [ADD], tool_choice: 'required' });
    equal([first.status, first.output_text], ['completed', '']);
    const [call] = first.output;
    equal([call.type, call.name, call.status], ['function_call', 'add', 'completed']);
    equal(Object.keys(JSON.parse(call.arguments)).sort(), ['a', 'b']);
    const outputs = first.output.map((/** @type {any} */ { call_id }) => ({
      type: 'function_call_output',
      call_id,
      output: JSON.stringify({ sum: 5 }),
    }));
    const second = await create({
      ...QUESTION,
      input: outputs,
      tools: [ADD],
      tool_choice: 'none',
      previous_response_id: first.id,
    });
    equal([second.output[0].type, second.usage.output_tokens], ['message', 8]);
    const stateless = await create({
      ...QUESTION,
      input: [{ role: 'user', content: 'Hello' }, ...first.output, ...outputs],
      tools: [ADD],
      tool_choice: 'none',
      store: false,
    });
    equal(second.output_text, stateless.output_text);
  },
  'a streamed call': async ({ create }) => {
    const tool_choice = { type: 'function', name: 'add' };
    const asked = { ...QUESTION, max_output_tokens: 200, tools: [ADD, PICK], tool_choice };
    const events = await read(await create({ ...asked, stream: true }));
    const types = events.map(({ type }) => type.replace('response.', ''));
    const deltas = events.filter(({ type }) => type === 'response.function_call_arguments.delta');
    equal(types, [
      ...['created', 'in_progress', 'output_item.added'],
      ...deltas.map(() => 'function_call_arguments.delta'),
      ...['function_call_arguments.done', 'output_item.done', 'completed'],
    ]);
    const [{ item }] = events.filter(({ type }) => type === 'response.output_item.done');
    equal([item.name, item.arguments], ['add', deltas.map(({ delta }) => delta).join('')]);
    equal(callOf(await create(asked)).arguments, item.arguments);
  },
  'a call of one tool by its name': async ({ create }) => {
    const tool_choice = { type: 'function', name: 'pick' };
    const call = callOf(await create({ ...QUESTION, max_output_tokens: 200, tools: [ADD, PICK], tool_choice }));
    ok(['red', 'green'].includes(call.args.colour), `${call.arguments} fits the schema`);
  },
  'allowed_tools restrict the choice': async ({ create }) => {
    const tool_choice = { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'pick' }] };
    const asked = { ...QUESTION, max_output_tokens: 200, tools: [ADD, PICK], tool_choice, parallel_tool_calls: false };
    const response = await create(asked);
    equal([callOf(response).name, response.tools.length, response.parallel_tool_calls], ['pick', 2, false]);
  },
  'a format and tools together: a call, or text that fits': async ({ create }) => {
    const schema = { type: 'object', properties: { sky: { enum: ['blue', 'grey'] } }, required: ['sky'] };
    const format = {
      type: 'json_schema',
      name: 'sky',
      strict: true,
      schema: { ...schema, additionalProperties: false },
    };
    const asked = { ...QUESTION, max_output_tokens: 120, temperature: 2, top_p: 1, tools: [PICK], text: { format } };
    const seen = new Set();
    for (let seed = 1; seed <= 30 && seen.size < 2; seed++) {
      const response = await create({ ...asked, seed });
      if (response.status === 'incomplete') continue;
      const kinds = new Set(response.output.map((/** @type {any} */ { type }) => type));
      equal(kinds.size, 1, 'kinds of items');
      if (kinds.has('message')) ok(/^\{"sky":"(blue|grey)"\}$/.test(response.output_text), response.output_text);
      else ok(/^(red|green)$/.test(JSON.parse(response.output[0].arguments).colour), response.output[0].arguments);
      seen.add([...kinds][0]);
    }
    equal([...seen].sort(), ['function_call', 'message']);
  },
  'a format constrains the answer': async ({ create }) => {
    const schema = { ...PICK.parameters, properties: { colour: { enum: ['red', 'green'] }, size: DIGIT } };
    const format = { type: 'json_schema', name: 'choice', strict: true, schema };
    const response = await create({ ...QUESTION, max_output_tokens: 200, text: { format } });
    equal([response.status, response.text.format.name], ['completed', 'choice']);
    ok(['red', 'green'].includes(JSON.parse(response.output_text).colour), `${response.output_text} fits`);
  },
  'the number of input tokens': async ({ create, client, model }) => {
    const { input_tokens: tokens } = await client.responses.inputTokens.count({ model, input: 'Hello', tools: [ADD] });
    const asked = { ...QUESTION, tools: [ADD], tool_choice: { type: 'function', name: 'add' } };
    equal(tokens, (await create(asked)).usage.input_tokens);
  },
  'log probabilities': async ({ create }) => {
    const include = ['message.output_text.logprobs'];
    const asked = { ...QUESTION, top_logprobs: 2, include };
    const whole = await create(asked);
    const [{ text, logprobs }] = whole.output[0].content;
    equal([logprobs.length, whole.top_logprobs], [8, 2]);
    const bytes = logprobs.flatMap((/** @type {any} */ token) => token.bytes);
    // An incomplete character at the end is not part of the text.
    const decoded = new TextDecoder('utf-8', { ignoreBOM: true }).decode(new Uint8Array(bytes), { stream: true });
    equal(decoded.trimStart(), text.trimStart());
    ok(
      logprobs.every((/** @type {any} */ token) => token.logprob <= 0 && token.top_logprobs.length === 2),
      'each token has two alternatives',
    );
    const events = await read(await create({ ...asked, stream: true }));
    equal(events.at(-1).response.output[0].content[0].logprobs, logprobs);
    const streamed = events.filter(({ type }) => type === 'response.output_text.delta');
    equal(streamed.flatMap((event) => event.logprobs).length, 8);
    const alone = await create({ ...QUESTION, include });
    equal(alone.output[0].content[0].logprobs[0].top_logprobs, []);
    await fails(create({ ...QUESTION, top_logprobs: 2 }), 400, 'invalid_value', /`include`/);
  },
  "truncation: 'auto' leaves out the oldest turns": async ({ create }) => {
    const turns = (/** @type {number} */ n) =>
      Array.from({ length: n }, (_, i) => [
        { role: 'user', content: `Question ${i}: ${'word '.repeat(40)}` },
        { role: 'assistant', content: 'Yes.' },
      ]).flat();
    const instructions = 'Be brief.';
    const asked = { ...QUESTION, instructions, input: [...turns(60), { role: 'user', content: 'Last question' }] };
    await fails(create(asked), 400, 'context_length_exceeded', /context/);
    const response = await create({ ...asked, truncation: 'auto' });
    equal([response.truncation, response.usage.output_tokens], ['auto', 8]);
    const kept = await create({ ...QUESTION, instructions, input: [{ role: 'user', content: 'Last question' }] });
    ok(response.usage.input_tokens > kept.usage.input_tokens, 'later turns stay');
  },
  'references to stored items': async ({ create }) => {
    const first = await create(QUESTION);
    const reference = { type: 'item_reference', id: first.output[0].id };
    const question = { role: 'user', content: 'Hello' };
    const referring = await create({ ...QUESTION, input: [question, reference, question] });
    const spelled = await create({ ...QUESTION, input: [question, first.output[0], question] });
    equal(referring.output_text, spelled.output_text);
    const brief = await create({ ...QUESTION, input: [question, { ...reference, type: null }, question] });
    equal(brief.output_text, spelled.output_text);
    const unknown = { type: 'item_reference', id: 'msg_unknown' };
    await fails(create({ ...QUESTION, input: [unknown] }), 400, 'item_not_found', /msg_unknown/);
  },
  'unsupported parameters are refused with their name': async ({ create, client }) => {
    const image = { role: 'user', content: [{ type: 'input_image', image_url: 'data:,' }] };
    for (const [more, name] of /** @type {[object, RegExp][]} */ ([
      [{ background: true }, /`background` is not supported/],
      [{ conversation: 'conv_1' }, /`conversation` is not supported/],
      [{ prompt: { id: 'pmpt_1' } }, /`prompt` is not supported/],
      [{ tools: [{ type: 'web_search' }] }, /`web_search` is not supported/],
      [{ input: [image] }, /`input_image` is not supported/],
      [{ input: [{ type: 'computer_call' }] }, /`computer_call` is not supported/],
    ])) {
      await fails(create({ ...QUESTION, ...more }), 400, 'unsupported_parameter', name);
    }
    const { id } = await create(QUESTION);
    await fails(client.responses.cancel(id), 400, 'invalid_value', /cannot be cancelled/);
  },
  'wrong values are named': async ({ create }) => {
    for (const [more, param, message] of /** @type {[object, string, RegExp][]} */ ([
      [{ max_output_tokens: 0 }, 'max_output_tokens', /`max_output_tokens` must be/],
      [{ temperature: -1 }, 'temperature', /`temperature` must be/],
      [{ input: 7 }, 'input', /'input'/],
      [{ input: [] }, 'input', /'input'/],
      [{ input: [{ role: 'king', content: 'x' }] }, 'input[0].role', /user, assistant/],
      [{ input: [{ type: 'function_call_output', call_id: 'x', output: '' }] }, 'input', /'x'/],
      [{ metadata: { a: 1 } }, 'metadata', /`metadata`/],
      [{ text: { format: { type: 'xml' } } }, 'text.format', /`xml`/],
      [{ text: { format: { type: 'json_schema', name: 'a', schema: 'x' } } }, 'text.format', /'text\.format\.schema'/],
      [{ include: ['secrets'] }, 'include', /`secrets`/],
    ])) {
      const error = await failureOf(create({ ...QUESTION, ...more }), JSON.stringify(more));
      equal([error.status, error.param], [400, param], JSON.stringify(more));
      ok(message.test(error.message), `"${error.message}" matches ${message}`);
    }
    const unknown = create({ ...QUESTION, whatever: 1 });
    await fails(unknown, 400, 'unknown_parameter', /'whatever'/);
  },
  'leaving a stream ends the answer': async ({ create }) => {
    for await (const _ of await create({ ...QUESTION, max_output_tokens: 100_000, stream: true })) break;
    equal((await create(QUESTION)).usage.output_tokens, 8);
  },
};

/** Makes all calls, one after the other. Returns a text for each one that fails. @param {Bench} bench
 * @returns {Promise<string[]>} */
export function failedCalls({ client, model }) {
  const create = async (/** @type {any} */ body) => client.responses.create({ model, ...body });
  return failuresOf(Object.entries(CALLS), { client, model, create });
}
