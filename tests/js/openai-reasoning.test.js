/* Tests the thoughts of thinking models in chat completions of gemma-wasm/openai. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open, wrong } from './helpers.js';
import { clientOf, thinker } from './openai-client.js';

const MODEL = 'qwen3-thinking';
const ASKED = { model: 'any', messages: [{ role: /** @type {const} */ ('user'), content: 'Hi' }] };

test('thoughts are reasoning_content, in answers and in streams, and have no log probabilities', async (t) => {
  const { model } = await thinker(await open(t, MODEL));
  const client = clientOf(model);
  const { choices, usage } = await client.chat.completions.create({ ...ASKED, logprobs: true });
  const [{ message, logprobs, finish_reason: reason }] = choices;
  assert.deepEqual([message.content, wrong(message).reasoning_content, reason], ['Yes.', 'hm ha', 'stop']);
  assert.equal(logprobs?.content?.map(({ token }) => token).join(''), 'Yes.');
  const { thoughtTokens } = (await model.generate(ASKED.messages, {}).result()).usage;
  assert.equal(usage?.completion_tokens_details?.reasoning_tokens, thoughtTokens);
  const seen = { content: '', reasoning_content: '' };
  const keys = /** @type {string[]} */ ([]);
  for await (const { choices } of await client.chat.completions.create({ ...ASKED, stream: true })) {
    for (const [key, text] of Object.entries(choices[0].delta)) {
      if (key === 'content' || key === 'reasoning_content') seen[key] += text ?? '';
      if (text && keys.at(-1) !== key) keys.push(key);
    }
  }
  assert.deepEqual(seen, { content: 'Yes.', reasoning_content: 'hm ha' });
  assert.deepEqual(keys, ['role', 'reasoning_content', 'content']);
});

test('reasoning_effort turns thinking on and off, and limits it', async (t) => {
  const model = await open(t, MODEL);
  const client = clientOf(model);
  const count = async (/** @type {object} */ more) =>
    (await client.chat.completions.create({ ...ASKED, max_tokens: 1, ...more })).usage?.prompt_tokens;
  const own = async (/** @type {object} */ more) =>
    (await model.generate(ASKED.messages, { maxTokens: 1, ...more }).result()).usage.promptTokens;
  const [on, off] = [await own({ thinking: true }), await own({ thinking: false })];
  assert.ok(on < off);
  assert.deepEqual([await count({ reasoning_effort: 'none' }), await count({ thinking: false })], [off, off]);
  assert.deepEqual([await count({ reasoning_effort: 'high' }), await count({ thinking: true })], [on, on]);
  const [begin] = await model.tokenize('<think>', { special: true });
  const asked = { ...ASKED, logit_bias: { [begin]: 100 }, seed: 1, max_tokens: 300 };
  const format = { type: 'json_schema', json_schema: { name: 'x', schema: { enum: ['yes', 'no'] } } };
  const { choices, usage } = await client.chat.completions.create(
    wrong({ ...asked, reasoning_effort: 'minimal', response_format: format }),
  );
  const thoughts = usage?.completion_tokens_details?.reasoning_tokens ?? 0;
  assert.ok(thoughts >= 64 && thoughts < 80, `${thoughts}`);
  assert.match(choices[0].message.content ?? '', /^"(yes|no)"$/);
  await assert.rejects(client.chat.completions.create(wrong({ ...ASKED, reasoning_effort: 'much' })), {
    status: 400,
    param: 'reasoning_effort',
  });
});

test('a model that does not think ignores reasoning_effort', async (t) => {
  const client = clientOf(await open(t, 'generic-tools'));
  const answer = await client.chat.completions.create({ ...ASKED, max_tokens: 2, reasoning_effort: 'high' });
  assert.equal(answer.choices[0].finish_reason, 'length');
  await assert.rejects(client.chat.completions.create(wrong({ ...ASKED, thinking: true })), { param: 'thinking' });
});

test('earlier thoughts are accepted in messages', async (t) => {
  const model = await open(t, MODEL);
  const said = { role: 'assistant', content: 'Yes.', reasoning_content: 'hm ha' };
  const messages = wrong([...ASKED.messages, said, { role: 'user', content: 'Why?' }]);
  const { usage } = await clientOf(model).chat.completions.create({ model: 'any', messages, max_tokens: 1 });
  const own = [...ASKED.messages, { role: /** @type {const} */ ('assistant'), content: 'Yes.', thoughts: 'hm ha' }];
  assert.equal(usage?.prompt_tokens, await model.countTokens(wrong([...own, { role: 'user', content: 'Why?' }])));
});
