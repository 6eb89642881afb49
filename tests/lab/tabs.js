/* tabs: several tabs of a browser share a model (js/shared/), and the owner leaves in one of several ways. No call may
 * be lost, and every answer must equal that of a single engine. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { loadModel } from '../../js/index.node.js';
import { testModel } from '../js/models.js';
import { TUNING } from '../e2e/built.js';
import { launch, peaksBelow } from '../e2e/helpers.js';
import { randoms } from '../support/random.js';
import { sleep } from './inject.js';
import { openLab } from './place.js';

/** @import { BrowserContext, Page } from 'puppeteer-core' */

const ENDLESS = { 1: -1e30, 8: -1e30 };
/** Ways in which an owner leaves. With `freeze`, its page hangs until another tab takes over, and then resumes. */
const WAYS = ['close', 'dispose', 'close', 'crash', 'close', 'kill engine', 'restart', 'freeze'];
const FREEZE_MS = 9000;

const SCRIPT = `
  const lab = window.lab = { progress: 0, calls: [], workers: [] };
  const Usual = window.Worker;
  window.Worker = class extends Usual { constructor(...how) { super(...how); lab.workers.push(this); } };
  lab.open = async (url, options) => {
    lab.model = await gemma.shared.loadModel(url, { threads: 2, onProgress: () => lab.progress++, ...options });
    return lab.model.info.contextLength;
  };
  lab.go = () => {};
  lab.start = (prompt, options, held) => {
    const call = { pieces: '', given: 0, ended: false };
    call.result = (async () => {
      const answer = lab.model.generate(prompt, options);
      for await (const piece of answer) {
        call.pieces += piece;
        if (++call.given === held) await new Promise((go) => { lab.go = go; });
      }
      const { text, tokens, finishReason } = await answer.result();
      return { text, tokens, finishReason, pieces: call.pieces };
    })().catch((error) => ({ error: error.code + ': ' + error.message })).finally(() => { call.ended = true; });
    lab.calls.push(call);
  };
  lab.under = () => ({ waiting: lab.calls.filter((call) => !call.ended).length,
    begun: lab.calls.filter((call) => call.given && !call.ended).length });
  lab.freeze = (ms) => void setTimeout(() => { for (const end = Date.now() + ms; Date.now() < end;); });
  lab.ends = () => Promise.all(lab.calls.splice(0).map((call) => call.result));
`;

/** @typedef {{ prompt: string, options: any, expected?: any }} Ask */

/** Returns prompts, with the answers of a single engine. Each answer is 7 tokens longer than the one before.
 * @param {string} file @param {number} count @param {number} maxTokens @returns {Promise<Ask[]>} */
export async function asksOf(file, count, maxTokens) {
  const model = await loadModel(file, { threads: 1, contextLength: 512 });
  const asks = [];
  for (let i = 0; i < count; i++) {
    const prompt = `Number ${i} is `;
    const options = { maxTokens: maxTokens + 7 * i, seed: i, logitBias: ENDLESS };
    const { text, tokens, finishReason } = await model.generate(prompt, options).result();
    asks.push({ prompt, options, expected: { text, tokens, finishReason, pieces: text } });
  }
  await model.dispose();
  return asks;
}

/** Serves a model, and pages whose global object `lab` (SCRIPT) loads it as a shared model. @param {string} file */
export async function serveModel(file) {
  const lab = await openLab(readFileSync(file), { tuning: TUNING, script: SCRIPT });
  const { url } = await lab.pages();
  return { ...lab, url, model: `${url}model.gguf` };
}

/** @param {Page} page @param {string} method @param {any[]} args @returns {Promise<any>} */
const inPage = (page, method, ...args) =>
  page.evaluate((name, given) => /** @type {any} */ (window).lab[name](...given), method, args);

export class Tabs {
  /** @type {Page[]} */
  pages = [];
  #context;
  #server;
  #options;
  /** @type {Map<Page, Ask[]>} */
  #asked = new Map();

  /** @param {BrowserContext} context @param {Awaited<ReturnType<typeof serveModel>>} server
   * @param {object} [options] of loadModel */
  constructor(context, server, options = { contextLength: 512 }) {
    this.#context = context;
    this.#server = server;
    this.#options = options;
  }

  /** @param {number} count */
  async open(count) {
    const pages = await this.empty(count);
    this.pages.push(...pages);
    return Promise.all(pages.map((page) => inPage(page, 'open', this.#server.model, this.#options)));
  }

  /** @param {number} count */
  async empty(count) {
    return Promise.all(
      Array.from({ length: count }, async () => {
        const page = await this.#context.newPage();
        await page.goto(this.#server.url);
        await page.waitForFunction('window.gemma', { polling: 20 });
        return page;
      }),
    );
  }

  /** @param {(lab: any) => any} f that runs in each page @returns {Promise<any[]>} */
  each(f) {
    return Promise.all(this.pages.map((page) => page.evaluate(`(${f})(window.lab)`)));
  }

  /** Returns the tab that runs the engine. Fails unless exactly one tab does. */
  async owner() {
    const owns = await this.each((lab) => lab.model.owner);
    assert.equal(owns.filter(Boolean).length, 1, `owners: ${owns}`);
    return this.pages[owns.indexOf(true)];
  }

  /** Makes each tab send all prompts, beginning with a different one in each tab. @param {Ask[]} asks */
  ask(asks) {
    return Promise.all(
      this.pages.map((page, n) => {
        const order = [...asks.slice(n % asks.length), ...asks.slice(0, n % asks.length)];
        this.#asked.set(page, [...(this.#asked.get(page) ?? []), ...order]);
        return Promise.all(order.map(({ prompt, options }) => inPage(page, 'start', prompt, options)));
      }),
    );
  }

  /** Makes a tab send a prompt and stop reading the answer after three pieces, until `lab.go()` is called in the page.
   * @param {Page} page @param {Ask} ask */
  async hold(page, ask) {
    this.#asked.set(page, [ask]);
    await inPage(page, 'start', ask.prompt, ask.options, 3);
    await page.waitForFunction('lab.under().begun && lab.calls[0].given === 3', { polling: 5 });
  }

  /** Returns the number of pending calls, and how many of these have delivered text. */
  async under() {
    const sum = { waiting: 0, begun: 0 };
    for (const { waiting, begun } of await this.each((lab) => lab.under())) {
      sum.waiting += waiting;
      sum.begun += begun;
    }
    return sum;
  }

  async answers() {
    const lists = await Promise.all(
      this.pages.map(async (page) => {
        const asked = this.#asked.get(page) ?? [];
        this.#asked.delete(page);
        const answers = await inPage(page, 'ends');
        return asked.map(({ expected }, i) => ({ expected, got: answers[i] }));
      }),
    );
    const all = lists.flat();
    return { count: all.length, wrong: all.filter(({ expected, got }) => !isDeepStrictEqual(got, expected)) };
  }

  /** @param {string} how */
  async end(how) {
    const owner = await this.owner();
    if (!['kill engine', 'restart', 'freeze'].includes(how)) this.pages.splice(this.pages.indexOf(owner), 1);
    if (how === 'close') await owner.close();
    else if (how === 'dispose') await owner.evaluate('lab.model.dispose()').then(() => owner.close());
    else if (how === 'crash') await crash(owner);
    else if (how === 'kill engine') await owner.evaluate('lab.workers.forEach((worker) => worker.terminate())');
    else if (how === 'restart') await this.pages.find((page) => page !== owner)?.evaluate('void lab.model.restart()');
    else await inPage(owner, 'freeze', FREEZE_MS);
  }

  close() {
    return this.#context.close();
  }
}

/** Crashes the page's process where the browser supports it; otherwise closes the page. @param {Page} page */
async function crash(page) {
  if (page.browser().process()?.spawnfile.includes('chrom')) {
    page.on('error', () => {});
    void page.goto('chrome://crash').catch(() => {});
    await sleep(300);
  }
  await page.close();
}

/** Returns a browser's memory in bytes, with memory shared by processes counted once (Linux). @param {number} pid */
function memoryOf(pid) {
  return peaksBelow(pid).reduce((sum, { pid: one }) => {
    const text = readFileSync(`/proc/${one}/smaps_rollup`, 'utf8');
    return sum + Number(/^Pss:\s*(\d+) kB/m.exec(text)?.[1] ?? 0) * 1024;
  }, 0);
}

/** @param {import('puppeteer-core').Browser} browser
 * @param {{ tabs: number, handovers: number, asks: Ask[], random: () => number }} how
 * @param {Awaited<ReturnType<typeof serveModel>>} server */
async function trial(browser, { tabs: count, handovers, asks, random }, server) {
  const pid = Number(browser.process()?.pid);
  const tabs = new Tabs(await browser.createBrowserContext(), server);
  const row = { tabs: count, handed: 0, calls: 0, waiting: 0, begun: 0, wrong: 0, longest: 0, none: 0, all: 0 };
  const empty = await tabs.empty(count);
  await sleep(2000);
  row.none = memoryOf(pid);
  await Promise.all(empty.map((page) => page.close()));
  await tabs.open(1);
  await tabs.open(count - 1);
  await tabs.ask(asks);
  await tabs.answers();
  await sleep(2000);
  row.all = memoryOf(pid);
  /** @type {string[]} */
  const broken = [];
  for (; row.handed < handovers; row.handed++) {
    const how = WAYS[row.handed % WAYS.length];
    await tabs.ask(asks);
    await sleep(50 + random() * 300);
    await tabs.end(how);
    const before = performance.now();
    const { waiting, begun } = await tabs.under();
    const { count: calls, wrong } = await tabs.answers();
    broken.push(...wrong.map((one) => `${count} tabs, ${how}: ${JSON.stringify(one)}`));
    row.longest = Math.max(row.longest, performance.now() - before);
    row.calls += calls;
    row.waiting += waiting;
    row.begun += begun;
    row.wrong += wrong.length;
    await tabs.open(count - tabs.pages.length);
    await tabs.owner();
  }
  return { row, broken };
}

/** Makes the handovers among 2, among 4 and among 8 tabs. Rows have the longest time in s until all answers ended, and
 * the browser's memory without and with a model.
 * @param {import('./cases.js').Run} run `count` is the number of handovers */
export async function run({ side, count: handovers, seed, after }) {
  const file = await testModel('medium');
  const asks = await asksOf(file, 3, 24);
  const server = await serveModel(file);
  after(() => server.close());
  const results = [];
  for (const tabs of [2, 4, 8]) {
    const browser = await launch(/** @type {any} */ (side));
    const how = { tabs, handovers, asks, random: randoms(seed) };
    results.push(await trial(browser, how, server).finally(() => browser.close()));
  }
  const mb = (/** @type {number} */ bytes) => `${Math.round(bytes / 1e6)} MB`;
  return {
    counts: Object.fromEntries(results.map(({ row }) => [`tabs${row.tabs}`, row])),
    broken: results.flatMap(({ broken }) => broken),
    rows: results.map(({ row: { tabs, handed, calls, waiting, wrong, longest, none, all } }) => {
      return [side, tabs, handed, calls, waiting, wrong, (longest / 1000).toFixed(1), mb(none), mb(all)];
    }),
  };
}
