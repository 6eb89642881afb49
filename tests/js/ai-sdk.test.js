/* gemma-wasm/ai-sdk: the AI SDK, unchanged, on test models, and the types against those of its packages. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DirectChatTransport, ToolLoopAgent } from 'ai';
import * as entry from '../../js/ai-sdk.node.js';
import { CALLS } from '../support/ai-sdk-calls.js';
import { open } from './helpers.js';
import { testModel } from './models.js';

/** @import { ChatTransport, UIMessage } from 'ai' */
/** @import { GemmaWasmDataParts } from '../../js/ai-sdk/transport.js' */
/** @import { EmbeddingModelV4, LanguageModelV4, ProviderV4 } from '@ai-sdk/provider' */

const { gemmaWasm } = entry;

test('the AI SDK runs on local models', async (t) => {
  globalThis.AI_SDK_LOG_WARNINGS = false;
  const [engine, embedEngine] = [await open(t, 'generic-tools'), await open(t, 'embed-q8_0')];
  const given = {
    entry,
    engine,
    embedEngine,
    model: gemmaWasm(engine),
    embedder: gemmaWasm.embeddingModel(embedEngine),
    source: await testModel('generic-tools'),
  };
  assert.ok(Object.keys(CALLS).length >= 50);
  for (const [name, call] of Object.entries(CALLS)) await t.test(name, () => call(given));
});

test('the types are those of the provider specification', () => {
  const model = gemmaWasm('model.gguf');
  /** @satisfies {LanguageModelV4} */ (model);
  /** @satisfies {EmbeddingModelV4} */ (gemmaWasm.embeddingModel('model.gguf'));
  /** @satisfies {ProviderV4} */ (gemmaWasm);
  const transport = new DirectChatTransport({ agent: new ToolLoopAgent({ model }) });
  /** @satisfies {ChatTransport<UIMessage<unknown, GemmaWasmDataParts>>} */ (
    new entry.GemmaWasmChatTransport({ model, transport })
  );
  assert.deepEqual([model.specificationVersion, model.provider, model.modelId], ['v4', 'gemma-wasm', 'model.gguf']);
});
