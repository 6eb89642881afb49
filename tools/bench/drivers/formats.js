/** formats: times free text, and answers under three everyday schemas with and without jump-forward, alternately, for
 * bench/formats.js in Node and in browsers. */
import { loadModel } from '../../../js/index.node.js';

/** @typedef {import('../../../js/index.js').Model} Model */
/** Measured answer. `tokens`: its number of tokens. `forced`: number of jump-forward tokens in it. `seconds`: duration
 * of the call. `rate`: tokens per second after the first drawn token.
 * @typedef {{ tokens: number, forced: number, seconds: number, rate: number }} Answer */
/** `model`: path or URL of a model file.
 * @typedef {{ model: string, threads: number, variant: string, rounds: number, tokens: number }} Job */
/** `answers`: measured answers of each kind, one per round.
 * @typedef {{ variant: string, answers: Record<string, Answer[]> }} Found */

const text = (/** @type {number} */ maxLength) => ({ type: 'string', maxLength });
const object = (/** @type {Record<string, object>} */ properties) => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
});

/** @type {Record<string, object>} */
const SCHEMAS = {
  'address card': object({
    firstName: text(12),
    lastName: text(12),
    street: text(16),
    postalCode: { type: 'string', pattern: '^\\d{5}$' },
    city: text(12),
    country: { enum: ['Germany', 'France', 'Italy', 'Spain'] },
  }),
  'list of five': {
    type: 'array',
    minItems: 5,
    maxItems: 5,
    items: object({
      title: text(12),
      year: { type: 'integer', minimum: 1900, maximum: 2026 },
      available: { type: 'boolean' },
    }),
  },
  'tool call': object({
    name: { const: 'get_current_weather' },
    arguments: object({
      location: text(16),
      unit: { enum: ['celsius', 'fahrenheit'] },
      forecast_days: { type: 'integer', minimum: 1, maximum: 7 },
    }),
  }),
};
const PROMPT = 'Answer with the details of one example.';
export const FREE = 'free text';

/** @param {Model} model @param {object} options @returns {Promise<Answer>} */
async function measured(model, options) {
  const start = performance.now();
  const out = model.generate(PROMPT, { temperature: 0, ...options });
  let tokens = 0;
  let forced = 0;
  let opening = 0;
  let first = 0;
  let last = 0;
  for await (const step of out.steps()) {
    last = performance.now();
    first ||= last;
    if (step.forced && opening === tokens) opening += step.ids.length;
    tokens += step.ids.length;
    if (step.forced) forced += step.ids.length;
  }
  return { tokens, forced, seconds: (last - start) / 1000, rate: (1000 * (tokens - opening - 1)) / (last - first) };
}

/** @param {Model} model @param {number} tokens */
function rows(model, tokens) {
  const never = Object.fromEntries(model.info.endTokens.map((id) => [id, -Infinity]));
  /** @type {Record<string, object>} */
  const all = { [FREE]: { maxTokens: tokens, logitBias: never } };
  for (const [name, schema] of Object.entries(SCHEMAS)) {
    all[`${name}, no jump-forward`] = { format: { schema }, maxTokens: 400, jumpForward: false };
    all[`${name}, jump-forward`] = { format: { schema }, maxTokens: 400 };
  }
  return all;
}

/** Times each kind of answer once per round, after a warm-up of four tokens. @param {Job} job
 * @returns {Promise<Found>} */
export async function answer({ model: source, threads, variant: build, rounds, tokens }) {
  const variant = /** @type {'auto'} */ (build);
  const model = await loadModel(source, { threads, variant, contextLength: 1024, cache: false });
  const all = rows(model, tokens);
  /** @type {Found['answers']} */
  const found = Object.fromEntries(Object.keys(all).map((name) => [name, []]));
  await measured(model, { maxTokens: 4 });
  for (let round = 0; round < rounds; round++) {
    for (const [name, options] of Object.entries(all)) found[name].push(await measured(model, options));
  }
  await model.dispose();
  return { variant: model.info.variant, answers: found };
}
