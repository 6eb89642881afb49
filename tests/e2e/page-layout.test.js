/**
 * Tests the page's layout: shifts while it loads and answers, the list of conversations at each width, and the
 * appearance of controls.
 */
import assert from 'node:assert/strict';
import { sleep } from '../lab/inject.js';
import {
  FAILED,
  READY,
  ask,
  importConversations,
  loadAddress,
  modelAddress,
  onlyIn,
  pageIn,
  setOptions,
  slowly,
  suite,
  talk,
  until,
  untilCount,
} from './helpers.js';

/** Maximum sum of a visit's layout shift scores. web.dev rates 0.1 within the worst five seconds as good. */
const MOST_SHIFT = 0.02;

/** Milliseconds to wait after an input, so that the test counts later layout shifts: it skips those within 500 ms of an
 * input (hadRecentInput). */
const AFTER_INPUT = 600;

function watchShifts() {
  const shifts = /** @type {any[]} */ ([]);
  Object.assign(window, { shifts });
  new PerformanceObserver((list) => {
    for (const { value, hadRecentInput, sources } of /** @type {any[]} */ (list.getEntries())) {
      const moved = sources.map((/** @type {any} */ { node }) => node?.id || node?.className || node?.nodeName);
      shifts.push({ value, hadRecentInput, moved });
    }
  }).observe({ type: 'layout-shift', buffered: true });
}

let slow = true;
const slows = slowly(/^\/models\/medium/, () => slow);

const inEach = suite(
  'layout',
  async (name) =>
    pageIn(name, {
      storyteller: await modelAddress('tiny'),
      intercept: async (request, response) => {
        // Delays the response by AFTER_INPUT, because layout shifts shortly after a click would be ignored.
        if (/^\/models\/(medium|none)/.test(request.url ?? '')) await sleep(AFTER_INPUT);
        return slows(request, response);
      },
    }),
  onlyIn('chromium'),
);

for (const [width, height] of [
  [1280, 800],
  [390, 780],
]) {
  inEach(
    `nothing moves while the page loads a model, answers and shows notices (${width} x ${height})`,
    async ({ open }, t) => {
      slow = true;
      const page = await open('', { width, height, expected: /Failed to load resource/, before: watchShifts });
      await until(page, READY);
      await setOptions(page, { maxTokens: 60, temperature: 1, seed: 1 });
      await ask(page, 'Tell me a story');
      await ask(page, 'And another one');
      await page.click('#change-model');
      await loadAddress(page, '/models/none.gguf');
      await until(page, FAILED);
      await page.click('#back');
      await page.click('#change-model');
      const loading = loadAddress(page, await modelAddress('medium'));
      await until(page, '#loading-rate:not(:empty)');
      slow = false;
      await loading;
      await until(page, READY);
      await ask(page, 'Go on');
      const all = await page.evaluate(() => /** @type {any} */ (window).shifts);
      const shifts = all.filter((/** @type {any} */ one) => !one.hadRecentInput);
      const sum = shifts.reduce((/** @type {number} */ so, /** @type {any} */ one) => so + one.value, 0);
      t.diagnostic(`${sum.toFixed(4)} in ${shifts.length} shifts`);
      assert.ok(sum < MOST_SHIFT, JSON.stringify(shifts));
    },
    ['chromium'], // Only Chromium reports layout shifts.
  );
}

inEach(
  'the list of conversations is beside the page, over it, or in its place, depending on the width',
  async ({ open }) => {
    const page = await open();
    await until(page, READY);
    const look = () =>
      page.evaluate(() => {
        const boxes = ['chat', 'library'].map((id) => /** @type {HTMLElement} */ (document.getElementById(id)));
        const [chat, list] = boxes.map((one) => one.getBoundingClientRect().toJSON());
        return { chat, list, seen: boxes.map((one) => one.checkVisibility()) };
      });
    for (const [width, layout] of /** @type {[number, string][]} */ ([
      [1100, 'beside'],
      [900, 'over'],
      [700, 'instead'],
    ])) {
      await page.setViewport({ width, height: 800 });
      const before = await look();
      await page.click('#library-toggle');
      await until(page, '#library:not([hidden])');
      const opened = await look();
      assert.deepEqual(opened.seen, [layout !== 'instead', true], layout);
      if (layout === 'beside') assert.equal(opened.chat.left, opened.list.right);
      if (layout === 'over') {
        assert.deepEqual(opened.chat, before.chat, 'the list does not move the chat');
        assert.ok(opened.list.left === opened.chat.left && opened.list.right < opened.chat.right);
      }
      if (layout === 'instead') assert.equal(opened.list.width, width);
      if (layout === 'over') await page.mouse.click(opened.list.right + 50, 400);
      else await page.click('#library-close');
      await page.waitForFunction(() => !document.querySelector('#library')?.checkVisibility());
    }
  },
);

/** Opens the page with these conversations in the list. @param {() => Promise<import('puppeteer-core').Page>} open
 * @param {object[]} conversations */
async function listing(open, ...conversations) {
  const page = await open();
  await until(page, READY);
  await page.click('#library-toggle');
  await importConversations(page, conversations);
  await untilCount(page, '.talk', conversations.length);
  return page;
}

inEach('on a phone, columns of tables are wide enough to read, and wide tables scroll', async ({ open }) => {
  const words = 'Several words that need more than one line';
  const wide = '広い文字の長い文章がここにあります';
  const row = (/** @type {string[]} */ ...cells) => `| ${cells.join(' | ')} |\n`;
  const line = '|---|---|---|---|---|\n';
  const text = `${row('1', 'a', 'b', 'c', 'd')}${line}${row('2', words, 'No', words, wide)}

${row('1', '2', '3', '4', '5')}${line}${row('10', '20', '30', '40', '50')}`;
  const page = await listing(open, talk('T', 'Q', text));
  await page.click('.talk');
  await page.waitForSelector('#log table');
  await page.click('#library-close');
  for (const width of [320, 390]) {
    await page.setViewport({ width, height: 700 });
    const [long, short] = await page.$$eval('.wide-table', (all) =>
      all.map((frame) => ({
        columns: [...frame.querySelectorAll('th')].map((cell) => cell.offsetWidth),
        scrolls: frame.scrollWidth > frame.clientWidth,
        focusable: /** @type {HTMLElement} */ (frame).tabIndex,
      })),
    );
    for (const i of [1, 3, 4]) assert.ok(long.columns[i] > 130, `column ${i} of ${long.columns}`);
    assert.ok(long.columns[2] < 60, `a column of short texts stays narrow: ${long.columns}`);
    assert.deepEqual([long.scrolls, long.focusable, short.scrolls], [true, 0, false]);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
  }
});

inEach('the offer to undo covers no control', async ({ open }) => {
  const title = 'A title of sixty characters, the most that a title can have';
  for (const width of [320, 390, 760, 1000]) {
    const page = await listing(open, talk('First', 'Q', 'A'), talk(title, 'Q', 'A'));
    await page.setViewport({ width, height: 640 });
    /** Clicks elements of a conversation's row. */
    const click = (/** @type {RegExp} */ title, /** @type {string[]} */ ...selectors) =>
      page.evaluate(
        (pattern, all) => {
          const row = [...document.querySelectorAll('#library-list li')].find((li) => li.textContent?.match(pattern));
          for (const one of all) /** @type {HTMLElement | null | undefined} */ (row?.querySelector(one))?.click();
        },
        title.source,
        selectors,
      );
    await click(/First/, '.talk');
    await page.waitForSelector('.answer-foot');
    if (!(await page.$eval('#library', (list) => list.checkVisibility()))) await page.click('#library-toggle');
    await click(/sixty/, '.talk-line button', '.danger');
    await page.waitForSelector('#toast:not([hidden])');
    const covered = () =>
      page.$eval('#toast', (toast) => {
        const over = toast.getBoundingClientRect();
        const controls = '#library-search, #library-close, .talk-line, .answer-foot, #composer';
        return [...document.querySelectorAll(controls)]
          .filter((control) => {
            const { left, right, top, bottom } = control.getBoundingClientRect();
            return left < over.right && over.left < right && top < over.bottom && over.top < bottom;
          })
          .map(({ id, className }) => id || className);
      });
    assert.deepEqual(await covered(), [], `with the list, ${width} wide`);
    await page.click('#library-close');
    await page.waitForFunction(() => !document.querySelector('#library')?.checkVisibility());
    assert.deepEqual(await covered(), [], `with the answer, ${width} wide`);
  }
});

inEach('a printed conversation has the whole of long lines of code', async ({ open }) => {
  const text = `\`\`\`js\nconst a = '${'long '.repeat(60)}';\n\`\`\``;
  const page = await listing(open, talk('T', 'Q', text));
  await page.click('.talk');
  await page.waitForSelector('#log pre');
  const hidden = () => page.$eval('#log pre', (one) => one.scrollWidth - one.clientWidth);
  assert.ok((await hidden()) > 0, 'on the screen, the code scrolls');
  await page.emulateMediaType('print');
  assert.equal(await hidden(), 0);
  await page.emulateMediaType('screen');
});

inEach('the icon of the document search shows a page, not only a magnifier', async ({ open }) => {
  const page = await open();
  await until(page, READY);
  const heights = await page.$$eval('#search-toggle svg > *', (all) =>
    all.map((one) => /** @type {SVGGraphicsElement} */ (one).getBBox().height),
  );
  assert.ok(Math.max(...heights) > 15, `the icon, 24 px high, has a large part besides the magnifier: ${heights}`);
});
