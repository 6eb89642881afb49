/* Requests that the programs Continue and Open WebUI send, according to their source code. Each one gets a response
 * that the program can read. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHandler } from '../../js/openai.js';
import { REQUESTS } from '../support/recorded-requests.js';
import { open } from './helpers.js';

/** Returns the data of the events in a stream's text, without the last event, which must be [DONE].
 * @param {string} text @returns {any[]} */
function eventsIn(text) {
  const data = [...text.matchAll(/^data: (.*)$/gm)].map(([, json]) => json);
  assert.equal(data.pop(), '[DONE]');
  return data.map((json) => JSON.parse(json));
}

/** @type {Record<string, (text: string, body: any) => void>} */
const ANSWERS = {
  chat(text) {
    const { choices, usage } = JSON.parse(text);
    assert.equal(typeof choices[0].message.content, 'string');
    assert.ok(usage.prompt_tokens > 0 && usage.completion_tokens > 0);
  },
  chunks(text, body) {
    const chunks = eventsIn(text);
    const deltas = chunks.flatMap(({ choices }) => choices.map((/** @type {any} */ { delta }) => delta));
    assert.equal(deltas[0].role, 'assistant');
    const written = deltas.filter(({ content, tool_calls: calls }) => content || calls);
    assert.ok(written.length > 0, text);
    const reasons = chunks.flatMap(({ choices }) => choices.map((/** @type {any} */ one) => one.finish_reason));
    assert.deepEqual(reasons.filter(Boolean).length, 1);
    if (body.stream_options?.include_usage) assert.ok(chunks.at(-1).usage.total_tokens > 0);
  },
  texts(text) {
    const chunks = eventsIn(text);
    assert.ok(chunks.map(({ choices }) => choices[0]?.text ?? '').join(''));
  },
  vectors(text, { input, encoding_format: encoding }) {
    const { data } = JSON.parse(text);
    assert.equal(data.length, input.length);
    for (const { embedding } of data) {
      const bytes = encoding && Buffer.from(embedding, 'base64');
      assert.equal(encoding ? bytes.length / 4 : embedding.length, 128);
    }
  },
  events(text) {
    const events = eventsIn(text);
    const { response } = events.at(-1);
    assert.ok(['completed', 'incomplete'].includes(response.status));
    const texts = events.filter(({ type }) => type === 'response.output_text.delta').map(({ delta }) => delta);
    const [message] = response.output.filter((/** @type {any} */ { type }) => type === 'message');
    assert.equal(message?.content[0].text ?? '', texts.join(''));
  },
};

test('each request gets a response that the program can read', async (t) => {
  const [local, embedder] = [await open(t, 'qwen3-tools'), await open(t, 'embed-small-q8_0')];
  const handler = createHandler({ local, embedder });
  const { data } = await (await handler('http://local/v1/models')).json();
  assert.deepEqual(
    data.map((/** @type {any} */ { id }) => id),
    ['local', 'embedder'],
  );
  assert.equal(Object.keys(REQUESTS).length, 10);
  for (const [name, { path, answer, body }] of Object.entries(REQUESTS)) {
    await t.test(name, async () => {
      const headers = { 'content-type': 'application/json', authorization: 'Bearer none' };
      const init = { method: 'POST', headers, body: JSON.stringify(body) };
      const response = await handler(`http://local/v1/${path}`, init);
      const text = await response.text();
      assert.equal(response.status, 200, text);
      ANSWERS[answer](text, body);
    });
  }
});
