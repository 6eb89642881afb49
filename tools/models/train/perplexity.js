#!/usr/bin/env node
/**
 * Prints the negative log-likelihood per token of each text of tests/vectors/storyteller.json, computed by this package
 * with the shipped storyteller's weights in several types, as JSON { F32, Q8_0, Q4_0 }.
 */
import { readFileSync } from 'node:fs';
import { loadModel } from '../../../js/index.node.js';
import { storyteller } from '../../../tests/js/storyteller-files.js';

const { texts } = JSON.parse(readFileSync(new URL('../../../tests/vectors/storyteller.json', import.meta.url), 'utf8'));
/** @type {Record<string, number[]>} */
const result = {};
for (const type of /** @type {const} */ (['F32', 'Q8_0', 'Q4_0'])) {
  const model = await loadModel(storyteller(type), { threads: 1 });
  result[type] = [];
  for (const { text } of texts) result[type].push((await model.debug.perplexity(text)).nll);
  await model.dispose();
}
process.stdout.write(`${JSON.stringify(result)}\n`);
