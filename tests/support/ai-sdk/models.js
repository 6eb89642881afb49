/* models: the AI SDK's middleware, registries, embeddings, and loading of models. */
import {
  AISDKError,
  NoSuchModelError,
  cosineSimilarity,
  createProviderRegistry,
  customProvider,
  defaultEmbeddingSettingsMiddleware,
  defaultInstructionsMiddleware,
  defaultSettingsMiddleware,
  embed,
  embedMany,
  extractReasoningMiddleware,
  generateText,
  simulateStreamingMiddleware,
  streamText,
  wrapEmbeddingModel,
  wrapLanguageModel,
} from 'ai';
import { equal, failureOf, listOf, ok } from '../checks.js';
import { SHORT, hello, own } from './given.js';

const TEXTS = ['Bread rises because yeast makes gas.', 'The Moon has no air.', 'Dough'];

/** @type {import('./given.js').Calls} */
export const MODELS = {
  'wrapLanguageModel: default settings and instructions': async (given) => {
    const model = wrapLanguageModel({
      model: given.model,
      middleware: [
        defaultSettingsMiddleware({ settings: { maxOutputTokens: 5, seed: 7 } }),
        defaultInstructionsMiddleware({ instructions: 'Be brief.' }),
      ],
    });
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hello' },
    ];
    const { text } = await generateText({ model, prompt: 'Hello' });
    equal(text, (await own(given, messages, { maxTokens: 5 })).text, 'text');
  },
  extractReasoningMiddleware: async (given) => {
    const middleware = extractReasoningMiddleware({ tagName: 'think' });
    const model = wrapLanguageModel({ model: given.model, middleware });
    const providerOptions = { gemmaWasm: { format: { regex: '<think>[a-c]{2}</think>[d-f]{2}' } } };
    const { reasoningText, text } = await generateText({ model, prompt: 'Think', providerOptions });
    ok(/^[a-c]{2}$/.test(String(reasoningText)) && /^[d-f]{2}$/.test(text), `${reasoningText} ${text}`);
    const parts = await listOf(streamText({ model, prompt: 'Think', providerOptions }).stream);
    ok(
      parts.some(({ type }) => type === 'reasoning-delta'),
      'reasoning in the stream',
    );
  },
  simulateStreamingMiddleware: async (given) => {
    const model = wrapLanguageModel({ model: given.model, middleware: simulateStreamingMiddleware() });
    const pieces = await listOf(streamText({ model, prompt: 'Hello', ...SHORT }).textStream);
    equal([pieces.length, pieces[0]], [1, (await own(given, 'Hello')).text], 'text');
  },
  customProvider: async ({ model, embedder }) => {
    const provider = customProvider({ languageModels: { small: model }, embeddingModels: { vectors: embedder } });
    ok((await hello(provider.languageModel('small'))).text, 'text');
    ok((await embed({ model: provider.embeddingModel('vectors'), value: 'x' })).embedding.length, 'a vector');
  },
  'createProviderRegistry, with names of models': async ({ entry, engine, embedEngine }) => {
    const gemma = entry.createGemmaWasm({ models: { small: engine, vectors: embedEngine } });
    const registry = createProviderRegistry({ gemma });
    const model = registry.languageModel('gemma:small');
    const { response } = await hello(model);
    equal(response.modelId, 'small', 'model');
    ok((await embed({ model: registry.embeddingModel('gemma:vectors'), value: 'x' })).embedding.length, 'a vector');
    const error = await failureOf(Promise.resolve().then(() => registry.languageModel('gemma:large')));
    ok(NoSuchModelError.isInstance(error) && error.modelId === 'large', String(error));
  },
  'a provider has no image models': async ({ entry }) => {
    const error = await failureOf(Promise.resolve().then(() => entry.gemmaWasm.imageModel('x')));
    ok(NoSuchModelError.isInstance(error) && error.modelType === 'imageModel', String(error));
  },
  embed: async ({ embedder, embedEngine }) => {
    const { embedding, usage } = await embed({ model: embedder, value: TEXTS[0] });
    equal(embedding, [...(await embedEngine.embed(TEXTS[0]))], 'vector');
    equal(usage.tokens, await embedEngine.countTokens(TEXTS[0]), 'tokens');
  },
  'embedMany and cosineSimilarity': async ({ embedder, embedEngine }) => {
    const { embeddings, values } = await embedMany({ model: embedder, values: TEXTS });
    equal([embeddings.length, values], [3, TEXTS], 'values');
    const vectors = await embedEngine.embed(TEXTS);
    const dot = vectors[0].reduce((sum, x, i) => sum + x * vectors[2][i], 0);
    ok(Math.abs(cosineSimilarity(embeddings[0], embeddings[2]) - dot) < 1e-5, 'cosine');
  },
  'embed: task and dimensions': async ({ embedder, embedEngine }) => {
    const providerOptions = { gemmaWasm: { task: 'query', dimensions: 64 } };
    const { embedding } = await embed({ model: embedder, value: 'x', providerOptions });
    equal(embedding, [...(await embedEngine.embed('x', { task: 'query', dimensions: 64 }))], 'vector');
    const { embeddings } = await embedMany({ model: embedder, values: ['x'], dimensions: 32 });
    equal(embeddings[0].length, 32, 'length');
  },
  wrapEmbeddingModel: async ({ embedder, embedEngine }) => {
    const settings = { providerOptions: { gemmaWasm: { task: 'document' } } };
    const model = wrapEmbeddingModel({ model: embedder, middleware: defaultEmbeddingSettingsMiddleware({ settings }) });
    const { embedding } = await embed({ model, value: 'x' });
    equal(embedding, [...(await embedEngine.embed('x', { task: 'document' }))], 'vector');
  },
  'embedMany: abortSignal': async ({ embedder }) => {
    const stop = new AbortController();
    const call = embedMany({ model: embedder, values: Array(200).fill(TEXTS[0].repeat(4)), abortSignal: stop.signal });
    setTimeout(() => stop.abort(), 20);
    const error = await failureOf(call);
    ok(error instanceof DOMException && error.name === 'AbortError', String(error));
  },
  'loading: availability, progress, context and disposal': async ({ entry, source }) => {
    const model = entry.gemmaWasm.languageModel(source, { threads: 1, cache: false });
    ok(entry.doesBrowserSupportGemmaWasm(), 'support');
    ok(['available', 'downloadable'].includes(await model.availability()), 'before');
    equal([model.getContextWindow(), model.getContextUsage()], [undefined, undefined], 'no context');
    /** @type {number[]} */
    const fractions = [];
    const loading = model.createSessionWithProgress((fraction) => void fractions.push(fraction));
    equal(await model.availability(), 'downloading', 'meanwhile');
    equal(await loading, model, 'the model');
    equal(fractions.indexOf(1), fractions.length - 1, 'only the last one is 1');
    ok(fractions.at(-1) === 1 && fractions.every((x, i) => x >= (fractions[i - 1] ?? 0)), fractions.join());
    equal(await model.availability(), 'available', 'behind');
    const { usage } = await hello(model);
    equal(model.getContextUsage(), usage.totalTokens, 'context usage');
    ok(Number(model.getContextWindow()) > 100, 'context window');
    await model.dispose();
    equal(model.getContextWindow(), undefined, 'disposed');
    ok((await hello(model)).text, 'loads again');
    await model.dispose();
  },
  'loading: calls share one load, which is aborted with the last call': async ({ entry, source }) => {
    const provider = entry.createGemmaWasm({ threads: 1, cache: false });
    const stops = [new AbortController(), new AbortController()];
    const calls = stops.map(({ signal }) => {
      const call = hello(provider(source), { abortSignal: signal });
      return failureOf(call);
    });
    const model = provider(source);
    stops[0].abort();
    equal((await calls[0]).name, 'AbortError', 'the first call');
    equal(await model.availability(), 'downloading', 'the second call still waits');
    stops[1].abort();
    equal((await calls[1]).name, 'AbortError', 'the second call');
    ok((await model.availability()) !== 'downloading', 'no call waits for the download');
    ok((await hello(model)).text, 'loads again');
    await provider.dispose();
  },
  'loading: a file that is not there': async ({ entry, source }) => {
    const model = entry.gemmaWasm(`${source}.missing`);
    const error = await failureOf(generateText({ model, prompt: 'Hello' }));
    ok(AISDKError.isInstance(error) && error instanceof entry.ModelError, String(error));
    ok(/^(read-error|http-error|unsupported-source)$/.test(error.code), error.code);
  },
};
