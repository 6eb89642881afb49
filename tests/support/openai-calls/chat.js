/* chat: calls of chat.completions.create() and parse() without streaming. */
/** @import { Calls, Given } from './check.js' */
import OpenAI from 'openai';
import { LengthFinishReasonError } from 'openai/core/error';
import { standardResponseFormat } from 'openai/helpers/standard-schema';
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { equal, ok } from '../checks.js';
import { WILD, rejects, untyped, user } from './check.js';

const STORY = { messages: user('Tell me a story about a cat.'), seed: 7, max_tokens: 12 };
const PERSON = {
  type: 'object',
  properties: { name: { enum: ['Tom', 'Lily'] }, age: { type: 'integer', minimum: 1, maximum: 99 } },
  required: ['name', 'age'],
  additionalProperties: false,
};
const Person = z.object({ name: z.enum(['Tom', 'Lily']), age: z.number().int().min(1).max(99) });

/** @param {any} value */
function isPerson({ name, age, ...rest }) {
  ok(['Tom', 'Lily'].includes(name) && Number.isInteger(age) && age > 0 && age < 100, { name, age });
  equal(rest, {});
}

/** Asks the model `story` for a story. `more` adds or replaces fields of the request.
 * @param {Given} given @param {object} [more] */
const tell = ({ client, story }, more) => client.chat.completions.create({ model: story, ...STORY, ...more });

/** @param {OpenAI.ChatCompletion} answer */
const textOf = ({ choices: [{ message }] }) => message.content ?? '';

/** @type {Calls} */
const SHAPE = {
  'an answer has OpenAI’s shape': async (given) => {
    const answer = await tell(given);
    const { id, object, created, model, choices, usage } = answer;
    ok(/^chatcmpl-\w+$/.test(id) && Math.abs(created - Date.now() / 1000) < 600, answer);
    equal([object, model, choices.length], ['chat.completion', given.story, 1]);
    const [{ index, message, finish_reason: reason, logprobs }] = choices;
    equal([index, message.role, message.refusal, reason, logprobs], [0, 'assistant', null, 'length', null]);
    ok(message.content && !message.tool_calls, message);
    ok(usage && usage.total_tokens === usage.prompt_tokens + 12 && usage.completion_tokens === 12, usage);
    ok(/^req_\w+$/.test(answer._request_id ?? ''), answer._request_id);
  },
  'a developer’s message is a system message': async ({ client, chat }) => {
    const ask = (/** @type {'developer' | 'system'} */ role) =>
      client.chat.completions.create({
        model: chat,
        messages: [{ role, content: 'Talk like a pirate.' }, ...user('Hi')],
        seed: 1,
        max_tokens: 5,
      });
    equal(textOf(await ask('developer')), textOf(await ask('system')));
  },
  'a conversation of several turns reuses what was evaluated': async ({ client, chat }) => {
    const first = await client.chat.completions.create({ model: chat, messages: user('Hi'), max_tokens: 5 });
    const messages = [...user('Hi'), first.choices[0].message, ...user('And now?')];
    const { usage } = await client.chat.completions.create({ model: chat, messages, max_tokens: 5 });
    ok((usage?.prompt_tokens_details?.cached_tokens ?? 0) > 5, usage);
  },
  'text parts are joined': async ({ client, chat }) => {
    const parts = ['Hi', 'there'].map((text) => ({ type: /** @type {const} */ ('text'), text }));
    const ask = (/** @type {string | typeof parts} */ content) =>
      client.chat.completions.create({
        model: chat,
        messages: [{ role: 'user', content }],
        seed: 1,
        max_tokens: 5,
      });
    equal(textOf(await ask(parts)), textOf(await ask('Hi\nthere')));
  },
  'the refusal in an earlier answer counts as the text of that answer': async ({ client, chat }) => {
    const messages = [...user('Hi'), untyped({ role: 'assistant', refusal: 'No.', content: null }), ...user('Why?')];
    const { choices } = await client.chat.completions.create({ model: chat, messages, max_tokens: 3 });
    equal(choices[0].finish_reason, 'length');
  },
  'fields without effect are ignored, and null is the same as nothing': async (given) => {
    const labelled = await tell(given, {
      user: 'someone',
      metadata: { a: 'b' },
      service_tier: 'auto',
      store: false,
      modalities: ['text'],
      prompt_cache_key: 'c',
      safety_identifier: 'd',
      top_p: null,
      stop: null,
      n: null,
      logit_bias: null,
      stream_options: null,
    });
    equal(textOf(labelled), textOf(await tell(given)));
  },
};

/** @type {Calls} */
const SAMPLING = {
  'a seed repeats an answer, negative and large ones too': async (given) => {
    for (const seed of [1, -5, 2 ** 40]) {
      equal(textOf(await tell(given, { seed })), textOf(await tell(given, { seed })));
    }
  },
  'other seeds give other answers': async ({ client, chat }) => {
    const ask = (/** @type {number} */ seed) =>
      client.chat.completions.create({ model: chat, messages: user('Hi'), ...WILD, max_tokens: 20, seed });
    ok(textOf(await ask(1)) !== textOf(await ask(2)));
  },
  'temperature 0 needs no seed, and is the most likely answer': async (given) => {
    const ask = (/** @type {object} */ more) => tell(given, { seed: undefined, ...more });
    equal(textOf(await ask({ temperature: 0 })), textOf(await ask({ top_p: 0 })));
  },
  'top_k, min_p and repetition_penalty are accepted too': async (given) => {
    const likely = textOf(await tell(given, { temperature: 0 }));
    equal(textOf(await tell(given, { top_k: 1 })), likely);
    equal(textOf(await tell(given, { min_p: 1 })), likely);
    ok(textOf(await tell(given, { repetition_penalty: 100, top_k: 1 })) !== likely);
  },
  'frequency and presence penalties change what is likely': async ({ client, chat }) => {
    const ask = (/** @type {object} */ more) =>
      client.chat.completions.create({
        model: chat,
        messages: user('Hi'),
        temperature: 0,
        max_tokens: 30,
        ...more,
      });
    const plain = textOf(await ask({}));
    ok(textOf(await ask({ frequency_penalty: 2 })) !== plain, plain);
    ok(textOf(await ask({ presence_penalty: 2 })) !== plain, plain);
  },
  'max_tokens and max_completion_tokens limit the answer': async (given) => {
    for (const limit of [
      { max_tokens: 3 },
      { max_completion_tokens: 3, max_tokens: undefined },
      { max_completion_tokens: 3, max_tokens: 9 },
    ]) {
      const { choices, usage } = await tell(given, limit);
      equal([choices[0].finish_reason, usage?.completion_tokens], ['length', 3]);
    }
  },
  'without a limit, an answer ends by itself': async (given) => {
    const { choices } = await tell(given, { max_tokens: undefined });
    equal(choices[0].finish_reason, 'stop');
  },
  'a stop sequence ends the answer and is left out': async (given) => {
    const whole = textOf(await tell(given));
    const end = whole.trim().split(' ')[3];
    for (const stop of [end, ['not in there', end]]) {
      const { choices } = await tell(given, { stop });
      equal([choices[0].finish_reason, choices[0].message.content], ['stop', whole.slice(0, whole.indexOf(end))]);
    }
  },
  'logit_bias decides which token is drawn': async ({ client, chat }) => {
    const { choices } = await client.chat.completions.create({
      model: chat,
      messages: user('Hi'),
      logit_bias: { 300: 100 },
      logprobs: true,
      max_tokens: 4,
    });
    const tokens = choices[0].logprobs?.content?.map(({ token }) => token) ?? [];
    equal([tokens.length, new Set(tokens).size], [4, 1]);
  },
};

/** @type {Calls} */
const SEVERAL = {
  'n answers have consecutive seeds, and the prompt counts once': async (given) => {
    const one = await tell(given);
    const { choices, usage } = await tell(given, { n: 3 });
    equal(
      choices.map(({ index }) => index),
      [0, 1, 2],
    );
    equal(choices[0].message.content, textOf(one));
    equal(choices[2].message.content, textOf(await tell(given, { seed: STORY.seed + 2 })));
    equal([usage?.prompt_tokens, usage?.completion_tokens], [one.usage?.prompt_tokens, 36]);
  },
  'logprobs tell the probability of each token': async (given) => {
    const { choices } = await tell(given, { logprobs: true });
    const list = choices[0].logprobs?.content ?? [];
    equal(list.length, 12);
    ok(
      list.every(({ logprob, top_logprobs: top }) => logprob <= 0 && !top.length),
      list,
    );
    equal(list.map(({ token }) => token).join(''), choices[0].message.content);
  },
  'top_logprobs are the most likely tokens, best first': async (given) => {
    const { choices } = await tell(given, { temperature: 0, logprobs: true, top_logprobs: 5 });
    const list = choices[0].logprobs?.content ?? [];
    equal(list.length, 12);
    for (const { token, top_logprobs: top } of list) {
      equal([top.length, top[0].token], [5, token]);
      ok(
        top.every(({ logprob }, i) => i === 0 || logprob <= top[i - 1].logprob),
        top,
      );
    }
  },
  'the bytes of tokens are those of the text, even inside characters': async ({ client, chat }) => {
    for (const seed of [1, 2, 3]) {
      const { choices } = await client.chat.completions.create({
        model: chat,
        messages: user('é'),
        ...WILD,
        max_tokens: 60,
        seed,
        logprobs: true,
      });
      const bytes = choices[0].logprobs?.content?.flatMap((one) => one.bytes ?? []) ?? [];
      ok(bytes.length >= 60, bytes);
      equal(new TextDecoder().decode(new Uint8Array(bytes)), choices[0].message.content);
    }
  },
  'an unfinished answer is continued': async ({ client, story }) => {
    const messages = [...STORY.messages, { role: /** @type {const} */ ('assistant'), content: 'Once upon a time' }];
    const asked = { model: story, messages, temperature: 0, max_tokens: 4, continue_final_message: true };
    equal(textOf(await client.chat.completions.create(asked)).slice(0, 7), ', there');
  },
};

/** @type {Calls} */
const FORMATS = {
  'response_format text changes nothing': async (given) => {
    equal(textOf(await tell(given, { response_format: { type: 'text' } })), textOf(await tell(given)));
  },
  'json_object makes an object': async ({ client, story }) => {
    const asked = { model: story, messages: STORY.messages, ...WILD, max_tokens: 300 };
    const seen = { stop: 0, length: 0 };
    for (let seed = 1; seed <= 20 && !seen.stop; seed++) {
      const { choices } = await client.chat.completions.create({
        ...asked,
        seed,
        response_format: { type: 'json_object' },
      });
      const [{ finish_reason: reason, message }] = choices;
      ok(message.content?.startsWith('{'), message);
      if (reason === 'stop') equal(typeof JSON.parse(message.content ?? ''), 'object');
      seen[/** @type {'stop'} */ (reason)]++;
    }
    ok(seen.stop, seen);
  },
  'json_schema makes an object of the schema, strict or not': async ({ client, chat }) => {
    for (const strict of [true, false, null]) {
      const answer = await client.chat.completions.create({
        model: chat,
        messages: user('Who?'),
        ...WILD,
        response_format: { type: 'json_schema', json_schema: { name: 'person', schema: PERSON, strict } },
      });
      equal(answer.choices[0].finish_reason, 'stop');
      isPerson(JSON.parse(textOf(answer)));
    }
  },
  'parse() returns the value of a zod schema': async ({ client, chat }) => {
    const { choices } = await client.chat.completions.parse({
      model: chat,
      messages: user('Who?'),
      ...WILD,
      response_format: zodResponseFormat(Person, 'person'),
    });
    isPerson(choices[0].message.parsed);
  },
  'parse() returns the value of a Standard Schema': async ({ client, chat }) => {
    const { choices } = await client.chat.completions.parse({
      model: chat,
      messages: user('Who?'),
      ...WILD,
      response_format: standardResponseFormat(Person, 'person'),
    });
    isPerson(choices[0].message.parsed);
  },
  'parse() returns the arguments of a zod function': async ({ client, chat }) => {
    const { choices } = await client.chat.completions.parse({
      model: chat,
      messages: user('Who?'),
      ...WILD,
      tools: [zodFunction({ name: 'meet', parameters: Person })],
      tool_choice: 'required',
      parallel_tool_calls: false,
    });
    const [call] = choices[0].message.tool_calls ?? [];
    isPerson(call.type === 'function' && call.function.parsed_arguments);
  },
  'parse() reports an answer that was cut off': async ({ client, chat }) => {
    const asked = { model: chat, messages: user('Who?'), max_tokens: 2 };
    const response_format = zodResponseFormat(Person, 'person');
    await rejects(client.chat.completions.parse({ ...asked, response_format }), LengthFinishReasonError);
  },
};

export const CHAT = { ...SHAPE, ...SAMPLING, ...SEVERAL, ...FORMATS };
