/* rows: measures loading with weights that stay on disk, on the shapes and types of Gemma 4 with random weights, in a
 * browser. GW_PROFILE names a folder to keep the browser profile in, so that a second run needs no download.
 *   cold   E2B: times of reading rows from the private file system for the first time, during decoding
 *   early  E2B from a server with 100 Mbit/s: time until the first answer, which must not change after the download
 *   large  E4B, a sparse file of zeros: peak memory of the tab that answers
 *   torn   E4B from a server: bytes that are fetched twice after the tab is killed at 4.5 GB */
import assert from 'node:assert/strict';
import { closeSync, mkdtempSync, openSync, readSync, rmSync, statSync, truncateSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { byteRange } from '../../tools/serve.js';
import { ggufHeader } from '../../tools/models/gguf-write.js';
import { PRESETS, makeModel } from '../../tools/models/make-model.js';
import { serveBuilt } from '../e2e/built.js';
import { launch, pagePeak } from '../e2e/helpers.js';
import { testModel } from '../js/models.js';
import { sleep } from './inject.js';
import { killPages } from './place-browser.js';

/** Rate of the server in bytes per second: 100 Mbit/s. */
const RATE = 12.5e6;
const PIECE = 1 << 18;
const KILL_AT = 4.5e9;
const CONTEXT = 4096;
const PORT = 47811;

/** Code that is prepended to the worker's script: reports how long each read of rows takes, in ms. */
const WATCH = `{
  const channel = new BroadcastChannel('rows');
  let part;
  Object.defineProperty(globalThis, 'gemma-wasm rows', {
    get: () => part,
    set: (given) => {
      const timed = (rows) => {
        const give = rows.give.bind(rows);
        rows.give = async (job) => {
          const began = performance.now();
          await give(job);
          channel.postMessage(performance.now() - began);
        };
        return rows;
      };
      part = { ...given, plan: async (...args) => {
        const made = await given.plan(...args);
        return made && { ...made, rowsOf: async (...args) => timed(await made.rowsOf(...args)) };
      } };
    },
  });
}
`;
const SCRIPT = `window.reads = [];
  new BroadcastChannel('rows').onmessage = ({ data }) => window.reads.push(data);
  document.body.append(Object.assign(document.createElement('input'), { type: 'file' }));`;

/** Returns a server hook that sends a file at a limited rate, and an object that counts the sent bytes.
 * @param {string} path @param {number} rate bytes per second */
function fileServer(path, rate) {
  const file = openSync(path, 'r');
  const { size } = statSync(path);
  const state = { sent: 0, size };
  let due = performance.now();
  /** @type {import('../../tools/serve.js').Options['intercept']} */
  const intercept = async ({ url, headers }, response) => {
    if (!url?.startsWith('/model.gguf')) return false;
    const range = byteRange(headers.range ?? '', size);
    const [start, end] = range && range !== 'bad' ? range : [0, size - 1];
    response.writeHead(range ? 206 : 200, {
      etag: '"rows"',
      'content-length': end + 1 - start,
      ...(range && { 'content-range': `bytes ${start}-${end}/${size}` }),
    });
    for (let at = start; at <= end && !response.destroyed; ) {
      const piece = Buffer.alloc(Math.min(PIECE, end + 1 - at));
      at += readSync(file, piece, 0, piece.length, at);
      due = Math.max(due, performance.now()) + (1000 * piece.length) / rate;
      if (due > performance.now() + 5) await sleep(due - performance.now());
      state.sent += piece.length;
      await new Promise((go) => {
        response.once('close', go);
        response.write(piece, () => go(response.off('close', go)));
      });
    }
    response.end();
    return true;
  };
  return { state, intercept };
}

/** Makes a sparse file with the header of E4B. Its matrices are all 0 and take no space. Norms and RoPE factors are 1,
 * because a factor of 0 would make positions infinite.
 * @param {string} path */
async function makeSparse(path) {
  /** @type {any} */
  let file;
  const stop = new Error('the header is enough');
  const edit = (/** @type {any} */ made) => {
    file = made;
    throw stop;
  };
  await makeModel({ ...PRESETS['gemma4-e4b'], edit }, path).catch((error) => error === stop || Promise.reject(error));
  const { bytes, total, dataOffset, offsets } = ggufHeader(file.metadata, file.tensors);
  const out = openSync(path, 'w');
  writeSync(out, bytes, 0, bytes.length, 0);
  for (const [i, { shape }] of file.tensors.entries()) {
    if (shape.length === 1)
      writeSync(out, new Float32Array(shape[0]).fill(1), 0, 4 * shape[0], dataOffset + offsets[i]);
  }
  truncateSync(path, total);
  closeSync(out);
}

/** Serves a model and the test page, and starts a browser. @param {import('./place.js').Side} side
 * @param {string} path of the model @param {number} rate bytes per second */
async function openStage(side, path, rate) {
  const name = /** @type {'chromium' | 'firefox'} */ (side);
  const profile = process.env.GW_PROFILE ?? mkdtempSync(join(tmpdir(), 'gemma-wasm-rows-'));
  const { state, intercept } = fileServer(path, rate);
  const port = process.env.GW_PROFILE ? PORT : 0;
  const server = await serveBuilt({ before: WATCH, script: SCRIPT, tuning: {}, intercept, port });
  const browser = await launch(name, { userDataDir: profile, protocolTimeout: 1_800_000, networkEnabled: false });
  return {
    state,
    browser,
    async page() {
      const page = await browser.newPage();
      await page.goto(server.url);
      await page.waitForFunction('window.gemma', { polling: 50 });
      return page;
    },
    async close() {
      await browser.close();
      await server.close();
      if (!process.env.GW_PROFILE) rmSync(profile, { recursive: true, force: true });
    },
  };
}

/** Loads the model in the page, as `window.model`. @param {import('puppeteer-core').Page} page
 * @param {object} [options] `file` loads the file of the page's input instead of the URL */
const load = (page, options = {}) =>
  page.evaluate(async (options) => {
    const { file, ...rest } = /** @type {any} */ (options);
    const scope = /** @type {any} */ (window);
    const chosen = /** @type {HTMLInputElement} */ (document.querySelector('input')).files?.[0];
    const source = file ? chosen : new URL('/model.gguf', location.href);
    scope.told = [];
    const onProgress = (/** @type {any} */ event) => scope.told.push(event);
    const began = performance.now();
    scope.model = await scope.gemma.loadModel(source, { onProgress, ...rest });
    scope.reads.length = 0;
    return { seconds: (performance.now() - began) / 1000, info: scope.model.info };
  }, options);

/** @param {import('puppeteer-core').Page} page @param {object} options */
const generate = (page, options) =>
  page.evaluate(async (options) => {
    const { tokens, timings } = await /** @type {any} */ (window).model.generate('Once upon a time', options).result();
    return { tokens, timings, reads: /** @type {any} */ (window).reads };
  }, options);

/** @param {number[]} sorted @param {number} share */
const percentile = (sorted, share) => sorted[Math.min(Math.floor(sorted.length * share), sorted.length - 1)];
const gb = (/** @type {number} */ bytes) => (bytes / 1e9).toFixed(2);

/** @typedef {import('./cases.js').Run & { stage: Awaited<ReturnType<typeof openStage>>, path: string }} Measured */

/** @type {Record<string, (run: Measured) => Promise<{ row: unknown[], broken?: boolean, counts?: object }>>} */
const WAYS = {
  async cold({ stage, side, count, seed }) {
    const page = await stage.page();
    const { info, seconds } = await load(page, { contextLength: CONTEXT, rowsLater: false });
    // At this temperature, tokens are hardly ever repeated.
    const { timings, reads } = await generate(page, { maxTokens: count, seed, temperature: 5, topK: 0, topP: 1 });
    const { proportional } = pagePeak(stage.browser);
    const sorted = reads.slice(1).sort((/** @type {number} */ a, /** @type {number} */ b) => a - b);
    const sum = sorted.reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b, 0);
    const row = [
      ...[side, info.cache, sorted.length],
      ...[0.5, 0.9, 0.99, 1].map((share) => percentile(sorted, share).toFixed(2)),
      `${((100 * sum) / timings.decodeMs).toFixed(2)} %`,
      timings.decodeTokensPerSecond.toFixed(1),
      gb(proportional),
    ];
    return { row, counts: { seconds, memory: info.memory } };
  },

  async early({ stage, side, count }) {
    const page = await stage.page();
    const { seconds } = await load(page, { contextLength: CONTEXT });
    const ready = stage.state.sent;
    const options = { maxTokens: count, temperature: 0 };
    const began = performance.now();
    const first = await generate(page, options);
    const answered = stage.state.sent;
    const took = (performance.now() - began) / 1000;
    await page.waitForFunction(
      () => {
        const { phase, loaded, total } = /** @type {any} */ (window).told.at(-1);
        return phase === 'rest' && loaded === total;
      },
      { polling: 500, timeout: 900_000 },
    );
    const later = await generate(page, options);
    const { size } = stage.state;
    const same = String(first.tokens) === String(later.tokens);
    const shares = [ready, answered].map((bytes) => `${((100 * bytes) / size).toFixed(1)} %`);
    const row = [side, gb(size), seconds.toFixed(0), ...shares, took.toFixed(1), count, same ? 'the same' : 'other'];
    return { row, broken: !same || ready >= size / 2 };
  },

  async large({ stage, side, count, path }) {
    const page = await stage.page();
    const input = /** @type {import('puppeteer-core').ElementHandle<HTMLInputElement>} */ (await page.$('input'));
    await input.uploadFile(path);
    const { info, seconds } = await load(page, { contextLength: CONTEXT, file: true });
    const { tokens, timings } = await generate(page, { maxTokens: count, temperature: 0 });
    const { proportional, resident } = pagePeak(stage.browser);
    const { memory } = info;
    const figures = [memory.onDisk, memory.heap, proportional, resident].map(gb);
    const row = [side, gb(stage.state.size), ...figures, tokens.length, timings.decodeTokensPerSecond.toFixed(1)];
    return { row, broken: !(proportional <= 3.2e9), counts: { seconds } };
  },

  async torn({ stage, side }) {
    const page = await stage.page();
    load(page, { contextLength: 64, rowsLater: false }).catch(() => {});
    while (stage.state.sent < KILL_AT) await sleep(20);
    await killPages(page);
    const before = stage.state.sent;
    const next = await stage.page();
    const { info } = await load(next, { contextLength: 64, rowsLater: false });
    const { sent, size } = stage.state;
    const twice = sent - size;
    assert.equal(info.cache, 'stored');
    const row = [side, gb(size), gb(before), gb(sent - before), `${(twice / 1e6).toFixed(1)} MB`];
    row.push(`${((100 * twice) / size).toFixed(2)} %`);
    return { row, broken: twice > size / 100 };
  },
};

/** Runs one of WAYS. A sparse file is made in a temporary folder, which is removed at the end.
 * @param {import('./cases.js').Run & { way: string }} run */
export async function run({ way, ...given }) {
  const folder = mkdtempSync(join(tmpdir(), 'gemma-wasm-large-'));
  try {
    const isSparse = way === 'large' || way === 'torn';
    const path = isSparse ? join(folder, 'e4b.gguf') : await testModel('gemma4-e2b');
    if (isSparse) await makeSparse(path);
    const stage = await openStage(given.side, path, way === 'early' ? RATE : Infinity);
    const { row, broken, counts } = await WAYS[way]({ ...given, stage, path }).finally(stage.close);
    return { counts: { ...counts, row }, broken: broken ? [`${given.side}: ${row}`] : [], rows: [row] };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
