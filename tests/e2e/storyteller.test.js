/**
 * Tests the shipped storyteller model in the page: with greedy decoding, it tells the same story as llama.cpp
 * (tests/vectors/storyteller.md).
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { loadModel } from '../../js/index.node.js';
import { STORYTELLER as SHIPPED } from '../js/models.js';
import { answerText, ask, catchCopies, loadAddress, pageIn, setOptions, suite } from './helpers.js';

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

test('tells the same story as llama.cpp', async ({ open }) => {
  const page = await open('', { before: catchCopies });
  await loadAddress(page, `/storyteller/${path.basename(SHIPPED)}`);
  await setOptions(page, { temperature: 0, maxTokens: 300 });
  await ask(page, greedy.question);
  assert.equal(await answerText(page), await told());
});
