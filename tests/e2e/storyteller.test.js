/**
 * Tests the shipped storyteller in the page: with greedy decoding, it tells the same story as llama.cpp
 * (tests/vectors/storyteller.md).
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { loadModel } from '../../js/index.node.js';
import { SHIPPED } from '../js/storyteller-files.js';
import { ANSWERED, answerText, catchCopies, openWithModel, pageIn, say, setOptions, suite, until } from './helpers.js';

const { greedy } = JSON.parse(readFileSync(new URL('../vectors/storyteller-llama.json', import.meta.url), 'utf8'));

/** Returns the text of the token ids that llama.cpp generated. */
async function told() {
  const model = await loadModel(SHIPPED, { threads: 1 });
  try {
    return await model.detokenize(greedy.ids);
  } finally {
    await model.dispose();
  }
}

const test = suite('the storyteller', (name) => pageIn(name, { mounts: { '/storyteller/': path.dirname(SHIPPED) } }));

test('tells the same story as llama.cpp', async ({ browser, server }) => {
  const tab = await openWithModel(browser, server.url, `/storyteller/${path.basename(SHIPPED)}`, {
    before: catchCopies,
  });
  await setOptions(tab.page, { temperature: 0, maxTokens: 300 });
  await say(tab.page, greedy.question);
  await until(tab.page, ANSWERED);
  assert.equal(await answerText(tab.page), await told());
  await tab.close();
});
