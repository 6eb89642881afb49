/* Tests texts and lists of ids of any length: processing in parts gives the same result as at once, can be aborted,
 * does not grow the heap, and does not block the worker's messages. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ModelError } from '../../js/errors.js';
import { bareEngine } from './bare-engine.js';
import { open, refuses, sleep } from './helpers.js';
import { testModel } from './models.js';
import { texts } from './texts.js';

const encoder = new TextEncoder();

/** Tokenizes a text in parts: each call passes the rest of the previous call and `window` more bytes. Returns the
 * ids, and the largest number of bytes that a call left for the next one.
 * @param {import('../../js/engine/engine.js').Engine} engine @param {Uint8Array} bytes @param {number} window
 * @param {boolean} special */
function inPieces(engine, bytes, window, special) {
  const ids = [];
  let begun = false;
  let at = 0;
  let most = 0;
  for (let end = 0; end < bytes.length; ) {
    end = Math.min(bytes.length, Math.max(end, at) + window);
    const { ids: some, taken } = engine.encodePart(bytes.slice(at, end), { special, begun, more: end < bytes.length });
    ids.push(...some);
    at += taken;
    begun ||= taken > 0;
    most = Math.max(most, end - at);
  }
  return { ids, most };
}

/** Texts that are hard to split: runs of spaces and line breaks, added tokens, beginnings of words. */
const HARD = [
  '\n\n\n\n\n\n',
  '   \t  \n \n  x',
  '\u3000\u3000\u00a0\u2003\n',
  '<start_of_turn>',
  '<end_of_turn',
  "'re 'RE'll'",
  '     ',
  '\r\n\r\n',
  '1234567',
  '、。「',
  'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',
  '!!!\n\n',
  '<table>',
  '👩‍👩‍👧‍👦',
  '\u0085x\u180e\u1680y',
  '日ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÜ',
  'HELLO WORLD. ',
];

for (const name of [
  'gemma-vocab-tiny',
  'gpt2-f32',
  'llama3-tools',
  'qwen3-bf16',
  'llama-q4_0',
  'phi3-q4_0',
  'parity-q4_0',
]) {
  test(`tokenizing in windows of any size gives the ids of the whole text: ${name}`, async () => {
    const engine = await bareEngine(await testModel(name));
    const some = [...texts({ count: 40, seed: 9 })];
    for (let n = 0; n < 24; n++) {
      const text = Array.from({ length: 40 }, (_, i) =>
        i % 2 ? some[(n * 7 + i * 3) % some.length].slice(0, 90) : HARD[(n + i * 5) % HARD.length],
      ).join('');
      const bytes = encoder.encode(text);
      const special = n % 2 === 1;
      const whole = [...engine.encode(text, special)];
      for (const window of [1 + n, 64, 211, 700]) {
        const { ids, most } = inPieces(engine, bytes, window, special);
        assert.deepEqual(ids, whole, `${n}, windows of ${window}`);
        assert.ok(
          most < bytes.length / 2 || bytes.length < 2000,
          `${most} of ${bytes.length} bytes were left for a later part`,
        );
      }
    }
    engine.close();
  });
}

test('a long text has the same ids in parts as in one piece, even with lone surrogates', async (t) => {
  const model = await open(t, 'gemma-vocab-tiny');
  const half = `${[...texts({ count: 60, seed: 3 })].join(' ')} 👩 \ud83d\n`;
  const text = half.repeat(Math.ceil(400_000 / half.length));
  const engine = await bareEngine(await testModel('gemma-vocab-tiny'));
  const ids = await model.tokenize(text, { bos: true });
  assert.deepEqual(ids, [2, ...engine.encode(text, false)]);
  assert.equal(await model.countTokens(text), ids.length);
  assert.equal(await model.detokenize(ids), Object(text).toWellFormed?.() ?? text.replaceAll('\ud83d\n', '\ufffd\n'));
  engine.close();
});

/** @type {Record<string, (model: Model, text: string, ids: number[], signal: AbortSignal) => Promise<unknown>>} */
const ABORTABLE = {
  tokenize: (model, text, _, signal) => model.tokenize(text, { signal }),
  countTokens: (model, text, _, signal) => model.countTokens(text, { signal }),
  detokenize: (model, _, ids, signal) => model.detokenize(ids, { signal }),
  perplexity: (model, text, _, signal) => model.debug.perplexity(text, { signal }),
  matches: (model, text, _, signal) => model.debug.matches({ regex: '[^]*' }, text.slice(0, 400_000), { signal }),
  async generate(model, text, _, signal) {
    const { finishReason } = await model.generate(text, { signal }).result();
    if (finishReason === 'aborted') throw new ModelError('aborted', 'The answer was aborted.');
  },
};

for (const [what, call] of Object.entries(ABORTABLE)) {
  test(`${what}() with a huge input can be aborted, and other calls are answered meanwhile`, async (t) => {
    const model = await open(t);
    const text = 'The quick brown fox. '.repeat(1_500_000);
    const ids = what === 'detokenize' ? Array.from({ length: 12_000_000 }, (_, i) => 300 + (i % 500)) : [];
    if (what === 'matches') await model.debug.matches({ regex: '[^]*' }, 'x'); // Allocates memory before measuring.
    const before = await model.debug.heapBytes();
    const control = new AbortController();
    const ended = refuses(call(model, text, ids, control.signal), 'aborted');
    await sleep(150);
    assert.ok((await model.debug.heapBytes()) <= before + (8 << 20));
    control.abort();
    await ended;
    assert.ok((await model.debug.heapBytes()) <= before + (8 << 20));
    assert.deepEqual(await model.tokenize('Hello'), await model.tokenize('Hello'));
  });
}

test('a text that cannot be split is rejected with a code, and the model stays usable', async (t) => {
  const model = await open(t);
  const before = await model.tokenize('Hello');
  await refuses(model.tokenize('a'.repeat(40_000_000)), ['bad-count', 'bad-option']);
  assert.deepEqual(await model.tokenize('Hello'), before);
});

const huge = () => 'Hello big world. '.repeat(9_000_000);
/** @type {Record<string, (model: Model) => Promise<unknown>>} */
const HUGE = {
  'a prompt': (model) => model.generate(huge()).result(),
  'a message': (model) => model.generate([{ role: 'user', content: huge() }]).result(),
  'many messages': (model) =>
    model.generate(Array(3001).fill({ role: 'user', content: 'Hello '.repeat(9000) })).result(),
  'a system message': (model) => model.chat({ system: huge() }).send('Hello').result(),
  'a question': (model) => model.chat().send(huge()).result(),
  'a text to tokenise': (model) => model.tokenize(huge()),
  'a text to count': (model) => model.countTokens(huge()),
  'a text to embed': (model) => model.embed(huge(), { pooling: 'mean', truncate: true }),
  'texts to embed': (model) => model.embed(Array(1000).fill('Hello '.repeat(20_000)), { pooling: 'mean' }),
  'a text to score': (model) => model.debug.perplexity(huge()),
  'a text to match': (model) => model.debug.matches({ regex: '[^]*' }, huge()),
  'a regular expression': (model) => model.debug.matches({ regex: huge() }, 'Hello'),
  'a choice': (model) => model.generate('Hello', { format: { choices: [huge()] } }).result(),
  'a stop sequence': (model) => model.generate('Hello', { stop: huge() }).result(),
  'many stop sequences': (model) => model.generate('Hello', { stop: Array.from({ length: 1025 }, String) }).result(),
  'ids to detokenise': (model) => model.detokenize(new Uint32Array(40_000_000)),
  'a prompt of ids': (model) => model.generate(new Uint32Array(40_000_000)).result(),
};

for (const [what, call] of Object.entries(HUGE)) {
  test(`${what} of 150 MB is rejected before any work, and the model stays usable`, async (t) => {
    const model = await open(t);
    const before = await model.debug.heapBytes();
    const { rss } = process.memoryUsage();
    await refuses(() => call(model), 'bad-option', /at most [\d,]+|\d+ at most/);
    assert.ok(process.memoryUsage().rss - rss < 300e6, 'the text was not copied');
    assert.equal(await model.debug.heapBytes(), before);
    assert.ok((await model.generate('Hello', { maxTokens: 2 }).result()).tokens.length);
  });
}

test('a text of more tokens than any context holds is rejected, and the model stays usable', async (t) => {
  const model = await open(t);
  const text = '7 '.repeat(9_000_000);
  const before = await model.tokenize('Hello');
  const { message } = await refuses(model.tokenize(text), 'bad-count');
  assert.equal(message, 'The text has more than 16777216 tokens. Split it.');
  for (const call of [() => model.generate(text).result(), () => model.countTokens(text)])
    await refuses(call, 'context-exceeded');
  assert.deepEqual(await model.tokenize('Hello'), before);
});

test('messages that are too large for a chat template are rejected for that reason', async (t) => {
  const model = await open(t);
  await refuses(
    model.generate([{ role: 'user', content: 'Hello '.repeat(1_000_000) }]).result(),
    'template-error',
    /^The messages and tools have more than 4194304 characters/,
  );
});
