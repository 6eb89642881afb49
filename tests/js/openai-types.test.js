/* Compares the types of gemma-wasm/openai with those of OpenAI's client: if a later version of the client adds a field
 * or changes an object, the type check of this file fails. */
/** @import OpenAI from 'openai' */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { usageOf } from '../../js/openai/answer.js';
import { choiceOf, deltaOf } from '../../js/openai/chat.js';
import { errorOf } from '../../js/openai/errors.js';
import { chatLogprobs, completionLogprobs } from '../../js/openai/logprobs.js';
import { createHandler } from '../../js/openai.js';
import { open } from './helpers.js';

/** @typedef {OpenAI.ChatCompletionChunk.Choice} ChunkChoice */

const MADE = /** @satisfies {{
  choice: (...args: Parameters<typeof choiceOf>) => OpenAI.ChatCompletion.Choice,
  delta: (...args: Parameters<typeof deltaOf>) => Pick<ChunkChoice, 'delta' | 'logprobs'>,
  usage: (...args: Parameters<typeof usageOf>) => OpenAI.CompletionUsage,
  chatLogprobs: (...args: Parameters<typeof chatLogprobs>) => OpenAI.ChatCompletion.Choice.Logprobs | null,
  completionLogprobs: (...args: Parameters<typeof completionLogprobs>) => OpenAI.CompletionChoice.Logprobs | null,
  error: (error: unknown) => { status: number, body: { error: OpenAI.ErrorObject } } }} */ ({
  choice: choiceOf,
  delta: deltaOf,
  usage: usageOf,
  chatLogprobs,
  completionLogprobs,
  error: errorOf,
});

/** A value of a request's field, and what happens to it.
 * @typedef {[value: unknown, fate: 'used' | 'ignored' | 'refused']} Fate */
const CHAT = /** @satisfies {Record<keyof OpenAI.ChatCompletionCreateParams, Fate>} */ ({
  messages: [[{ role: 'user', content: 'Hi' }], 'used'],
  model: ['x', 'used'],
  audio: [{ voice: 'ash', format: 'wav' }, 'refused'],
  frequency_penalty: [1, 'used'],
  function_call: ['auto', 'refused'],
  functions: [[{ name: 'f' }], 'refused'],
  logit_bias: [{ 300: 1 }, 'used'],
  logprobs: [true, 'used'],
  max_completion_tokens: [1, 'used'],
  max_tokens: [1, 'used'],
  metadata: [{ a: 'b' }, 'ignored'],
  modalities: [['audio'], 'refused'],
  moderation: [{ model: 'm' }, 'refused'],
  n: [2, 'used'],
  parallel_tool_calls: [false, 'used'],
  prediction: [{ type: 'content', content: 'x' }, 'ignored'],
  presence_penalty: [1, 'used'],
  prompt_cache_key: ['k', 'ignored'],
  prompt_cache_options: [{ mode: 'implicit' }, 'ignored'],
  prompt_cache_retention: ['24h', 'ignored'],
  reasoning_effort: ['low', 'used'],
  response_format: [{ type: 'text' }, 'used'],
  safety_identifier: ['i', 'ignored'],
  seed: [1, 'used'],
  service_tier: ['flex', 'ignored'],
  stop: ['x', 'used'],
  store: [true, 'refused'],
  stream: [false, 'used'],
  stream_options: [{ include_usage: true }, 'used'],
  temperature: [1, 'used'],
  tool_choice: ['none', 'used'],
  tools: [[], 'used'],
  top_logprobs: [1, 'used'],
  top_p: [1, 'used'],
  user: ['u', 'ignored'],
  verbosity: ['low', 'ignored'],
  web_search_options: [{}, 'refused'],
});
const COMPLETION = /** @satisfies {Record<keyof OpenAI.CompletionCreateParams, Fate>} */ ({
  model: ['x', 'used'],
  prompt: ['Once', 'used'],
  best_of: [2, 'refused'],
  echo: [true, 'used'],
  frequency_penalty: [1, 'used'],
  logit_bias: [{ 300: 1 }, 'used'],
  logprobs: [1, 'used'],
  max_tokens: [1, 'used'],
  n: [2, 'used'],
  presence_penalty: [1, 'used'],
  seed: [1, 'used'],
  stop: ['x', 'used'],
  stream: [false, 'used'],
  stream_options: [{ include_usage: true }, 'used'],
  suffix: ['x', 'refused'],
  temperature: [1, 'used'],
  top_p: [1, 'used'],
  user: ['u', 'ignored'],
});
const RESPONSE = /** @satisfies {Record<keyof OpenAI.Responses.ResponseCreateParams, Fate>} */ ({
  input: ['x', 'used'],
  model: ['x', 'used'],
  access_programs: [{ cyber: 'standard' }, 'refused'],
  background: [true, 'refused'],
  context_management: [[{ type: 'compaction' }], 'refused'],
  conversation: ['conv_1', 'refused'],
  image: [{ context_compression: 'enabled' }, 'refused'],
  include: [['message.output_text.logprobs'], 'used'],
  instructions: ['x', 'used'],
  max_output_tokens: [1, 'used'],
  max_tool_calls: [1, 'ignored'],
  metadata: [{ a: 'b' }, 'used'],
  moderation: [{ model: 'm' }, 'refused'],
  parallel_tool_calls: [false, 'used'],
  previous_response_id: [null, 'used'],
  prompt: [{ id: 'pmpt_1' }, 'refused'],
  prompt_cache_key: ['k', 'ignored'],
  prompt_cache_options: [{ mode: 'implicit' }, 'ignored'],
  prompt_cache_retention: ['24h', 'ignored'],
  reasoning: [{ effort: 'low' }, 'used'],
  safety_identifier: ['i', 'ignored'],
  service_tier: ['flex', 'ignored'],
  store: [true, 'used'],
  stream: [false, 'used'],
  stream_options: [{ include_obfuscation: true }, 'ignored'],
  temperature: [1, 'used'],
  text: [{ format: { type: 'text' } }, 'used'],
  tool_choice: ['none', 'used'],
  tools: [[], 'used'],
  top_logprobs: [1, 'used'],
  top_p: [1, 'used'],
  truncation: ['auto', 'used'],
  user: ['u', 'ignored'],
});
const EMBEDDING = /** @satisfies {Record<keyof OpenAI.EmbeddingCreateParams, Fate>} */ ({
  input: ['x', 'used'],
  model: ['x', 'used'],
  dimensions: [4, 'used'],
  encoding_format: ['float', 'used'],
  user: ['u', 'ignored'],
});

test('each field of a request is used, ignored, or refused with its name', async (t) => {
  assert.ok(Object.values(MADE).every((make) => typeof make === 'function'));
  const [generative, embedding] = [await open(t, 'generic-tools'), await open(t, 'embed-q8_0')];
  const messages = CHAT.messages[0];
  const include = RESPONSE.include[0];
  const endpoints = /** @type {const} */ ([
    ['chat/completions', CHAT, generative, { messages, max_tokens: 1, logprobs: true }],
    ['completions', COMPLETION, generative, { prompt: 'Once', max_tokens: 1 }],
    ['responses', RESPONSE, generative, { input: 'x', max_output_tokens: 1, include }],
    ['embeddings', EMBEDDING, embedding, { input: 'x' }],
  ]);
  for (const [path, fields, model, basis] of endpoints) {
    const handle = createHandler(model);
    for (const [name, [value, fate]] of Object.entries(fields)) {
      const body = JSON.stringify({ ...basis, [name]: value });
      const response = await handle(`http://local/v1/${path}`, { method: 'POST', body });
      const { error } = await response.json();
      const got = response.status === 200 ? 'used' : error.code;
      const expected = fate === 'refused' ? 'unsupported_parameter' : 'used';
      assert.equal(got, expected, `${path}: ${name}: ${error?.message}`);
      if (error) assert.equal(error.param, name);
    }
  }
});
