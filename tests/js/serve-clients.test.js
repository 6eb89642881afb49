/* Tests the server with OpenAI's client over HTTP: every call that its documentation shows. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import { CALLS } from '../support/openai-calls.js';
import { startServing } from '../support/serving.js';
import { STORYTELLER, testModel } from './models.js';

test("every documented call of OpenAI's client works over HTTP", async (t) => {
  const models = [await testModel('qwen3-tools'), STORYTELLER, await testModel('embed-q8_0')];
  const names = ['chat', 'story', 'embed'].flatMap((name) => ['--name', name]);
  const server = await startServing([...models, ...names, '--threads', '1'], { GEMMA_WASM_API_KEY: 'sesame' });
  t.after(() => server.stop());
  const client = new OpenAI({ apiKey: 'sesame', baseURL: `${server.url}/v1`, maxRetries: 0 });
  assert.ok(CALLS.length >= 80, `${CALLS.length} calls`);
  for (const [name, run] of CALLS) {
    await t.test(name, () => run({ client, chat: 'chat', story: 'story', embed: 'embed' }));
  }
});
