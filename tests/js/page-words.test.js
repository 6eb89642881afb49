/* Tests the page's texts: every language has the same keys with the same placeholders, and the code has no other
 * visible text. */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import ts from 'typescript';
import { CODES } from '../../js/errors.js';
import { bytes, duration } from '../../web/shell/format.js';
import { LANGUAGES, addLater, known, list, number, parts, speak, t } from '../../web/shell/language.js';
import english, { page } from '../../web/words/en.js';
import later from '../../web/words/en-later.js';
import { withTexts } from '../../tools/build/page.js';

/** @typedef {Record<string, string | Record<string, string>>} Words */
const web = new URL('../../web/', import.meta.url);
/** @param {string} name */
const read = (name) => readFileSync(new URL(name, web), 'utf8');
const all = /** @type {Words} */ ({ ...page, ...english, ...later });
const sources = readdirSync(web, { recursive: true })
  .map(String)
  .filter((name) => name.endsWith('.js') && !name.startsWith('words/'));

/** @param {string} code @returns {Promise<Words>} */
const wordsOf = async (code) => (code === 'en' ? all : (await import(`../../web/words/${code}.js`)).default);

/** @param {Words[string]} text */
const forms = (text) => (typeof text === 'string' ? [text] : Object.values(text));
/** @param {string} text */
const placeholders = (text) => [...new Set(text.match(/\{\w+\}/g))].sort();

test('no key is in two of the English tables', () => {
  const counts = [page, english, later].map((table) => Object.keys(table).length);
  assert.equal(
    Object.keys(all).length,
    counts.reduce((a, b) => a + b),
  );
});

for (const code of Object.keys(LANGUAGES)) {
  test(`${code}: has all texts, their placeholders, and a form for each plural category`, async () => {
    const words = await wordsOf(code);
    assert.deepEqual(Object.keys(words).sort(), Object.keys(all).sort());
    const { pluralCategories } = new Intl.PluralRules(code).resolvedOptions();
    for (const [key, text] of Object.entries(words)) {
      assert.equal(typeof text, typeof all[key], key);
      if (typeof text === 'object') assert.deepEqual(Object.keys(text).sort(), [...pluralCategories].sort(), key);
      const wanted = placeholders(forms(all[key]).join());
      for (const form of forms(text)) {
        const given = placeholders(form);
        // The singular form of a text may omit its number `{n}`, as in “One layer”.
        assert.deepEqual(typeof text === 'object' ? [...new Set([...given, '{n}'])].sort() : given, wanted, key);
        assert.ok(form.trim(), key);
      }
    }
  });
}

test('every text is used', () => {
  const used =
    sources.map(read).join('\n') + ['index.html', '404.html'].map((name) => read(`static/${name}`)).join('\n');
  const computed = /^(notice|end|cost|versions|theme)\./;
  /** Names of the page's errors that have no code, or share one with other errors. */
  const others = 'unknown offline http-401 http-403 http-404 http-429 http-5xx damaged not-ours'.split(' ');
  const errors = new Set([...Object.keys(CODES), ...others].map((name) => `error.${name}`));
  const unused = Object.keys(all).filter((key) => {
    const name = key.replace(/^page\./, '');
    const failure = key.replace(/\.do$/, ''); // PageError adds `.do` for the advice.
    return (
      !computed.test(key) && ![`'${failure}'`, `="${name}"`].some((one) => used.includes(one)) && !errors.has(failure)
    );
  });
  assert.deepEqual(
    unused.filter((key) => key !== 'page.description'),
    [],
  );
});

test('each notice of the package has a text', () => {
  const protocol = readFileSync(new URL('../js/protocol.js', web), 'utf8');
  const [, list = ''] = /@typedef \{object\} Notice\n \* @property \{string\} code (.*)/.exec(protocol) ?? [];
  const codes = [...list.matchAll(/`([\w-]+)`/g)].map(([, code]) => code);
  assert.ok(codes.length > 5, list);
  assert.deepEqual(
    codes.filter((code) => !all[`notice.${code}`]),
    [],
  );
});

test('no text is written in the HTML files', () => {
  for (const name of ['index.html', '404.html']) {
    const html = read(`static/${name}`).replace(/<!--[^]*?-->|<(script|kbd|svg)\b[^]*?<\/\1>/g, '');
    const texts = [...html.matchAll(/>([^<>]*\p{L}{2}[^<>]*)</gu)].map(([, text]) => text.trim());
    assert.deepEqual(
      texts.filter((text) => text !== 'gemma-wasm'),
      [],
      name,
    );
    const said = [...html.matchAll(/\b(?:aria-label|title|alt|placeholder)="([^"]*)"/g)].map(([, text]) => text);
    // Examples of input are the same in every language.
    assert.deepEqual(
      said.filter((text) => !/^(hf_…|model\.gguf|main|https:\/\/…)$/.test(text)),
      [],
      name,
    );
    assert.doesNotMatch(withTexts(read(`static/${name}`)), /\{link\}|data-t="[^"]*"[^>]*><\//);
  }
});

/** Functions that show their arguments on the page, each with the index of the first argument shown.
 * @type {Record<string, number>} */
const SHOWN_BY = { action: 0, announce: 0, hint: 0, el: 1, fail: 1, append: 0, replaceChildren: 0 };
const SHOWN_AS = /^(textContent|title|ariaLabel|placeholder|innerText)$/;

/** Returns whether the page shows a string literal on the screen or to a screen reader. @param {ts.Node} node
 * @returns {boolean} */
function isShown(node) {
  const { parent } = node;
  if (ts.isCallExpression(parent)) {
    const from = SHOWN_BY[parent.expression.getText().replace(/^.*\./, '')];
    return from !== undefined && parent.arguments.indexOf(/** @type {any} */ (node)) >= from;
  }
  if (ts.isPropertyAssignment(parent)) return SHOWN_AS.test(parent.name.getText());
  if (ts.isBinaryExpression(parent) && parent.operatorToken.kind === ts.SyntaxKind.EqualsToken)
    return parent.right === node && SHOWN_AS.test(parent.left.getText().replace(/^.*\./, ''));
  const passes = [ts.isTemplateExpression, ts.isTemplateSpan, ts.isParenthesizedExpression, ts.isConditionalExpression];
  const joins = ts.isBinaryExpression(parent) && /^(\+|\?\?|\|\|)$/.test(parent.operatorToken.getText());
  return (passes.some((is) => is(parent)) || joins) && isShown(parent);
}

test('no text is written in the code', () => {
  /** Texts that the page's code may contain: names that are the same in every language, classes of buttons, and texts
   * for developers. */
  const fine =
    /^(Gemma [34] |EmbeddingGemma$|Alt$|Shift$|\s?(quiet|small|primary|link|danger)\b|page: |English$|Deutsch$|Español$)/;
  const names = /^(Escape|Enter|Arrow\w*|Home|End|Files|GGUF|Key|Tab)$/;
  const found = sources.flatMap((name) => {
    const source = ts.createSourceFile(name, read(name), ts.ScriptTarget.Latest, true);
    /** @type {string[]} */
    const texts = [];
    /** @param {ts.Node} node */
    const visit = (node) => {
      if (ts.isStringLiteral(node) || ts.isTemplateLiteralToken(node)) {
        const { text } = node;
        const thrown = ts.isNewExpression(node.parent) && /^(Model)?Error$/.test(node.parent.expression.getText());
        const begins = /^\P{L}*\p{Lu}\p{Ll}/u.test(text) && !names.test(text) && !thrown;
        if (!fine.test(text) && (begins || (/\p{L}{2}/u.test(text) && isShown(node)))) texts.push(`${name}: ${text}`);
      }
      ts.forEachChild(node, visit);
    };
    visit(source);
    return texts;
  });
  // The service worker's errors only appear in the console.
  assert.deepEqual(
    found.filter((text) => !text.startsWith('offline/sw.js')),
    [],
  );
});

test('the module that looks up texts has at most 2 KB', async () => {
  const { build } = await import('esbuild');
  const { outputFiles } = await build({
    entryPoints: [new URL('shell/language.js', web).pathname],
    bundle: true,
    format: 'esm',
    minify: true,
    write: false,
    external: ['../words/*'],
  });
  assert.ok(outputFiles[0].contents.length <= 2000, `${outputFiles[0].contents.length} bytes`);
});

test('numbers, plurals and lists follow the language; an unknown language falls back to English', async () => {
  const document = { documentElement: {}, querySelectorAll: () => [] };
  Object.assign(globalThis, { document });
  await addLater();
  assert.equal(t('tokens', { n: 1 }), '1\u00a0token');
  assert.equal(t('tokens', { n: 1234 }), '1,234\u00a0tokens');
  assert.deepEqual(parts('story.more', { link: 7 }).at(-1), '7');
  assert.equal(known('error.no-such'), undefined);
  assert.equal(duration(7199), '2 h 0 min');
  await speak(['xx', 'de-AT', 'en']);
  assert.deepEqual(document.documentElement, { lang: 'de', dir: 'ltr' });
  assert.equal(t('exported', { n: 2 }), '2\u00a0Unterhaltungen exportiert.');
  assert.equal(number(0.5, 1), '0,5');
  await speak(['ar']);
  assert.deepEqual(document.documentElement, { lang: 'ar', dir: 'rtl' });
  assert.equal(bytes(806e6), `\u2066${number(806)}\u00a0MB\u2069`);
  assert.equal(t('tokens', { n: 3 }), `${number(3)}\u00a0وحدات`);
  assert.equal(list(['أ', 'ب']), new Intl.ListFormat('ar', { type: 'unit' }).format(['أ', 'ب']));
});
