/**
 * kills: a tab is killed at a random moment while it downloads, loads or deletes a model, or saves conversations; another tab does what
 * comes next. Tabs are closed, and in turn their processes killed (SIGKILL). The test beside it (kills.test.js) tries a few;
 * the whole, for docs/reports/lost.md:
 *
 *   node tests/lab/kills-browser.js [--count 100] [--large 5] [--seed 1] [--browser chromium,firefox] [--write]
 *
 * So many in each browser of a small model (3 MB); and of downloads of a large one (720 MB, with the package's own tuning),
 * which says what is fetched twice: what was on its way, in buffers of the system and the browser, is some 100 KB.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { loadModel } from '../../js/index.node.js';
import { isMain } from '../../tools/support/proc.js';
import { ROUNDS, conversation, next } from './talking.js';
import { faultyServer } from '../js/faulty-server.js';
import { randoms } from '../support/random.js';
import { testModel } from '../js/models.js';
import { serveBuilt } from '../e2e/built.js';
import { BROWSERS, launch, peaksBelow } from '../e2e/helpers.js';
import { keep } from './tables.js';

const IDS = [2, 300, 310];
const SMALL = {
  segment: 1 << 18,
  alone: 20_000,
  least: 1 << 16,
  journal: 1 << 14,
  backoffMs: 1,
  longestMs: 1500,
  stallMs: 5000,
};

/** In the page. end: of what was begun, if it comes to that. */
const SCRIPT = `
  const lab = window.lab = { ended: false };
  lab.load = async (url, ids) => {
    const model = await gemma.loadModel(url, { threads: 1, contextLength: 64 });
    const logits = [...await model.logits(ids)];
    await model.dispose();
    return { kept: model.info.cache, logits };
  };
  lab.delete = () => gemma.modelCache.clear();
  const { ROUNDS, conversation, next } = gemma.talking;
  lab.save = async (url, ids, rounds = ROUNDS) => {
    const model = await gemma.loadModel(url, { threads: 1 });
    for (let round = 0; round < rounds; round++) {
      const chat = await conversation(model, round);
      await model.stateCache.put('x', await chat.save());
    }
    await model.dispose();
  };
  /* What was kept, and how it goes on. */
  lab.goesOn = async (url) => {
    const model = await gemma.loadModel(url, { threads: 1 }), saved = await model.stateCache.get('x');
    const chat = saved && model.chat({ saved }), { tokens } = await chat?.restored ?? {};
    const said = chat ? { round: parseInt(chat.messages[0].content, 10), tokens, next: await next(chat) } : {};
    const { length: kept } = await model.stateCache.list();
    await model.dispose();
    return { ...said, kept };
  };
  lab.begin = (what, ...args) => void lab[what](...args).then(() => { lab.ended = true; });
`;

/** Of each conversation, the tokens that saving it keeps, and what is said next. @param {string} file */
async function talksOf(file) {
  const model = await loadModel(file, { threads: 1 });
  const talks = [];
  for (let round = 0; round < ROUNDS; round++) {
    const chat = await conversation(model, round);
    const saved = await chat.save();
    const { tokens } = await model.chat({ saved }).restored;
    talks.push({ round, tokens, next: await next(chat) });
  }
  await model.dispose();
  return talks;
}

/** The page, and a model that comes slowly; or the large one, fast. @param {boolean} [large] */
export async function serveModel(large = false) {
  const file = await testModel(large ? 'oneb-q4_0' : 'parity-q4_0');
  const bytes = readFileSync(file);
  const model = await loadModel(file, { threads: 1, contextLength: 64 });
  const expected = [...(await model.logits(IDS))];
  await model.dispose();
  const talks = large ? [] : await talksOf(file);
  /** @type {(() => unknown)[]} */
  const ends = [];
  const source = await faultyServer(
    { after: (/** @type {() => unknown} */ f) => ends.push(f) },
    bytes,
    () => ({}),
    large ? {} : { slow: 5 },
  );
  const built = await serveBuilt({
    tuning: large ? {} : SMALL,
    script: SCRIPT,
    intercept: async (request, response) => {
      return request.url === '/model.gguf' && source.server.emit('request', request, response);
    },
  });
  const close = async () => {
    await built.close();
    for (const end of ends) await end();
  };
  return { ...built, close, source, model: `${built.url}model.gguf`, expected, talks, size: bytes.length };
}

/** @typedef {Awaited<ReturnType<typeof serveModel>>} Served */
/** @typedef {'download' | 'load' | 'save' | 'delete'} What */

/** Processes that run pages. @param {import('puppeteer-core').Browser} browser */
function pageProcesses(browser) {
  const pid = Number(browser.process()?.pid);
  return peaksBelow(pid)
    .filter(({ command }) => /--type=renderer|-contentproc.* tab$/.test(command.trim()))
    .map(({ pid }) => pid);
}

/** One profile of a browser. */
export class Profile {
  #browser;
  #context;
  #server;
  /** How many ms each takes that nobody kills, about. @type {Record<What, number>} */
  #longest = { download: 1000, load: 400, save: 1500, delete: 30 };

  /** @param {import('puppeteer-core').Browser} browser @param {import('puppeteer-core').BrowserContext} context @param {Served} server */
  constructor(browser, context, server) {
    this.#browser = browser;
    this.#context = context;
    this.#server = server;
  }

  async #open() {
    const page = await this.#context.newPage();
    await page.goto(this.#server.url);
    await page.waitForFunction('window.gemma', { polling: 20 });
    return page;
  }

  /** What a tab loads, in time, and how many bytes it takes. */
  async load() {
    const { source, model, expected } = this.#server;
    const page = await this.#open();
    const before = performance.now();
    source.forget();
    const { kept, logits } = await page.evaluate(
      (url, ids) => /** @type {any} */ (window).lab.load(url, ids),
      model,
      IDS,
    );
    const ms = performance.now() - before;
    await page.close();
    assert.deepEqual(logits, expected, 'right logits');
    return { kept, sent: source.sent, ms };
  }

  async delete() {
    const page = await this.#open();
    const before = performance.now();
    await page.evaluate('lab.delete()');
    this.#longest.delete = performance.now() - before;
    await page.close();
  }

  async measure() {
    this.#longest.download = (await this.load()).ms;
    this.#longest.load = (await this.load()).ms;
    if (this.#server.talks.length) {
      const before = performance.now();
      await this.keep(ROUNDS);
      this.#longest.save = performance.now() - before;
    }
    await this.delete();
  }

  /** Conversations, the last of which is kept. @param {number} rounds */
  async keep(rounds) {
    const page = await this.#open();
    const { model } = this.#server;
    await page.evaluate((url, rounds) => /** @type {any} */ (window).lab.save(url, [], rounds), model, rounds);
    await page.close();
  }

  /** A conversation is there, and goes on as if nothing had been. */
  async goesOn() {
    const page = await this.#open();
    const { talks, model } = this.#server;
    const { kept, ...said } = await page.evaluate((url) => /** @type {any} */ (window).lab.goesOn(url), model);
    await page.close();
    assert.ok(kept === 1 || kept === 2, `${kept} are kept`);
    assert.deepEqual(said, talks[said.round], 'what was saved');
  }

  /** A tab that is killed at a moment (0 to 1) of what it does; gives the bytes that it got, null if it had ended.
   * @param {What} what @param {boolean} hard its process is killed @param {number} moment */
  async kill(what, hard, moment) {
    const { source, model } = this.#server;
    const page = await this.#open();
    source.forget();
    await page.evaluate(
      (what, ...args) => /** @type {any} */ (window).lab.begin(what, ...args),
      what === 'download' ? 'load' : what,
      model,
      IDS,
    );
    await new Promise((resolve) => {
      setTimeout(resolve, moment * this.#longest[what]);
    });
    const ended = what !== 'delete' && (await page.evaluate('lab.ended'));
    if (hard) {
      const gone = this.#context.newPage(); // a window of its own keeps the profile
      page.on('error', () => {});
      await gone;
      for (const pid of pageProcesses(this.#browser)) process.kill(pid, 'SIGKILL');
      await Promise.race([
        (await gone).close(),
        new Promise((resolve) => {
          setTimeout(resolve, 2000);
        }),
      ]).catch(() => {});
    }
    await Promise.race([
      page.close(),
      new Promise((resolve) => {
        setTimeout(resolve, 2000);
      }),
    ]).catch(() => {});
    return ended ? null : source.sent;
  }
}

/** A kill and what comes after it; gives the bytes that came twice, null if there was nothing to kill.
 * @param {Profile} profile @param {Served} server @param {What} what @param {boolean} hard @param {number} moment */
export async function trial(profile, server, what, hard, moment) {
  if (what === 'download') await profile.delete(); // else the last trial left a whole copy
  if (what === 'save') await profile.keep(1);
  const before = await profile.kill(what, hard, moment);
  if (what === 'save') await profile.goesOn();
  const { kept, sent } = await profile.load();
  const again = await profile.load();
  assert.deepEqual([again.kept, again.sent <= 2], ['cached', true], 'what was mended is whole');
  if (before === null) return null;
  if (what === 'load' || what === 'save')
    assert.ok(kept === 'cached' && sent <= 2, `after a load: ${kept}, ${sent} bytes`);
  return what === 'download' ? Math.max(0, before + sent - server.size) : 0;
}

/** So many kills in a browser. @param {import('../e2e/helpers.js').BrowserName} name @param {Served} server @param {number} count
 * @param {What[]} turns @param {() => number} random */
async function series(name, server, count, turns, random) {
  const browser = await launch(name);
  const profile = new Profile(browser, await browser.createBrowserContext(), server);
  await profile.measure();
  const sum = {
    name,
    kills: 0,
    early: 0,
    download: 0,
    load: 0,
    save: 0,
    delete: 0,
    hard: 0,
    twice: 0,
    of: server.size,
  };
  for (let n = 0; sum.kills < count; n++) {
    const what = turns[n % turns.length];
    const hard = Math.floor(n / turns.length) % 2 === 1;
    const twice = await trial(profile, server, what, hard, random());
    if (twice === null) sum.early++;
    else
      Object.assign(sum, {
        kills: sum.kills + 1,
        [what]: sum[what] + 1,
        hard: sum.hard + Number(hard),
        twice: Math.max(sum.twice, twice),
      });
    if (n % 20 === 0) console.error(JSON.stringify(sum));
  }
  await browser.close();
  console.log(JSON.stringify(sum));
  return (
    `| ${name} | ${Math.round(server.size / 1e6)} MB | ${sum.kills} | ${sum.download} | ${sum.load} | ${sum.save} | ${sum.delete} | ${sum.hard} ` +
    `| 0 | ${Math.round(sum.twice / 1e3)} KB, ${((100 * sum.twice) / server.size).toFixed(2)} % |`
  );
}

if (isMain(import.meta.url)) {
  const { values } = parseArgs({
    options: {
      count: { type: 'string', default: '100' },
      large: { type: 'string', default: '5' },
      seed: { type: 'string', default: '1' },
      browser: { type: 'string', default: BROWSERS.join() },
      write: { type: 'boolean' },
    },
  });
  const names = /** @type {import('../e2e/helpers.js').BrowserName[]} */ (values.browser.split(','));
  const random = randoms(Number(values.seed));
  const lines = [
    '| browser | model | kills | of downloads | of loads | of saves | of deletions | process killed | wrong | most fetched twice |',
    '|---|---|---|---|---|---|---|---|---|---|',
  ];
  for (const large of [false, true]) {
    const server = await serveModel(large);
    const count = Number(large ? values.large : values.count);
    for (const name of count ? names : []) {
      lines.push(
        await series(name, server, count, large ? ['download'] : ['download', 'save', 'load', 'delete'], random),
      );
      if (values.write) keep('lost.md', 'kills', lines, 2);
    }
    await server.close();
  }
  console.log(lines.join('\n'));
}
