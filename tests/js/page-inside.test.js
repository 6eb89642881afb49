/**
 * Tests the computations of the inspection panel, without a page: the probabilities of tokens, which must equal the
 * engine's; the formatting of numbers and tokens.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { addLater } from '../../web/shell/language.js';
import { chances, largest, percent, range, shown, spoken, unsure, windowOf } from '../../web/inside/numbers.js';
import { stepped } from '../../web/inside/parts.js';
import { open } from './helpers.js';

const LOGITS = [1, 3, 2, -40, 0];

/** @param {Partial<import('../../web/inside/numbers.js').Sampling>} sampling */
const drawn = (sampling) => chances(LOGITS, { temperature: 1, topK: 0, topP: 1, ...sampling });
/** @param {number[]} weights */
const shares = (...weights) => weights.map((one) => one / weights.reduce((a, b) => a + b, 0));
/** @param {number[]} found @param {number[]} wanted */
const near = (found, wanted) => {
  assert.equal(found.length, wanted.length);
  found.forEach((one, i) => assert.ok(Math.abs(one - wanted[i]) < 1e-12, `${found} is not ${wanted}`));
};

await addLater();

test('logits become probabilities, the most likely first, without negligible ones', () => {
  const { candidates, kept } = drawn({});
  assert.deepEqual(
    candidates.map(({ id }) => id),
    [1, 2, 0, 4],
  );
  near(
    candidates.map(({ probability }) => probability),
    shares(1, Math.exp(-1), Math.exp(-2), Math.exp(-3)),
  );
  assert.equal(kept, LOGITS.length, 'these settings exclude no token');
});

test('top-k, top-p and temperature apply in the order of the engine', () => {
  const three = drawn({ topK: 3 });
  assert.equal(three.kept, 3);
  near(
    three.candidates.map(({ chance }) => chance),
    [...shares(1, Math.exp(-1), Math.exp(-2)), 0],
  );
  assert.equal(drawn({ topP: 0.6 }).kept, 1);
  assert.equal(drawn({ topP: 0.65 }).kept, 2);
  const both = drawn({ topK: 3, topP: 0.9, temperature: 0.5 });
  assert.equal(both.kept, 2, 'top-p applies after top-k and before temperature');
  near(
    both.candidates.map(({ chance }) => chance),
    [...shares(1, Math.exp(-2)), 0, 0],
  );
  near(
    drawn({ temperature: 0 }).candidates.map(({ chance }) => chance),
    [1, 0, 0, 0],
  );
});

test('the engine samples exactly the tokens shown as possible', async (t) => {
  const model = await open(t, 'tiny');
  const ids = Array.from({ length: 20 }, (_, i) => 300 + i);
  for (const sampling of [
    { temperature: 0.8, topK: 5, topP: 0.9 },
    { temperature: 1.5, topK: 0, topP: 0.02 },
  ]) {
    const { candidates, kept } = chances(await model.debug.logits(ids), sampling);
    const allowed = candidates.slice(0, kept).map(({ id }) => id);
    const seeds = range(0, 40);
    const answers = await Promise.all(
      seeds.map((seed) => model.generate(ids, { ...sampling, maxTokens: 1, seed }).result()),
    );
    // An answer may also end before its first token.
    for (const { tokens } of answers)
      if (tokens.length) assert.ok(allowed.includes(tokens[0]), `${tokens[0]} of ${allowed}`);
  }
});

test('formats probabilities, tokens, uncertain positions, the largest weights and the window', () => {
  assert.deepEqual(
    [0.5, 0.0512, 0.0012, 0.00001, 1, 0].map(percent),
    ['50', '5.1', '0.12', '< 0.01', '100', '0'].map((text) => `${text}%`),
  );
  assert.deepEqual([' cat', '\n\n', 'a b ', '\t', ''].map(shown), ['·cat', '⏎⏎', 'a b·', '⇥', '(nothing)']);
  assert.deepEqual([' cat', '\n', ' ', ''].map(spoken), ['“cat”', 'a new line', 'a space', 'nothing']);
  assert.deepEqual([0.9, 0.2, 0.05, 0.01].map(unsure), [0, 1, 2, 3]);
  assert.deepEqual(largest(Float32Array.of(0.2, 0, 0.5, 0.3), 2), [2, 3]);
  assert.deepEqual(largest([0, 1], 5), [1]);
  assert.equal(windowOf([{ key: 'gemma3.attention.sliding_window', value: 512 }]), 512);
  assert.equal(windowOf([{ key: 'llama.block_count', value: 4 }]), 0);
});

test('arrow keys move in the direction that they show, even in right-to-left text', () => {
  for (const [direction, wanted] of /** @type {const} */ ([
    ['ltr', [3, 1, 3, 1, 0, 8, 2]],
    ['rtl', [1, 3, 3, 1, 0, 8, 2]],
  ])) {
    Object.assign(globalThis, { getComputedStyle: () => ({ direction }) });
    const keys = ['ArrowRight', 'ArrowLeft', 'ArrowDown', 'ArrowUp', 'Home', 'End', 'x'];
    assert.deepEqual(
      keys.map((key) => stepped(/** @type {any} */ ({ key }), 2, 9)),
      wanted,
    );
  }
});

test('text-decoration has a single value, because WebKit ignores the shorthand with more', async () => {
  for (const name of 'inside/inside search/search chat/shape rendering/code static/style'.split(' ')) {
    const css = await readFile(new URL(`../../web/${name}.css`, import.meta.url), 'utf8');
    assert.doesNotMatch(css, /text-decoration:\s*[\w-]+\s+[^;}]/, name);
  }
});
