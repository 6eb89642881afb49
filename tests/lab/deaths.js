/**
 * deaths: the engine's worker, or a helper thread, is killed in a browser, at random moments and in several ways; calls must
 * end within five seconds, also those of nobody (the model says by itself that it is lost), and a restart must bring it
 * back. The test beside it (lost.test.js) tries a few; the whole, as rows for docs/reports/lost.md:
 *
 *   node tests/lab/deaths.js [--count 100] [--browser chromium,firefox,webkit] [--write]
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { loadModel } from '../../js/index.node.js';
import { isMain } from '../../tools/support/proc.js';
import { testModel } from '../js/models.js';
import { serveBuilt } from '../e2e/built.js';
import { BROWSERS, launch } from '../e2e/helpers.js';
import { keep } from './tables.js';
import { WebKit, noWebKit } from '../e2e/webkit.js';

export const WITHIN_MS = 5000;
const PROMPT = 'a prompt of some length';
const SHORT = { maxTokens: 20, seed: 2, logitBias: { 1: -1e30, 8: -1e30 } };

/** Into the worker: what it does to itself when it is told. `unreachable` is the body of a module of wasm. */
const BEFORE = `addEventListener('message', ({ data }) => ({
  exit: () => close(),
  freeze: () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0),
  throw: () => { throw new Error('thrown on purpose'); },
  trap: () => new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96,
    0, 0, 3, 2, 1, 0, 7, 5, 1, 1, 102, 0, 0, 10, 5, 1, 3, 0, 0, 11]))).exports.f(),
})[data?.harm]?.());
`;

/** In the page: a model, and one moment of its life. */
const SCRIPT = `
  const lab = window.lab = { workers: [] };
  const Usual = window.Worker;
  window.Worker = class extends Usual { constructor(...how) { super(...how); lab.workers.push(this); } };
  const essence = ({ text, tokens, finishReason }) => ({ text, tokens, finishReason });
  const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  lab.open = async (url, options) => {
    lab.model = await gemma.loadModel(url, { threads: 3, cache: false, ...options });
    return lab.model.info.threads;
  };
  lab.answer = async (prompt, options) => essence(await lab.model.generate(prompt, options));
  lab.harm = (how) => {
    const [worker, ...threads] = lab.workers.slice(-3);
    if (how === 'terminate') worker.terminate();
    else if (how === 'thread') threads[Math.floor(Math.random() * threads.length)].terminate();
    else if (how === 'threads') threads.forEach((thread) => thread.terminate());
    else worker.postMessage({ harm: how });
  };
  /* How long each call took to end, or 'right'; idle: nobody calls, and the model tells. */
  lab.moment = async (how, idle, delay, endless) => {
    const { model } = lab, calls = [], { lost } = model;
    if (!idle) {
      calls.push(model.generate('y', { ...endless, maxTokens: 400 }).result(), model.generate('z', endless).result(),
        model.perplexity('some text '.repeat(30)));
    }
    await wait(delay);
    const before = performance.now();
    lab.harm(how);
    if (idle) calls.push(lost.then((error) => { throw error; }));
    return Promise.all(calls.map((call) => call.then(() => 'right', (error) => {
      return error.code === 'worker-failed' ? performance.now() - before : String(error.code + error.stack);
    })));
  };
  /* An hour passes in which nothing of the page runs: its clocks go on, its timers do not, and the worker lives. */
  lab.sleep = (ms) => {
    const hour = 3600e3, now = performance.now.bind(performance), today = Date.now;
    performance.now = () => now() + hour;
    Date.now = () => today() + hour;
    for (const end = now() + ms; now() < end;);
  };
`;

export const IDLE_WAYS = ['terminate', 'exit', 'freeze', 'throw', 'trap'];
export const WAYS = [...IDLE_WAYS, 'thread', 'threads'];

/** @returns {Promise<{ url: string, model: string, expected: any, close: () => Promise<void> }>} */
export async function serveDoomed() {
  const file = await testModel('tiny');
  const model = await loadModel(file, { threads: 1 });
  const { text, tokens, finishReason } = await model.generate(PROMPT, SHORT);
  await model.dispose();
  const bytes = readFileSync(file);
  const built = await serveBuilt({
    script: SCRIPT,
    before: BEFORE,
    intercept: async ({ url }, response) => {
      if (url !== '/model.gguf') return false;
      response.end(bytes);
      return true;
    },
  });
  return { ...built, model: `${built.url}model.gguf`, expected: { text, tokens, finishReason } };
}

/** How a page is asked, in any browser. @typedef {(f: (...args: any[]) => any, ...args: any[]) => Promise<any>} Run */

/** One moment; gives how long the calls took that were lost. @param {Run} run
 * @param {Awaited<ReturnType<typeof serveDoomed>>} server @param {string} how @param {boolean} idle
 * @param {number} [within] ms */
export async function moment(run, server, how, idle, within = WITHIN_MS) {
  const ended = await run(
    (...args) => /** @type {any} */ (window).lab.moment(...args),
    how,
    idle,
    Math.random() * 150,
    SHORT,
  );
  const lost = ended.filter((/** @type {any} */ end) => end !== 'right');
  for (const ms of lost) assert.ok(typeof ms === 'number' && ms < within, `${how}${idle ? ', idle' : ''}: ${ms}`);
  assert.ok(!idle || lost.length === 1, 'an idle model tells');
  const again = await run((...args) => /** @type {any} */ (window).lab.answer(...args), PROMPT, SHORT);
  assert.deepEqual(again, server.expected, how);
  // A thread that died with nothing to do is not missed: it is the next one's turn.
  if (how.startsWith('thread')) await run(() => /** @type {any} */ (window).lab.model.restart());
  return { calls: ended.length, lost: lost.length, longest: Math.max(0, ...lost) };
}

/** @param {Run} run @param {Awaited<ReturnType<typeof serveDoomed>>} server @param {object} [options] */
export function open(run, server, options = { restart: true }) {
  return run((url, options) => /** @type {any} */ (window).lab.open(url, options), server.model, options);
}

/** A page of its own in a browser, and how to ask it. @param {string} name @param {string} url */
async function pageOf(name, url) {
  if (name === 'webkit') {
    const browser = await WebKit.open();
    await browser.goto(url);
    await browser.until(() => 'gemma' in window);
    return { run: /** @type {Run} */ ((f, ...args) => browser.run(f, ...args)), close: () => browser.close() };
  }
  const browser = await launch(/** @type {any} */ (name));
  const page = await browser.newPage();
  await page.goto(url);
  await page.waitForFunction('window.gemma', { polling: 20 });
  return { run: /** @type {Run} */ ((f, ...args) => page.evaluate(f, ...args)), close: () => browser.close() };
}

if (isMain(import.meta.url)) {
  const { values } = parseArgs({
    options: {
      count: { type: 'string', default: '100' },
      browser: { type: 'string', default: [...BROWSERS, 'webkit'].join() },
      write: { type: 'boolean' },
    },
  });
  const server = await serveDoomed();
  /** @type {string[]} */
  const lines = [
    '| browser | moments | calls | of them lost | longest until they ended, s | idle models that told | restarts that were right |',
    '|---|---|---|---|---|---|---|',
  ];
  for (const name of values.browser.split(',')) {
    if (name === 'webkit' && noWebKit()) continue;
    const { run, close } = await pageOf(name, server.url);
    const sum = { moments: 0, calls: 0, lost: 0, longest: 0, idle: 0 };
    await open(run, server);
    for (; sum.moments < Number(values.count); sum.moments++) {
      const idle = sum.moments % 4 === 3;
      const ways = idle ? IDLE_WAYS : WAYS;
      const how = ways[(idle ? sum.moments >> 2 : sum.moments) % ways.length];
      const { calls, lost, longest } = await moment(run, server, how, idle);
      Object.assign(sum, {
        calls: sum.calls + calls,
        lost: sum.lost + lost,
        longest: Math.max(sum.longest, longest),
        idle: sum.idle + Number(idle),
      });
    }
    await close();
    lines.push(
      `| ${name} | ${sum.moments} | ${sum.calls} | ${sum.lost} | ${(sum.longest / 1000).toFixed(1)} | ${sum.idle} | ${sum.moments} |`,
    );
    console.log(JSON.stringify({ name, ...sum }));
    if (values.write) keep('lost.md', 'deaths', lines, 1);
  }
  await server.close();
  console.log(lines.join('\n'));
}
