/* tools: chat completions with tools, through OpenAI's client. */
/** @import { Calls } from './check.js' */
/** @import OpenAI from 'openai' */
import { LengthFinishReasonError } from 'openai/core/error';
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { equal, listOf, ok } from '../checks.js';
import { ADD, SAY, WILD, refused, untyped, user } from './check.js';

const NAMED = /** @type {const} */ ({ type: 'function', function: { name: 'add' } });
const ASKED = { messages: user('What is 2 + 3?'), ...WILD, seed: 1 };
const Sky = z.object({ sky: z.enum(['blue', 'grey']) });
const Sum = z.object({ a: z.number().int().min(-99).max(99), b: z.number().int().min(-99).max(99) });

/** @param {OpenAI.ChatCompletion.Choice} choice @returns {OpenAI.ChatCompletionMessageFunctionToolCall[]} */
function callsOf({ message, finish_reason: reason }) {
  const calls = /** @type {OpenAI.ChatCompletionMessageFunctionToolCall[]} */ (message.tool_calls ?? []);
  equal([reason, message.content], ['tool_calls', null]);
  ok(calls.length > 0 && new Set(calls.map(({ id }) => id)).size === calls.length, calls);
  for (const { id, type, function: called } of calls) {
    ok(/^call_\w+$/.test(id) && type === 'function', id);
    const args = JSON.parse(called.arguments);
    equal(Object.keys(args).sort(), called.name === 'add' ? ['a', 'b'] : ['what']);
  }
  return calls;
}

/** @type {Calls} */
const CHOICES = {
  'required makes calls with valid arguments': async ({ client, chat }) => {
    const asked = { model: chat, ...ASKED, tools: [ADD, SAY] };
    const { choices, usage } = await client.chat.completions.create({ ...asked, tool_choice: 'required' });
    // With random weights, an answer can reach the token limit after some calls.
    if (choices[0].finish_reason !== 'length') callsOf(choices[0]);
    ok(choices[0].message.tool_calls?.length && usage?.completion_tokens, choices);
  },
  'a named function is called once': async ({ client, chat }) => {
    const asked = { model: chat, ...ASKED, tools: [SAY, ADD] };
    const { choices } = await client.chat.completions.create({ ...asked, tool_choice: NAMED });
    equal(
      callsOf(choices[0]).map(({ function: { name } }) => name),
      ['add'],
    );
  },
  'none makes text': async ({ client, chat }) => {
    const asked = { model: chat, ...ASKED, max_tokens: 9, tools: [ADD], tool_choice: /** @type {const} */ ('none') };
    const { choices } = await client.chat.completions.create(asked);
    ok(choices[0].message.content && !choices[0].message.tool_calls, choices);
  },
  'auto makes text or calls': async ({ client, chat }) => {
    const asked = { model: chat, ...ASKED, max_tokens: 40, tools: [ADD, SAY] };
    for (const tool_choice of /** @type {const} */ ([undefined, 'auto'])) {
      const { choices } = await client.chat.completions.create({ ...asked, tool_choice });
      const { content, tool_calls: calls } = choices[0].message;
      ok(typeof content === 'string' || calls?.length, choices);
    }
  },
  'parallel_tool_calls: false makes one call': async ({ client, chat }) => {
    const asked = { model: chat, ...ASKED, tools: [ADD, SAY], parallel_tool_calls: false };
    for (const seed of [1, 2, 3]) {
      const { choices } = await client.chat.completions.create({ ...asked, seed, tool_choice: 'required' });
      equal(callsOf(choices[0]).length, 1);
    }
  },
  'allowed_tools limits the choice': async ({ client, chat }) => {
    const { choices } = await client.chat.completions.create({
      model: chat,
      ...ASKED,
      tools: [ADD, SAY],
      parallel_tool_calls: false,
      tool_choice: {
        type: 'allowed_tools',
        allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'say' } }] },
      },
    });
    equal(callsOf(choices[0])[0].function.name, 'say');
  },
  'a function without parameters has no arguments': async ({ client, chat }) => {
    const { choices } = await client.chat.completions.create({
      model: chat,
      ...ASKED,
      tools: [{ type: 'function', function: { name: 'now' } }],
      tool_choice: { type: 'function', function: { name: 'now' } },
    });
    equal(
      choices[0].message.tool_calls?.map((call) => call.type === 'function' && call.function.arguments),
      ['{}'],
    );
  },
  'a tool_choice that names no tool of the request is refused': async ({ client, chat }) => {
    const asked = { model: chat, ...ASKED, tools: [SAY], tool_choice: NAMED };
    const { param } = await refused(client.chat.completions.create(asked));
    equal(param, 'tool_choice');
  },
};

/** @type {Calls} */
const STREAMED = {
  'calls stream: id and name first, then pieces of the arguments': async ({ client, chat }) => {
    const asked = { model: chat, ...ASKED, tools: [ADD, SAY], parallel_tool_calls: false };
    const chunks = await listOf(
      await client.chat.completions.create({ ...asked, tool_choice: 'required', stream: true }),
    );
    equal(chunks[0].choices[0].delta, { role: 'assistant', content: null, refusal: null });
    const [first, ...rest] = chunks.flatMap(({ choices }) => choices[0].delta.tool_calls ?? []);
    ok(first.index === 0 && first.id && first.type === 'function' && first.function?.arguments === '', first);
    ok(rest.length > 0 && rest.every(({ id, index, type }) => id === undefined && index === 0 && !type), rest);
    const json = rest.map((call) => call.function?.arguments).join('');
    equal(Object.keys(JSON.parse(json)).sort(), first.function?.name === 'add' ? ['a', 'b'] : ['what']);
    equal(chunks.at(-1)?.choices[0].finish_reason, 'tool_calls');
  },
  'streamed calls are those of the answer that is not streamed': async ({ client, chat }) => {
    let compared = 0;
    for (const seed of [1, 2, 3]) {
      const asked = {
        model: chat,
        ...ASKED,
        seed,
        tools: [ADD, SAY],
        tool_choice: /** @type {const} */ ('required'),
      };
      const plain = (/** @type {any} */ answer) =>
        answer.choices[0].message.tool_calls?.map((/** @type {any} */ { function: called }) => [
          called.name,
          called.arguments,
        ]);
      // If `max_tokens` cuts off a tool call, only the stream has its beginning.
      const whole = plain(await client.chat.completions.create(asked)) ?? [];
      const streamed = plain(await client.chat.completions.stream(asked).finalChatCompletion()) ?? [];
      equal(streamed.slice(0, whole.length), whole);
      compared += whole.length;
    }
    ok(compared > 0, compared);
  },
};

/** @type {Calls} */
const RESULTS = {
  'results are sent back by the ids of their calls': async ({ client, chat }) => {
    const asked = { model: chat, ...ASKED, tools: [ADD, SAY], parallel_tool_calls: false };
    const { choices } = await client.chat.completions.create({ ...asked, tool_choice: 'required' });
    const results = callsOf(choices[0]).map(({ id }) => {
      return { role: /** @type {const} */ ('tool'), tool_call_id: id, content: '{"sum": 5}' };
    });
    const messages = [...ASKED.messages, choices[0].message, ...results];
    const next = await client.chat.completions.create({ ...asked, messages, tool_choice: 'none', max_tokens: 5 });
    equal([next.choices[0].finish_reason, next.choices[0].message.tool_calls], ['length', undefined]);
  },
  'an assistant’s message may have several calls, and results may be parts': async ({ client, chat }) => {
    const calls = ['call_a', 'call_b'].map((id) => ({
      id,
      type: /** @type {const} */ ('function'),
      function: { name: 'say', arguments: '{"what":"hi"}' },
    }));
    const results = calls.map(({ id }) => {
      const content = [{ type: /** @type {const} */ ('text'), text: 'said' }];
      return { role: /** @type {const} */ ('tool'), tool_call_id: id, content };
    });
    const said = { role: /** @type {const} */ ('assistant'), content: 'Well.', tool_calls: calls };
    const messages = [...user('Say hi twice'), said, ...results];
    const { choices } = await client.chat.completions.create({ model: chat, messages, max_tokens: 3 });
    equal(choices[0].finish_reason, 'length');
  },
  'a result without its call is refused': async ({ client, chat }) => {
    const result = { role: /** @type {const} */ ('tool'), tool_call_id: 'call_x', content: '1' };
    const asked = { model: chat, messages: [...user('Hi'), result] };
    const { status } = await refused(client.chat.completions.create(asked));
    equal(status, 400);
  },
  'arguments that are not JSON are refused': async ({ client, chat }) => {
    const call = untyped({ id: 'a', type: 'function', function: { name: 'add', arguments: '{' } });
    const messages = [...user('Hi'), { role: /** @type {const} */ ('assistant'), tool_calls: [call] }];
    const { param } = await refused(client.chat.completions.create({ model: chat, messages }));
    equal(param, 'messages[1].tool_calls[0].function.arguments');
    const empty = [
      ...user('Hi'),
      { role: /** @type {const} */ ('assistant'), tool_calls: [{ ...call, function: null }] },
    ];
    await refused(client.chat.completions.create({ model: chat, messages: empty }));
  },
  'runTools() runs a function': async ({ client, chat }) => {
    /** @type {string[]} */
    const ran = [];
    const tool = {
      type: /** @type {const} */ ('function'),
      function: {
        ...ADD.function,
        parameters: untyped(ADD.function.parameters),
        function: (/** @type {string} */ args) => {
          ran.push(args);
          return { sum: 5 };
        },
      },
    };
    const runner = client.chat.completions.runTools({ model: chat, ...ASKED, tools: [tool], tool_choice: NAMED });
    const call = await runner.finalFunctionToolCall();
    equal([ran.length, ran[0], await runner.finalFunctionToolCallResult()], [1, call?.arguments, '{"sum":5}']);
  },
  'runTools() stops at its limit of completions': async ({ client, chat }) => {
    let ran = 0;
    const tool = zodFunction({
      name: 'add',
      description: 'Adds',
      parameters: Sum,
      function: ({ a, b }) => {
        ran++;
        return a + b;
      },
    });
    const asked = { model: chat, ...ASKED, tools: [tool], tool_choice: /** @type {const} */ ('required') };
    const runner = client.chat.completions.runTools(
      { ...asked, parallel_tool_calls: false },
      { maxChatCompletions: 2 },
    );
    await runner.done();
    ok(ran >= 1 && runner.allChatCompletions().length === 2, ran);
    ok(runner.messages.some(({ role }) => role === 'tool'));
  },
  'runTools() streams': async ({ client, chat }) => {
    const tool = zodFunction({ name: 'add', parameters: Sum, function: ({ a, b }) => ({ sum: a + b }) });
    const runner = client.chat.completions.runTools({
      model: chat,
      ...ASKED,
      tools: [tool],
      tool_choice: NAMED,
      stream: true,
    });
    let chunks = 0;
    runner.on('chunk', () => chunks++);
    const call = await runner.finalFunctionToolCall();
    const { a, b } = JSON.parse(call?.arguments ?? '');
    equal(await runner.finalFunctionToolCallResult(), JSON.stringify({ sum: a + b }));
    ok(chunks > 2, chunks);
  },
};

/** Checks that a choice has tool calls, or text in the required format. Returns the finish reason.
 * @param {any} choice */
function kindOf(choice) {
  const { message, finish_reason: reason } = choice;
  if (reason === 'length') return reason;
  if (reason === 'tool_calls') callsOf(choice);
  else equal([reason, message.tool_calls?.length ?? 0, Sky.safeParse(message.parsed).success], ['stop', 0, true]);
  return reason;
}

/** @type {Calls} */
const FORMATTED = {
  'parse() with tools and a response format gives calls or a value': async ({ client, chat }) => {
    const asked = { model: chat, ...ASKED, tools: [zodFunction({ name: 'add', parameters: Sum })] };
    const response_format = zodResponseFormat(Sky, 'sky');
    const seen = new Set();
    for (let seed = 1; seed <= 30 && seen.size < 2; seed++) {
      const { choices } = await client.chat.completions.parse({ ...asked, response_format, seed }).catch((error) => {
        if (error instanceof LengthFinishReasonError) return { choices: [{ finish_reason: 'length' }] };
        throw error;
      });
      seen.add(kindOf(choices[0])).delete('length');
    }
    equal([...seen].sort(), ['stop', 'tool_calls']);
  },
  'a stream with tools and a response format has deltas of calls or of text': async ({ client, chat }) => {
    const asked = {
      model: chat,
      ...ASKED,
      max_tokens: 60,
      tools: [ADD],
      response_format: zodResponseFormat(Sky, 'sky'),
    };
    const seen = new Set();
    for (let seed = 1; seed <= 30 && seen.size < 2; seed++) {
      const chunks = await listOf(await client.chat.completions.create({ ...asked, seed, stream: true }));
      const deltas = chunks.map(({ choices }) => choices[0].delta);
      const [text, args] = [
        deltas.map(({ content }) => content ?? '').join(''),
        deltas.map(({ tool_calls: calls }) => calls?.[0].function?.arguments ?? '').join(''),
      ];
      ok(!text || !args, [text, args]);
      const reason = chunks.at(-1)?.choices[0].finish_reason;
      if (reason === 'stop') ok(Sky.safeParse(JSON.parse(text)).success, text);
      if (reason === 'tool_calls') ok(args, deltas);
      seen.add(reason).delete('length');
    }
    equal([...seen].sort(), ['stop', 'tool_calls']);
  },
};

export const TOOLS = { ...CHOICES, ...STREAMED, ...RESULTS, ...FORMATTED };
