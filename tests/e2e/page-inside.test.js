/**
 * Tests the inspection panel of the page: it shows the same numbers as the package in Node for the same token ids. Both
 * run the simd128 build, because relaxed SIMD differs between processors. Attention weights are equal bit for bit;
 * probabilities may differ in the last digits, because each JavaScript engine has its own exp(). Also: the panel's code
 * is fetched when it is opened, a closed panel leaves nothing behind, choosing another word creates a branch, the
 * keyboard reaches every view, and a running answer has priority.
 */
import assert from 'node:assert/strict';
import { loadModel } from '../../js/index.node.js';
import { testModel } from '../js/models.js';
import {
  ANSWERED,
  FAILED,
  answerText,
  ask,
  catchCopies,
  fill,
  focused,
  importConversations,
  onlyIn,
  pageIn,
  plainBuild,
  say,
  setOptions,
  shortcut,
  suite,
  textOf,
  until,
  untilText,
  valueOf,
} from './helpers.js';

/** @typedef {import('puppeteer-core').Page} Page */
/** @typedef {import('../../js/index.js').Model} Model */

/** @param {string} name @param {(model: Model) => Promise<void>} use */
async function inNode(name, use) {
  const model = await loadModel(await testModel(name), { variant: 'simd128', threads: 1 });
  try {
    await use(model);
  } finally {
    await model.dispose();
  }
}

/** @param {Page} page @param {string} selector */
async function seen(page, selector) {
  await until(page, `#inside-panel:not([aria-busy]) ${selector}`);
}

/** @param {Page} page @param {string} view @param {string} selector */
async function turnTo(page, view, selector) {
  await page.click(`#inside-${view}`);
  await seen(page, selector);
}

/** @param {Page} page @param {string} selector @returns {Promise<Record<string, number>[]>} */
const numbers = (page, selector) =>
  page.$$eval(selector, (all) =>
    all.map((one) =>
      Object.fromEntries(
        Object.entries(/** @type {HTMLElement} */ (one).dataset).map(([key, value]) => [key, Number(value)]),
      ),
    ),
  );

/** @param {number} found @param {number} wanted @param {string} what @param {number} [share] */
function near(found, wanted, what, share = 1e-12) {
  assert.ok(Math.abs(found - wanted) <= share * Math.abs(wanted), `${what}: ${found}, not ${wanted}`);
}

/** Runs in the page before its scripts: records calls to the engine, event listeners and observers. */
function counting() {
  /** @type {{ asked: any[], listening: [WeakRef<any>, string][], watching: number, changes: number }} */
  const seen = Object.assign(window, { seen: { asked: [], listening: [], watching: 0, changes: 0 } }).seen;
  const post = Worker.prototype.postMessage;
  const { addEventListener, removeEventListener } = EventTarget.prototype;
  Worker.prototype.postMessage = function (/** @type {any} */ message, /** @type {any} */ ...more) {
    if (message?.kind === 'call') seen.asked.push({ method: message.method, args: message.args });
    return post.call(this, message, ...more);
  };
  EventTarget.prototype.addEventListener = function (/** @type {any} */ ...all) {
    seen.listening.push([new WeakRef(this), all[0]]);
    return /** @type {any} */ (addEventListener).apply(this, all);
  };
  EventTarget.prototype.removeEventListener = function (/** @type {any} */ ...all) {
    const at = seen.listening.findIndex(([target, type]) => target.deref() === this && type === all[0]);
    if (at >= 0) seen.listening.splice(at, 1);
    return /** @type {any} */ (removeEventListener).apply(this, all);
  };
  for (const { prototype } of [MutationObserver, ResizeObserver, IntersectionObserver]) {
    const { observe, disconnect } = prototype;
    prototype.observe = function (/** @type {any} */ ...all) {
      seen.watching++;
      return /** @type {any} */ (observe).apply(this, all);
    };
    prototype.disconnect = function () {
      seen.watching--;
      return disconnect.call(this);
    };
  }
}

/** Returns things that slow answers if a closed panel leaves them behind: event listeners, and the numbers of
 * observers, style sheets and elements. @param {Page} page */
const burden = (page) =>
  page.evaluate(() => {
    /** @type {{ listening: [WeakRef<any>, string][], watching: unknown }} */
    const { listening, watching } = Object(window).seen;
    const heard = listening
      .map(([one, type]) => /** @type {const} */ ([one.deref(), type]))
      .filter(([one]) => (one instanceof Node ? one.isConnected : one === window));
    return {
      watching,
      heard: heard.map(([one, type]) => `${type} ${one.id ?? one.nodeName ?? 'window'}`).sort(),
      sheets: document.adoptedStyleSheets.length,
      panel: document.body.dataset.panel,
      elements: document.querySelectorAll('#inside *').length,
    };
  });

const OPTION = '#inside .strip [role="option"]';
const BAR = '#inside .bars li';
const CELL = '#inside .lens tbody td';

/** @param {Page} page @param {number[]} ids */
async function sameLayers(page, ids, /** @type {Model} */ model) {
  await turnTo(page, 'layers', '.lens');
  const cells = await numbers(page, CELL);
  const span = Math.min(8, ids.length);
  const positions = Array.from({ length: span }, (_, i) => ids.length - span + i);
  const { layers } = await model.debug.inside(ids, { positions, lens: 5 });
  assert.equal(cells.length, layers.length * span);
  for (const { layer, column, id, p } of cells) {
    const [first] = layers[layer].lens?.[column] ?? [];
    assert.equal(id, first.id, `layer ${layer}, column ${column}`);
    near(p, first.probability, `layer ${layer}, column ${column}`);
  }
  await page.focus(`${CELL}[data-layer="1"][data-column="2"]`);
  const bars = await numbers(page, BAR);
  bars.forEach(({ id, p }, i) => {
    const wanted = layers[1].lens?.[2][i];
    assert.equal(id, wanted?.id);
    near(p, wanted?.probability ?? NaN, `bar ${i}`);
  });
  assert.equal(bars.length, 5);
}

/** Compares the attention weights that the panel shows for a position with the model's. @param {Page} page
 * @param {number[]} ids @param {Model} model @param {number} at the attending position */
async function sameAttention(page, ids, model, at) {
  await turnTo(page, 'attention', '.said .kind');
  await page.click(`${OPTION}[data-at="${at}"]`);
  await seen(page, `[data-at="${at}"].looks`);
  for (const [layer, head] of [
    [0, 1],
    [model.info.layers - 1, 0],
  ]) {
    for (const [i, value] of [layer, head].entries()) {
      await page.select(`#inside .controls label:nth-of-type(${i + 1}) select`, String(value));
    }
    const {
      layers: [{ kind, attention = {} }],
    } = await model.debug.inside(ids.slice(0, at + 1), { layers: [layer], heads: [head], positions: [at] });
    const weights = (await numbers(page, OPTION)).map(({ p }) => p);
    assert.deepEqual(weights.slice(0, at + 1), Array.from(attention[head]), `layer ${layer}, head ${head}`);
    assert.equal(await textOf(page, '#inside .kind'), kind);
    const outside = await page.$$eval(`${OPTION}.outside`, (all) => all.length);
    const zero = attention[head].findIndex((weight) => weight > 0);
    assert.equal(outside, kind === 'local' ? zero : 0, 'positions outside the window have no weight');
  }
}

/** @param {Page} page @param {number[]} ids @param {Model} model */
async function sameWalk(page, ids, model) {
  await turnTo(page, 'walk', '.walk .step');
  const read = ids.slice(0, -1);
  const { layers } = await model.debug.inside(read, { positions: [-1], norms: true, heads: 'all', lens: 8 });
  const logits = await model.debug.logits(read);
  await page.focus('#inside .step-next');
  const press = async (/** @type {number} */ step) => {
    await page.keyboard.press('ArrowRight');
    await page.waitForSelector(`#inside [data-step="${step}"]`);
  };
  for (let step = 1; step <= 3; step++) await press(step);
  const title = await page.$eval('#inside .walk', (walk) => walk.textContent ?? '');
  assert.match(title, new RegExp(`Layer 1 of ${layers.length}`));
  const heat = (await numbers(page, '#inside .heat')).map(({ p }) => p);
  const first = Object.values(layers[0].attention ?? {});
  assert.deepEqual(
    heat,
    first.flatMap((weights) => Array.from(weights.slice(-24))),
  );
  for (let step = 4; step < 4 + layers.length; step++) await press(step);
  const values = await page.$eval('#inside .line', (line) => line.getAttribute('data-values')?.split(' ').map(Number));
  assert.deepEqual(values, [layers[0].norms?.[0], ...layers.map(({ norms }) => norms?.[2])]);
  await press(4 + layers.length);
  const scores = await page.$$eval(`${BAR} .share`, (all) => all.map((one) => one.textContent));
  const likely = layers[layers.length - 1].lens?.[0] ?? [];
  assert.deepEqual(
    scores,
    likely.map(({ id }) => logits[id].toFixed(2)),
  );
  await press(5 + layers.length);
  assert.match(await textOf(page, '#inside .step'), /Step \d+ of \d+[\s\S]*The next token was/);
  await page.keyboard.press('ArrowLeft');
  await page.waitForSelector(`#inside [data-step="${4 + layers.length}"]`);
}

/** Replaces an answer's fourth token by another candidate in the inspection panel, which creates a version of the
 * message. Checks that the panel shows the new version, and the old version after switching back. @param {Page} page
 * @param {Model} model @param {number} from position of the first token @param {number[]} tokens of the answer
 * @param {{ id: number }[]} top candidates for the fourth token */
async function branches(page, model, from, tokens, top) {
  await turnTo(page, 'words', '.bars li');
  await page.click(`${OPTION}[data-at="${from + 3}"]`);
  const other = top.find(({ id }) => id !== tokens[3] && !model.info.endTokens.includes(id));
  const kept = [...tokens.slice(0, 3), other?.id ?? 0];
  await page.click(`${BAR}[data-id="${other?.id}"] button`);
  await until(page, '.from-model .versions');
  await until(page, ANSWERED);
  assert.match(await textOf(page, '.from-model .versions'), /2\/2/);
  const branch = await answerText(page);
  const begin = await model.detokenize(kept);
  assert.ok(branch.startsWith(begin) && branch.length > begin.length, `${branch} does not continue ${begin}`);
  await seen(page, `${OPTION.slice(8)}:nth-child(${kept.length + 1})`);
  await page.waitForFunction(
    (first) => document.querySelector('#inside .about option')?.textContent?.includes(first),
    {},
    branch.trim().slice(0, 8),
  );
  const shown = (await numbers(page, OPTION)).map(({ id }) => id);
  assert.equal(await model.detokenize(shown), branch, 'the panel shows the new version');
  await page.click('.from-model .versions button');
  await page.waitForFunction(
    (selector, wanted) =>
      [...document.querySelectorAll(selector)].map((one) => /** @type {HTMLElement} */ (one).dataset.id).join() ===
      wanted,
    {},
    OPTION,
    tokens.join(),
  );
}

const test = suite(
  'the inspection panel',
  async (name) => {
    const { openWith } = await pageIn(name);
    const opened = (/** @type {string} */ model) => openWith(model, { before: plainBuild });
    return { openWith, opened };
  },
  onlyIn('chromium'),
);

test("an answer of Gemma 3: every view shows the engine's numbers; choosing another word creates a branch", async ({
  opened,
}) => {
  const page = await opened('tiny-f32');
  /** @type {string[]} */
  const fetched = [];
  page.on('request', (request) => fetched.push(request.url()));
  await page.evaluate(catchCopies);
  await setOptions(page, { temperature: 0, maxTokens: 24 });
  await ask(page, 'Hello there');
  const text = await answerText(page);
  const parts = () => fetched.filter((url) => /\/inside-\w+\.js$/.test(url));
  assert.deepEqual(parts(), [], 'the code of the panel is not fetched before it is opened');
  await shortcut(page, 'i');
  await seen(page, '.bars li');
  assert.ok(parts().length > 0);
  assert.equal(await focused(page), 'inside-words');

  await inNode('tiny-f32', async (model) => {
    const told = [{ role: /** @type {const} */ ('user'), content: 'Hello there' }];
    const prompt = (await model.debug.inside(told, { layers: [] })).tokens.map(({ id }) => id);
    const made = await model.generate(told, { temperature: 0, maxTokens: 24, logprobs: 8 }).result();
    const words = await numbers(page, OPTION);
    const ids = [...prompt, ...made.tokens];
    assert.equal(made.text, text);
    assert.deepEqual(
      words.map(({ id }) => id),
      made.tokens,
    );
    // The sampler computes with lower precision than the inspection panel, so probabilities may differ by 1e-6.
    words.forEach(({ p }, i) => near(p, Math.exp(made.logprobs?.[i].logprob ?? NaN), `word ${i}`, 1e-6));
    await page.click(`${OPTION}[data-at="${prompt.length + 3}"]`);
    const bars = await numbers(page, BAR);
    const { top = [] } = made.logprobs?.[3] ?? {};
    assert.deepEqual(
      bars.map(({ id }) => id),
      top.map(({ id }) => id),
    );
    const [{ lens = [] }] = (await model.debug.inside(ids, { layers: [model.info.layers - 1], lens: 16 })).layers;
    bars.forEach(({ p }, i) => near(p, lens[prompt.length + 2][i].probability, `bar ${i}`));

    await sameLayers(page, ids, model);
    await sameAttention(page, ids, model, ids.length - 2);
    await sameWalk(page, ids, model);
    await turnTo(page, 'tokens', '.pieces li');
    assert.deepEqual(
      (await numbers(page, '#inside .pieces li')).map(({ id }) => id),
      await model.tokenize('Hello there'),
    );
    assert.match(
      await textOf(page, '#inside .cost tbody'),
      new RegExp(`^1\\s+${prompt.length} of ${prompt.length}\\s+24\\s`),
    );

    await branches(page, model, prompt.length, made.tokens, top);
    await say(page, 'And then?');
    await until(page, '.from-user ~ .from-user ~ .from-model .retry');
  });
});

for (const model of ['gpt2-f32', 'llama-f32']) {
  test(`${model}: a custom text shows the engine's layers and attention`, async ({ opened }) => {
    const page = await opened(model);
    await page.click('#look-toggle');
    await seen(page, '.bars li');
    const text = await valueOf(page, '#inside .about textarea');
    await inNode(model, async (inNode) => {
      const ids = (await inNode.debug.inside(text, { layers: [] })).tokens.map(({ id }) => id);
      await sameLayers(page, ids, inNode);
      await sameAttention(page, ids, inNode, ids.length - 1);
      await turnTo(page, 'walk', '.walk .step');
    });
  });
}

test('a running answer has priority; a text that is too long is reported; Escape closes the panel and returns the focus', async ({
  opened,
}) => {
  const page = await opened('tiny');
  await page.click('#look-toggle');
  await seen(page, '.bars li');
  await page.focus('#inside-words');
  await page.keyboard.press('End');
  await seen(page, '.pieces');
  await page.keyboard.press('Home');
  await seen(page, '.bars li');
  await fill(page, '#inside .about textarea', 'word '.repeat(2000));
  await until(page, `#inside ${FAILED}`);
  assert.match(await textOf(page, `#inside ${FAILED}`), /too long[\s\S]*loaded context/);
  await setOptions(page, { temperature: 0, maxTokens: 30 });
  await page.evaluate(() => {
    const note = /** @type {HTMLElement} */ (document.querySelector('#inside .note'));
    const notes = Object.assign(window, { notes: [''] });
    new MutationObserver(() => notes.notes.push(note.textContent ?? '')).observe(note, { childList: true });
  });
  await ask(page, 'Hi');
  assert.match((await page.evaluate(() => /** @type {any} */ (window).notes)).join(), /Waiting for the answer/);
  await until(page, '#inside .note:empty');
  await page.select('#inside .about select', 'last');
  await seen(page, `.strip [role="option"]:nth-child(20)`);
  await page.select('#inside .about select', 'own');
  await fill(page, '#inside .about textarea', 'Another one');
  await untilText(page, '#inside .strip', /^[^h]*Another one$/);
  await seen(page, '.bars li');
  await say(page, 'And then?');
  await until(page, '.from-user ~ .from-user ~ .from-model .retry');
  const [first, then] = await page.$$eval('.answer-foot .stats', (all) =>
    all.map((one) => /** @type {HTMLElement} */ (one).title.match(/\d+/g)?.map(Number) ?? []),
  );
  assert.ok(
    then[0] - then[1] >= first[0],
    `the panel does not change the KV cache: ${then[1]} of ${then[0]} tokens were evaluated`,
  );
  await page.focus('#inside-words');
  await page.keyboard.press('Escape');
  await page.waitForSelector('#inside', { hidden: true });
  assert.equal(await focused(page), 'look-toggle');
  await page.click('#settings-toggle');
  await page.click('#look-toggle');
  await seen(page, '.bars li');
  assert.equal(
    await page.$eval('#settings', (one) => /** @type {HTMLElement} */ (one).hidden),
    true,
    'only one panel is open on that side',
  );
  await page.click('#change-model');
  assert.ok(await page.$('#inside[hidden]'));
});

test('an answer stays selected when it becomes the last one, because another version of the next question is shown', async ({
  openWith,
}) => {
  const page = await openWith('tiny');
  await page.click('#library-toggle');
  const [user, assistant] = ['user', 'assistant'].map((role) => ({ role, text: 'Words', state: 'whole' }));
  const said = [
    { ...user, id: 'a', parent: null },
    { ...assistant, id: 'b', parent: 'a' },
    { ...user, id: 'c', parent: 'b' },
    { ...user, id: 'd', parent: 'b' },
    { ...assistant, id: 'e', parent: 'd' },
  ];
  await importConversations(page, [{ title: 'T', said, leaf: 'e' }]);
  await page.waitForSelector('.talk');
  await page.click('.talk');
  await shortcut(page, 'i');
  await page.waitForSelector('#inside .about select');
  await page.select('#inside .about select', 'b');
  await page.click('.question-foot .versions button');
  await page.waitForFunction(() => document.querySelectorAll('.from-model').length === 1);
  assert.equal(await valueOf(page, '#inside .about select'), 'last');
});

test('a closed panel leaves no listeners, no elements and no engine calls behind', async ({ openWith }) => {
  const page = await openWith('tiny', { before: counting });
  await setOptions(page, { temperature: 1, seed: 3, maxTokens: 40 });
  const story = async () => {
    await page.click('#new-chat');
    await page.waitForSelector('#log .empty');
    await page.evaluate(() => {
      /** @type {any} */ (window).seen.asked.length = 0;
    });
    await ask(page, 'Once more');
    await page.waitForSelector('.talk[aria-current]'); // the list is updated after the conversation
    return page.evaluate(() => /** @type {any} */ (window).seen.asked);
  };
  const before = await story();
  const bare = await burden(page);
  await page.click('#look-toggle');
  await seen(page, '.bars li');
  for (const view of ['layers', 'attention', 'walk', 'tokens', 'words']) await turnTo(page, view, '*');
  assert.notDeepEqual(await burden(page), bare, 'an open panel adds listeners or elements');
  await page.click('#look-toggle');
  assert.deepEqual(await burden(page), bare);
  await page.evaluate(() => {
    const place = /** @type {HTMLElement} */ (document.querySelector('#inside'));
    new MutationObserver((all) => {
      /** @type {any} */ (window).seen.changes += all.length;
    }).observe(place, { subtree: true, childList: true, attributes: true, characterData: true });
  });
  const after = await story();
  assert.equal(await page.evaluate(() => /** @type {any} */ (window).seen.changes), 0);
  const generate = (/** @type {any[]} */ asked) => asked.filter(({ method }) => method === 'generate');
  assert.deepEqual(generate(after), generate(before));
  assert.equal(generate(after).length, 1);
  assert.deepEqual(
    after.filter((/** @type {any} */ { method }) => /inside|logits/.test(method)),
    [],
  );
});
