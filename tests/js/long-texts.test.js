/* Texts and lists of ids of any length: they go through in pieces, which are those of the whole, may be aborted in the
 * middle, leave the heap as large as it was, and leave the worker able to hear. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bareEngine } from './bare-engine.js';
import { open, refuses, sleep } from './helpers.js';
import { testModel } from './models.js';
import { texts } from './texts.js';

const encoder = new TextEncoder();

/** Ids of a text in windows of some bytes. */
function inPieces(engine, bytes, window, special) {
  const ids = [];
  let begun = false,
    at = 0,
    most = 0;
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

/** What makes cutting hard: runs of blanks and line ends, pieces that are found as they are, beginnings of words. */
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
];

for (const name of ['gemma-vocab-tiny', 'gpt2-f32', 'llama3-tools', 'qwen3-bf16', 'llama-q4_0', 'parity-q4_0']) {
  test(`in pieces of any size the ids are those of the whole: ${name}`, async () => {
    const engine = await bareEngine(await testModel(name)),
      some = [...texts({ count: 40, seed: 9 })];
    for (let n = 0; n < 24; n++) {
      const text = Array.from({ length: 40 }, (_, i) =>
        i % 2 ? some[(n * 7 + i * 3) % some.length].slice(0, 90) : HARD[(n + i * 5) % HARD.length],
      ).join('');
      const bytes = encoder.encode(text),
        special = n % 2 === 1;
      const whole = [...engine.encode(text, special)];
      for (const window of [1 + n, 64, 211, 700]) {
        const { ids, most } = inPieces(engine, bytes, window, special);
        assert.deepEqual(ids, whole, `${n}, windows of ${window}`);
        assert.ok(most < bytes.length / 2 || bytes.length < 2000, `${most} of ${bytes.length} bytes were held back`);
      }
    }
    engine.close();
  });
}

test('a long text is what its parts are, halves of characters too', async (t) => {
  const model = await open(t, 'gemma-vocab-tiny'),
    half = `${[...texts({ count: 60, seed: 3 })].join(' ')} 👩 \ud83d\n`;
  const text = half.repeat(Math.ceil(400_000 / half.length)),
    engine = await bareEngine(await testModel('gemma-vocab-tiny'));
  const ids = await model.tokenize(text, { bos: true });
  assert.deepEqual(ids, [2, ...engine.encode(text, false)]);
  assert.equal(await model.countTokens(text), ids.length);
  assert.equal(await model.detokenize(ids), text.toWellFormed?.() ?? text.replaceAll('\ud83d\n', '\ufffd\n'));
  engine.close();
});

for (const [what, call] of Object.entries({
  tokenize: (model, { text }, signal) => model.tokenize(text, { signal }),
  countTokens: (model, { text }, signal) => model.countTokens(text, { signal }),
  detokenize: (model, { ids }, signal) => model.detokenize(ids, { signal }),
  perplexity: (model, { text }, signal) => model.perplexity(text, { signal }),
  matches: (model, { text }, signal) => model.matches({ regex: '[^]*' }, text.slice(0, 400_000), { signal }),
  generate: async (model, { text }, signal) => {
    const { finishReason } = await model.generate(text, { signal }).result();
    if (finishReason === 'aborted')
      throw Object.assign(new Error('it'), { code: 'aborted', what: '', expected: '', got: '' });
  },
})) {
  test(`${what} of very much is ended by an abort, and other calls are answered meanwhile`, async (t) => {
    const model = await open(t),
      text = 'The quick brown fox. '.repeat(1_500_000);
    const ids = what === 'detokenize' ? Array.from({ length: 12_000_000 }, (_, i) => 300 + (i % 500)) : [];
    if (what === 'matches') await model.matches({ regex: '[^]*' }, 'x'); // automata have memory that stays
    const before = await model.heapBytes(),
      control = new AbortController();
    const ended = refuses(call(model, { text, ids }, control.signal), 'aborted');
    await sleep(150);
    assert.ok((await model.heapBytes()) <= before + (8 << 20));
    control.abort();
    await ended;
    assert.ok((await model.heapBytes()) <= before + (8 << 20));
    assert.deepEqual(await model.tokenize('Hello'), await model.tokenize('Hello'));
  });
}

test('a text that nothing parts is refused with a code, and the model lives', async (t) => {
  const model = await open(t),
    before = await model.tokenize('Hello');
  await refuses(model.tokenize('a'.repeat(40_000_000)), ['bad-count', 'bad-option']);
  assert.deepEqual(await model.tokenize('Hello'), before);
});
