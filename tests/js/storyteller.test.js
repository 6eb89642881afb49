/**
 * Tests the shipped storyteller model, a small trained model, on which quality can be measured: compares it with
 * transformers and llama.cpp on the same weights (tests/vectors/storyteller.md), and tests features that need trained
 * weights: the cost of quantisation, sampling, the format of chats, long conversations.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { describe, test } from 'node:test';
import { loadModel } from '../../js/index.node.js';
import { open, refuses } from './helpers.js';
import { STORYTELLER } from './models.js';
import { storyteller } from './storyteller-files.js';

/** @import { FileType, Options } from './storyteller-files.js' */

const vector = (/** @type {string} */ name) =>
  JSON.parse(fs.readFileSync(new URL(`../vectors/${name}`, import.meta.url), 'utf8'));
/** @type {{ modelSha256: string, texts: { text: string, ids: number[], nll: number }[] }} */
const REFERENCE = vector('storyteller.json');
/** @type {{ modelSha256: string, nll: Record<'Q8_0' | 'Q4_0', number[]>,
 *   greedy: { question: string, prompt: number[], ids: number[] } }} */
const LLAMA = vector('storyteller-llama.json');

const EOS = 1;
const END_OF_TURN = 5;

/** Returns the perplexity over all texts, computed from each text's mean negative log likelihood (-ln p) per token.
 * @param {number[]} nlls */
function perplexity(nlls) {
  const counts = REFERENCE.texts.map(({ ids }) => ids.length - 1);
  const sum = nlls.reduce((total, nll, i) => total + nll * counts[i], 0);
  return Math.exp(sum / counts.reduce((a, b) => a + b));
}

/** @param {FileType} type */
async function ours(type) {
  const model = await loadModel(storyteller(type), { threads: 1 });
  const results = [];
  for (const { text } of REFERENCE.texts) results.push(await model.debug.perplexity(text));
  await model.dispose();
  assert.deepEqual(
    results.map((r) => r.tokens),
    REFERENCE.texts.map(({ ids }) => ids.length - 1),
  );
  return perplexity(results.map((r) => r.nll));
}

const apart = (/** @type {number} */ a, /** @type {number} */ b) => 100 * Math.abs(a / b - 1);

test('the reference vectors are of the shipped file, which has at most 16 MB', () => {
  const file = fs.readFileSync(STORYTELLER);
  const sha256 = createHash('sha256').update(file).digest('hex');
  assert.equal(REFERENCE.modelSha256, sha256);
  assert.equal(LLAMA.modelSha256, sha256);
  assert.ok(file.length <= 16 << 20, `${file.length} bytes`);
});

test('token ids equal those of SentencePiece, which trained the vocabulary', async (t) => {
  const model = await open(t, 'storyteller');
  for (const { text, ids } of REFERENCE.texts) {
    assert.deepEqual(await model.tokenize(text, { bos: true }), ids);
    assert.equal(await model.detokenize(ids), text);
  }
});

test('<image_soft_token> is text, and an id beyond the vocabulary is rejected', async (t) => {
  const model = await open(t, 'storyteller');
  const text = 'a <image_soft_token> b';
  const ids = await model.tokenize(text, { special: true });
  assert.ok(ids.every((id) => id < model.info.vocabSize));
  assert.equal(await model.detokenize(ids), text);
  await refuses(model.debug.logits([2, model.info.vocabSize]), 'bad-token');
});

test("the greedy story equals llama.cpp's", async (t) => {
  const model = await open(t, 'storyteller');
  const { question, prompt, ids } = LLAMA.greedy;
  assert.deepEqual(
    await model.tokenize(`<bos><start_of_turn>user\n${question}<end_of_turn>\n<start_of_turn>model\n`, {
      special: true,
    }),
    prompt,
  );
  const { tokens, text, finishReason } = await model.chat().send(question, { temperature: 0, maxTokens: 300 }).result();
  const told = ids.filter((id) => id !== END_OF_TURN);
  assert.deepEqual(
    tokens.filter((id) => id !== END_OF_TURN),
    told,
  );
  assert.equal(text, await model.detokenize(told));
  assert.equal(finishReason, 'stop');
});

describe("the storyteller's perplexity on tales that it was not trained on", () => {
  test('F32: within 0.1 % of transformers', async () => {
    const [mine, theirs] = [await ours('F32'), perplexity(REFERENCE.texts.map(({ nll }) => nll))];
    assert.ok(apart(mine, theirs) < 0.1, `${mine} here, ${theirs} there`);
  });

  for (const [type, bound] of /** @type {const} */ ([
    ['Q8_0', 0.3],
    ['Q4_0', 5],
  ])) {
    test(`${type}: within 0.5 % of llama.cpp, and quantisation costs as much as in llama.cpp`, async (t) => {
      const [mine, theirs] = [await ours(type), perplexity(LLAMA.nll[type])];
      assert.ok(apart(mine, theirs) < 0.5, `${mine} here, ${theirs} there`);
      const exact = perplexity(REFERENCE.texts.map(({ nll }) => nll));
      const [cost, theirCost] = [mine, theirs].map((one) => 100 * (one / exact - 1));
      t.diagnostic(`${cost.toFixed(3)} % more perplexity here, ${theirCost.toFixed(3)} % in llama.cpp`);
      assert.ok(cost < bound, `${type} costs ${cost} %`);
      assert.ok(Math.abs(cost - theirCost) < 0.5, `${type} costs ${cost} % here, ${theirCost} % in llama.cpp`);
    });
  }

  test('is much higher with the words in reverse order', async (t) => {
    const model = await open(t, 'storyteller');
    const { text } = REFERENCE.texts[0];
    const turned = text.split(' ').reverse().join(' ');
    const [straight, wrong] = [await model.debug.perplexity(text), await model.debug.perplexity(turned)];
    assert.ok(
      wrong.nll > straight.nll + 1,
      `${wrong.nll} nats per token with the words reversed, ${straight.nll} in order`,
    );
  });
});

describe('outliers: a channel x 100, and x 1/100 where it is read, in every layer', () => {
  const IDS = REFERENCE.texts[0].ids.slice(0, 200);
  const KINDS = /** @type {const} */ (['norms', 'heads', 'hidden']);

  /** Returns the mean negative log likelihood (-ln p) per token of a text, computed from the logits.
   * @param {FileType} type @param {Options} options @param {LoadOptions} [load] */
  async function nllOf(type, options, load = {}) {
    const model = await loadModel(storyteller(type, options), { threads: 2, ...load });
    const rows = await model.debug.logits(IDS, { all: true });
    await model.dispose();
    const width = rows.length / IDS.length;
    const losses = IDS.slice(1).map((id, i) => {
      const row = rows.subarray(i * width, (i + 1) * width);
      const most = row.reduce((a, b) => Math.max(a, b));
      return most + Math.log(row.reduce((sum, x) => sum + Math.exp(x - most), 0)) - row[id];
    });
    return losses.reduce((a, b) => a + b) / losses.length;
  }

  /** Returns how much the mean negative log likelihood is higher than with F32 arithmetic on the same rounded weights.
   * @param {FileType} type @param {Options} options @param {LoadOptions} [load] */
  async function added(type, options, load) {
    return (await nllOf(type, options, load)) - (await nllOf('F32', { ...options, rounded: type }));
  }

  test('F32: outliers change nothing', async () => {
    const plain = await nllOf('F32', {});
    for (const kind of KINDS) {
      const difference = (await nllOf('F32', { outliers: [kind] })) - plain;
      assert.ok(Math.abs(difference) < 1e-6, `${kind}: ${difference} nats`);
    }
    assert.ok(Math.abs((await nllOf('F32', { head: true, outliers: ['output'] })) - plain) < 1e-6);
  });

  for (const [type, bound] of /** @type {const} */ ([
    ['Q8_0', 3e-4],
    ['Q4_0', 0.02],
    ['QAT', 0.02],
  ])) {
    test(`${type}: within ${bound} nats of F32 on the same weights`, async (t) => {
      for (const kind of KINDS) {
        const difference = await added(type, { outliers: [kind] });
        t.diagnostic(`${kind}: ${difference.toExponential(1)} nats`);
        assert.ok(Math.abs(difference) < bound, `${kind}: ${difference} nats`);
      }
    });
  }

  test('QAT: a head whose norm has an outlier loses nothing unless it is packed as Q8_0', async (t) => {
    const options = { head: true, outliers: /** @type {const} */ (['output']) };
    const plain = await added('QAT', { head: true });
    const kept = await added('QAT', options);
    const packed = await added('QAT', options, { quantizeFloats: 'q8_0' });
    t.diagnostic(
      `without the outlier ${plain.toExponential(1)} nats, kept ${kept.toExponential(1)}, packed ${packed.toExponential(1)}`,
    );
    assert.ok(Math.abs(kept - plain) < 1e-5, `${kept} nats, ${plain} without the outlier`);
    assert.ok(Math.abs(packed) < 0.02, `${packed} nats`);
  });
});

describe('sampling', () => {
  const DRAWS = 600;

  /** @param {Float32Array} logits @param {number} temperature */
  function distribution(logits, temperature) {
    const most = logits.reduce((a, b) => Math.max(a, b), -Infinity);
    const weights = Array.from(logits, (x) => Math.exp((x - most) / temperature));
    const sum = weights.reduce((a, b) => a + b);
    return weights.map((w, id) => ({ id, p: w / sum })).sort((a, b) => b.p - a.p);
  }

  async function draw(/** @type {any} */ model, /** @type {number[]} */ ids, /** @type {object} */ options) {
    const counts = new Map();
    for (let seed = 1; seed <= DRAWS; seed++) {
      const { tokens } = await model.generate(ids, { ...options, seed, maxTokens: 1 }).result();
      counts.set(tokens[0], (counts.get(tokens[0]) ?? 0) + 1);
    }
    return counts;
  }

  const PROMPT = 'One day, Lily saw a';
  const OPEN = { topK: 0, topP: 1, minP: 0 };

  for (const temperature of [0.5, 1, 1.5]) {
    test(`temperature ${temperature}: tokens are as frequent as their probabilities say`, async (t) => {
      const model = await open(t, 'storyteller');
      const ids = await model.tokenize(PROMPT, { bos: true });
      const expected = distribution(await model.debug.logits(ids), temperature);
      const counts = await draw(model, ids, { ...OPEN, temperature });
      // Chi-square test over the likely ids, with all others as one cell: chi-square has the mean df (the degrees of
      // freedom) and the standard deviation sqrt(2 df).
      const likely = expected.filter(({ p }) => p * DRAWS >= 5);
      const cells = likely.map(({ id, p }) => ({ p, n: counts.get(id) ?? 0 }));
      const rest = cells.reduce((left, { p, n }) => ({ p: left.p - p, n: left.n - n }), { p: 1, n: DRAWS });
      if (rest.p * DRAWS >= 5) cells.push(rest);
      const chi = cells.reduce((sum, { p, n }) => sum + (n - p * DRAWS) ** 2 / (p * DRAWS), 0);
      const df = cells.length - 1;
      assert.ok(df >= 2, `only ${cells.length} cells`);
      assert.ok(chi < df + 4 * Math.sqrt(2 * df), `chi-square ${chi} with ${df} degrees of freedom`);
    });
  }

  test('top-p samples only from the smallest set with that probability, and from all of it', async (t) => {
    const model = await open(t, 'storyteller');
    const ids = await model.tokenize(PROMPT, { bos: true });
    const expected = distribution(await model.debug.logits(ids), 1);
    let sum = 0;
    const nucleus = expected.slice(0, expected.findIndex(({ p }) => (sum += p) >= 0.5) + 1);
    const counts = await draw(model, ids, { ...OPEN, topP: 0.5, temperature: 1 });
    const kept = new Set(nucleus.map(({ id }) => id));
    for (const id of counts.keys())
      assert.ok(kept.has(id), `token ${id} was drawn, which is not among the ${kept.size} most likely ones`);
    for (const { id, p } of nucleus)
      if (p * DRAWS > 12) assert.ok(counts.has(id), `the likely token ${id} was never drawn`);
  });
});

describe('chats', () => {
  test('an answer ends with its turn, and has no control tokens in its text', async (t) => {
    const model = await open(t, 'storyteller');
    for (const seed of [1, 2, 3]) {
      const { text, finishReason, tokens } = await model
        .chat()
        .send('Tell me a story.', { temperature: 0.6, seed, maxTokens: 400 })
        .result();
      assert.equal(finishReason, 'stop');
      assert.doesNotMatch(text, /<(start|end)_of_turn>|<eos>|<bos>/);
      assert.match(text.trim(), /[.!?]"?$/);
      assert.ok(tokens.length > 40, `${tokens.length} tokens`);
      assert.ok(!tokens.slice(0, -1).some((id) => id === EOS || id === END_OF_TURN));
    }
  });

  test('32 turns, far beyond the window of the local layers, equal one prompt with the same messages', async (t) => {
    const model = await open(t, 'storyteller');
    const chat = model.chat();
    const options = { temperature: 0.7, maxTokens: 30 };
    let said = '';
    for (let turn = 0; turn < 32; turn++) {
      said = await chat.send('Tell me more.', { ...options, seed: turn + 1 }).text();
      assert.ok(said.length > 0, `turn ${turn} is empty`);
    }
    const messages = chat.messages;
    assert.equal(messages.length, 64);
    const tokens = await model.countTokens(messages.slice(0, -1));
    assert.ok(tokens > 10 * 96, `${tokens} tokens`);
    const fresh = await open(t, 'storyteller');
    assert.equal(await fresh.generate(messages.slice(0, -1), { ...options, seed: 32 }).text(), said);
  });
});
