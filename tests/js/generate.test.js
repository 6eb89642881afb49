/* Tests generate(): streams and results, seeds, sampling options, stop sequences, log probabilities, aborts. */
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { availableParallelism } from 'node:os';
import { test } from 'node:test';
import { essence, open, refuses, sleep, someIds } from './helpers.js';

const NO_END = { 1: -Infinity, 8: -Infinity };
const LONG = { maxTokens: 100, seed: 5, logitBias: NO_END };

test('the streamed pieces are the text of the result and of its tokens', async (t) => {
  const model = await open(t);
  const out = model.generate('Once upon a time', LONG);
  let streamed = '';
  for await (const piece of out) {
    assert.ok(typeof piece === 'string' && piece.length > 0);
    streamed += piece;
  }
  const { text, tokens, finishReason, usage, timings, seed } = await out.result();
  assert.equal(streamed, text);
  assert.equal(await out.text(), text);
  assert.equal((await model.detokenize(tokens)).startsWith(text), true);
  assert.equal(tokens.length, 100);
  assert.equal(finishReason, 'length');
  assert.equal(seed, 5);
  const promptTokens = (await model.tokenize('Once upon a time')).length + 1;
  assert.deepEqual(usage, { promptTokens, reusedTokens: 0, completionTokens: 100 });
  assert.ok(timings.prefillMs > 0 && timings.decodeMs > 0 && timings.firstTokenMs >= timings.prefillMs);
  assert.ok(timings.decodeTokensPerSecond > 0 && timings.prefillTokensPerSecond > 0);
});

test('steps() yields the text, ids and log probabilities of the result', async (t) => {
  const model = await open(t);
  const out = model.generate('Once upon a time', { ...LONG, logprobs: 2 });
  const steps = [];
  let seen = '';
  for await (const step of out.steps()) {
    seen += step.text;
    // The value of partial() can be ahead of the streamed text, but never behind it.
    assert.ok(String(out.partial()).startsWith(seen));
    steps.push(step);
  }
  const { text, tokens, logprobs } = await out.result();
  assert.equal(seen, text);
  assert.equal(out.partial(), text);
  assert.deepEqual(
    steps.flatMap(({ ids }) => ids),
    tokens,
  );
  assert.deepEqual(
    steps.flatMap((step) => step.logprobs ?? []),
    logprobs,
  );
  assert.ok(steps.every(({ forced, ids }) => forced === false && ids.length <= 1));
  await refuses(() => out.steps(), 'bad-state');
  await refuses(() => out[Symbol.asyncIterator](), 'bad-state');
  const plain = model.generate('Once upon a time', LONG);
  for await (const step of plain.steps()) assert.deepEqual(Object.keys(step).sort(), ['forced', 'ids', 'kind', 'text']);
  assert.deepEqual((await plain.result()).tokens, tokens);
});

test('leaving a loop over steps ends the generation', async (t) => {
  const model = await open(t);
  const out = model.generate('Hello', { ...LONG, maxTokens: 400 });
  let taken = 0;
  for await (const _ of out.steps()) if (++taken > 3) break;
  const { finishReason, tokens } = await out.result();
  assert.equal(finishReason, 'aborted');
  assert.ok(tokens.length < 400);
});

test('a string gets one BOS token, ids are used unchanged, messages are rendered by the chat template', async (t) => {
  const model = await open(t);
  const ids = await model.tokenize('Hi there', { bos: true });
  const greedy = { maxTokens: 12, temperature: 0 };
  const fromText = await model.generate('Hi there', greedy).result();
  const fromIds = await model.generate(ids, greedy).result();
  const fromTyped = await model.generate(Int32Array.from(ids), greedy).result();
  assert.deepEqual(fromIds.tokens, fromText.tokens);
  assert.deepEqual(fromTyped.tokens, fromText.tokens);
  const without = await model.generate(ids.slice(1), greedy).result();
  assert.equal(without.usage.promptTokens, ids.length - 1);
  const turn = await model.tokenize('<bos><start_of_turn>user\nHi there<end_of_turn>\n<start_of_turn>model\n', {
    special: true,
  });
  const fromMessages = await model.generate([{ role: 'user', content: 'Hi there' }], greedy).result();
  assert.equal(fromMessages.usage.promptTokens, turn.length);
  assert.deepEqual(fromMessages.tokens, (await model.generate(turn, greedy).result()).tokens);
  assert.equal(await model.countTokens([{ role: 'user', content: 'Hi there' }]), turn.length);
  assert.equal(await model.countTokens('Hi there'), ids.length);
});

test('`threads: 64` starts at most twice as many threads as there are cores, but at least four', async (t) => {
  const model = await open(t, 'tiny', { threads: 64 });
  assert.equal(model.info.threads, Math.min(64, Math.max(2 * availableParallelism(), 4)));
});

test('a seed repeats an answer; without one, answers differ and report their seed', async (t) => {
  const model = await open(t);
  const options = { maxTokens: 30, temperature: 1.5, topK: 0, topP: 1, logitBias: NO_END };
  const first = await model.generate('a', options).result();
  const second = await model.generate('a', options).result();
  assert.notEqual(first.seed, second.seed);
  assert.notDeepEqual(first.tokens, second.tokens);
  assert.deepEqual(essence(await model.generate('a', { ...options, seed: first.seed }).result()), essence(first));
});

test('sampling options reach the engine and do not leak into the next call', async (t) => {
  const model = await open(t);
  const greedy = { maxTokens: 20, temperature: 0, logitBias: NO_END };
  const plain = await model.generate('abc', greedy).result();
  const only = await model.generate('abc', { ...greedy, logitBias: { 600: 1000 } }).result();
  assert.deepEqual(only.tokens, Array(20).fill(600));
  const banned = await model
    .generate('abc', { ...greedy, logitBias: { ...NO_END, [plain.tokens[0]]: -Infinity } })
    .result();
  assert.notEqual(banned.tokens[0], plain.tokens[0]);
  const one = await model.generate('abc', { ...greedy, temperature: 1, topK: 1, seed: 1 }).result();
  assert.deepEqual(one.tokens, plain.tokens);
  const bias = { 600: 1000, 601: 999.9 };
  const penalised = await model
    .generate('abc', { ...greedy, logitBias: bias, presencePenalty: 50, maxTokens: 2 })
    .result();
  assert.deepEqual(penalised.tokens, [600, 601]);
  assert.deepEqual((await model.generate('abc', greedy).result()).tokens, plain.tokens);
});

test('stop sequences end the answer and are not part of it, in the stream either', async (t) => {
  const model = await open(t);
  const { text } = await model.generate('Hello', LONG).result();
  for (const [from, length] of [
    [3, 1],
    [5, 4],
    [10, 12],
    [20, 3],
  ]) {
    const stop = text.slice(from, from + length);
    const out = model.generate('Hello', { ...LONG, stop: ['not in there', stop] });
    let streamed = '';
    for await (const piece of out) streamed += piece;
    const result = await out.result();
    assert.equal(result.text, text.slice(0, text.indexOf(stop)));
    assert.equal(streamed, result.text);
    assert.equal(result.finishReason, 'stop-sequence');
    assert.equal(result.stopSequence, stop);
  }
});

test('an end token ends the answer and is not among its tokens', async (t) => {
  const model = await open(t);
  const [end] = model.info.endTokens;
  const result = await model.generate('x', { logitBias: { [end]: 1e6 } }).result();
  assert.deepEqual([result.finishReason, result.tokens, result.text], ['stop', [], '']);
});

test('maxTokens 0 only evaluates the prompt', async (t) => {
  const model = await open(t);
  const result = await model.generate('x y z', { maxTokens: 0 }).result();
  assert.deepEqual([result.finishReason, result.tokens], ['length', []]);
});

test('log probabilities match the logits', async (t) => {
  const model = await open(t);
  const ids = someIds(20);
  const { tokens, logprobs = [] } = await model.generate(ids, { ...LONG, maxTokens: 5, logprobs: 3 }).result();
  assert.equal(logprobs.length, 5);
  for (let i = 0; i < 5; i++) {
    const row = Array.from(await model.debug.logits([...ids, ...tokens.slice(0, i)]));
    const most = Math.max(...row);
    const sum = Math.log(row.reduce((total, x) => total + Math.exp(x - most), 0)) + most;
    assert.equal(logprobs[i].id, tokens[i]);
    assert.ok(Math.abs(logprobs[i].logprob - (row[tokens[i]] - sum)) < 1e-4);
    const best = row
      .map((x, id) => [x - sum, id])
      .sort((a, b) => b[0] - a[0])
      .slice(0, 3);
    assert.deepEqual(
      logprobs[i].top.map((x) => x.id),
      best.map(([, id]) => id),
    );
    logprobs[i].top.forEach((x, k) => assert.ok(Math.abs(x.logprob - best[k][0]) < 1e-4));
    assert.equal(typeof logprobs[i].top[0].text, 'string');
  }
  const none = await model.generate(ids, { ...LONG, maxTokens: 2, logprobs: 0 }).result();
  assert.deepEqual(
    none.logprobs?.map((x) => x.top),
    [[], []],
  );
  assert.equal((await model.generate(ids, { maxTokens: 1 }).result()).logprobs, undefined);
});

test('a full context ends the answer; a longer prompt is refused; the model stays usable', async (t) => {
  const model = await open(t, 'tiny', { contextLength: 64 });
  assert.equal(model.info.contextLength, 64);
  const full = await model.generate(someIds(60), LONG).result();
  assert.deepEqual([full.finishReason, full.tokens.length], ['context', 5]);
  const edge = await model.generate(someIds(64), LONG).result();
  assert.deepEqual([edge.finishReason, edge.tokens.length], ['context', 1]);
  const out = model.generate(someIds(65), LONG);
  const error = await refuses(out.result(), 'context-exceeded');
  assert.match(
    error.message,
    /64 tokens.* 65\)\. Shorten the input, .* Or load the model with a larger `contextLength`\.$/,
  );
  await refuses(async () => {
    for await (const piece of model.generate(someIds(65))) assert.fail(piece);
  }, 'context-exceeded');
  assert.deepEqual((await model.generate(someIds(60), LONG).result()).tokens, full.tokens);
  const whole = await open(t, 'tiny');
  const { contextLength, trainedContextLength } = whole.info;
  assert.equal(contextLength, trainedContextLength);
  const longest = whole.generate(someIds(contextLength + 1)).result();
  await refuses(longest, 'context-exceeded', /\. Shorten the input, or start a new chat\.$/);
});

test('a cached prefix is not evaluated again, and does not change the answer', async (t) => {
  const model = await open(t);
  const greedy = { maxTokens: 10, temperature: 0 };
  const fresh = await model.generate(someIds(50), greedy).result();
  assert.equal(fresh.usage.reusedTokens, 0);
  const again = await model.generate(someIds(50), greedy).result();
  assert.equal(again.usage.reusedTokens, 49);
  assert.deepEqual(again.tokens, fresh.tokens);
  await model.generate('something else', greedy).result();
  assert.deepEqual((await model.generate(someIds(50), greedy).result()).tokens, fresh.tokens);
});

test('prefill progress goes from 0 to the number of tokens', async (t) => {
  const model = await open(t, 'tiny', { threads: 2 });
  /** @type {{ done: number }[]} */ const events = [];
  await model.generate(someIds(300), { maxTokens: 1, onPrefillProgress: (event) => events.push(event) }).result();
  assert.deepEqual(events[0], { done: 0, total: 300 });
  assert.deepEqual(events.at(-1), { done: 300, total: 300 });
  for (let i = 1; i < events.length; i++) assert.ok(events[i].done >= events[i - 1].done);
});

test('a generation begins and ends without a reader, is not a promise, and can be iterated only once', async (t) => {
  const model = await open(t);
  const unread = model.generate('Hello', { ...LONG, maxTokens: 300 }); // Longer than the limit of back-pressure.
  const next = await model.generate('x', { maxTokens: 1 }).result();
  assert.equal(next.finishReason, 'length');
  let text = '';
  for await (const piece of unread) text += piece;
  const result = await unread.result();
  assert.deepEqual(result, await unread.result());
  assert.equal(await unread, unread);
  assert.equal(text, result.text);
  await refuses(async () => {
    for await (const piece of unread) assert.fail(piece);
  }, 'bad-state');
});

test('an answer can be a stream; cancelling the stream ends the generation', async (t) => {
  const model = await open(t);
  const out = model.generate('Hello', { ...LONG, maxTokens: 40 });
  assert.equal(await new Response(out.stream().pipeThrough(new TextEncoderStream())).text(), (await out.result()).text);
  const cut = model.generate('Hello', { ...LONG, maxTokens: 400 });
  const reader = cut.stream().getReader();
  await reader.read();
  await reader.cancel();
  assert.equal((await cut.result()).finishReason, 'aborted');
});

test('an answer that is cancelled before or during its first read ends immediately', async (t) => {
  const model = await open(t, 'medium', { contextLength: 4096 });
  /** @type {Record<string, (answer: Generation) => unknown>} */
  const ways = {
    'a stream that is cancelled': (answer) => answer.stream().cancel(),
    'an iterator that is closed': (answer) => answer[Symbol.asyncIterator]().return(),
    'steps, by an error': (answer) =>
      answer
        .steps()
        .throw(new Error('left'))
        .catch(() => {}),
    'a stream of Node, with an error': (answer) =>
      Readable.from(answer)
        .on('error', () => {})
        .destroy(new Error('left')),
    'a read that waits': (answer) => {
      const reader = answer.stream().getReader();
      reader.read().catch(() => {});
      return reader.cancel();
    },
  };
  for (const [way, leave] of Object.entries(ways)) {
    const answer = model.generate(someIds(2000, 4096), LONG);
    leave(answer);
    const { finishReason, tokens } = await answer.result();
    assert.deepEqual([finishReason, tokens], ['aborted', []], way);
  }
});

test('many calls can share a signal: each is aborted, and Node prints no warning', async (t) => {
  const model = await open(t);
  const stop = new AbortController();
  /** @type {string[]} */ const warnings = [];
  const hear = (/** @type {unknown} */ warning) => warnings.push(String(warning));
  process.on('warning', hear);
  t.after(() => process.off('warning', hear));
  const options = { ...LONG, maxTokens: 400, signal: stop.signal };
  const waiting = Array.from({ length: 20 }, () => model.generate('Hello', options));
  const rows = Array.from({ length: 20 }, () => model.debug.logits([1, 2], { signal: stop.signal }));
  const settled = Promise.allSettled(rows);
  stop.abort();
  for (const one of waiting) assert.equal((await one.result()).finishReason, 'aborted');
  const reasons = (await settled).flatMap((one) => (one.status === 'rejected' ? one.reason : []));
  assert.ok(reasons.length > 0);
  for (const { name, code } of reasons) assert.deepEqual([name, code], ['AbortError', 'aborted']);
  await new Promise(setImmediate);
  assert.deepEqual(warnings, []);
});

for (const threads of [1, 2]) {
  test(`leaving the loop ends the generation (${threads} threads)`, async (t) => {
    const model = await open(t, 'tiny', { threads });
    const out = model.generate('Hello', { ...LONG, maxTokens: 450 });
    let seen = '';
    for await (const piece of out) {
      seen += piece;
      if (seen.length > 10) break;
    }
    const result = await out.result();
    assert.equal(result.finishReason, 'aborted');
    assert.ok(result.text.startsWith(seen));
    assert.ok(result.tokens.length < 450, `${result.tokens.length} tokens`);
  });

  test(`a slow consumer pauses the engine (${threads} threads)`, async (t) => {
    const model = await open(t, 'tiny', { threads });
    const out = model.generate('Hello', { ...LONG, maxTokens: 450 });
    const iterator = out[Symbol.asyncIterator]();
    const text = (await iterator.next()).value;
    await sleep(300);
    // The caller does not read the answer, so back-pressure must have stopped the engine far below 450 tokens.
    await iterator.return();
    const result = await out.result();
    assert.equal(result.finishReason, 'aborted');
    assert.ok(result.tokens.length > 1 && result.tokens.length < 200, `${result.tokens.length} tokens`);
    assert.ok(result.text.startsWith(String(text)));
  });

  test(`calls inside the loop do not deadlock (${threads} threads)`, async (t) => {
    const model = await open(t, 'tiny', { threads });
    const whole = await model.generate('Hello', LONG).result();
    let text = '';
    let others = 0;
    for await (const piece of model.generate('Hello', LONG)) {
      text += piece;
      if (others++ === 0) {
        assert.ok((await model.tokenize(piece)).length > 0);
        assert.equal((await model.debug.logits([2, 300])).length, 1024);
        assert.equal((await model.generate('other', { maxTokens: 3, logitBias: NO_END }).result()).tokens.length, 3);
      }
    }
    assert.equal(text, whole.text);
  });

  test(`an abort works before, during prefill and during decoding (${threads} threads)`, async (t) => {
    const model = await open(t, 'medium', { threads, contextLength: 4096 });
    const ids = someIds(600, 4096);
    const small = { maxTokens: 4, temperature: 0 };
    const expected = await model.generate(ids.slice(0, 40), small).result();

    const early = await model.generate('x', { signal: AbortSignal.abort() }).result();
    assert.deepEqual([early.finishReason, early.text, early.tokens], ['aborted', '', []]);

    const prefill = new AbortController();
    const inPrefill = model.generate(ids, { signal: prefill.signal }).result();
    await sleep(60);
    let at = performance.now();
    prefill.abort();
    const first = await inPrefill;
    t.diagnostic(`abort in prefill took ${(performance.now() - at).toFixed(1)} ms`);
    assert.deepEqual([first.finishReason, first.tokens], ['aborted', []]);
    assert.deepEqual((await model.generate(ids.slice(0, 40), small).result()).tokens, expected.tokens);

    const decode = new AbortController();
    const out = model.generate(ids.slice(0, 20), { maxTokens: 2000, signal: decode.signal, seed: 1, temperature: 2 });
    let text = '';
    for await (const piece of out) {
      if (!text) {
        at = performance.now();
        decode.abort();
      }
      text += piece;
    }
    const second = await out.result();
    t.diagnostic(`abort in decoding took ${(performance.now() - at).toFixed(1)} ms`);
    assert.equal(second.finishReason, 'aborted');
    assert.equal(second.text, text);
    assert.ok(second.tokens.length > 0 && second.tokens.length < 2000);
    assert.deepEqual((await model.generate(ids.slice(0, 40), small).result()).tokens, expected.tokens);
  });

  test(`a call that waits behind another is aborted immediately (${threads} threads)`, async (t) => {
    const model = await open(t, 'tiny', { threads });
    const blocking = model.generate('Hello', { ...LONG, maxTokens: 450 });
    const running = blocking.result();
    const controller = new AbortController();
    const waiting = model.generate('later', { signal: controller.signal }).result();
    const refused = refuses(model.debug.logits([2, 300], { signal: controller.signal }), 'aborted');
    controller.abort();
    assert.equal((await waiting).finishReason, 'aborted');
    await refused;
    assert.equal((await running).tokens.length, 450);
  });
}

test('an answer that is aborted before it begins has empty log probabilities, if they were requested', async (t) => {
  const model = await open(t);
  const signal = AbortSignal.abort();
  assert.deepEqual((await model.generate('x', { signal, logprobs: 2 }).result()).logprobs, []);
  assert.equal('logprobs' in (await model.generate('x', { signal }).result()), false);
});

test('a progress callback that throws fails its call, and no other', async (t) => {
  const model = await open(t);
  const onPrefillProgress = () => {
    throw new Error('oh no');
  };
  const out = model.generate(someIds(200), { ...LONG, onPrefillProgress });
  const error = await refuses(out.result(), 'bad-option');
  assert.equal(Object(error.cause).message, 'oh no');
  assert.equal((await model.generate('x', { ...LONG, maxTokens: 3 }).result()).tokens.length, 3);
});
