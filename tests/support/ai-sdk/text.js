/* text: the AI SDK's generateText(). Answers are compared with those of model.generate(). */
import { AISDKError, InvalidArgumentError, InvalidPromptError, UnsupportedFunctionalityError, generateText } from 'ai';
import { equal, failureOf, ok } from '../checks.js';
import { SHORT, hello, own } from './given.js';

/** @type {import('./given.js').Calls} */
export const TEXT = {
  'generateText: prompt': async (given) => {
    const { text, usage } = await hello(given.model);
    const expected = await own(given, 'Hello');
    equal(text, expected.text, 'text');
    equal(usage.inputTokens, expected.usage.promptTokens, 'input tokens');
    equal(usage.outputTokens, expected.usage.completionTokens, 'output tokens');
    equal(usage.totalTokens, expected.usage.promptTokens + expected.usage.completionTokens, 'total tokens');
  },
  'generateText: instructions': async (given) => {
    const { text } = await hello(given.model, { instructions: 'Be brief.' });
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hello' },
    ];
    equal(text, (await own(given, messages)).text, 'text');
  },
  'generateText: messages': async (given) => {
    const messages = /** @type {const} */ ([
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: 'Hi.' },
      { role: 'user', content: 'How are you?' },
    ]);
    const { text } = await generateText({ model: given.model, messages: [...messages], ...SHORT });
    equal(text, (await own(given, messages)).text, 'text');
  },
  'generateText: text parts': async (given) => {
    const content = [
      { type: /** @type {const} */ ('text'), text: 'Hello.' },
      { type: /** @type {const} */ ('text'), text: 'How are you?' },
    ];
    const { text } = await generateText({ model: given.model, messages: [{ role: 'user', content }], ...SHORT });
    equal(text, (await own(given, 'Hello.\nHow are you?')).text, 'text');
  },
  'generateText: maxOutputTokens': async ({ model }) => {
    const result = await generateText({ model, prompt: 'Hello', maxOutputTokens: 3 });
    equal([result.finishReason, result.rawFinishReason], ['length', 'length'], 'finish reason');
    equal(result.usage.outputTokens, 3, 'output tokens');
  },
  'generateText: temperature, topP, topK and penalties': async (given) => {
    const options = { temperature: 1.5, topP: 0.9, topK: 30, presencePenalty: 0.5, frequencyPenalty: 0.25 };
    const { text } = await hello(given.model, options);
    equal(text, (await own(given, 'Hello', options)).text, 'text');
  },
  'generateText: stopSequences': async (given) => {
    const { text: whole } = await hello(given.model);
    const stop = whole.slice(4, 7);
    const result = await hello(given.model, { stopSequences: [stop] });
    equal([result.finishReason, result.rawFinishReason], ['stop', 'stop-sequence'], 'finish reason');
    equal(result.text, whole.slice(0, whole.indexOf(stop)), 'text');
    equal(result.providerMetadata?.gemmaWasm.stopSequence, stop, 'stop sequence');
  },
  'generateText: cached tokens of a second call': async ({ model }) => {
    const call = () => generateText({ model, prompt: 'Tell me about the sea and the wind.', ...SHORT });
    await call();
    const { usage } = await call();
    ok(Number(usage.inputTokenDetails.cacheReadTokens) > 5, `cached: ${usage.inputTokenDetails.cacheReadTokens}`);
  },
  'generateText: providerOptions and providerMetadata': async ({ model }) => {
    const gemmaWasm = { minP: 0.1, repetitionPenalty: 1.2, logprobs: 2, jumpForward: false };
    const result = await hello(model, { providerOptions: { gemmaWasm } });
    const { logprobs, seed } = /** @type {any} */ (result.providerMetadata?.gemmaWasm);
    equal([logprobs.length, logprobs[0].top.length, seed], [result.usage.outputTokens, 2, 7], 'metadata');
  },
  'generateText: providerOptions with a regular expression': async ({ model }) => {
    const providerOptions = { gemmaWasm: { format: { regex: '[a-c]{3}-[0-9]' } } };
    const { text, finishReason } = await generateText({ model, prompt: 'A code', providerOptions });
    ok(/^[a-c]{3}-[0-9]$/.test(text) && finishReason === 'stop', text);
  },
  'generateText: response metadata and messages': async ({ model }) => {
    const { response, text } = await hello(model);
    ok(response.id && response.timestamp instanceof Date, 'id and time');
    equal(response.modelId, model.modelId, 'model');
    equal(response.messages, [{ role: 'assistant', content: [{ type: 'text', text }] }], 'messages');
  },
  'generateText: onStepFinish and onFinish': async ({ model }) => {
    /** @type {string[]} */
    const called = [];
    const result = await generateText({
      model,
      prompt: 'Hello',
      ...SHORT,
      onStepFinish: ({ text }) => void called.push(`step ${text}`),
      onFinish: ({ totalUsage }) => void called.push(`finish ${totalUsage.outputTokens}`),
    });
    equal(called, [`step ${result.text}`, `finish ${result.usage.outputTokens}`], 'calls');
  },
  'generateText: a message that the answer continues': async (given) => {
    const { text } = await hello(given.model);
    const user = { role: /** @type {const} */ ('user'), content: 'Hello' };
    const begun = { role: /** @type {const} */ ('assistant'), content: text.slice(0, 4) };
    const next = await generateText({ model: given.model, messages: [user, begun], ...SHORT });
    const expected = await own(given, [user, { ...begun, prefix: true }]);
    equal([next.text, next.usage.inputTokens], [expected.text, expected.usage.promptTokens], 'text');
  },
  'generateText: reasoning of a model that cannot think': async ({ model }) => {
    const { warnings } = await hello(model, { reasoning: 'high' });
    equal(warnings, [{ type: 'unsupported', feature: 'reasoning' }], 'warnings');
    equal((await hello(model, { reasoning: 'none' })).warnings, [], 'none');
  },
  'generateText: abortSignal that has fired': async ({ model }) => {
    const error = await failureOf(generateText({ model, prompt: 'Hello', abortSignal: AbortSignal.abort() }));
    ok(error instanceof DOMException && error.name === 'AbortError', String(error));
  },
  'generateText: abortSignal that fires during the answer': async ({ model }) => {
    const stop = new AbortController();
    const call = generateText({ model, prompt: 'Hello', maxOutputTokens: 1500, abortSignal: stop.signal });
    setTimeout(() => stop.abort(), 50);
    const error = await failureOf(call);
    ok(error instanceof DOMException && error.name === 'AbortError', String(error));
    ok((await hello(model)).text, 'the model answers again');
  },
  'generateText: timeout': async ({ model }) => {
    const error = await failureOf(generateText({ model, prompt: 'Hello', maxOutputTokens: 1500, timeout: 50 }));
    ok(/^(Timeout|Abort)Error$/.test(error.name), String(error));
  },
  'generateText: a file is refused': async ({ model }) => {
    const content = [{ type: /** @type {const} */ ('file'), mediaType: 'image/png', data: new Uint8Array(8) }];
    const error = await failureOf(generateText({ model, messages: [{ role: 'user', content }] }));
    ok(UnsupportedFunctionalityError.isInstance(error), String(error));
    ok(/image\/png/.test(error.functionality) && error.code === 'bad-option', error.functionality);
  },
  'generateText: an unknown provider option is refused': async ({ model }) => {
    const providerOptions = { gemmaWasm: { topA: 1 } };
    const error = await failureOf(generateText({ model, prompt: 'Hello', providerOptions }));
    ok(InvalidArgumentError.isInstance(error), String(error));
    equal(/** @type {any} */ (error).argument, 'topA', 'argument');
  },
  'generateText: a prompt longer than the context': async ({ model }) => {
    const error = await failureOf(generateText({ model, prompt: 'word '.repeat(5000) }));
    ok(InvalidPromptError.isInstance(error) && AISDKError.isInstance(error), String(error));
    equal(error.code, 'context-exceeded', 'code');
  },
};
