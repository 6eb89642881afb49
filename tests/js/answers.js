/**
 * answers: answers of the storyteller and of random weights under random schemas, at temperatures 0, 1 and 5: each is whole,
 * parses, and is valid by ajv, or was cut at the maximum of tokens.
 *
 *   node tests/js/answers.js [SCHEMAS]       the whole: 200 schemas, ten answers each; answers.test.js takes a part
 */
import assert from 'node:assert/strict';
import { fileURLToPath, pathToFileURL } from 'node:url';
import ajvFormats from 'ajv-formats';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { GemmaError, loadModel } from '../../js/index.node.js';
import { testModel } from './models.js';
import { randomSchemas } from './random-schemas.js';

const STORYTELLER = fileURLToPath(new URL('../../models/storyteller/storyteller.gguf', import.meta.url));
const ASKED = [
  [0, 1],
  [1, 1],
  [1, 2],
  [5, 1],
  [5, 2],
];

/** @param {any} schema */
function validatorOf(schema) {
  const ajv = new Ajv2020({ strict: false, allErrors: false, unicodeRegExp: true });
  /** @type {any} */ (ajvFormats)(ajv);
  return ajv.compile(schema);
}

/** @param {any} model @param {any} schema @param {(value: any) => boolean} valid @param {number[][]} asked
 * @param {Record<string, number>} counts */
async function answer(model, schema, valid, asked, counts) {
  for (const [temperature, seed] of asked) {
    const options = { format: { schema }, temperature, seed, topK: 0, topP: 1, maxTokens: 400 };
    const { text, value, finishReason } = await model.generate('Here it is: ', options).result();
    counts[finishReason] = (counts[finishReason] ?? 0) + 1;
    const where = `${JSON.stringify(schema)} at ${temperature}, seed ${seed}: ${text}`;
    assert.ok(['stop', 'length'].includes(finishReason), `${finishReason}: ${where}`);
    if (finishReason === 'length') continue;
    assert.deepEqual(value, JSON.parse(text));
    assert.ok(valid(value), where);
  }
}

/** How many ended how. @param {number} first @param {number} end schemas @param {string[]} models paths
 * @param {number[][]} [asked] temperatures and seeds */
export async function answers(first, end, models, asked = ASKED) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const path of models) {
    const model = await loadModel(path, { threads: 1, contextLength: 512 });
    for (const schema of randomSchemas(end).slice(first)) {
      try {
        await answer(model, schema, validatorOf(schema), asked, counts);
      } catch (error) {
        if (!(error instanceof GemmaError && error.code === 'bad-format')) throw error;
        counts.refused = (counts.refused ?? 0) + 1;
        console.log(`refused: ${error.message}: ${JSON.stringify(schema)}`);
      }
    }
    await model.dispose();
  }
  return counts;
}

export const modelPaths = async () => [STORYTELLER, await testModel('generic-tools')];

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const begun = performance.now();
  const counts = await answers(0, Number(process.argv[2] ?? 200), await modelPaths());
  console.log(JSON.stringify(counts), `${((performance.now() - begun) / 1000).toFixed(0)} s`);
}
