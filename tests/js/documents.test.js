/* The examples of formats.md and tools.md run as they stand there, with the model that comes along. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import { loadModel } from '../../js/index.node.js';

const STORYTELLER = fileURLToPath(new URL('../../models/storyteller/storyteller.gguf', import.meta.url));
const AsyncFunction = /** @type {any} */ (Object.getPrototypeOf(async () => {}).constructor);

/** What each example shows, and what it ends with. @param {any} t @param {string} page @param {string[]} results */
async function run(t, page, results) {
  const model = await loadModel(STORYTELLER, { threads: 1 });
  t.after(() => model.dispose());
  const text = readFileSync(new URL(`../../docs/${page}.md`, import.meta.url), 'utf8');
  const examples = [...text.matchAll(/```js\n([^]*?)```/g)].map(([, code]) => code);
  assert.equal(examples.length, results.length);
  const all = [];
  for (const [i, code] of examples.entries()) {
    const shown = /** @type {any[][]} */ ([]);
    const example = new AsyncFunction('model', 'show', `${code}\nreturn ${results[i]};`);
    all.push({ shown, end: await example(model, (...values) => shown.push(structuredClone(values))) });
  }
  return all;
}

test('formats.md', async (t) => {
  const [person, animal, bounded, refused] = await run(t, 'formats', [
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
  assert.ok(bounded.end.length <= 3 && bounded.end.every((/** @type {string} */ text) => text.length <= 8));
  assert.match(refused.shown.join(), /^bad-format,/);
});

test('tools.md', async (t) => {
  const [weather, sum] = await run(t, 'tools', ['{ text, toolCalls, finishReason }', 'toolCalls']);
  const { text, toolCalls, finishReason } = weather.end;
  assert.ok(['stop', 'tool-calls', 'length'].includes(finishReason));
  for (const { name, arguments: args, result } of toolCalls) {
    assert.equal(name, 'get_weather');
    if (result) assert.deepEqual(result, { location: args.location, celsius: 18 });
  }
  assert.equal(typeof text, 'string');
  assert.ok(
    sum.end.length > 0 && sum.end.every(({ arguments: { a, b } }) => Number.isInteger(a) && Number.isInteger(b)),
  );
  assert.equal(typeof sum.shown[0][0], 'string');
});
