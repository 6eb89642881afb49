/**
 * axe: checks each state of the page with axe (Deque's accessibility rules), in light and dark, from 320 to 2560 pixels
 * wide. A width of 320 equals a 1280-pixel window at 400 % zoom. Nothing may overflow sideways. page-axe.test.js checks
 * each state once; this program checks all combinations and writes the table of docs/reports/page.md:
 *
 *   node tests/e2e/axe.js [--browser chromium,firefox] [--write]
 */
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { isMain } from '../../tools/support/proc.js';
import {
  ANSWERED,
  FAILED,
  PICKING,
  READY,
  dropFile,
  fill,
  importConversations,
  launch,
  loadAddress,
  modelAddress,
  openTab,
  paste,
  press,
  say,
  servePage,
  setOptions,
  submitAddress,
  unload,
  until,
  untilCount,
  untilText,
} from './helpers.js';
import { keep } from '../lab/tables.js';

/** @typedef {import('puppeteer-core').Page} Page */

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const WIDTHS = [320, 640, 1100, 2560];
const THEMES = ['light', 'dark'];
const RICH = `# A heading\n\nA word, **strong**, \`code\`, [a link](https://example.org/) and\n\n> a quotation\n\n1. one\n2. two\n
\`\`\`js\nconst answer = 42; // a comment\n\`\`\`\n\n| a | b | c |\n|---|---:|---|\n${'| cell | 1 | a longer cell than others |\n'.repeat(3)}\n\n$x^2 + y^2$`;

function conversations() {
  const talk = (/** @type {string} */ title, /** @type {string[]} */ ...texts) => ({
    title,
    named: true,
    created: 1e12,
    updated: 1e12,
    said: texts.map((text, i) => ({
      id: `${i}`,
      parent: i ? `${i - 1}` : null,
      role: i % 2 ? 'assistant' : 'user',
      text,
      state: 'whole',
    })),
  });
  return [talk('Everything that Markdown has', 'Show me', RICH), talk('שלום', 'שלום, מה שלומך?', 'טוב, תודה.')];
}

/** @param {Page} page */
async function leave(page) {
  await page.evaluate(() => /** @type {HTMLElement} */ (document.activeElement)?.blur());
  await page.keyboard.press('Escape');
}

/** @param {Page} page @param {string} id @param {boolean} on */
const unfold = (page, id, on) =>
  page.$eval(
    `#${id}`,
    (one, open) => {
      /** @type {HTMLDetailsElement} */ (one).open = open;
    },
    on,
  );

/** A state of the page. `go` brings the page there from the previous state in the list. After `hold(true)` the server
 * delays models until `hold(false)`.
 * @typedef {{ name: string, go: (page: Page, at: { base: string, hold: (on: boolean) => void }) => Promise<unknown> }}
 * State */
/** @type {State[]} */
export const STATES = [
  { name: 'the list of models', go: (page) => until(page, PICKING) },
  {
    name: 'forms for a repository and an address, loading options',
    async go(page) {
      for (const id of ['hub', 'web', 'load-options']) await unfold(page, id, true);
    },
  },
  {
    name: 'a repository that does not exist',
    async go(page) {
      await page.type('#hub-repo', 'none');
      await page.$eval('#hub-form', (form) => /** @type {HTMLFormElement} */ (form).requestSubmit());
      await page.waitForSelector('#picker-error :is(p, strong), #hub-repo:invalid');
    },
  },
  { name: 'an address without a file', go: (page, { base }) => loadAddress(page, `${base}none.gguf`) },
  {
    name: 'loading',
    async go(page, { hold }) {
      hold(true);
      await submitAddress(page, await modelAddress('tiny'));
      await page.waitForSelector('body[data-state="loading"]');
    },
  },
  {
    name: 'ready',
    async go(page, { hold }) {
      hold(false);
      await until(page, `${READY}, ${FAILED}`);
      await setOptions(page, { temperature: 0, maxTokens: 40 });
    },
  },
  {
    name: 'a message being written',
    async go(page) {
      await page.type('#input', 'A message');
      await until(page, '#draft-tokens:not(:empty)');
      await page.$eval('#input', (one) => {
        /** @type {HTMLTextAreaElement} */ (one).value = '';
      });
    },
  },
  {
    name: 'an answer being generated',
    async go(page) {
      await setOptions(page, { temperature: 1, seed: 1, maxTokens: 4000 });
      await say(page, 'Tell me everything');
      await page.waitForFunction(() => (document.querySelector('.from-model .md')?.textContent?.length ?? 0) > 20);
    },
  },
  {
    name: 'stopped',
    async go(page) {
      // The answer may have ended by now, because the axe checks of the previous state take long.
      await page.$eval('#stop', (one) => {
        if (!(/** @type {HTMLElement} */ (one).hidden)) /** @type {HTMLElement} */ (one).click();
      });
      await until(page, ANSWERED);
      await setOptions(page, { temperature: 0, maxTokens: 8 });
    },
  },
  {
    name: 'two versions',
    async go(page) {
      await page.click(ANSWERED);
      await untilText(page, '.from-model:last-child .versions', /2\/2/);
      await until(page, ANSWERED);
    },
  },
  {
    name: 'a long paste beside a message',
    async go(page) {
      await paste(page, 'line\n'.repeat(40));
      await page.waitForSelector('.chips li');
    },
  },
  {
    name: 'the pasted text, opened',
    async go(page) {
      await page.click('.chips button');
      await page.waitForSelector('#attached[open]');
    },
  },
  {
    name: 'a sent attachment, collapsed',
    async go(page) {
      await page.click('#attached-close');
      await say(page, 'What is this?');
      await page.waitForSelector('.from-user details');
      await until(page, ANSWERED);
    },
  },
  ...['words', 'layers', 'attention', 'walk', 'tokens'].map((view) => ({
    name: `the inspection panel: ${view}`,
    go: async (/** @type {Page} */ page) => {
      if (!(await page.$('#inside:not([hidden])'))) await page.click('#look-toggle');
      await page.waitForSelector(`#inside-${view}`);
      await page.click(`#inside-${view}`);
      await page.waitForSelector('#inside-panel:not([aria-busy]) > *');
    },
  })),
  {
    name: 'the document search, empty',
    async go(page) {
      await page.click('#search-toggle');
      await page.waitForSelector('#search .add');
      await page.$eval('#search details', (one) => {
        /** @type {HTMLDetailsElement} */ (one).open = true;
      });
    },
  },
  {
    name: 'the document search, with results',
    async go(page) {
      await page.type('#search textarea', 'Roses want sun.');
      await press(page, '#search details button', 'Add');
      await page.waitForSelector('#search .texts li');
      await page.waitForSelector('#search input[type="search"]:enabled');
      await page.type('#search input[type="search"]', 'sun');
      await page.waitForSelector('#search .hits li');
    },
  },
  {
    name: 'the dialog of answers with a schema, the details of an error',
    async go(page) {
      await page.click('#settings-toggle');
      await page.waitForSelector('#settings:not([hidden])');
      await page.click('#shape-open');
      await page.waitForSelector('dialog[open]');
      await fill(page, '#shape-question', 'word '.repeat(9000));
      await page.click('#shape-ask');
      await page.waitForSelector('#shape-wrong summary');
      await page.click('#shape-wrong summary');
    },
  },
  {
    name: 'a message being edited',
    go: async (page) => {
      await page.keyboard.press('Escape');
      await page.waitForSelector('#settings:not([hidden])');
      await page.click('#settings-close');
      await press(page, '.question-foot button', 'Edit');
    },
  },
  {
    name: 'settings',
    async go(page) {
      await page.click('#editing-cancel');
      await page.click('#settings-toggle');
      await page.waitForSelector('#settings:not([hidden])');
    },
  },
  {
    name: 'settings, advanced, one of them wrong',
    async go(page) {
      await unfold(page, 'advanced', true);
      await setOptions(page, { temperature: 9 });
    },
  },
  {
    name: 'conversations',
    async go(page) {
      await setOptions(page, { temperature: 0 });
      await page.click('#settings-close');
      await page.click('#library-toggle');
      await page.waitForSelector('.talk');
    },
  },
  {
    name: 'the menu of a conversation',
    async go(page) {
      await page.click('.talk-line .icon');
      await page.waitForSelector('.talk-menu:not([hidden])');
    },
  },
  {
    name: 'a conversation being renamed',
    async go(page) {
      await press(page, '.talk-menu button', 'Rename');
      await page.waitForSelector('#library-list li > input');
    },
  },
  {
    name: 'a search without results',
    async go(page) {
      await page.keyboard.press('Escape');
      await page.waitForSelector('.talk');
      await page.type('#library-search', 'zzzz');
      await page.waitForSelector('#library-none:not([hidden])');
    },
  },
  {
    name: 'imported conversations',
    async go(page) {
      await page.$eval('#library-search', (one) => {
        /** @type {HTMLInputElement} */ (one).value = '';
      });
      await importConversations(page, conversations());
      await untilCount(page, '.talk', 3);
    },
  },
  {
    name: 'a deletion that can be undone',
    async go(page) {
      await page.$$eval('.talk-line .icon', (all) => /** @type {HTMLElement} */ (all.at(-1)).click());
      await press(page, '.talk-menu:not([hidden]) button', 'Delete');
      await page.waitForSelector('#toast:not([hidden])');
      await press(page, '#toast button', 'Undo');
      await untilCount(page, '.talk', 3);
    },
  },
  {
    name: 'right to left',
    async go(page) {
      await page.$$eval('.talk', (all) =>
        /** @type {HTMLElement} */ (all.find((one) => /שלום/.test(one.textContent ?? ''))).click(),
      );
      await untilText(page, '#log', /מה/);
    },
  },
  {
    name: 'code, a table, a quotation',
    async go(page) {
      if (!(await page.$('.talk'))) await page.click('#library-toggle');
      await page.$$eval('.talk', (all) =>
        /** @type {HTMLElement} */ (all.find((one) => /Markdown/.test(one.textContent ?? ''))).click(),
      );
      await page.waitForSelector('#log table');
      if (await page.$('#library:not([hidden])')) await page.click('#library-close');
    },
  },
  {
    name: 'keyboard shortcuts',
    async go(page) {
      await page.click('#shortcuts-open');
      await page.waitForSelector('#shortcuts[open]');
    },
  },
  {
    name: 'models, with one on this device',
    async go(page) {
      await leave(page);
      await page.waitForSelector('#shortcuts:not([open])');
      await page.click('#change-model');
      await page.waitForSelector('#stored:not([hidden]) li');
    },
  },
  {
    name: 'a conversation without its model',
    async go(page) {
      await page.click('#back');
      await until(page, READY);
      await unload(page);
      await page.click('#back');
      await page.waitForSelector('body[data-state="reading"] #model-card button');
    },
  },
  {
    name: 'a file that is not a model, beside a conversation',
    async go(page) {
      await dropFile(page, 'wrong.gguf', 'no model');
      await page.waitForSelector(`#chooser[open] ${FAILED}`);
    },
  },
  {
    name: 'a loading model, in the model chooser',
    async go(page, { hold }) {
      hold(true);
      await press(page, '#stored-list button', 'Load');
      await page.waitForSelector('body[data-state="loading"]');
      await page.goForward();
      await page.waitForSelector('#chooser[open] #loading');
    },
  },
];

/** Returns the violations that axe finds in the page, and how far the page overflows sideways. @param {Page} page
 * @returns {Promise<string[]>} */
export async function findings(page) {
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(AXE);
  return page.evaluate(async () => {
    await Promise.all(
      document
        .getAnimations()
        .filter((one) => one.effect?.getComputedTiming().iterations !== Infinity)
        .map((one) => one.finished.catch(() => {})),
    );
    const { violations } = await /** @type {any} */ (window).axe.run({ resultTypes: ['violations'] });
    const found = violations.flatMap((/** @type {any} */ { id, nodes }) =>
      nodes.map(
        (/** @type {any} */ node) =>
          `${id}: ${node.html.slice(0, 120)} (${(node.any[0] ?? node.all[0] ?? node.none[0])?.message})`,
      ),
    );
    const over = document.documentElement.scrollWidth - innerWidth;
    return over > 0 ? [...found, `${over} pixels stand out sideways`] : found;
  });
}

/** Serves the page, and calls `look` in each of STATES. Fails if the page reports an unexpected error.
 * @param {import('puppeteer-core').Browser} browser
 * @param {(page: Page, name: string, n: number) => Promise<unknown>} look */
export async function walk(browser, look) {
  let held = false;
  /** @type {(() => void)[]} */
  const waiting = [];
  const hold = (/** @type {boolean} */ on) => {
    held = on;
    if (!on) for (const go of waiting.splice(0)) go();
  };
  const server = await servePage({
    intercept: async (request) => {
      if (held && /tiny/.test(request.url ?? ''))
        await new Promise((go) => {
          waiting.push(() => go(null));
        });
      return false;
    },
  });
  const tab = await openTab(browser, server.url, { expected: /404|none\.gguf/ });
  for (const [n, { name, go }] of STATES.entries()) {
    await go(tab.page, { base: server.url, hold }).catch((cause) => {
      throw new Error(`The page did not reach the state “${name}”.`, { cause });
    });
    await look(tab.page, name, n);
  }
  await tab.close();
  await server.close();
}

/** Sets the color scheme and the width of the page, and reduces motion. @param {Page} page @param {string} theme
 * @param {number} width */
export async function dress(page, theme, width) {
  await page.emulateMediaFeatures([
    { name: 'prefers-color-scheme', value: theme },
    { name: 'prefers-reduced-motion', value: 'reduce' },
  ]);
  await page.setViewport({ width, height: 800 });
}

if (isMain(import.meta.url)) {
  const { values } = parseArgs({
    options: {
      browser: { type: 'string', default: 'chromium' },
      write: { type: 'boolean', default: false },
    },
  });
  const lines = ['| browser | states | checks | findings |', '|---|---:|---:|---:|'];
  for (const name of values.browser.split(',')) {
    const browser = await launch(/** @type {any} */ (name));
    let looks = 0;
    let found = 0;
    await walk(browser, async (page, state) => {
      for (const theme of THEMES)
        for (const width of WIDTHS) {
          await dress(page, theme, width);
          looks++;
          for (const one of await findings(page)) console.log(`${state}, ${theme}, ${width}: ${one}`, ++found);
        }
      await dress(page, 'light', 1100);
    });
    await browser.close();
    lines.push(`| ${name} | ${STATES.length} | ${looks} | ${found} |`);
  }
  console.log(lines.join('\n'));
  if (values.write) keep('reports/page.md', 'axe', lines.slice(2), 1);
  assert.ok(lines.slice(2).every((line) => / 0 \|$/.test(line)));
}
