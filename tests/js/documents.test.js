/* Runs the examples of the guides in docs/ unchanged, with the storyteller model, and builds the documentation site. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import { transform } from 'esbuild';
import { buildDocs } from '../../tools/build/docs.js';
import { newFolder, open } from './helpers.js';
import { STORYTELLER } from './models.js';

const AsyncFunction = /** @type {any} */ (Object.getPrototypeOf(async () => {}).constructor);

/** @param {string} page */
function blocks(page) {
  const text = readFileSync(new URL(`../../docs/${page}.md`, import.meta.url), 'utf8');
  return [...text.matchAll(/```js\n([^]*?)```/g)].map(([, code]) => code);
}

/** Runs examples of a guide. Returns the arguments of their show() calls, and the values of the expressions in
 * `results`. @param {any} t @param {string[]} examples @param {string[]} results */
async function run(t, examples, results) {
  const model = await open(t, 'storyteller');
  assert.equal(examples.length, results.length);
  const all = [];
  for (const [i, code] of examples.entries()) {
    const shown = /** @type {any[][]} */ ([]);
    const example = new AsyncFunction('model', 'show', `${code}\nreturn ${results[i]};`);
    all.push({
      shown,
      end: await example(model, (/** @type {unknown[]} */ ...values) => shown.push(structuredClone(values))),
    });
  }
  return all;
}

test('the examples of formats.md run', async (t) => {
  const [person, animal, bounded, refused] = await run(t, blocks('formats'), [
    '{ value, finishReason }',
    'value',
    'value',
    'null',
  ]);
  const { value, finishReason } = person.end;
  assert.equal(finishReason, 'stop');
  assert.ok(value.name.length <= 20 && value.age >= 0 && value.age <= 120);
  assert.deepEqual(person.shown.slice(-2), [[value], [value.age]]);
  assert.ok(['cat', 'dog', 'little bird'].includes(animal.end));
  assert.equal(animal.shown.map(([text]) => text).join(''), animal.end);
  assert.ok(bounded.end.length <= 3 && bounded.end.every((/** @type {string} */ text) => [...text].length <= 8));
  assert.match(refused.shown.join(), /^bad-format,/);
});

test('the examples of tools.md run', async (t) => {
  const [weather, sum] = await run(t, blocks('tools'), ['{ text, toolCalls, finishReason }', 'toolCalls']);
  const { text, toolCalls, finishReason } = weather.end;
  assert.ok(['stop', 'tool-calls', 'length'].includes(finishReason));
  for (const { name, arguments: args, result } of toolCalls) {
    assert.equal(name, 'get_weather');
    if (result) assert.deepEqual(result, { location: args.location, celsius: 18 });
  }
  assert.equal(typeof text, 'string');
  assert.ok(
    sum.end.length > 0 &&
      sum.end.every(
        (/** @type {{ arguments: { a: number, b: number } }} */ { arguments: { a, b } }) =>
          Number.isInteger(a) && Number.isInteger(b),
      ),
  );
  assert.equal(typeof sum.shown[0][0], 'string');
});

test('the blocks of chat.md run together as one program', async (t) => {
  const [{ shown }] = await run(t, [blocks('chat').join('\n')], ['null']);
  const tail = shown.slice(shown.findIndex(([reason]) => reason === 'aborted'));
  const [[, aborted], [messages], , [answers, reused], [stories], [dropped, used, room], [kept, why], [restored]] =
    tail;
  assert.equal(aborted, true);
  assert.equal(messages, 12, 'the system message, five turns, and one added message');
  assert.ok(answers.length === 3 && reused > 0);
  assert.equal(stories.length, 3);
  assert.equal(dropped, undefined);
  assert.ok(used > 0 && used < room);
  assert.ok(kept > 0, why);
  assert.equal(restored, 12);
});

test('every JavaScript block of docs/ is valid', async () => {
  for (const file of readdirSync(new URL('../../docs', import.meta.url)).filter((name) => name.endsWith('.md')))
    for (const code of blocks(file.replace('.md', ''))) await assert.doesNotReject(transform(code), `${file}: ${code}`);
});

test('the examples of schemas.md and inside.md run', async (t) => {
  const [judged] = await run(t, blocks('schemas'), ['{ compiled, accepted, refusedAt, masks }']);
  const { compiled, accepted, refusedAt, masks } = judged.end;
  assert.deepEqual([compiled, accepted], [true, false]);
  assert.ok(refusedAt > 0 && masks.count > 0);
  const [{ end }] = await run(t, blocks('inside'), ['{ seen, first }']);
  const { seen, first } = end;
  const tokens = seen.tokens.length;
  assert.ok(['local', 'global'].includes(first.kind));
  assert.equal(first.attention[1].length, tokens * tokens);
  assert.equal(first.lens.at(-1).length, 3);
  assert.equal(first.norms.length, tokens * 3);
});

/** Runs a program and returns the lines that it prints. The program imports js/ instead of the package, because dist/
 * is not built before these tests. @param {string} code @param {string[]} args */
function printed(code, ...args) {
  const program = fileURLToPath(new URL('../../build/document.mjs', import.meta.url));
  writeFileSync(program, code.replace("'gemma-wasm';", "'../js/index.node.js';"));
  return execFileSync(process.execPath, [program, ...args], { encoding: 'utf8', stdio: 'pipe' })
    .trim()
    .split('\n');
}

test('the blocks of getting-started.md run together as one program', () => {
  const code = blocks('getting-started').filter((block) => !block.startsWith('// vite.config.js'));
  const lines = printed(code.join('\n'));
  assert.match(lines[0], /^gemma3 \d+ \d+$/);
  assert.ok(
    lines.some((line) => /^ (stop|length) \d+$/.test(line)),
    'a line has the finish reason of the story',
  );
  assert.ok(lines.includes('5'), 'messages');
  assert.match(lines[lines.length - 1], / \d$/, 'the last line ends with the number of legs');
});

test('example.mjs runs', () => {
  const lines = printed(readFileSync(new URL('../../docs/example.mjs', import.meta.url), 'utf8'), STORYTELLER);
  assert.equal(lines[lines.length - 1], 'aborted');
  assert.ok(lines.includes("  architecture: 'gemma3',"));
});

test('the documentation site has every document, a search, and no inline code that the security policy forbids', async (t) => {
  const out = newFolder(t);
  await buildDocs(out); // Rejects dead links, and documents that the index does not list.
  const made = readdirSync(out, { recursive: true }).map(String);
  const pages = made.filter((name) => name.endsWith('.html'));
  const sources = readdirSync(new URL('../../docs', import.meta.url), { recursive: true }).map(String);
  const wanted = sources.filter((name) => name.endsWith('.md')).map((name) => name.replace(/md$/, 'html'));
  assert.deepEqual(pages.sort(), wanted.sort());
  for (const page of pages) {
    const html = readFileSync(join(out, page), 'utf8');
    assert.doesNotMatch(html, /<script(?![^>]* src=)|<style|<[^>]* (style|on\w+)=/, page);
    assert.doesNotMatch(html, /(href|src)="\/|<a href="(?!https?:)[^"]*\.md["#]/, page);
  }
  assert.equal(
    made.filter((name) => name.endsWith('.pf_fragment')).length,
    pages.length,
    'the search index has all pages',
  );
});
