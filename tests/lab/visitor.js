/**
 * visitor: somebody goes through the page in named steps, while it is loaded anew at random moments and its process is
 * killed: no message, draft or model may be lost. The test beside it (page-visitor.test.js) goes once; with more of both:
 *
 *   node tests/lab/visitor.js [--browser chromium,firefox,webkit] [--seed 1] [--reloads 20] [--kills 5] [--write]
 *
 * WebKit, where it is, is without kills: its driver ends with the page.
 */
import assert from 'node:assert/strict';
import { isDeepStrictEqual, parseArgs } from 'node:util';
import { isMain } from '../../tools/support/proc.js';
import { random } from '../../tools/models/vocab.js';
import {
  ANSWERED,
  BROWSERS,
  FAILED,
  PICKING,
  READY,
  ask,
  launch,
  modelAddress,
  openTab,
  peaksBelow,
  press,
  say,
  servePage,
  setOptions,
  shortcut,
  shown,
  slowly,
  until,
} from '../e2e/helpers.js';
import { keep } from './tables.js';
import { WebKitPage } from '../e2e/webkit-page.js';
import { WebKit, noWebKit } from '../e2e/webkit.js';

/** @typedef {import('puppeteer-core').Page} Page */
/** @typedef {{ page: Page, medium: string, slow: (on: boolean) => void }} At */

const LINES = Array.from({ length: 40 }, (_, i) => `line ${i}`).join('\n');
const RICH = 'Text\n\n```js\nconst answer = 42;\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n$x^2$';

/** @param {Page} page @param {string} text */
const field = (page, text) =>
  page.evaluate((value) => {
    const one = /** @type {HTMLTextAreaElement} */ (document.querySelector('#input'));
    one.value = value;
    one.dispatchEvent(new Event('input', { bubbles: true }));
  }, text);
/** The list of conversations is there. @param {Page} page */
async function library(page) {
  if (await page.$('#library[hidden]')) await page.click('#library-toggle');
  await page.waitForSelector('#library:not([hidden]) .talk');
}
/** How many conversations there are, once the list has the one that is open. @param {Page} page */
async function counted(page) {
  await library(page);
  if (await page.evaluate(() => location.hash.startsWith('#/c/'))) await page.waitForSelector('.talk[aria-current]');
  return (await page.$$('.talk')).length;
}
/** @param {Page} page @param {string} what @param {number} [which] of the conversations */
async function menu(page, what, which = 0) {
  await library(page);
  await page.$$eval('.talk-line .icon', (all, n) => /** @type {HTMLElement} */ (all[n]).click(), which);
  await page.waitForSelector('.talk-menu:not([hidden])');
  await press(page, '.talk-menu:not([hidden]) button', what);
}
/** @param {Page} page @param {number} count */
const talks = (page, count) => page.waitForFunction((n) => document.querySelectorAll('.talk').length === n, {}, count);
/** @param {Page} page @param {string} versions such as 2/3 @param {string} [where] */
const version = (page, versions, where = '') =>
  page.waitForFunction(
    (text, place) =>
      [...document.querySelectorAll(`${place} .versions`)].some((one) => one.textContent?.includes(text)),
    {},
    versions,
    where,
  );
/** @param {Page} page @param {string} text into the field of the address */
const fromAddress = (page, text) =>
  page.evaluate((value) => {
    /** @type {HTMLInputElement} */ (document.querySelector('#web-url')).value = value;
    /** @type {HTMLFormElement} */ (document.querySelector('#web-form')).requestSubmit();
  }, text);
/** @param {Page} page @param {string} name */
const model = (page, name) =>
  page.waitForFunction(
    (part) =>
      document.body.dataset.state === 'ready' && document.querySelector('#model-name')?.textContent?.includes(part),
    { timeout: 60000 },
    name,
  );
/** @param {Page} page */
async function models(page) {
  await page.click('#change-model');
  await until(page, PICKING);
}
/** @param {Page} page */
async function newChat(page) {
  await page.click('#new-chat');
  await page.waitForFunction(() => !location.hash && document.querySelector('#log .empty'));
}
/** @param {Page} page */
async function look(page) {
  if (!(await page.$('#inside:not([hidden])'))) await shortcut(page, 'i');
  await page.waitForSelector('#inside-panel:not([aria-busy]) [role="option"]');
}

/** Files to read in. @param {Page} page @param {string} text */
const takeIn = (page, text) =>
  page.evaluate((json) => {
    const data = new DataTransfer();
    const input = /** @type {HTMLInputElement} */ (document.querySelector('#library-file'));
    data.items.add(new File([json], 'all.json'));
    input.files = data.files;
    input.dispatchEvent(new Event('change'));
  }, text);

/** running: it ends while an answer or a download is on its way; then nothing interrupts it, or only what was said is
 * compared; stored: by a model that only a browser with files of its own still has after a reload, or: only there.
 * @typedef {{ name: string, running?: boolean, stored?: 'after' | 'only', go: (at: At) => Promise<unknown> }} Step */
/** @type {Step[]} */
export const STEPS = [
  { name: 'the storyteller opens by itself', go: ({ page }) => until(page, READY) },
  {
    name: 'a first message',
    async go({ page }) {
      await setOptions(page, { temperature: 0, maxTokens: 6 });
      await ask(page, 'Hello there');
    },
  },
  { name: 'a second one', go: ({ page }) => ask(page, 'And then?') },
  {
    name: 'another answer to it',
    async go({ page }) {
      await page.click(ANSWERED);
      await version(page, '2/2');
      await until(page, ANSWERED);
    },
  },
  {
    name: 'back to the first answer',
    async go({ page }) {
      await page.click('.from-model:last-child .versions button:first-child');
      await version(page, '1/2');
    },
  },
  {
    name: 'the first message, asked differently',
    async go({ page }) {
      await page.click('.question-foot button');
      await page.waitForSelector('#editing:not([hidden])');
      await field(page, 'Good evening');
      await page.focus('#input');
      await page.keyboard.press('Enter');
      await version(page, '2/2', '.question-foot');
      await until(page, ANSWERED);
    },
  },
  {
    name: 'back to the message as it was',
    async go({ page }) {
      await page.click('.question-foot .versions button:first-child');
      await version(page, '1/2', '.question-foot');
    },
  },
  {
    name: 'a conversation of its own from an answer',
    async go({ page }) {
      await press(page, '.answer-foot button', 'Branch');
      await library(page);
      await talks(page, 2);
    },
  },
  {
    name: 'a new name',
    async go({ page }) {
      await menu(page, 'Rename');
      await page.waitForSelector('#library-list li > input');
      await page.keyboard.type('Named');
      await page.keyboard.press('Enter');
      await page.waitForFunction(() => /Named/.test(document.querySelector('#library-list')?.textContent ?? ''));
    },
  },
  {
    name: 'pinned',
    async go({ page }) {
      await menu(page, 'Pin', 1);
      await page.waitForFunction(() => /pinned/.test(document.querySelector('.talk')?.textContent ?? ''));
    },
  },
  {
    name: 'found by a word',
    async go({ page }) {
      await library(page);
      await page.focus('#library-search');
      await page.keyboard.type('evening');
      await page.waitForFunction(() => document.querySelectorAll('.talk').length < 3);
      await page.$eval('#library-search', (one) => {
        /** @type {HTMLInputElement} */ (one).value = '';
        one.dispatchEvent(new Event('input'));
      });
      await talks(page, 2);
    },
  },
  { name: 'a new chat', go: ({ page }) => newChat(page) },
  {
    name: 'a draft, whose tokens are counted',
    async go({ page }) {
      await field(page, 'half a sentence');
      await page.waitForFunction(() => document.querySelector('#draft-tokens')?.textContent);
    },
  },
  {
    name: 'a long paste goes along',
    async go({ page }) {
      await page.evaluate((text) => {
        const clipboardData = new DataTransfer();
        clipboardData.setData('text/plain', text);
        document
          .querySelector('#input')
          ?.dispatchEvent(Object.assign(new Event('paste', { bubbles: true, cancelable: true }), { clipboardData }));
      }, LINES);
      await page.waitForSelector('.chips li');
    },
  },
  {
    name: 'sent with it',
    async go({ page }) {
      await page.focus('#input');
      await page.keyboard.press('Enter');
      await page.waitForSelector('.from-user details');
      await until(page, ANSWERED);
    },
  },
  {
    name: 'the last message is brought back',
    async go({ page }) {
      await field(page, '');
      await page.focus('#input');
      await page.keyboard.press('ArrowUp');
      await page.waitForFunction(
        () => /** @type {HTMLTextAreaElement} */ (document.querySelector('#input')).value === 'half a sentence',
      );
      await field(page, '');
      for (const one of await page.$$('.chips li button.icon')) await one.click();
    },
  },
  {
    name: 'a long answer',
    running: true,
    async go({ page }) {
      await setOptions(page, { temperature: 1, maxTokens: 3000, seed: 5 });
      await say(page, 'Tell me everything');
      await page.waitForFunction(
        () =>
          document.body.dataset.busy === 'false' ||
          (document.querySelector('.from-model:last-child .md')?.textContent?.length ?? 0) > 20,
      );
    },
  },
  {
    name: 'stopped, or cut',
    async go({ page }) {
      await page.$eval('#stop', (one) => {
        if (!(/** @type {HTMLElement} */ (one).hidden)) /** @type {HTMLElement} */ (one).click();
      });
      await until(page, '.from-model:last-child .go-on, .from-model:last-child .retry');
      await setOptions(page, { temperature: 0, maxTokens: 4 });
    },
  },
  {
    name: 'a message from right to left',
    async go({ page }) {
      await newChat(page);
      await ask(page, 'שלום, מה שלומך?');
    },
  },
  {
    name: 'an answer that was cut goes on',
    async go({ page }) {
      const before = (await shown(page)).at(-1)?.length ?? 0;
      await press(page, '.go-on', 'Continue');
      await page.waitForFunction(
        (length) => (document.querySelector('.from-model:last-child .md')?.textContent?.trim().length ?? 0) > length,
        {},
        before,
      );
      await until(page, ANSWERED);
    },
  },
  {
    name: 'settings of this conversation',
    async go({ page }) {
      await shortcut(page, 's');
      await page.waitForSelector('#settings:not([hidden])');
      await page.click('#mood-playful');
      await page.click('#mood-exact');
      await setOptions(page, { maxTokens: 5 });
      await page.click('#settings-close');
    },
  },
  {
    name: 'a system prompt',
    async go({ page }) {
      await newChat(page);
      await setOptions(page, { system: 'Be brief.' });
      await ask(page, 'Who are you?');
    },
  },
  {
    name: 'deleted, and taken back',
    async go({ page }) {
      const count = await counted(page);
      await menu(page, 'Delete', count - 1);
      await page.waitForSelector('#toast:not([hidden])');
      await talks(page, count - 1);
      await press(page, '#toast button', 'Undo');
      await talks(page, count);
    },
  },
  {
    name: 'deleted',
    async go({ page }) {
      const count = await counted(page);
      await menu(page, 'Delete', count - 1);
      await talks(page, count - 1);
    },
  },
  {
    name: 'taken out and in again',
    async go({ page }) {
      const count = await counted(page);
      const text = await page.evaluate(
        () =>
          new Promise((done) => {
            const make = URL.createObjectURL;
            URL.createObjectURL = (/** @type {any} */ blob) => {
              URL.createObjectURL = make;
              void blob.text().then(done);
              return make.call(URL, blob);
            };
            /** @type {HTMLElement} */ (document.querySelector('#library-export')).click();
          }),
      );
      await takeIn(page, /** @type {string} */ (text));
      await talks(page, 2 * count);
    },
  },
  {
    name: 'a conversation from elsewhere: code, a table, maths',
    async go({ page }) {
      const said = [
        ['user', 'Show me'],
        ['assistant', RICH],
      ].map(([role, text], i) => ({ id: `x${i}`, parent: i ? 'x0' : null, role, text, state: 'whole' }));
      await takeIn(
        page,
        JSON.stringify({
          format: 'gemma-wasm conversations',
          version: 1,
          conversations: [{ title: 'From elsewhere', named: true, said }],
        }),
      );
      await page.waitForFunction(() =>
        /From elsewhere/.test(document.querySelector('#library-list')?.textContent ?? ''),
      );
      await page.$$eval('.talk', (all) =>
        /** @type {HTMLElement} */ (all.find((one) => /elsewhere/.test(one.textContent ?? ''))).click(),
      );
      await page.waitForSelector('#log table');
      await page.waitForSelector('#log math');
    },
  },
  {
    name: 'Back',
    async go({ page }) {
      await page.evaluate(() => history.back());
      await page.waitForFunction(() => !document.querySelector('#log table'));
    },
  },
  {
    name: 'Forward',
    async go({ page }) {
      await page.evaluate(() => history.forward());
      await page.waitForSelector('#log table');
    },
  },
  {
    name: 'keep nothing, and then again',
    async go({ page }) {
      await library(page);
      const count = (await page.$$('.talk')).length;
      await page.click('#library-keep');
      await talks(page, 0);
      await page.click('#library-keep');
      await talks(page, count);
      await page.click('#library-close');
    },
  },
  { name: 'the list of models', go: ({ page }) => models(page) },
  {
    name: 'a download beside the storyteller',
    running: true,
    async go({ page, medium, slow }) {
      slow(true);
      await model(page, 'Storyteller');
      if (!(await page.$(PICKING))) await models(page);
      await fromAddress(page, medium);
      await page.waitForFunction(
        () => /** @type {HTMLProgressElement} */ (document.querySelector('#loading-bar')).value > 0.02,
      );
    },
  },
  {
    name: 'paused',
    running: true,
    async go({ page }) {
      await page.click('#loading-pause');
      await page.waitForFunction(() => document.querySelector('#loading-title')?.textContent === 'Paused');
    },
  },
  {
    name: 'a message meanwhile',
    running: true,
    async go({ page }) {
      await newChat(page);
      await ask(page, 'Meanwhile');
    },
  },
  {
    name: 'resumed, and here',
    stored: 'after',
    async go({ page, slow }) {
      slow(false);
      await press(page, '#loading-pause', 'Resume');
      await model(page, 'medium');
    },
  },
  {
    name: 'a message to it',
    stored: 'after',
    async go({ page }) {
      await setOptions(page, { temperature: 0, maxTokens: 5 });
      await ask(page, 'And you?');
    },
  },
  {
    name: 'a server that fails costs nothing',
    stored: 'after',
    async go({ page }) {
      await models(page);
      await fromAddress(page, '/none.gguf');
      await until(page, FAILED);
      await page.click('#back');
      await model(page, 'medium');
    },
  },
  {
    name: 'a file that is no model costs nothing',
    stored: 'after',
    async go({ page }) {
      await page.evaluate(() => {
        const data = new DataTransfer();
        data.items.add(new File(['no model'], 'wrong.gguf'));
        dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
      });
      await until(page, FAILED);
      await page.click('#back');
      await model(page, 'medium');
    },
  },
  {
    name: 'another model of this device',
    async go({ page }) {
      await models(page);
      await page.waitForSelector('#presets li button');
      await page.click('#presets li button');
      await model(page, 'Storyteller');
    },
  },
  {
    name: 'back to the downloaded one',
    stored: 'only',
    async go({ page }) {
      await models(page);
      await page.waitForFunction(() => /medium/.test(document.querySelector('#stored-list')?.textContent ?? ''));
      await page.$$eval('#stored-list li', (all) =>
        /** @type {HTMLElement} */ (
          all.find((one) => /medium/.test(one.textContent ?? ''))?.querySelector('button')
        ).click(),
      );
      await model(page, 'medium');
    },
  },
  {
    name: 'look inside: words',
    async go({ page }) {
      await newChat(page);
      await ask(page, 'Look here');
      await look(page);
    },
  },
  {
    name: 'look inside: each view',
    async go({ page }) {
      await look(page);
      for (const view of ['layers', 'attention', 'walk', 'tokens']) {
        await page.click(`#inside-${view}`);
        await page.waitForSelector(`#inside-${view}[aria-selected="true"]`);
        await page.waitForSelector('#inside-panel:not([aria-busy])');
      }
      await page.click('#inside-words');
      await page.waitForSelector('#inside-panel:not([aria-busy]) [role="option"]');
    },
  },
  {
    name: 'another word, and from there on',
    async go({ page }) {
      await look(page);
      await page.waitForFunction(() => {
        // none goes on from the half of a character
        for (const one of document.querySelectorAll('#inside .strip [role="option"]')) {
          /** @type {HTMLElement} */ (one).click();
          if (document.querySelector('#inside .bars button')) return true;
        }
      });
      await page.waitForSelector('#inside .bars button');
      await page.$$eval('#inside .bars button', (all) => /** @type {HTMLElement} */ (all.at(-1)).click());
      await until(page, '.from-model:last-child .versions');
      await until(page, ANSWERED);
    },
  },
  {
    name: 'keys are listed',
    async go({ page }) {
      await page.click('#shortcuts-open');
      await page.waitForSelector('#shortcuts[open]');
      await page.click('#shortcuts-close');
      await page.waitForSelector('#shortcuts:not([open])');
    },
  },
  {
    name: 'light, dark, and as it was',
    async go({ page }) {
      for (let i = 0; i < 3; i++) await page.click('#theme');
    },
  },
  { name: 'a last draft', go: ({ page }) => field(page, 'to be continued') },
];

/** What must not be lost. @param {Page} page */
const held = (page) =>
  page.evaluate(() => ({
    state: document.body.dataset.state,
    hash: location.hash,
    talks: [...document.querySelectorAll('.talk-title')].map((one) => one.textContent),
    models: document.querySelector('#chooser[open]') !== null,
    model: document.querySelector('#model-name')?.textContent,
    said: [...document.querySelectorAll('.from-user, .from-model .md')].map((one) => one.textContent?.trim()),
    draft: /** @type {HTMLTextAreaElement} */ (document.querySelector('#input')).value,
    chips: document.querySelectorAll('.chips li').length,
  }));

/** Whether the open conversation has come into the list, which is written after the answer. Runs in the page. */
const isListed = () => {
  const [, id] = /^#\/c\/([\w-]+)/.exec(location.hash) ?? [];
  return !id || document.querySelector(`li[data-id="${id}"]`) !== null;
};

/** The page as it is after it was loaded anew, or after its process was killed and it was opened again.
 * @param {Page} page @param {'reload' | 'kill'} how */
async function interrupted(page, how) {
  if (how === 'reload') {
    await page.reload();
    return page;
  }
  const context = page.browserContext();
  const address = page.url();
  const other = await context.newPage(); // it keeps the profile
  page.on('error', () => {});
  for (const { pid } of doomed(page.browser())) process.kill(pid, 'SIGKILL');
  // They may be gone, or may not know it yet.
  for (const one of [other, page]) {
    await Promise.race([
      one.close(),
      new Promise((done) => {
        setTimeout(done, 2000);
      }),
    ]).catch(() => {});
  }
  const next = await context.newPage();
  await next.setViewport({ width: 1100, height: 800 }).catch(() => {});
  await next.goto(address);
  return next;
}

/** Processes that run pages. @param {import('puppeteer-core').Browser} browser */
const doomed = (browser) =>
  peaksBelow(Number(browser.process()?.pid)).filter(({ command }) =>
    /--type=renderer|-contentproc.* tab$/.test(command.trim()),
  );

/** @param {Awaited<ReturnType<typeof held>>} before @param {Awaited<ReturnType<typeof held>>} now @param {boolean} running */
function kept(before, now, running) {
  if (!running) return isDeepStrictEqual(now, before);
  // What was being said may have grown, or lack its last second; what was said before it is whole.
  const [a, b] = [before.said, now.said];
  return (
    now.hash === before.hash &&
    isDeepStrictEqual(now.talks, before.talks) &&
    now.draft === before.draft &&
    isDeepStrictEqual(b.slice(0, a.length - 1), a.slice(0, -1)) &&
    b.length >= a.length - 1
  );
}

/** Goes through all steps. @param {(url: string) => Promise<{ page: Page, troubles: string[] }>} open
 * @param {{ seed?: number, reloads?: number, kills?: number, stores?: boolean, said?: (text: string) => void }} [options]
 * stores: the browser keeps models */
export async function visit(open, options) {
  let isSlow = false;
  const tiny = await modelAddress('tiny');
  const slow = (/** @type {boolean} */ on) => {
    isSlow = on;
  };
  const server = await servePage({ storyteller: tiny, intercept: slowly(/^\/models\/medium/, () => isSlow) });
  try {
    return await walk(await open(server.url), slow, options);
  } finally {
    await server.close();
  }
}

/** @param {{ page: Page, troubles: string[] }} tab @param {(on: boolean) => void} slow
 * @param {Parameters<typeof visit>[1]} options */
async function walk(tab, slow, { seed = 1, reloads = 20, kills = 5, stores = true, said = () => {} } = {}) {
  const medium = await modelAddress('medium');
  let { page } = tab;
  const steps = STEPS.filter(({ stored }) => stores || stored !== 'only');
  const draw = random(seed);
  const chances = steps
    .map((_, i) => i)
    .filter((i) => !/download|paused|meanwhile/.test(steps[i].name) && (stores || !steps[i].stored));
  chances.sort(() => draw() - 0.5);
  // A tab that is opened again has no Forward.
  const killed = chances.filter((i) => steps[i].name !== 'Back').slice(0, kills);
  const others = chances.filter((i) => !killed.includes(i)).slice(0, reloads);
  const kindOf = (/** @type {number} */ i) => (killed.includes(i) ? 'kill' : others.includes(i) ? 'reload' : null);
  for (const [i, { name, running = false, go }] of steps.entries()) {
    said(name);
    await go({ page, medium, slow }).catch((cause) => {
      throw new Error(`step ${i + 1}, “${name}”`, { cause });
    });
    const kind = kindOf(i);
    if (!kind) continue;
    // A key is kept 400 ms later; what leaves by itself is kept at once.
    if (kind === 'kill')
      await new Promise((done) => {
        setTimeout(done, 1500);
      });
    await page.waitForFunction(isListed);
    const before = await held(page);
    page = await interrupted(page, kind);
    const what = `${kind} after step ${i + 1}, “${name}”`;
    let now = before;
    for (const end = Date.now() + 20_000; ; ) {
      now = await held(page).catch(() => /** @type {any} */ ({}));
      if (kept(before, now, running)) break;
      if (Date.now() > end) assert.deepEqual(now, before, what);
      await new Promise((done) => {
        setTimeout(done, 50);
      });
    }
    await until(page, 'body:not([data-state="opening"]):not([data-state="loading"])');
    said(what);
  }
  const troubles = kills ? [] : tab.troubles;
  await page.close();
  assert.deepEqual(
    troubles.filter((text) => !/none\.gguf|404/.test(text)),
    [],
  );
  return { steps: steps.length, reloads, kills };
}

/** In a window of a browser. @param {import('puppeteer-core').Browser} browser */
export const inWindow = (browser) => (/** @type {string} */ url) =>
  openTab(browser, url, { expected: /none\.gguf|404/ });

/** WebKit keeps no models here, and dies with its pages. */
const IN_WEBKIT = { kills: 0, stores: false };

/** Goes through all steps in a WebKit of its own. @param {Parameters<typeof visit>[1]} options */
export async function visitInWebKit(options) {
  const page = new WebKitPage(await WebKit.open());
  try {
    return await visit(
      async (url) => {
        await page.goto(url);
        return { page: /** @type {any} */ (page), troubles: [] };
      },
      { ...options, ...IN_WEBKIT },
    );
  } finally {
    await page.close();
  }
}

/** @param {string} name @param {Parameters<typeof visit>[1]} options */
async function visitIn(name, options) {
  if (name === 'webkit') return visitInWebKit(options);
  const browser = await launch(/** @type {any} */ (name));
  const found = await visit(inWindow(browser), options);
  await browser.close();
  return found;
}

if (isMain(import.meta.url)) {
  const { values } = parseArgs({
    options: {
      browser: { type: 'string', default: [...BROWSERS, ...(noWebKit() ? [] : ['webkit'])].join(',') },
      seed: { type: 'string', default: '1' },
      reloads: { type: 'string', default: '20' },
      kills: { type: 'string', default: '5' },
      write: { type: 'boolean', default: false },
    },
  });
  const lines = ['| browser | steps | reloads | kills | lost |', '|---|---:|---:|---:|---:|'];
  for (const name of values.browser.split(',')) {
    const { steps, reloads, kills } = await visitIn(name, {
      seed: Number(values.seed),
      reloads: Number(values.reloads),
      kills: Number(values.kills),
      said: (text) => console.log(`${name}: ${text}`),
    });
    lines.push(`| ${name} | ${steps} | ${reloads} | ${kills} | 0 |`);
  }
  console.log(lines.join('\n'));
  if (values.write) keep('page.md', 'visitor', lines, 1);
}
