/* gemma-wasm/openai with OpenAI's client. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import { createHandler } from '../../js/openai.js';
import { open } from './helpers.js';

/** @param {import('../../js/openai/handler.js').Handler} fetch */
const clientOf = (fetch) => new OpenAI({ apiKey: 'x', baseURL: 'http://local/v1', fetch });

test('a streamed answer is the answer that is not streamed', async (t) => {
  const client = clientOf(createHandler(await open(t, 'qwen3-tools')));
  const asked = {
    model: 'any',
    messages: [{ role: /** @type {const} */ ('user'), content: 'Hi' }],
    seed: 1,
    max_tokens: 9,
  };
  const { choices, usage } = await client.chat.completions.create(asked);
  const { text } = await (await open(t, 'qwen3-tools')).generate(asked.messages, { seed: 1, maxTokens: 9 }).result();
  assert.deepEqual(
    [choices[0].message.content, choices[0].finish_reason, usage?.completion_tokens],
    [text, 'length', 9],
  );
  let streamed = '';
  for await (const { choices } of await client.chat.completions.create({ ...asked, stream: true })) {
    streamed += choices[0].delta.content ?? '';
  }
  assert.equal(streamed, text);
});
