/**
 * answers: checks answers of the storyteller model and of random weights under random schemas, at temperatures 0, 1 and
 * 5. Each answer parses and is valid according to ajv, unless it was cut off at `maxTokens`. answers.test.js makes some
 * of these checks, this command makes all of them:
 *
 *   node tests/lab/run.js schemas answers
 */
import assert from 'node:assert/strict';
import ajvFormats from 'ajv-formats';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { ModelError, loadModel } from '../../js/index.node.js';
import { STORYTELLER, testModel } from './models.js';
import { randomSchemas } from '../support/answer-schemas.js';

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

/** Checks answers under one schema, and adds their finish reasons to `counts`. @param {any} model @param {any} schema
 * @param {(value: any) => boolean} valid @param {number[][]} asked temperatures and seeds, as pairs
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

/** Checks answers under random schemas. Returns the number of answers for each finish reason. @param {number} count of
 * schemas @param {string[]} models paths @param {number[][]} [asked] temperatures and seeds, as pairs */
export async function answers(count, models, asked = ASKED) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const path of models) {
    const model = await loadModel(path, { threads: 1, contextLength: 512 });
    for (const schema of randomSchemas(count)) {
      try {
        await answer(model, schema, validatorOf(schema), asked, counts);
      } catch (error) {
        if (!(error instanceof ModelError && error.code === 'bad-format')) throw error;
        counts.refused = (counts.refused ?? 0) + 1;
        console.log(`refused: ${error.message}: ${JSON.stringify(schema)}`);
      }
    }
    await model.dispose();
  }
  return counts;
}

/** Schemas that do not limit the length of answers. For schemas with `number`, the `format` option sets no limits
 * either, because the engine itself limits the length of numbers. */
const UNBOUNDED = [
  { schema: { type: 'number' }, number: true },
  { schema: { type: 'integer' }, number: true },
  { schema: { type: 'number', minimum: 0 }, number: true },
  { schema: { type: 'number', multipleOf: 0.25 }, number: true },
  { schema: { type: ['number', 'null'], exclusiveMaximum: -3 }, number: true },
  { schema: { type: 'integer', not: { multipleOf: 3 } }, number: true },
  { schema: { type: 'string' } },
  { schema: { type: 'array' } },
  { schema: { type: 'object' } },
  { schema: { type: 'array', items: { type: 'number' } } },
  { schema: { type: 'string', pattern: '^[a-z]+' } },
];

/** @param {any} value @returns {boolean} */
const isFinite = (value) =>
  typeof value === 'number'
    ? Number.isFinite(value)
    : typeof value !== 'object' || value === null || Object.values(value).every(isFinite);

/** Checks answers for schemas without bounds: numbers end within 1,000 tokens and are finite. Other values end
 * because the `format` option sets bounds. Returns the number of answers for each finish reason. @param {number} count
 * of answers @param {string[]} models paths @param {number} [first] seed */
export async function unbounded(count, models, first = 0) {
  /** @type {Record<string, number>} */
  const counts = {};
  const opened = await Promise.all(models.map((path) => loadModel(path, { threads: 1, contextLength: 2048 })));
  for (let seed = first; seed < first + count; seed++) {
    const model = opened[seed % opened.length];
    const { schema, number } = UNBOUNDED[Math.floor(seed / opened.length) % UNBOUNDED.length];
    const bounds = number ? {} : { maxLength: 40, maxItems: 4, maxProperties: 3 };
    const options = {
      format: { schema, ...bounds },
      temperature: [0.7, 1, 5][seed % 3],
      seed,
      topK: 0,
      topP: 1,
      maxTokens: 1000,
    };
    const { text, value, finishReason } = await model.generate(`Number ${seed}: `, options).result();
    const where = `${JSON.stringify(schema)}, seed ${seed}, ${finishReason}: ${text.slice(0, 300)}`;
    counts[finishReason] = (counts[finishReason] ?? 0) + 1;
    if (finishReason === 'length' && !number) continue; // Arrays can nest without limit.
    assert.ok(finishReason === 'stop' && isFinite(value) && validatorOf(schema)(value), where);
  }
  await Promise.all(opened.map((model) => model.dispose()));
  return counts;
}

/** Returns the paths of the models whose answers are checked. */
export const modelPaths = async () => [STORYTELLER, await testModel('generic-tools')];

/** Runs a case of tests/lab/cases.js. With `bounded`, checks ten answers for each of `count` random schemas;
 * otherwise `count` answers for schemas without bounds.
 * @param {{ count: number, seed: number, bounded?: boolean }} options */
export async function run({ count, seed, bounded }) {
  const models = await modelPaths();
  return { counts: bounded ? await answers(count, models) : await unbounded(count, models, seed) };
}
