/**
 * copies: two or four tabs of a browser, or processes of Node, that inspect, load, abort, list and delete one file at the
 * same time. Whatever overlaps: each load ends with the right model, the file is downloaded once, nothing but a deletion
 * removes the copy, the list can always be read, and every failure has a code that its call allows.
 *
 *   node tests/lab/copies.js [--runs 500] [--seed 1] [--side node,chromium,firefox]
 */
import { fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { isMain } from '../../tools/support/proc.js';
import { launch } from '../e2e/helpers.js';
import { serveModel } from './tabs.js';
import { testModel } from '../js/models.js';
import { randoms } from '../support/random.js';

/** @typedef {{ what: 'load' | 'abort' | 'inspect' | 'list' | 'delete', wait: number, after: number }} Step
 * wait, after: milliseconds before it begins, and until it is aborted */
/** @typedef {{ logits?: string, kept?: string, code?: string, message?: string }} Outcome */
/** @typedef {{ act: (step: Step) => Promise<Outcome> }} Member */

/** Ranges are small, so that what an abort may fetch twice is little beside the file. */
const SEGMENT = 1 << 17;
const TUNING = {
  segment: SEGMENT,
  alone: Number.MAX_VALUE,
  journal: 1 << 16,
  backoffMs: 20,
  longestMs: 2000,
  stallMs: 20_000,
};
/** Ranges on their way at once: fetched again after an abort (js/download/lanes.js). */
const LANES = 4;
/** Milliseconds for one run. */
const HANGS_MS = 60_000;
/** Codes that a call may fail with here. @type {Record<Step['what'], string[]>} */
const ALLOWED = { load: [], abort: ['aborted'], inspect: [], list: [], delete: ['cache-failed'] };

/** One call, in a page or a process. @param {any} api @param {string} url @param {Step} step @returns {Promise<Outcome>} */
async function act(api, url, { what, wait, after }) {
  await new Promise((resolve) => {
    setTimeout(resolve, wait);
  });
  try {
    if (what === 'list') await api.modelCache.list();
    else if (what === 'inspect') await api.inspectModel(url);
    else if (what === 'delete') for (const { key } of await api.modelCache.list()) await api.modelCache.delete(key);
    else {
      const signal = what === 'abort' ? AbortSignal.timeout(after) : undefined;
      const model = await api.loadModel(url, { threads: 1, contextLength: 64, signal });
      const logits = String(await model.logits([2, 300, 310]));
      const kept = model.info.cache;
      await model.dispose();
      return { logits, kept };
    }
    return {};
  } catch (error) {
    const { code, stack } = /** @type {any} */ (error);
    return { code: code ?? 'none', message: String(stack) };
  }
}

/** Members that are processes of Node. @param {number} count @param {string} url */
async function processes(count, url) {
  const folder = mkdtempSync(join(tmpdir(), 'gemma-wasm-copies-'));
  const children = Array.from({ length: count }, () =>
    fork(fileURLToPath(import.meta.url), ['--member', url], {
      env: { ...process.env, XDG_CACHE_HOME: folder },
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    }),
  );
  const members = children.map((child) => ({
    act: (/** @type {Step} */ step) =>
      new Promise((resolve) => {
        child.once('message', (/** @type {any} */ outcome) => resolve(outcome));
        child.send(step);
      }),
  }));
  const close = async () => {
    await Promise.all(
      children.map(
        (child) =>
          new Promise((resolve) => {
            child.once('exit', resolve);
            child.disconnect();
          }),
      ),
    );
    rmSync(folder, { recursive: true, force: true });
  };
  return { members: /** @type {Member[]} */ (members), close };
}

/** Members that are tabs. @param {import('puppeteer-core').Browser} browser @param {number} count @param {string} page
 * @param {string} url */
async function tabs(browser, count, page, url) {
  const context = await browser.createBrowserContext();
  const members = await Promise.all(
    Array.from({ length: count }, async () => {
      const tab = await context.newPage();
      await tab.goto(page);
      await tab.waitForFunction('window.gemma');
      return {
        act: (/** @type {Step} */ step) =>
          tab.evaluate(`(${act})(window.gemma, ${JSON.stringify(url)}, ${JSON.stringify(step)})`),
      };
    }),
  );
  return { members: /** @type {Member[]} */ (members), close: () => context.close() };
}

/** @param {() => number} next random numbers @param {number} count of members @returns {Step[]} */
function drawn(next, count) {
  const kinds = /** @type {Step['what'][]} */ ([
    'load',
    'load',
    'inspect',
    'abort',
    'list',
    next() < 0.3 ? 'delete' : 'inspect',
  ]);
  const wait = () => Math.floor(next() * 150);
  const after = () => Math.floor(next() * 200);
  const steps = Array.from({ length: count }, () => ({
    what: kinds[Math.floor(next() * kinds.length)],
    wait: wait(),
    after: after(),
  }));
  steps[0].what = 'load';
  return steps;
}

/** Runs members on one file; returns what was counted, and what broke a rule.
 * @param {Member[]} members @param {Awaited<ReturnType<typeof serveModel>>} server @param {number} runs @param {number} seed */
async function runAll(members, server, runs, seed) {
  const next = randoms(seed);
  const quiet = (/** @type {Step['what']} */ what) => members[0].act({ what, wait: 0, after: 0 });
  const counts = {
    runs,
    load: 0,
    abort: 0,
    inspect: 0,
    list: 0,
    delete: 0,
    copiesLost: 0,
    downloadedTwice: 0,
    mostSent: 0,
  };
  /** @type {string[]} */
  const broken = [];
  await quiet('delete');
  server.state.sent = 0;
  await quiet('inspect');
  const header = server.state.sent;
  const { logits: expected } = await quiet('load');
  for (let run = 0; run < runs; run++) {
    const fresh = next() < 0.6;
    const steps = drawn(next, members.length);
    if (fresh) await quiet('delete');
    server.state.sent = 0;
    const hang = new Promise((_, reject) => {
      setTimeout(
        () => reject(new Error(`run ${run} of seed ${seed} hangs: ${JSON.stringify(steps)}`)),
        HANGS_MS,
      ).unref();
    });
    const outcomes = /** @type {Outcome[]} */ (
      await Promise.race([hang, Promise.all(steps.map((step, i) => members[i].act(step)))])
    );
    const { sent } = server.state;
    const of = (/** @type {Step['what']} */ what) => steps.filter((step) => step.what === what).length;
    const fail = (/** @type {string} */ why) =>
      broken.push(`run ${run}: ${why}: ${JSON.stringify({ fresh, sent, steps })}`);
    steps.forEach(({ what }, i) => {
      const { code, message, logits } = outcomes[i];
      counts[what]++;
      if (code && !ALLOWED[what].includes(code)) fail(`${what} fails: ${message}`);
      if (logits && logits !== expected) fail(`${what}: another model`);
    });
    if (of('delete')) {
      await quiet('load'); // the next run may need a copy
      continue;
    }
    // Each call may ask for the version; an inspection may read the header; an abort leaves ranges on their way.
    const allowed =
      (fresh ? server.size : 0) + members.length * 65536 + of('inspect') * header + of('abort') * LANES * SEGMENT;
    counts.mostSent = Math.max(counts.mostSent, sent);
    if (sent > allowed) counts.downloadedTwice++, fail(`${sent} bytes were sent, ${allowed} allowed`);
    server.state.sent = 0;
    const { kept, logits } = await quiet('load');
    if (kept !== 'cached' || logits !== expected || server.state.sent > 65536)
      counts.copiesLost++, fail(`the copy is lost: ${kept}`);
  }
  return { counts: { ...counts, bytes: server.size, header }, broken };
}

/** Tries one side, half of the runs with two members and half with four. @param {'node' | 'chromium' | 'firefox'} side
 * @param {number} runs @param {number} seed @param {import('puppeteer-core').Browser} [shared] */
export async function tryCopies(side, runs, seed, shared) {
  const server = await serveModel(await testModel('parity-q4_0'), { tuning: TUNING, delay: 2 });
  const browser = side === 'node' ? undefined : (shared ?? (await launch(side)));
  const results = [];
  for (const count of [2, 4]) {
    const { members, close } = browser
      ? await tabs(browser, count, server.url, server.model)
      : await processes(count, server.model);
    results.push({ members: count, ...(await runAll(members, server, Math.ceil(runs / 2), seed + count)) });
    await close();
  }
  if (!shared) await browser?.close();
  await server.close();
  return results;
}

const { values } = parseArgs({
  strict: false,
  options: {
    runs: { type: 'string', default: '500' },
    seed: { type: 'string', default: '1' },
    side: { type: 'string', default: 'node,chromium,firefox' },
    member: { type: 'string' },
  },
});
if (isMain(import.meta.url) && values.member) {
  const [api, { environment }] = await Promise.all([
    import('../../js/index.node.js'),
    import('../../js/platform/env.js'),
  ]);
  environment.tuning = TUNING;
  process.on('message', async (/** @type {any} */ step) => process.send?.(await act(api, String(values.member), step)));
} else if (isMain(import.meta.url)) {
  for (const side of String(values.side).split(',')) {
    for (const { members, counts, broken } of await tryCopies(
      /** @type {'node'} */ (side),
      Number(values.runs),
      Number(values.seed),
    )) {
      console.log(JSON.stringify({ side, members, ...counts, broken: broken.length }));
      for (const line of broken) console.log(line.slice(0, 900));
      if (broken.length) process.exitCode = 1;
    }
  }
}
