/* Tests the benchmark's arithmetic: the calls it makes to a runtime, the figures it computes from the results, and the
 * module that measures memory reads. No timings are asserted. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Unsupported } from '../../js/grammar/index.js';
import { judged, ours } from '../../tools/bench/grammar-judges.js';
import { TURN, makePrompt, measure } from '../../tools/bench/measure.js';
import { median, medians, overOne, ratios, remarks, render } from '../../tools/bench/table.js';
import { BYTES_PER_ROUND, STREAMS, readModule } from '../../tools/bench/drivers/reads-wasm.js';

const BENCH = fileURLToPath(new URL('../../tools/bench/bench.js', import.meta.url));

const JOB = {
  driver: '',
  model: '',
  peers: '',
  threads: 1,
  contextLength: 512,
  prefill: [64, 128],
  contexts: [0, 256],
  tokens: 8,
  longest: 1,
  seed: 5,
  turn: true,
};

/** @typedef {{ prompt: { ids: number[] }, tokens: number }} Call */

/** Returns a fake runtime that takes 2 ms for each prompt token and 10 ms for each sampled token.
 * @param {Call[]} calls */
function fake(calls, { drawn = (/** @type {number} */ n) => n, keepsPrefix = true } = {}) {
  const run = async (/** @type {{ ids: number[] }} */ prompt, /** @type {number} */ tokens) => {
    calls.push({ prompt, tokens });
    const count = drawn(tokens);
    return { promptTokens: prompt.ids.length, promptMs: 2 * prompt.ids.length, tokens: count, tokensMs: 10 * count };
  };
  return async () => ({ run, facts: { threads: 1 }, keepsPrefix });
}

test('measure() warms up, then makes the calls of its job, with prompts that share no prefix', async () => {
  /** @type {Call[]} */ const calls = [];
  const sample = await measure(fake(calls), JOB);
  assert.deepEqual(
    calls.map(({ prompt, tokens }) => [prompt.ids.length, tokens]),
    [
      [32, 4],
      [64, 0],
      [128, 0],
      [1, 8],
      [256, 8],
      [TURN.history, 0],
      [TURN.history + TURN.message, 0],
    ],
  );
  assert.deepEqual(sample.prefill, { 64: 500, 128: 500 });
  assert.deepEqual(sample.decode, { 0: 100, 256: 100 });
  assert.equal(sample.turnMs, 2 * (TURN.history + TURN.message));
  const firsts = calls.slice(0, 6).map(({ prompt }) => prompt.ids[0]);
  assert.equal(new Set(firsts).size, firsts.length, `two of the prompts begin with the same id: ${firsts}`);
  assert.deepEqual(calls[6].prompt.ids.slice(0, TURN.history), calls[5].prompt.ids);
});

test('a runtime that stops early fails instead of counting as fast; one without a prompt cache has no turn time', async () => {
  await assert.rejects(measure(fake([], { drawn: () => 2 }), JOB), /only 2 tokens instead of 8/);
  const sample = await measure(fake([], { keepsPrefix: false }), JOB);
  assert.equal(sample.turnMs, undefined);
});

test('a prompt is skipped if it would take too long at the speed of the previous prompt', async () => {
  const sample = await measure(fake([]), { ...JOB, longest: 0.2 });
  assert.deepEqual(sample.prefill, { 64: 500 });
});

test('the same seed gives the same prompt', () => {
  assert.deepEqual(makePrompt(50, 9), makePrompt(50, 9));
  assert.notDeepEqual(makePrompt(50, 9).ids, makePrompt(50, 10).ids);
});

test('figures are medians, and ratios above 1 mean that our side is better', () => {
  assert.equal(median([3, undefined, 1, 2]), 2);
  assert.equal(median([4, 1]), 2.5);
  assert.equal(median([undefined]), undefined);
  const samples = [1000, 3000, 2000].map((loadMs) => ({
    loadMs,
    prefill: { 256: loadMs },
    decode: {},
    facts: {},
    memory: 5e6,
  }));
  assert.deepEqual(medians(samples), { 'load s': 2, 'prefill 256': 2000, 'memory MB': 5 });
  const better = ratios(
    { 'load s': 2, 'decode @0': 30, 'memory MB': 4 },
    { 'load s': 4, 'decode @0': 10, 'turn ms': 1 },
  );
  assert.deepEqual(better, { 'load s': 2, 'decode @0': 3 });
});

test('the table has a row for each side, a ratio for each peer with as many threads, and the failures', () => {
  const sample = (/** @type {number} */ rate) => ({
    loadMs: 500,
    prefill: { 256: rate },
    decode: { 0: rate / 4 },
    facts: {},
  });
  const text = render(
    [
      { side: 'a', title: 'Ours', threads: 2, samples: [sample(100)], deep: [] },
      { side: 'b', title: 'Peer', threads: 2, samples: [sample(10)], deep: [] },
      { side: 'b', title: 'Peer', threads: 1, samples: [sample(5)], deep: [] },
      { side: 'c', title: 'Broken', threads: 2, samples: [], deep: [], error: 'no memory' },
    ],
    'a',
  );
  assert.match(text, /^Ours, 2 threads +0\.50 +100 +25\.0 +- +1$/m);
  assert.match(text, /^better than Peer, 2 threads +1\.00 x +10\.0 x +10\.0 x +-$/m);
  assert.doesNotMatch(text, /better than Peer, 1 thread/);
  assert.match(text, /^Broken, 2 threads failed: no memory$/m);
});

test('long contexts have their own columns; remarks compare their speed with that at context 0 in the same measurement', () => {
  const plain = { loadMs: 500, prefill: { 256: 90 }, decode: { 0: 50 }, facts: {} };
  const deep = [10, 40].map((rate) => ({ loadMs: 1, prefill: {}, decode: { 0: rate, 4096: 0.9 * rate }, facts: {} }));
  const two = { side: 'a', title: 'Ours', threads: 2, samples: [plain], deep };
  const one = { ...two, threads: 1, samples: [{ ...plain, prefill: { 256: 45 }, decode: { 0: 40 } }], deep: [] };
  assert.match(render([two], 'a'), /decode @0 +decode @4096 .*\n.* 50\.0 +22\.5 /);
  assert.deepEqual(remarks([two, one]), [
    'Ours, 2 threads: speed of decode at long contexts, relative to that at 0: 4096: 90 %',
    'Ours: 2 threads over 1: prefill 256 2.00 x, decode @0 1.25 x',
  ]);
});

test('overOne() takes the median of the ratios of each turn, not the ratio of medians', () => {
  const rates = (/** @type {number} */ prefill, /** @type {number} */ decode) => ({ prefill, decode });
  const turns = [1, 2, 4].map((speed) => ({
    one: rates(speed, 10),
    two: rates(1.5 * speed, 20),
    beside: rates(speed, 9),
  }));
  turns[2].beside.decode = 30;
  assert.deepEqual(overOne(turns), {
    turns: 3,
    beside: { prefill: 1, decode: 0.9 },
    scaling: { prefill: 1.5, decode: 2 },
  });
});

test('a context length that is measured twice gives the mean', async () => {
  /** @type {Call[]} */ const calls = [];
  const sample = await measure(fake(calls), { ...JOB, contexts: [0, 256, 0], turn: false });
  assert.equal(calls.filter(({ tokens }) => tokens === JOB.tokens).length, 3);
  assert.deepEqual(sample.decode, { 0: 100, 256: 100 });
});

test('the memory-reading module reads every byte of each stream, and no other byte', async () => {
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 1 });
  const { instance } = await WebAssembly.instantiate(readModule(1, false), { env: { memory } });
  const bytes = new Uint8Array(memory.buffer);
  const [start, stride, rounds] = [128, 4096, 3];
  const seen = Array.from({ length: STREAMS * stride + 256 }, (_, at) => {
    bytes[at] = 1;
    const found = /** @type {Function} */ (instance.exports.read)(start, stride, rounds);
    bytes[at] = 0;
    return found === 1;
  });
  const expected = seen.map(
    (_, at) => at >= start && (at - start) % stride < 64 * rounds && at < start + STREAMS * stride,
  );
  assert.deepEqual(seen, expected);
  assert.equal(seen.filter(Boolean).length, rounds * BYTES_PER_ROUND);
});

test('the memory-reading module is also valid with shared memory', () => {
  assert.ok(WebAssembly.validate(readModule(8192, true)));
});

/** @param {number} until */
async function reported(until) {
  const flags = ['--report', '--model', 'tiny', '--sides', 'gemma-node', '--threads', '1,2', '--tokens', '8'];
  const child = spawn(process.execPath, [BENCH, ...flags], { stdio: ['ignore', 'pipe', 'pipe'] });
  let [text, progress] = ['', ''];
  child.stdout.on('data', (part) => (text += part));
  child.stderr.on('data', (part) => {
    progress += part;
    if (progress.includes(`${until} of 2:`)) child.kill('SIGINT');
  });
  const [status] = await once(child, 'close');
  return { status, text, lines: text.trimEnd().split('\n') };
}

test('the report is a Markdown table with a row for each number of threads', async () => {
  const { status, text, lines } = await reported(3);
  assert.equal(status, 0, text);
  assert.match(lines[0], /^\*\*gemma-wasm \d+\.\d+\.\d+\*\* on .+, \d+ cores, \d+ GB, /);
  const table = lines.filter((line) => line.startsWith('|')).map((line) => line.split('|').slice(1, -1));
  assert.deepEqual(new Set(table.map((cells) => cells.length)), new Set([9]));
  const [, , ...rows] = table;
  assert.deepEqual(
    rows.map(([, threads]) => threads.trim()),
    ['1', '2'],
  );
  for (const cells of rows) {
    const [, , load, prefill, greedy, sampled, steps, memory, build] = cells;
    for (const cell of [load, prefill, greedy, sampled, memory]) assert.ok(Number(cell) > 0, cells.join('|'));
    assert.match(steps, /^ (\d+\.\d\d x|-) $/); // Steps of a tiny model can be too short to compare.
    assert.match(build, /(simd128|relaxed).*; (no relaxed|unsigned|saturating|signed)/);
  }
});

test('an interrupted report contains the finished rows', async () => {
  const { status, lines } = await reported(2);
  assert.equal(status, 130);
  assert.equal(lines.filter((line) => line.startsWith('| gemma-wasm')).length, 1);
  assert.equal(lines.at(-1), 'Interrupted: 1 of 2 rows are missing.');
});

test('judged() counts a schema as refused only if the judge refuses it; a crash is a failure', async () => {
  const judge = ours(/** @type {any} */ (null));
  for (const [error, refused, said] of /** @type {[Error, number, string][]} */ ([
    [new Unsupported('`x` is not supported.'), 1, 'a: refused: `x` is not supported. (at #)'],
    [Object.assign(new Error('Too large.'), { code: 'bad-format' }), 1, 'a: refused: Too large.'],
    [new WebAssembly.RuntimeError('unreachable'), 0, 'a: FAILED: unreachable'],
  ])) {
    const open = () => {
      throw error;
    };
    const found = await judged({ ...judge, open }, () => [], { name: 'a', schema: true, tests: [] });
    assert.deepEqual([found.accepted, found.refused, found.failed, found.said], [0, refused, 1 - refused, [said]]);
  }
});
