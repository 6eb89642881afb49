/* visitor: goes through the page in named steps, while it is loaded anew at random moments and its process is killed: no
 * message, draft or model may be lost. WebKit, where it is, is without kills: its driver ends with the page. */
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { randoms } from '../support/random.js';
import {
  ANSWERED,
  FAILED,
  PICKING,
  READY,
  ask,
  launch,
  modelAddress,
  openTab,
  press,
  say,
  servePage,
  setOptions,
  shortcut,
  shown,
  slowly,
  until,
} from '../e2e/helpers.js';
import { sleep } from './inject.js';
import { killPages } from './place-browser.js';
import { WebKitPage } from '../e2e/webkit-page.js';
import { WebKit } from '../e2e/webkit.js';

/** @typedef {import('puppeteer-core').Page} Page */
const LINES = Array.from({ length: 40 }, (_, i) => `line ${i}`).join('\n');
const RICH = 'Text\n\n```js\nconst answer = 42;\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n$x^2$';

/** @param {Page} page @param {string} text */
const field = (page, text) =>
  page.$eval(
    '#input',
    (/** @type {any} */ one, value) => {
      one.value = value;
      one.dispatchEvent(new Event('input', { bubbles: true }));
    },
    text,
  );
/** Waits until an element has this in its text. @param {Page} page @param {string} selector @param {string} text */
const has = (page, selector, text) =>
  page.waitForFunction((where, part) => document.querySelector(where)?.textContent?.includes(part), {}, selector, text);
/** Clicks one of several elements, by its place or by its text. @param {Page} page @param {string} selector
 * @param {number | string} which */
const pick = (page, selector, which) =>
  page.$$eval(
    selector,
    (/** @type {any[]} */ all, one) =>
      (typeof one === 'number' ? all.at(one) : all.find(({ textContent }) => textContent.includes(one))).click(),
    which,
  );
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
  await pick(page, '.talk-line .icon', which);
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
  page.$eval(
    '#web-form',
    (/** @type {any} */ form, value) => {
      form.querySelector('#web-url').value = value;
      form.requestSubmit();
    },
    text,
  );
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
  page.$eval(
    '#library-file',
    (/** @type {any} */ input, json) => {
      const data = new DataTransfer();
      data.items.add(new File([json], 'all.json'));
      input.files = data.files;
      input.dispatchEvent(new Event('change'));
    },
    text,
  );

/** running: it ends while an answer or a download is on its way; then nothing interrupts it, or only what was said is
 * compared; stored: by a model that only a browser with files of its own still has after a reload, or: only there.
 * @typedef {[name: string, go: (page: Page, at: { medium: string, slow: (on: boolean) => void }) => Promise<unknown>,
 *   how?: { running?: boolean, stored?: 'after' | 'only' }]} Step */
/** @type {Step[]} */
const STEPS = [
  ['the storyteller opens by itself', (page) => until(page, READY)],
  [
    'a first message',
    async (page) => {
      await setOptions(page, { temperature: 0, maxTokens: 6 });
      await ask(page, 'Hello there');
    },
  ],
  ['a second one', (page) => ask(page, 'And then?')],
  [
    'another answer to it',
    async (page) => {
      await page.click(ANSWERED);
      await version(page, '2/2');
      await until(page, ANSWERED);
    },
  ],
  [
    'back to the first answer',
    async (page) => {
      await page.click('.from-model:last-child .versions button:first-child');
      await version(page, '1/2');
    },
  ],
  [
    'the first message, asked differently',
    async (page) => {
      await page.click('.question-foot button');
      await page.waitForSelector('#editing:not([hidden])');
      await field(page, 'Good evening');
      await page.focus('#input');
      await page.keyboard.press('Enter');
      await version(page, '2/2', '.question-foot');
      await until(page, ANSWERED);
    },
  ],
  [
    'back to the message as it was',
    async (page) => {
      await page.click('.question-foot .versions button:first-child');
      await version(page, '1/2', '.question-foot');
    },
  ],
  [
    'a conversation of its own from an answer',
    async (page) => {
      await press(page, '.answer-foot button', 'Branch');
      await library(page);
      await talks(page, 2);
    },
  ],
  [
    'a new name',
    async (page) => {
      await menu(page, 'Rename');
      await page.waitForSelector('#library-list li > input');
      await page.keyboard.type('Named');
      await page.keyboard.press('Enter');
      await has(page, '#library-list', 'Named');
    },
  ],
  [
    'pinned',
    async (page) => {
      await menu(page, 'Pin', 1);
      await has(page, '.talk', 'pinned');
    },
  ],
  [
    'found by a word',
    async (page) => {
      await library(page);
      await page.focus('#library-search');
      await page.keyboard.type('evening');
      await page.waitForFunction(() => document.querySelectorAll('.talk').length < 3);
      await page.$eval('#library-search', (/** @type {any} */ one) => {
        one.value = '';
        one.dispatchEvent(new Event('input'));
      });
      await talks(page, 2);
    },
  ],
  ['a new chat', (page) => newChat(page)],
  [
    'a draft, whose tokens are counted',
    async (page) => {
      await field(page, 'half a sentence');
      await page.waitForFunction(() => document.querySelector('#draft-tokens')?.textContent);
    },
  ],
  [
    'a long paste goes along',
    async (page) => {
      await page.evaluate((text) => {
        const clipboardData = new DataTransfer();
        clipboardData.setData('text/plain', text);
        document
          .querySelector('#input')
          ?.dispatchEvent(Object.assign(new Event('paste', { bubbles: true, cancelable: true }), { clipboardData }));
      }, LINES);
      await page.waitForSelector('.chips li');
    },
  ],
  [
    'sent with it',
    async (page) => {
      await page.focus('#input');
      await page.keyboard.press('Enter');
      await page.waitForSelector('.from-user details');
      await until(page, ANSWERED);
    },
  ],
  [
    'the last message is brought back',
    async (page) => {
      await field(page, '');
      await page.focus('#input');
      await page.keyboard.press('ArrowUp');
      await page.waitForFunction(
        () => /** @type {HTMLTextAreaElement} */ (document.querySelector('#input')).value === 'half a sentence',
      );
      await field(page, '');
      for (const one of await page.$$('.chips li button.icon')) await one.click();
    },
  ],
  [
    'a long answer',
    async (page) => {
      await setOptions(page, { temperature: 1, maxTokens: 3000, seed: 5 });
      await say(page, 'Tell me everything');
      await page.waitForFunction(
        () =>
          document.body.dataset.busy === 'false' ||
          (document.querySelector('.from-model:last-child .md')?.textContent?.length ?? 0) > 20,
      );
    },
    { running: true },
  ],
  [
    'stopped, or cut',
    async (page) => {
      await page.$eval('#stop', (/** @type {any} */ one) => {
        if (!one.hidden) one.click();
      });
      await until(page, '.from-model:last-child .go-on, .from-model:last-child .retry');
      await setOptions(page, { temperature: 0, maxTokens: 4 });
    },
  ],
  [
    'a message from right to left',
    async (page) => {
      await newChat(page);
      await ask(page, 'שלום, מה שלומך?');
    },
  ],
  [
    'an answer that was cut goes on',
    async (page) => {
      const before = (await shown(page)).at(-1)?.length ?? 0;
      await press(page, '.go-on', 'Continue');
      await page.waitForFunction(
        (length) => (document.querySelector('.from-model:last-child .md')?.textContent?.trim().length ?? 0) > length,
        {},
        before,
      );
      await until(page, ANSWERED);
    },
  ],
  [
    'settings of this conversation',
    async (page) => {
      await shortcut(page, 's');
      await page.waitForSelector('#settings:not([hidden])');
      await page.click('#mood-playful');
      await page.click('#mood-exact');
      await setOptions(page, { maxTokens: 5 });
      await page.click('#settings-close');
    },
  ],
  [
    'a system prompt',
    async (page) => {
      await newChat(page);
      await setOptions(page, { system: 'Be brief.' });
      await ask(page, 'Who are you?');
    },
  ],
  [
    'deleted, and taken back',
    async (page) => {
      const count = await counted(page);
      await menu(page, 'Delete', count - 1);
      await page.waitForSelector('#toast:not([hidden])');
      await talks(page, count - 1);
      await press(page, '#toast button', 'Undo');
      await talks(page, count);
    },
  ],
  [
    'deleted',
    async (page) => {
      const count = await counted(page);
      await menu(page, 'Delete', count - 1);
      await talks(page, count - 1);
    },
  ],
  [
    'taken out and in again',
    async (page) => {
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
  ],
  [
    'a conversation from elsewhere: code, a table, maths',
    async (page) => {
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
      await has(page, '#library-list', 'From elsewhere');
      await pick(page, '.talk', 'elsewhere');
      await page.waitForSelector('#log table');
      await page.waitForSelector('#log math');
    },
  ],
  [
    'Back',
    async (page) => {
      await page.evaluate(() => history.back());
      await page.waitForFunction(() => !document.querySelector('#log table'));
    },
  ],
  [
    'Forward',
    async (page) => {
      await page.evaluate(() => history.forward());
      await page.waitForSelector('#log table');
    },
  ],
  [
    'keep nothing, and then again',
    async (page) => {
      await library(page);
      const count = (await page.$$('.talk')).length;
      await page.click('#library-keep');
      await talks(page, 0);
      await page.click('#library-keep');
      await talks(page, count);
      await page.click('#library-close');
    },
  ],
  ['the list of models', (page) => models(page)],
  [
    'a download beside the storyteller',
    async (page, { medium, slow }) => {
      slow(true);
      await model(page, 'Storyteller');
      if (!(await page.$(PICKING))) await models(page);
      await fromAddress(page, medium);
      await page.waitForFunction(
        () => /** @type {HTMLProgressElement} */ (document.querySelector('#loading-bar')).value > 0.02,
      );
    },
    { running: true },
  ],
  [
    'paused',
    async (page) => {
      await page.click('#loading-pause');
      await has(page, '#loading-title', 'Paused');
    },
    { running: true },
  ],
  [
    'a message meanwhile',
    async (page) => {
      await newChat(page);
      await ask(page, 'Meanwhile');
    },
    { running: true },
  ],
  [
    'resumed, and here',
    async (page, { slow }) => {
      slow(false);
      await press(page, '#loading-pause', 'Resume');
      await model(page, 'medium');
    },
    { stored: 'after' },
  ],
  [
    'a message to it',
    async (page) => {
      await setOptions(page, { temperature: 0, maxTokens: 5 });
      await ask(page, 'And you?');
    },
    { stored: 'after' },
  ],
  [
    'a server that fails costs nothing',
    async (page) => {
      await models(page);
      await fromAddress(page, '/none.gguf');
      await until(page, FAILED);
      await page.click('#back');
      await model(page, 'medium');
    },
    { stored: 'after' },
  ],
  [
    'a file that is no model costs nothing',
    async (page) => {
      await page.evaluate(() => {
        const data = new DataTransfer();
        data.items.add(new File(['no model'], 'wrong.gguf'));
        dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
      });
      await until(page, FAILED);
      await page.click('#back');
      await model(page, 'medium');
    },
    { stored: 'after' },
  ],
  [
    'another model of this device',
    async (page) => {
      await models(page);
      await page.waitForSelector('#presets li button');
      await page.click('#presets li button');
      await model(page, 'Storyteller');
    },
  ],
  [
    'back to the downloaded one',
    async (page) => {
      await models(page);
      await has(page, '#stored-list', 'medium');
      await page.$$eval('#stored-list li', (all) =>
        /** @type {HTMLElement} */ (
          all.find((one) => /medium/.test(one.textContent ?? ''))?.querySelector('button')
        ).click(),
      );
      await model(page, 'medium');
    },
    { stored: 'only' },
  ],
  [
    'look inside: words',
    async (page) => {
      await newChat(page);
      await ask(page, 'Look here');
      await look(page);
    },
  ],
  [
    'look inside: each view',
    async (page) => {
      await look(page);
      for (const view of ['layers', 'attention', 'walk', 'tokens']) {
        await page.click(`#inside-${view}`);
        await page.waitForSelector(`#inside-${view}[aria-selected="true"]`);
        await page.waitForSelector('#inside-panel:not([aria-busy])');
      }
      await page.click('#inside-words');
      await page.waitForSelector('#inside-panel:not([aria-busy]) [role="option"]');
    },
  ],
  [
    'another word, and from there on',
    async (page) => {
      await look(page);
      await page.waitForFunction(() => {
        // none goes on from the half of a character
        for (const one of document.querySelectorAll('#inside .strip [role="option"]')) {
          /** @type {HTMLElement} */ (one).click();
          if (document.querySelector('#inside .bars button')) return true;
        }
      });
      await page.waitForSelector('#inside .bars button');
      await pick(page, '#inside .bars button', -1);
      await until(page, '.from-model:last-child .versions');
      await until(page, ANSWERED);
    },
  ],
  [
    'keys are listed',
    async (page) => {
      await page.click('#shortcuts-open');
      await page.waitForSelector('#shortcuts[open]');
      await page.click('#shortcuts-close');
      await page.waitForSelector('#shortcuts:not([open])');
    },
  ],
  [
    'light, dark, and as it was',
    async (page) => {
      for (let i = 0; i < 3; i++) await page.click('#theme');
    },
  ],
  ['a last draft', (page) => field(page, 'to be continued')],
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
  await killPages(page);
  const next = await context.newPage();
  await next.setViewport({ width: 1100, height: 800 }).catch(() => {});
  await next.goto(address);
  return next;
}

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
  const steps = STEPS.filter(([, , how]) => stores || how?.stored !== 'only');
  const draw = randoms(seed);
  const chances = [...steps.keys()].filter((i) => {
    const [name, , how] = steps[i];
    return !/download|paused|meanwhile/.test(name) && (stores || !how?.stored);
  });
  chances.sort(() => draw() - 0.5);
  // A tab that is opened again has no Forward.
  const killed = chances.filter((i) => steps[i][0] !== 'Back').slice(0, kills);
  const others = chances.filter((i) => !killed.includes(i)).slice(0, reloads);
  const kindOf = (/** @type {number} */ i) => (killed.includes(i) ? 'kill' : others.includes(i) ? 'reload' : null);
  for (const [i, [name, go, { running = false } = {}]] of steps.entries()) {
    said(name);
    await go(page, { medium, slow }).catch((cause) => {
      throw new Error(`step ${i + 1}, “${name}”`, { cause });
    });
    const kind = kindOf(i);
    if (!kind) continue;
    // A key is kept 400 ms later; what leaves by itself is kept at once.
    if (kind === 'kill') await sleep(1500);
    await page.waitForFunction(isListed);
    const before = await held(page);
    page = await interrupted(page, kind);
    const what = `${kind} after step ${i + 1}, “${name}”`;
    let now = before;
    for (const end = Date.now() + 20_000; ; ) {
      now = await held(page).catch(() => /** @type {any} */ ({}));
      if (kept(before, now, running)) break;
      if (Date.now() > end) assert.deepEqual(now, before, what);
      await sleep(50);
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

/** @param {import('./cases.js').Run} run count: reloads */
export async function run({ side, count: reloads, seed }) {
  const options = {
    seed,
    reloads,
    kills: Math.floor(reloads / 4),
    said: (/** @type {string} */ text) => console.error(text),
  };
  /** @type {Awaited<ReturnType<typeof visit>>} */
  let found;
  if (side === 'webkit') found = await visitInWebKit(options);
  else {
    const browser = await launch(/** @type {any} */ (side));
    found = await visit(inWindow(browser), options);
    await browser.close();
  }
  return { counts: found, rows: [[side, found.steps, found.reloads, found.kills, 0]] };
}
