/**
 * bench-formats: what a format costs and what it saves, end to end in Node: free text, and answers under three everyday
 * schemas (an address card, a list of five records, a tool call), each drawn token by token (forcedSpans: false) and
 * with forced spans. By turns, some rounds, greedy; weights of a shape at random by default, so strings in the schemas
 * are bounded. Rates are tokens of the answer behind its first step, forced ones included, per second from that step to
 * the last; printed are medians, and their share of free text.
 *
 *   node tools/bench-formats.js [--model NAME|PATH] [--threads 2] [--rounds 3] [--tokens 48]
 */
import { existsSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { loadModel } from '../js/index.node.js';
import { testModel } from '../tests/js/models.js';
import { median } from './bench/table.js';
import { cli } from './proc.js';

/** @typedef {import('../js/index.js').Model} Model */

const text = (/** @type {number} */ maxLength) => ({ type: 'string', maxLength });
const object = (/** @type {Record<string, object>} */ properties) => (
  { type: 'object', properties, required: Object.keys(properties), additionalProperties: false });

/** @type {Record<string, object>} */
const SCHEMAS = {
  'address card': object({ firstName: text(12), lastName: text(12), street: text(16), postalCode: { type: 'string',
    pattern: '^\\d{5}$' }, city: text(12), country: { enum: ['Germany', 'France', 'Italy', 'Spain'] } }),
  'list of five': { type: 'array', minItems: 5, maxItems: 5, items: object({ title: text(12), year: { type: 'integer',
    minimum: 1900, maximum: 2026 }, available: { type: 'boolean' } }) },
  'tool call': object({ name: { const: 'get_current_weather' }, arguments: object({ location: text(16),
    unit: { enum: ['celsius', 'fahrenheit'] }, forecast_days: { type: 'integer', minimum: 1, maximum: 7 } }) }),
};
const PROMPT = 'Answer with the details of one example.';

/** @param {Model} model @param {object} options */
async function measured(model, options) {
  const out = model.generate(PROMPT, { temperature: 0, ...options });
  let tokens = 0, forced = 0, first = 0, last = 0;
  for await (const step of out.steps()) {
    last = performance.now();
    if (!first) first = last;
    else tokens += step.ids.length;
    if (step.forced) forced += step.ids.length;
  }
  return { rate: 1000 * tokens / (last - first), tokens, forced };
}

/** Options of each row: what is compared. @param {Model} model @param {number} tokens */
function rows(model, tokens) {
  const never = Object.fromEntries(model.info.endTokens.map((id) => [id, -Infinity]));
  /** @type {Record<string, object>} */
  const all = { 'free text': { maxTokens: tokens, logitBias: never } };
  for (const [name, schema] of Object.entries(SCHEMAS)) {
    all[`${name}, no forced spans`] = { format: { schema }, maxTokens: 400, forcedSpans: false };
    all[`${name}, forced spans`] = { format: { schema }, maxTokens: 400 };
  }
  return all;
}

await cli(async () => {
  const { values } = parseArgs({ options: {
    model: { type: 'string', default: 'oneb-q4_0' }, threads: { type: 'string', default: '2' },
    rounds: { type: 'string', default: '3' }, tokens: { type: 'string', default: '48' },
  } });
  const path = existsSync(values.model) ? values.model : await testModel(values.model);
  const model = await loadModel(path, { threads: Number(values.threads), contextLength: 1024 });
  const all = rows(model, Number(values.tokens));
  /** @type {Record<string, { rate: number, tokens: number, forced: number }[]>} */
  const found = {};
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const [name, options] of Object.entries(all)) (found[name] ??= []).push(await measured(model, options));
  }
  await model.dispose();
  const rate = (/** @type {string} */ name) => median(found[name].map((one) => one.rate)) ?? NaN;
  for (const [name, [{ tokens, forced }]] of Object.entries(found)) {
    const share = (rate(name) / rate('free text')).toFixed(2);
    console.log(`${name}: ${rate(name).toFixed(2)} tokens/s, ${share} x free text; ${tokens} tokens, ${forced} of them forced`);
  }
});
