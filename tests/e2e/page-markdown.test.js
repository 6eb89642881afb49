/**
 * Tests Markdown in answers: rendering piece by piece gives the same elements as rendering at once, and no model output
 * becomes a script, a style or a request.
 */
import assert from 'node:assert/strict';
import { build } from 'esbuild';
import { BROWSERS, importConversations, onlyIn, openTab, pageIn, root, suite, textOf, wideFormula } from './helpers.js';

const TEXTS = {
  blocks:
    '# One\n\nText with **bold**, `code` and a [link](https://example.com).\n\nTwo\n===\n\n> quote\nlazy\n\n---\n\nend',
  lists: '1. one\n2. two\n\n   more of two\n\n3. three\n   - nested\n\n     deep\n\n* other\n\n* loose\n\ntext',
  code: 'Before\n\n```js\nconst a = 1;\n\n# no heading\n```\nAfter\n\n    indented\n\n    still\n\n~~~\nnever closed\n\n- x',
  table: '| a | b |\n|---|--:|\n| 1 | 2 |\n| 3 | 4 |\n\ntext | with | bars\n\n- [x] done\n- [ ] open',
  references: 'See [this][1] and [that].\n\nMore.\n\n[1]: https://example.com/1\n[that]: https://example.com/2\n',
  maths:
    'The mass $E = mc^2$ costs $5 and $10, \\(a<b\\).\n\n$$\n\\frac{1}{2}\n$$\n\n\\[ x_1 \\]\n\nin $$y$$ line, `$z$`, \\$q\\$\n\n$$\nnever\n\n- a\n- $$ b',
  breaks: 'a  \nb\\\nc\r\n\r\nd\n\n\n\n\n\ne\n\t- tab',
};

/** Markdown texts in which later characters change the meaning of earlier ones. */
const GROWING = [
  'You need:\n\n- 3 eggs\n- 200 g flour\n  - sifted\n    1. twice\n- milk\n\nThen:\n\n1. Mix.\n2. Wait.\n\n   An hour.\n3. Bake.\n',
  '* a\n* b\n\n\n* c\n+ d\n',
  '- [ ] open\n- [x] done\n  - [ ] part\n',
  '> quote\n> - in it\n>\n> more\nlazy\n\nafter',
  'Head\n====\n\nSub\n---\n\n***\n\n- - -\n',
  '- a\n\n      code\n\n- b\n\n  ```js\n  x\n  ```\n',
  '1) one\n2) two\n\n| a | b |\n|:-:|---|\n| `|` | **x** |\n| 3 |\n\ntext\n',
  'a\r\n- b\r\n- c\r\n\r\nd\r\n',
];

/** Texts that keep Markdown parsers busy for minutes or overflow their stack. */
const WILD = [
  '>'.repeat(4000),
  '> '.repeat(4000),
  '$'.repeat(60_000),
  '$a'.repeat(30_000),
  '['.repeat(50_000),
  '*a '.repeat(30_000),
  '**a '.repeat(20_000),
  '_'.repeat(60_000),
  `x${'`'.repeat(40_000)}`,
  '`a'.repeat(30_000),
  '<'.repeat(60_000),
  '![a]('.repeat(10_000),
  '- '.repeat(3000),
  Array.from({ length: 500 }, (_, i) => `${'  '.repeat(i)}- a`).join('\n'),
  'a'.repeat(1_000_000),
  'word '.repeat(200_000),
  '|a'.repeat(20_000),
  '~~a'.repeat(20_000),
  '\\['.repeat(20_000),
  `[a]: ${'<'.repeat(50_000)}`,
  '1. '.repeat(3000),
  '> - '.repeat(2000),
  '1. > '.repeat(2000),
  `${'- > '.repeat(400)}a${'\nlazy'.repeat(4000)}`,
  `\`\`\`sh \`x\` \`\`\`\n${'>'.repeat(4000)}`,
  `\`\`\`\n~~~\n\`\`\`\n${'$'.repeat(60_000)}`,
  `${'a.'.repeat(19_000)}@`,
];

const HOSTILE = [
  '<script>window.hit = 1</script>',
  '<img src=x onerror="window.hit = 1">',
  '![x](https://example.com/track.png)',
  '[click](javascript:window.hit=1)',
  '<javascript:alert(1)>',
  '<a href="javascript:window.hit=1" onclick="window.hit=1">x</a>',
  '[x](data:text/html,<script>window.hit=1</script>)',
  '<iframe src="https://example.com"></iframe>',
  '<style>body{display:none}</style>',
  '[a](https://example.com "\\" onmouseover=\\"window.hit=1")',
  '![a](x "y\\"><img src=x onerror=window.hit=1>")',
  '```" onload="window.hit=1\nx\n```',
  '<svg><script>window.hit=1</script></svg>',
  '<form action="https://example.com"><button>x</button></form>',
  '`<b>`',
  '&lt;script&gt;',
  '[![in](https://example.com/a.png)](https://example.com)',
  '<div style="position:fixed">x</div>',
];

const HOSTILE_PARTS = [
  '$\\href{javascript:window.hit=1}{x}$',
  '$$\\includegraphics{https://example.com/a.png}$$',
  '\\(\\text{<img src=x onerror=window.hit=1>}\\)',
  '$\\style{position:fixed}{x}$',
  '$\\def\\a{\\a\\a}\\a$',
  '$\\color{red}{x} \\colorbox{red}{x}$',
  '```html\n<img src=x onerror="window.hit = 1"><style>x</style>\n```',
  '```js\n"</code><script>window.hit = 1</script>"\n```',
];

const ADORNED = `A $$b$$

Inline $a^2$, $\\{1, 2\\}$, \\[ \\] and

$$
\\sum_{i=1}^n i = \\frac{n(n+1)}{2}
$$

\`\`\`js
const answer = 42; // why
\`\`\`

\`\`\`unheard-of
plain
\`\`\`

مرحبا بالعالم

- عنصر

  \`\`\`
  code();
  \`\`\`

| a | b |
|---|---|
| 1 | 2 |

| אחת | שתיים |
|---|---|
| א | ב |`;

const MODULE = '/markdown-under-test.js';

/** @returns {Promise<Uint8Array>} web/rendering/markdown.js and its libraries as one script */
async function bundle() {
  const result = await build({
    entryPoints: [`${root}web/rendering/markdown.js`],
    loader: { '.css': 'text' },
    bundle: true,
    format: 'esm',
    write: false,
    logLevel: 'silent',
  });
  return result.outputFiles[0].contents;
}

/** @param {string[]} pieces */
function render(pieces) {
  const { place, view } = /** @type {any} */ (window).newView();
  document.body.append(place);
  for (const piece of pieces) view.add(piece);
  view.finish();
  const html = place.innerHTML;
  place.remove();
  return html;
}

/** @param {string} markup */
function contents(markup) {
  const parsed = new DOMParser().parseFromString(markup, 'text/html');
  const all = [...parsed.body.querySelectorAll('*')];
  return {
    tags: all.map((one) => one.localName),
    attributes: all.flatMap((one) => [...one.attributes].map(({ name }) => name)),
    links: [...parsed.querySelectorAll('a')].map((link) => [link.getAttribute('href'), link.rel]),
  };
}

const test = suite(
  'Markdown',
  async (name) => {
    const module = await bundle();
    const { browser, server, open } = await pageIn(name, {
      intercept: (request, response) => {
        if (request.url !== MODULE) return false;
        response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(module);
        return true;
      },
    });

    /** A page for all tests that only render. Its window has newView(), which returns an element and its view. */
    const { page, close } = await openTab(browser, server.url, { lasting: true });
    await page.evaluate(async (address) => {
      const { MarkdownView } = await import(address);
      // Renders each piece at once, instead of once per frame.
      window.requestAnimationFrame = (f) => {
        f(Infinity);
        return 0;
      };
      const newView = () => {
        const place = document.createElement('div');
        return { place, view: new MarkdownView(place) };
      };
      Object.assign(window, { newView });
    }, MODULE);
    return { open, page, close };
  },
  onlyIn('firefox'),
);

test('Markdown rendered piece by piece equals Markdown rendered at once', async ({ page }) => {
  for (const [what, text] of Object.entries(TEXTS)) {
    const whole = await page.evaluate(render, [text]);
    assert.equal(await page.evaluate(render, [...text]), whole, what);
    assert.ok(whole.length > text.length, what);
  }
});

test('each part of a streamed answer looks the same as if it were rendered at once', async ({ page }) => {
  const { references, ...texts } = TEXTS; // A link whose target follows later is resolved only at the end.
  const wrong = await page.evaluate(
    (all) => {
      const show = (/** @type {string[]} */ pieces, /** @type {(html: string, end: number) => void} */ each) => {
        const { place, view } = /** @type {any} */ (window).newView();
        let end = 0;
        for (const piece of pieces) {
          view.add(piece);
          each(place.innerHTML.replace(/\s+</g, '<'), (end += piece.length));
        }
      };
      /** @type {string[]} */ const found = [];
      for (const text of all) {
        for (const pieces of [[...text], text.match(/\s*\S+|\s+$/g) ?? [], text.match(/[^]{1,3}/g) ?? []]) {
          show(pieces, (grown, end) =>
            show([text.slice(0, end)], (whole) => {
              if (grown !== whole)
                found.push(JSON.stringify([text.slice(0, end).slice(-60), grown.slice(-200), whole.slice(-200)]));
            }),
          );
        }
      }
      return found;
    },
    [...Object.values(texts), ...GROWING],
  );
  assert.deepEqual(wrong.slice(0, 3), []);
});

test('extremely nested Markdown is shown as text without delay', async ({ page }) => {
  const took = await page.evaluate((all) => {
    return all.map((text) => {
      const { place, view } = /** @type {any} */ (window).newView();
      const begun = performance.now();
      view.add(`Before.\n\n${text}`);
      view.add('\n\n**After.**');
      view.finish();
      return {
        begins: text.slice(0, 20),
        ms: performance.now() - begun,
        first: place.querySelector('p')?.textContent,
        last: [...place.querySelectorAll('strong')].at(-1)?.textContent,
        letters: place.textContent?.length,
      };
    });
  }, WILD);
  for (const [i, { begins, ms, first, last, letters }] of took.entries()) {
    assert.ok(ms < 30_000, `${begins}: ${ms} ms`);
    assert.equal(first, 'Before.', begins);
    assert.equal(last, 'After.', begins);
    assert.ok(Number(letters) > WILD[i].length / 50, `${begins}: ${letters} letters`);
  }
});

test('hostile answers become only text and links', async ({ page }) => {
  for (const text of HOSTILE) {
    const html = await page.evaluate(render, [...text]);
    const found = await page.evaluate(contents, html);
    const bad = /^(script|img|iframe|style|svg|form|input|object|embed|link|meta|base)$/;
    assert.deepEqual(
      found.tags.filter((tag) => bad.test(tag)),
      [],
      text,
    );
    assert.deepEqual(
      found.attributes.filter((one) => /^on|^style$|^src/.test(one)),
      [],
      text,
    );
    for (const [href, rel] of found.links) {
      assert.match(href ?? 'https:', /^(https?|mailto):/, text);
      assert.match(rel ?? '', /noopener/, text);
    }
  }
  assert.equal(await page.evaluate(() => 'hit' in window), false);
  const image = await page.evaluate(render, ['![*x*](https://example.com/?a=1&amp;b=2)']);
  assert.match(image, /<a href="https:\/\/example\.com\/\?a=1&amp;b=2"[^>]*><em>x<\/em><\/a>/);
});

test('hostile TeX and code are shown as text', async ({ page }) => {
  const html = await page.evaluate(async (texts) => {
    const { place, view } = /** @type {any} */ (window).newView();
    document.body.append(place);
    for (const text of texts) view.add(`${text}\n\n`);
    view.add('$x$\n\n```js\nlet x\n```');
    view.finish();
    while (!place.querySelector('math') || !place.querySelector('.hljs-keyword'))
      await new Promise((done) => {
        setTimeout(done, 10);
      });
    return place.innerHTML;
  }, HOSTILE_PARTS);
  const found = await page.evaluate(contents, html);
  assert.deepEqual(
    found.tags.filter((tag) => /^(script|img|iframe|style|svg|a|annotation-xml|maction)$/.test(tag)),
    [],
  );
  assert.deepEqual(
    found.attributes.filter((one) => /^on|^style$|^src|^href/.test(one)),
    [],
  );
  assert.equal(await page.evaluate(() => 'hit' in window), false);
});

test('code is highlighted, maths is drawn, each line has its direction; the libraries load only when needed', async ({
  open,
}) => {
  const page = await open();
  const parts = () =>
    page.evaluate(
      () =>
        performance
          .getEntriesByType('resource')
          .map(({ name }) => name)
          .filter((name) => /\/(code|maths)-\w+\.js$/.test(name)).length,
    );
  assert.equal(await parts(), 0);
  await page.click('#library-toggle');
  const said = [
    { id: 'a', parent: null, role: 'user', text: 'Q', state: 'whole' },
    { id: 'b', parent: 'a', role: 'assistant', text: ADORNED, state: 'whole' },
  ];
  await importConversations(page, [{ title: 'T', said, leaf: 'b' }]);
  await page.waitForSelector('.talk');
  await page.click('.talk');
  await page.waitForSelector('.md math[display="block"]');
  await page.waitForSelector('.md .hljs-keyword');
  assert.equal(await page.$$eval('.md math', (all) => all.length), 4);
  assert.match(await textOf(page, '.md'), /\[ \] and/, 'brackets around white space are not a formula');
  assert.equal(await page.$eval('.md .hljs-number', (one) => one.textContent), '42');
  assert.equal(await page.$$eval('.md pre', (all) => all[1].textContent?.trim()), 'plain');
  assert.deepEqual(await page.$$eval('.md > p', (all) => all.map((one) => getComputedStyle(one).direction)), [
    'ltr',
    'ltr',
    'ltr',
    'rtl',
  ]);
  assert.equal(await page.$eval('.md > ul', (one) => getComputedStyle(one).direction), 'rtl');
  assert.equal(await page.$eval('.md > ul pre', (one) => getComputedStyle(one).direction), 'ltr');
  const tables = await page.$$eval('.wide-table', (all) => all.map((one) => getComputedStyle(one).direction));
  assert.deepEqual(tables, ['ltr', 'rtl']);
  assert.equal(await parts(), 2);
});

const inArabic = () => Object.defineProperty(navigator, 'languages', { get: () => ['ar'] });
for (const [language, words, before] of /** @type {const} */ ([
  ['English', 'The sum', undefined],
  ['Arabic', 'المجموع', inArabic],
]))
  test(
    `a formula that is wider than a phone scrolls by itself, on the baseline of its line (${language})`,
    async ({ open }) => {
      const page = await open('', { width: 360, height: 640, before });
      const { long, ...others } = await wideFormula(page, words);
      assert.ok(long > 500, `${long} pixels`);
      assert.deepEqual(others, { page: 0, log: 0, line: 0, short: 0, below: 0 });
    },
    BROWSERS,
  );

test('a selection survives while its paragraph grows, when the next one starts, and when the answer ends', async ({
  page,
}) => {
  const kept = await page.evaluate(() => {
    const { place, view } = /** @type {any} */ (window).newView();
    document.body.append(place);
    view.add('A **bold** start of a paragraph');
    const text = /** @type {Text} */ (place.querySelector('p')?.lastChild);
    const [range, selection] = [document.createRange(), /** @type {Selection} */ (getSelection())];
    range.setStart(text, 1);
    range.setEnd(text, 6);
    selection.removeAllRanges();
    selection.addRange(range);
    const seen = [`${selection}`];
    for (const piece of [' that', ' grows,\nand `on`', '.\n\nAnother', ' paragraph.\n\n']) {
      view.add(piece);
      seen.push(`${selection}`);
    }
    view.finish();
    return [...seen, `${selection}`];
  });
  assert.deepEqual(kept, Array(6).fill('start'));
});

test('a long conversation renders its end first; a change of model is shown', async ({ open }) => {
  // Replaces requestIdleCallback(), so that renderings wait until the test runs them.
  const page = await open('', {
    before: () => {
      const waiting = /** @type {(() => void)[]} */ ([]);
      Object.assign(window, { waiting });
      window.requestIdleCallback = (f) => waiting.push(/** @type {any} */ (f));
    },
  });
  await page.click('#library-toggle');
  const said = Array.from({ length: 60 }, (_, i) => ({
    id: `m${i}`,
    parent: i ? `m${i - 1}` : null,
    role: i % 2 ? 'assistant' : 'user',
    text: `Message **${i}**`,
    state: 'whole',
    stats: '1 token',
    ...(i % 2 && { model: i < 58 ? 'One' : 'Other' }),
  }));
  await importConversations(page, [{ title: 'T', said }]);
  await page.waitForSelector('.talk');
  await page.click('.talk');
  await page.waitForSelector('.from-model');
  const bold = () => page.$$eval('.from-model .md', (all) => all.map((one) => Boolean(one.querySelector('strong'))));
  const first = await bold();
  assert.equal(first.length, 30);
  assert.deepEqual([first[0], first[29]], [false, true]);
  assert.equal(
    await page.$eval('.from-model .md', (one) => one.textContent),
    'Message **1**',
    'unrendered text is shown as it is',
  );
  await page.evaluate(() => {
    const { waiting } = /** @type {any} */ (window);
    while (waiting.length) waiting.shift()();
  });
  assert.ok((await bold()).every(Boolean));
  const stats = await page.$$eval('.from-model .stats', (all) => all.map((one) => one.textContent));
  assert.deepEqual(stats.slice(-2), ['1 token', 'Other · 1 token']);
});

test('in a long answer, a new piece does not compare the earlier paragraphs again', async ({ page }) => {
  const renderings = await page.evaluate(() => {
    const { place, view } = /** @type {any} */ (window).newView();
    document.body.append(place);
    const { isEqualNode } = Node.prototype;
    let compared = 0;
    Node.prototype.isEqualNode = function (/** @type {Node | null} */ other) {
      compared++;
      return isEqualNode.call(this, other);
    };
    for (let i = 0; i < 200; i++) view.add(`Paragraph ${i} with **some** text.\n\n`);
    view.finish();
    Node.prototype.isEqualNode = isEqualNode;
    return { compared, all: place.querySelectorAll('p').length };
  });
  assert.ok(
    renderings.compared < 2000,
    `finished paragraphs are not compared again: ${renderings.compared} comparisons`,
  );
  assert.equal(renderings.all, 200);
});
