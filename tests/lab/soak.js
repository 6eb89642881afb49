/* soak: a model works for hours, in Node and in browsers: conversations, aborts, saved states, loads from the store, new
 * pages. Every answer must be that of an engine that did nothing before, and memory must stay where it was.
 *   node tests/lab/soak.js [--minutes 120] [--sides node,chromium,firefox] [--rest 0] [--write]
 * rest: ms between two rounds; write: the table of docs/reports/faults.md. Memory is what the processes hold (VmRSS), its median
 * over the second and over the last tenth of the time. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { loadModel, openCache } from '../../js/index.node.js';
import { serveBuilt } from '../e2e/built.js';
import { launch, peaksBelow } from '../e2e/helpers.js';
import { keep } from './tables.js';
import { faultyServer } from '../js/faulty-server.js';
import { testModel } from '../js/models.js';
import { expectations, round } from './soaking.js';

const NAME = 'parity-q4_0';
const RELOAD_EVERY = 25;
const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '120' },
    sides: { type: 'string', default: 'node,chromium,firefox' },
    rest: { type: 'string', default: '0' },
    write: { type: 'boolean', default: false },
  },
});
const span = Number(values.minutes) * 60_000;
const rest = Number(values.rest);

/** Bytes that a process and all below it hold now (Linux). @param {number} pid */
const held = (pid) =>
  peaksBelow(pid).reduce((sum, one) => {
    try {
      return sum + 1024 * Number(/VmRSS:\s*(\d+) kB/.exec(readFileSync(`/proc/${one.pid}/status`, 'utf8'))?.[1] ?? 0);
    } catch {
      return sum; // it has just ended
    }
  }, 0);

/** @param {number[]} list */
const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];

/** A side: opens the model (from the store after the first time), and does a round.
 * @typedef {{ name: string, pid: number, open: () => Promise<string>, round: (n: number) => Promise<void>,
 *   close: () => Promise<void> }} Side */

/** @param {Awaited<ReturnType<typeof expectations>>} talks @returns {Promise<Side>} */
async function nodeSide(talks) {
  const folder = await mkdtemp(join(tmpdir(), 'gemma-wasm-soak-'));
  const cache = openCache(folder);
  /** @type {(() => unknown)[]} */
  const after = [];
  const bytes = await readFile(await testModel(NAME));
  const server = await faultyServer(
    { after: (/** @type {() => unknown} */ f) => after.push(f) },
    bytes,
    () => ({}),
    {},
  );
  /** @type {import('../../js/index.node.js').Model | undefined} */
  let model;
  return {
    name: `Node ${process.versions.node.split('.')[0]}`,
    pid: process.pid,
    async open() {
      await model?.dispose();
      model = await loadModel(server.url, { threads: 2, cache });
      return model.info.cache;
    },
    round: (n) => round(/** @type {any} */ (model), talks, n),
    async close() {
      await model?.dispose();
      for (const f of after) await f();
      await rm(folder, { recursive: true });
    },
  };
}

/** @param {'chromium' | 'firefox'} name @param {Awaited<ReturnType<typeof expectations>>} talks @returns {Promise<Side>} */
async function browserSide(name, talks) {
  const file = await testModel(NAME);
  const server = await serveBuilt({ mounts: { '/models/': dirname(file) } });
  const browser = await launch(name);
  const page = await (await browser.createBrowserContext()).newPage();
  await page.goto(server.url);
  const pid = /** @type {number} */ (browser.process()?.pid);
  return {
    name,
    pid,
    async open() {
      await page.reload();
      await page.waitForFunction('window.gemma');
      return page.evaluate(
        async (url) => {
          const here = /** @type {any} */ (window);
          here.model = await here.gemma.loadModel(new URL(url, location.href), { threads: 2 });
          return here.model.info.cache;
        },
        `models/${basename(file)}`,
      );
    },
    round: (n) =>
      page.evaluate(
        (known, count) => {
          const { gemma, model } = /** @type {any} */ (window);
          return gemma.soaking.round(model, known, count);
        },
        talks,
        n,
      ),
    async close() {
      await browser.close();
      await server.close();
    },
  };
}

/** @param {Side} side */
async function soak(side) {
  const memory = [];
  const began = performance.now();
  const loads = { stored: 0, cached: 0 };
  let rounds = 0;
  for (; performance.now() - began < span; rounds++) {
    if (rounds % RELOAD_EVERY === 0) {
      const from = await side.open();
      assert.equal(from, rounds ? 'cached' : 'stored');
      loads[/** @type {keyof typeof loads} */ (from)]++;
    }
    await side.round(rounds);
    memory.push({ at: performance.now() - began, bytes: held(side.pid) });
    await new Promise((done) => {
      setTimeout(done, rest);
    });
    if (rounds % 500 === 0) console.error(side.name, rounds, memory.at(-1));
  }
  await side.close();
  const within = (/** @type {number} */ from, /** @type {number} */ to) =>
    median(memory.filter(({ at }) => at >= from * span && at < to * span).map(({ bytes }) => bytes));
  return { side: side.name, rounds, loads: loads.cached, early: within(0.1, 0.2), late: within(0.9, 1.1) };
}

const lone = await loadModel(await testModel(NAME), { threads: 1 });
const talks = await expectations(lone);
await lone.dispose();
// One after the other: browsers are processes below this one, whose memory is Node's side.
const rows = [];
for (const name of values.sides.split(',')) {
  rows.push(await soak(name === 'node' ? await nodeSide(talks) : await browserSide(/** @type {any} */ (name), talks)));
}
const MB = (/** @type {number} */ bytes) => `${(bytes / 1e6).toFixed(0)} MB`;
const lines = [
  '| side | minutes | rounds | loads from the store | memory early | late | wrong |',
  '|---|---:|---:|---:|---:|---:|---:|',
  ...rows.map(
    ({ side, rounds, loads, early, late }) =>
      `| ${side} | ${values.minutes} | ${rounds} | ${loads} | ${MB(early)} | ${MB(late)} | 0 |`,
  ),
];
console.log(lines.join('\n'));
if (values.write) keep('faults.md', 'soak', lines, 1);
