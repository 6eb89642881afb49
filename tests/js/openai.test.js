/* Tests gemma-wasm/openai with OpenAI's own client: every call that its documentation shows for chat completions,
 * completions, embeddings and models. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import { createHandler } from '../../js/openai.js';
import { CALLS } from '../support/openai-calls.js';
import { open } from './helpers.js';

test("every documented call of OpenAI's client works", async (t) => {
  assert.ok(CALLS.length >= 80, `${CALLS.length} calls`);
  const chat = await open(t, 'qwen3-tools');
  const story = await open(t, 'storyteller');
  const embed = await open(t, 'embed-q8_0');
  const fetch = createHandler({ chat, story, embed });
  const client = new OpenAI({ apiKey: 'x', baseURL: 'http://local/v1', fetch });
  for (const [name, run] of CALLS) {
    await t.test(name, () => run({ client, chat: 'chat', story: 'story', embed: 'embed' }));
  }
});
