/* visitor: walks through the page in named steps, while the page is reloaded and its process killed at random moments:
 * no message, draft or model may be lost. In WebKit there are no kills, because its driver exits with the page. */
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { randoms } from '../support/random.js';
import * as tabs from '../e2e/helpers.js';
import { WebKitPage } from '../e2e/webkit-page.js';
import { WebKit } from '../e2e/webkit.js';
import { sleep } from './inject.js';
import { killPages } from './place-browser.js';

/** @import { Browser, Page } from 'puppeteer-core' */
/** An action in a page, or a wait. `medium` is the address of a model; `slow` throttles its download.
 * @typedef {(page: Page, at: { medium: string, slow: (on: boolean) => void }) => unknown} Action */
/** @typedef {(...given: any[]) => any} InPage */
/** How a step is checked. `running`: the step ends during an answer or a download, so only the messages are compared;
 * `stored`: the step needs a model in the browser's storage, always (`only`) or only after a reload (`after`).
 * @typedef {{ running?: boolean, stored?: 'after' | 'only' }} How */

const { ANSWERED, FAILED, PICKING, READY } = tabs;
const LINES = Array.from({ length: 40 }, (_, i) => `line ${i}`).join('\n');
const RICH = 'Text\n\n```js\nconst answer = 42;\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n$x^2$';

/** @template {any[]} A @param {(page: Page, ...args: A) => unknown} f @returns {(...args: A) => Action} */
const action =
  (f) =>
  (...args) =>
  (page) =>
    f(page, ...args);
const [ask, press, say, set, shortcut] = [tabs.ask, tabs.press, tabs.say, tabs.setOptions, tabs.shortcut].map((f) =>
  action(/** @type {any} */ (f)),
);
const see = action((page, /** @type {string} */ selector) => tabs.until(page, selector));
const click = action((page, /** @type {string} */ selector) => page.click(selector));
const key = action((page, /** @type {any} */ name) => page.keyboard.press(name));
const focus = action((page, /** @type {string} */ selector) => page.focus(selector));
const type = action((page, /** @type {string} */ text) => page.keyboard.type(text));
const holds = action((page, /** @type {InPage} */ f, /** @type {any[]} */ ...args) =>
  page.waitForFunction(f, {}, ...args),
);
/** @param {string} selector @param {string} text */
const has = (selector, text) =>
  holds((where, part) => document.querySelector(where)?.textContent?.includes(part), selector, text);
const change = action((page, /** @type {string} */ selector, /** @type {InPage} */ f, /** @type {any[]} */ ...args) =>
  page.$eval(selector, f, ...args),
);
const pick = action((page, /** @type {string} */ selector, /** @type {number | string} */ which) =>
  page.$$eval(
    selector,
    (/** @type {any[]} */ all, one) =>
      (typeof one === 'number' ? all.at(one) : all.find(({ textContent }) => textContent.includes(one))).click(),
    which,
  ),
);
/** @param {string} text @param {string} [selector] */
const field = (text, selector = '#input') =>
  change(
    selector,
    (one, value) => {
      one.value = value;
      one.dispatchEvent(new Event('input', { bubbles: true }));
    },
    text,
  );
/** @param {Page} page */
async function library(page) {
  if (await page.$('#library[hidden]')) await page.click('#library-toggle');
  await page.waitForSelector('#library:not([hidden]) .talk');
}
/** Returns the number of conversations, once the list contains the open one. @param {Page} page */
async function counted(page) {
  await library(page);
  if (await page.evaluate(() => location.hash.startsWith('#/c/'))) await page.waitForSelector('.talk[aria-current]');
  return (await page.$$('.talk')).length;
}
/** @param {Action[]} actions @returns {Action} */
const all =
  (...actions) =>
  async (page, at) => {
    for (const one of actions) await one(page, at);
  };
/** Chooses an item in the menu of a conversation. @param {string} what text of the item
 * @param {number} [which] index of the conversation in the list */
const menu = (what, which = 0) =>
  all(
    library,
    pick('.talk-line .icon', which),
    see('.talk-menu:not([hidden])'),
    press('.talk-menu:not([hidden]) button', what),
  );
/** @param {number} count */
const talks = (count) => holds((n) => document.querySelectorAll('.talk').length === n, count);
/** Waits until a version of a message is shown. @param {string} versions such as 2/3
 * @param {string} [where] selector of an element that contains `versions` */
const version = (versions, where = '') =>
  holds(
    (text, place) =>
      [...document.querySelectorAll(`${place} .versions`)].some((one) => one.textContent?.includes(text)),
    versions,
    where,
  );
/** Loads the model at an address. @param {string} text the address */
const fromAddress = (text) =>
  change(
    '#web-form',
    (form, value) => {
      form.querySelector('#web-url').value = value;
      form.requestSubmit();
    },
    text,
  );
/** @param {string} name */
const model = (name) => all(action((page) => tabs.until(page, READY, 60_000))(), has('#model-name', name));
const models = all(click('#change-model'), see(PICKING));
const newChat = all(
  click('#new-chat'),
  holds(() => !location.hash && document.querySelector('#log .empty')),
);
const look = all(
  async (page, at) => (await page.$('#inside:not([hidden])')) || shortcut('i')(page, at),
  see('#inside-panel:not([aria-busy]) [role="option"]'),
);
/** @param {string} text */
const takeIn = (text) =>
  change(
    '#library-file',
    (input, json) => {
      const data = new DataTransfer();
      data.items.add(new File([json], 'all.json'));
      input.files = data.files;
      input.dispatchEvent(new Event('change'));
    },
    text,
  );
const LAST = '.from-model:last-child';
const SAID = [
  ['user', 'Show me'],
  ['assistant', RICH],
].map(([role, text], i) => ({ id: `x${i}`, parent: i ? 'x0' : null, role, text, state: 'whole' }));

/** @type {[name: string, ...does: (Action | How)[]][]} */
const STEPS = [
  ['the storyteller opens by itself', see(READY)],
  ['a first message', set({ temperature: 0, maxTokens: 6 }), ask('Hello there')],
  ['a second one', ask('And then?')],
  ['another answer to it', click(ANSWERED), version('2/2'), see(ANSWERED)],
  ['back to the first answer', click(`${LAST} .versions button:first-child`), version('1/2')],
  [
    'the first message, asked differently',
    click('.question-foot button'),
    see('#editing:not([hidden])'),
    field('Good evening'),
    focus('#input'),
    key('Enter'),
    version('2/2', '.question-foot'),
    see(ANSWERED),
  ],
  [
    'back to the message as it was',
    click('.question-foot .versions button:first-child'),
    version('1/2', '.question-foot'),
  ],
  ['a conversation of its own from an answer', press('.answer-foot button', 'Branch'), library, talks(2)],
  [
    'a new name',
    menu('Rename'),
    see('#library-list li > input'),
    type('Named'),
    key('Enter'),
    has('#library-list', 'Named'),
  ],
  ['pinned', menu('Pin', 1), has('.talk', 'pinned')],
  [
    'found by a word',
    library,
    focus('#library-search'),
    type('evening'),
    holds(() => document.querySelectorAll('.talk').length < 3),
    field('', '#library-search'),
    talks(2),
  ],
  ['a new chat', newChat],
  [
    'a draft, whose tokens are counted',
    field('half a sentence'),
    holds(() => document.querySelector('#draft-tokens')?.textContent),
  ],
  [
    'a long paste goes along',
    change(
      '#input',
      (one, text) => {
        const clipboardData = new DataTransfer();
        clipboardData.setData('text/plain', text);
        one.dispatchEvent(Object.assign(new Event('paste', { bubbles: true, cancelable: true }), { clipboardData }));
      },
      LINES,
    ),
    see('.chips li'),
  ],
  ['sent with it', focus('#input'), key('Enter'), see('.from-user details'), see(ANSWERED)],
  [
    'the last message is brought back',
    field(''),
    focus('#input'),
    key('ArrowUp'),
    holds(() => /** @type {any} */ (document.querySelector('#input')).value === 'half a sentence'),
    field(''),
    async (page) => {
      for (const one of await page.$$('.chips li button.icon')) await one.click();
    },
  ],
  [
    'a long answer',
    set({ temperature: 1, maxTokens: 3000, seed: 5 }),
    say('Tell me everything'),
    holds(
      () =>
        document.body.dataset.busy === 'false' ||
        (document.querySelector('.from-model:last-child .md')?.textContent?.length ?? 0) > 20,
    ),
    { running: true },
  ],
  [
    'stopped, or cut',
    change('#stop', (one) => {
      if (!one.hidden) one.click();
    }),
    see(`${LAST} .continue-answer, ${ANSWERED}`),
    set({ temperature: 0, maxTokens: 4 }),
  ],
  ['a message from right to left', newChat, ask('שלום, מה שלומך?')],
  [
    'an answer that was cut is continued',
    async (page, at) => {
      const before = (await tabs.shown(page)).at(-1)?.length ?? 0;
      await press('.continue-answer', 'Continue')(page, at);
      await page.waitForFunction(
        (length) => (document.querySelector('.from-model:last-child .md')?.textContent?.trim().length ?? 0) > length,
        {},
        before,
      );
    },
    see(ANSWERED),
  ],
  [
    'settings of this conversation',
    shortcut('s'),
    see('#settings:not([hidden])'),
    click('#mood-playful'),
    click('#mood-exact'),
    set({ maxTokens: 5 }),
    click('#settings-close'),
  ],
  ['a system prompt', newChat, set({ system: 'Be brief.' }), ask('Who are you?')],
  [
    'deleted, and restored',
    async (page, at) => {
      const count = await counted(page);
      await all(
        menu('Delete', count - 1),
        see('#toast:not([hidden])'),
        talks(count - 1),
        press('#toast button', 'Undo'),
        talks(count),
      )(page, at);
    },
  ],
  [
    'deleted',
    async (page, at) => {
      const count = await counted(page);
      await all(menu('Delete', count - 1), talks(count - 1))(page, at);
    },
  ],
  [
    'taken out and in again',
    async (page, at) => {
      const count = await counted(page);
      const text = await page.$eval(
        '#library-export',
        (/** @type {any} */ button) =>
          new Promise((done) => {
            const make = URL.createObjectURL;
            URL.createObjectURL = (/** @type {any} */ blob) => {
              URL.createObjectURL = make;
              void blob.text().then(done);
              return make.call(URL, blob);
            };
            button.click();
          }),
      );
      await all(takeIn(String(text)), talks(2 * count))(page, at);
    },
  ],
  [
    'a conversation from elsewhere: code, a table, maths',
    takeIn(
      JSON.stringify({
        format: 'gemma-wasm conversations',
        version: 1,
        conversations: [{ title: 'From elsewhere', named: true, said: SAID }],
      }),
    ),
    has('#library-list', 'From elsewhere'),
    pick('.talk', 'elsewhere'),
    see('#log table'),
    see('#log math'),
  ],
  ['Back', (page) => page.evaluate(() => history.back()), holds(() => !document.querySelector('#log table'))],
  ['Forward', (page) => page.evaluate(() => history.forward()), see('#log table')],
  [
    'keep nothing, and then again',
    library,
    async (page, at) => {
      const count = (await page.$$('.talk')).length;
      await all(click('#library-keep'), talks(0), click('#library-keep'), talks(count))(page, at);
    },
    click('#library-close'),
  ],
  ['the list of models', models],
  [
    'a download beside the storyteller',
    (_, { slow }) => slow(true),
    model('Storyteller'),
    async (page, at) => (await page.$(PICKING)) || models(page, at),
    (page, at) => fromAddress(at.medium)(page, at),
    holds(() => /** @type {any} */ (document.querySelector('#loading-bar')).value > 0.02),
    { running: true },
  ],
  ['paused', click('#loading-pause'), has('#loading-title', 'Paused'), { running: true }],
  ['a message meanwhile', newChat, ask('Meanwhile'), { running: true }],
  [
    'resumed, and here',
    (_, { slow }) => slow(false),
    press('#loading-pause', 'Resume'),
    model('medium'),
    { stored: 'after' },
  ],
  ['a message to it', set({ temperature: 0, maxTokens: 5 }), ask('And you?'), { stored: 'after' }],
  [
    'a server that fails costs nothing',
    models,
    fromAddress('/none.gguf'),
    see(FAILED),
    click('#back'),
    model('medium'),
    { stored: 'after' },
  ],
  [
    'a file that is not a model costs nothing',
    (page) =>
      page.evaluate(() => {
        const data = new DataTransfer();
        data.items.add(new File(['no model'], 'wrong.gguf'));
        dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
      }),
    see(FAILED),
    click('#back'),
    model('medium'),
    { stored: 'after' },
  ],
  [
    'another model of this device',
    models,
    see('#presets li button'),
    click('#presets li button'),
    model('Storyteller'),
  ],
  [
    'back to the downloaded one',
    models,
    has('#stored-list', 'medium'),
    (page) =>
      page.$$eval('#stored-list li', (/** @type {any[]} */ list) =>
        list
          .find((one) => one.textContent.includes('medium'))
          .querySelector('button')
          .click(),
      ),
    model('medium'),
    { stored: 'only' },
  ],
  ['look inside: words', newChat, ask('Look here'), look],
  [
    'look inside: each view',
    look,
    ...['layers', 'attention', 'walk', 'tokens'].flatMap((view) => [
      click(`#inside-${view}`),
      see(`#inside-${view}[aria-selected="true"]`),
      see('#inside-panel:not([aria-busy])'),
    ]),
    click('#inside-words'),
    see('#inside-panel:not([aria-busy]) [role="option"]'),
  ],
  [
    'another word, and from there on',
    look,
    // Tokens in the middle of a character offer no alternatives.
    holds(() =>
      [...document.querySelectorAll('#inside .strip [role="option"]')].some((/** @type {any} */ one) => {
        one.click();
        return document.querySelector('#inside .bars button');
      }),
    ),
    see('#inside .bars button'),
    pick('#inside .bars button', -1),
    see(`${LAST} .versions`),
    see(ANSWERED),
  ],
  [
    'keys are listed',
    click('#shortcuts-open'),
    see('#shortcuts[open]'),
    click('#shortcuts-close'),
    see('#shortcuts:not([open])'),
  ],
  ['light, dark, and as it was', click('#theme'), click('#theme'), click('#theme')],
  ['a last draft', field('to be continued')],
];

/** @param {typeof STEPS[number]} step @returns {How} */
const howOf = (step) => /** @type {any} */ (step.find((one) => typeof one === 'object')) ?? {};

/** Returns the state of the page that must not be lost. @param {Page} page */
const held = (page) =>
  page.evaluate(() => ({
    state: document.body.dataset.state,
    hash: location.hash,
    talks: [...document.querySelectorAll('.talk-title')].map((one) => one.textContent),
    models: document.querySelector('#chooser[open]') !== null,
    model: document.querySelector('#model-name')?.textContent,
    said: [...document.querySelectorAll('.from-user, .from-model .md')].map((one) => one.textContent?.trim()),
    draft: /** @type {any} */ (document.querySelector('#input')).value,
    chips: document.querySelectorAll('.chips li').length,
  }));

/** Returns whether the open conversation is in the list, which is updated after the answer. The function runs in the
 * page. */
const isListed = () => {
  const [, id] = /^#\/c\/([\w-]+)/.exec(location.hash) ?? [];
  return !id || document.querySelector(`li[data-id="${id}"]`) !== null;
};

/** @param {Page} page @param {'reload' | 'kill'} how */
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

/** @param {Awaited<ReturnType<typeof held>>} before @param {Awaited<ReturnType<typeof held>>} now @param {boolean} [running] */
function kept(before, now, running) {
  if (!running) return isDeepStrictEqual(now, before);
  // The message in progress may have grown, or lack its last second; earlier messages must be complete.
  const [a, b] = [before.said, now.said];
  return (
    now.hash === before.hash &&
    isDeepStrictEqual(now.talks, before.talks) &&
    now.draft === before.draft &&
    isDeepStrictEqual(b.slice(0, a.length - 1), a.slice(0, -1)) &&
    b.length >= a.length - 1
  );
}

/** Runs STEPS in order, with reloads and kills of the page between them.
 * @param {(url: string) => Promise<{ page: Page, troubles: string[] }>} open
 * @param {{ seed?: number, reloads?: number, kills?: number, stores?: boolean, said?: (text: string) => void }}
 *   [options] stores: whether the browser can store models */
export async function visit(open, options) {
  let isSlow = false;
  const tiny = await tabs.modelAddress('tiny');
  const slow = (/** @type {boolean} */ on) => {
    isSlow = on;
  };
  const server = await tabs.servePage({ storyteller: tiny, intercept: tabs.slowly(/^\/models\/medium/, () => isSlow) });
  try {
    return await walk(await open(server.url), slow, options);
  } finally {
    await server.close();
  }
}

/** @param {{ page: Page, troubles: string[] }} tab @param {(on: boolean) => void} slow
 * @param {Parameters<typeof visit>[1]} options */
async function walk(tab, slow, { seed = 1, reloads = 20, kills = 5, stores = true, said = () => {} } = {}) {
  const medium = await tabs.modelAddress('medium');
  let { page } = tab;
  const steps = STEPS.filter((step) => stores || howOf(step).stored !== 'only');
  const draw = randoms(seed);
  const chances = [...steps.keys()].filter((i) => {
    const [name] = steps[i];
    return !/download|paused|meanwhile/.test(name) && (stores || !howOf(steps[i]).stored);
  });
  chances.sort(() => draw() - 0.5);
  // A reopened tab has no Forward history.
  const killed = chances.filter((i) => steps[i][0] !== 'Back').slice(0, kills);
  const others = chances.filter((i) => !killed.includes(i)).slice(0, reloads);
  const kindOf = (/** @type {number} */ i) => (killed.includes(i) ? 'kill' : others.includes(i) ? 'reload' : null);
  for (const [i, step] of steps.entries()) {
    const [name, ...does] = step;
    said(name);
    try {
      await all(...does.filter((one) => typeof one === 'function'))(page, { medium, slow });
    } catch (cause) {
      throw new Error(`step ${i + 1}, “${name}”`, { cause });
    }
    const kind = kindOf(i);
    if (!kind) continue;
    // Keystrokes are saved after 400 ms; a page that unloads normally saves at once.
    if (kind === 'kill') await sleep(1500);
    await page.waitForFunction(isListed);
    const before = await held(page);
    page = await interrupted(page, kind);
    const what = `${kind} after step ${i + 1}, “${name}”`;
    let now = before;
    for (const end = Date.now() + 20_000; ; ) {
      now = await held(page).catch(() => /** @type {any} */ ({}));
      if (kept(before, now, howOf(step).running)) break;
      if (Date.now() > end) assert.deepEqual(now, before, what);
      await sleep(50);
    }
    await tabs.until(page, 'body:not([data-state="opening"]):not([data-state="loading"])');
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

/** Returns the function that visit() needs to open the page in a tab. @param {Browser} browser */
export const inWindow = (browser) => (/** @type {string} */ url) =>
  tabs.openTab(browser, url, { expected: /none\.gguf|404/ });

/** WebKitGTK stores no models, and dies with its pages. */
const IN_WEBKIT = { kills: 0, stores: false };

/** Visits the page in a new WebKitGTK, with reloads only and without stored models.
 * @param {Parameters<typeof visit>[1]} options */
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

/** Visits the page, with a quarter as many kills as reloads. Throws at the first loss.
 * @param {import('./cases.js').Run} run `count` is the number of reloads */
export async function run({ side, count: reloads, seed, after }) {
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
    const browser = await tabs.launch(/** @type {any} */ (side));
    after(() => browser.close());
    found = await visit(inWindow(browser), options);
  }
  return { counts: found, rows: [[side, found.steps, found.reloads, found.kills, 0]] };
}
