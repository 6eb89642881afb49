/* others: completions, embeddings, models and errors with OpenAI's client. */
/** @import { Calls, Given } from './check.js' */
import OpenAI from 'openai';
import { equal, listOf, ok } from '../checks.js';
import { refused, rejects, untyped, user } from './check.js';

const ONCE = { prompt: 'Once upon a time', seed: 2, max_tokens: 8 };

/** @type {Calls} */
const COMPLETIONS = {
  'a completion continues text': async ({ client, story }) => {
    const answer = await client.completions.create({ model: story, ...ONCE, temperature: 0 });
    const [{ text, index, finish_reason: reason, logprobs }] = answer.choices;
    ok(/^cmpl-\w+$/.test(answer.id), answer.id);
    equal([answer.object, index, reason, logprobs], ['text_completion', 0, 'length', null]);
    ok(text.startsWith(', there'), text);
    equal(answer.usage?.completion_tokens, 8);
  },
  'a completion has 16 tokens by default': async ({ client, story }) => {
    const { usage } = await client.completions.create({ model: story, prompt: 'Once upon a time' });
    equal(usage?.completion_tokens, 16);
  },
  'several prompts have several answers each': async ({ client, story }) => {
    const prompt = ['Once', 'Tom and'];
    const { choices } = await client.completions.create({ model: story, ...ONCE, prompt, n: 2 });
    equal(
      choices.map(({ index }) => index),
      [0, 1, 2, 3],
    );
    const alone = await client.completions.create({ model: story, ...ONCE, prompt: prompt[1] });
    equal(choices[2].text, alone.choices[0].text);
  },
  'a prompt may be token ids': async ({ client, story }) => {
    const { usage } = await client.completions.create({ model: story, ...ONCE, prompt: [2, 300, 301] });
    equal(usage?.prompt_tokens, 3);
  },
  'echo repeats the prompt': async ({ client, story }) => {
    const { choices } = await client.completions.create({ model: story, ...ONCE, echo: true });
    ok(choices[0].text.startsWith('Once upon a time'), choices);
  },
  'logprobs have tokens, offsets and alternatives': async ({ client, story }) => {
    const { choices } = await client.completions.create({ model: story, ...ONCE, logprobs: 3, temperature: 0 });
    const { tokens = [], token_logprobs: values, top_logprobs: top, text_offset: at } = choices[0].logprobs ?? {};
    equal([tokens.join(''), values?.length, at?.[2]], [choices[0].text, 8, tokens[0].length + tokens[1].length]);
    ok(
      top?.every((one, i) => Object.keys(one).length === 3 && tokens[i] in one),
      top,
    );
  },
  'stop ends a completion': async ({ client, story }) => {
    const { choices } = await client.completions.create({ model: story, ...ONCE, temperature: 0, stop: ' there' });
    equal([choices[0].text, choices[0].finish_reason], [',', 'stop']);
  },
  'a completion streams': async ({ client, story }) => {
    const whole = await client.completions.create({ model: story, ...ONCE });
    const asked = /** @type {const} */ ({ ...ONCE, stream: true, stream_options: { include_usage: true } });
    const chunks = await listOf(await client.completions.create({ model: story, ...asked }));
    equal(chunks.map(({ choices }) => choices[0]?.text ?? '').join(''), whole.choices[0].text);
    equal(chunks.at(-1)?.usage?.completion_tokens, 8);
    equal(chunks.at(-2)?.choices[0].finish_reason, 'length');
  },
};

/** @type {Calls} */
const EMBEDDINGS = {
  'a text becomes a vector of length 1': async ({ client, embed }) => {
    const { data, model, object, usage } = await client.embeddings.create({ model: embed, input: 'a cat' });
    const [{ embedding, index, object: kind }] = data;
    equal([model, object, data.length, index, kind], [embed, 'list', 1, 0, 'embedding']);
    ok(Math.abs(Math.hypot(...embedding) - 1) < 1e-3 && usage.prompt_tokens > 1, usage);
  },
  'several texts become vectors in their order': async ({ client, embed }) => {
    const { data } = await client.embeddings.create({ model: embed, input: ['a cat', 'a boat'] });
    const alone = await client.embeddings.create({ model: embed, input: 'a boat' });
    equal([data.length, data[1].embedding], [2, alone.data[0].embedding]);
  },
  'float and base64 are the same vector': async ({ client, embed }) => {
    const ask = (/** @type {'float' | 'base64'} */ encoding_format) =>
      client.embeddings.create({ model: embed, input: 'a cat', encoding_format });
    const floats = (await ask('float')).data[0].embedding;
    const bytes = Uint8Array.from(atob(untyped((await ask('base64')).data[0].embedding)), (c) => c.charCodeAt(0));
    equal([...new Float32Array(bytes.buffer)], floats);
  },
  'dimensions cut the vector': async ({ client, embed }) => {
    const { data } = await client.embeddings.create({ model: embed, input: 'a cat', dimensions: 64 });
    equal(data[0].embedding.length, 64);
    ok(Math.abs(Math.hypot(...data[0].embedding) - 1) < 1e-3);
  },
  'a task changes the vector': async ({ client, embed }) => {
    const ask = (/** @type {object} */ more) => client.embeddings.create({ model: embed, input: 'cat', ...more });
    const [plain, query] = [await ask({}), await ask({ task: 'query' })];
    ok(plain.data[0].embedding[0] !== query.data[0].embedding[0]);
  },
  'token ids and empty texts are refused': async ({ client, embed }) => {
    for (const input of [[1, 2], '', []]) {
      const { param } = await refused(client.embeddings.create({ model: embed, input }));
      equal(param, 'input');
    }
  },
  'a model that only embeds writes no text': async ({ client, embed }) => {
    const asked = { model: embed, messages: user('Hi') };
    const { code } = await refused(client.chat.completions.create(asked));
    equal(code, 'not_generative');
  },
};

/** @type {Calls} */
const MODELS = {
  'models are listed': async ({ client, chat, story, embed }) => {
    const { data } = await client.models.list();
    equal(data.map(({ id }) => id).sort(), [chat, story, embed].sort());
    ok(data.every(({ object, owned_by: owner }) => object === 'model' && owner === 'gemma-wasm'));
  },
  'the pages of the list are iterated': async ({ client }) => equal((await listOf(client.models.list())).length, 3),
  'a model is described': async ({ client, story }) => {
    const { id, object, created } = await client.models.retrieve(story);
    ok(Number.isInteger(created));
    equal([id, object], [story, 'model']);
  },
  'an unknown model is not found': async ({ client }) => {
    const one = await rejects(client.models.retrieve('gpt-5.5'), OpenAI.NotFoundError);
    const two = await rejects(
      client.chat.completions.create({ model: 'gpt-5.5', messages: user('Hi') }),
      OpenAI.NotFoundError,
    );
    equal([one.code, two.code, two.param], ['model_not_found', 'model_not_found', 'model']);
  },
};

/** Invalid fields of requests, each with the field that the error names. @type {[any, string][]} */
const REFUSED = [
  [{ temperature: 101 }, 'temperature'],
  [{ top_p: 3 }, 'top_p'],
  [{ n: 0 }, 'n'],
  [{ max_tokens: -1 }, 'max_tokens'],
  [{ max_completion_tokens: -1 }, 'max_completion_tokens'],
  [{ stop: [1] }, 'stop'],
  [{ logit_bias: { cat: 1 } }, 'logit_bias'],
  [{ stream: 'yes' }, 'stream'],
  [{ top_logprobs: 2 }, 'top_logprobs'],
  [{ messages: [] }, 'messages'],
  [{ messages: [{ role: 'pirate', content: 'Hi' }] }, 'messages[0].role'],
  [{ response_format: { type: 'yaml' } }, 'response_format'],
];
/** Unsupported features, each with the field that the error names. @type {[any, string][]} */
const UNSUPPORTED = [
  [{ store: true }, 'store'],
  [{ modalities: ['text', 'audio'], audio: { voice: 'ash', format: 'wav' } }, 'modalities'],
  [{ functions: [{ name: 'f' }] }, 'functions'],
  [{ web_search_options: {} }, 'web_search_options'],
  [{ tools: [{ type: 'custom', custom: { name: 'c' } }] }, 'tools[0].type'],
  [
    { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:,' } }] }] },
    'messages[0].content[0]',
  ],
];

/** @type {Calls} */
const ERRORS = {
  ...Object.fromEntries(
    REFUSED.map(([fields, named]) => [
      `${JSON.stringify(fields)} is refused`,
      async (/** @type {Given} */ { client, chat }) => {
        const asked = { model: chat, messages: user('Hi'), max_tokens: 2, ...fields };
        const { status, type, param, message } = await refused(client.chat.completions.create(asked));
        equal([status, type, param], [400, 'invalid_request_error', named]);
        ok(/\.$/.test(message), message);
      },
    ]),
  ),
  'features that are not supported are refused with the name of their field': async ({ client, chat }) => {
    for (const [fields, named] of UNSUPPORTED) {
      const asked = { model: chat, messages: user('Hi'), max_tokens: 2, ...fields };
      const { code, param } = await refused(client.chat.completions.create(asked));
      equal([code, param], ['unsupported_parameter', named]);
    }
  },
  'an unknown field is refused with its name': async ({ client, chat }) => {
    const asked = { model: chat, messages: user('Hi'), temprature: 1 };
    const { code, param } = await refused(client.chat.completions.create(asked));
    equal([code, param], ['unknown_parameter', 'temprature']);
  },
  'a prompt that is too long is refused': async ({ client, chat, embed }) => {
    for (const stream of [false, true]) {
      const asked = { model: chat, messages: user('Hi '.repeat(5000)), stream };
      const { code, param } = await refused(client.chat.completions.create(asked));
      equal([code, param], ['context_length_exceeded', 'messages']);
      const long = { model: chat, prompt: 'Hi '.repeat(5000), stream };
      const { param: field } = await refused(client.completions.create(long));
      equal(field, 'prompt');
    }
    const input = 'Hi '.repeat(5000);
    const { code, param } = await refused(client.embeddings.create({ model: embed, input }));
    equal([code, param], ['context_length_exceeded', 'input']);
  },
  'an endpoint that does not exist is not found': async ({ client }) => {
    const asked = { model: 'dall-e-3', prompt: 'a cat' };
    const { code, requestID } = await rejects(client.images.generate(asked), OpenAI.NotFoundError);
    equal(code, 'unknown_url');
    ok(/^req_\w+$/.test(requestID ?? ''), requestID);
  },
  'a method that does not exist is not allowed': async ({ client, story }) => {
    const { status, code } = await rejects(client.models.delete(story), OpenAI.APIError);
    equal([status, code], [405, 'method_not_supported']);
  },
};

export const OTHERS = { ...COMPLETIONS, ...EMBEDDINGS, ...MODELS, ...ERRORS };
