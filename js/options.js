/* options: what generate() and loadModel() accept, and the one check of both. */
import { ModelCache } from './download/cache.js';
import { GemmaError } from './errors.js';

/** sampler: the engine's name for it.
 * @typedef {{ expected: string, fits: (value: any) => boolean, sampler?: string }} Rule */

const MAX_TOKENS = 1 << 20;
const DEFAULT_MAX_TOKENS = 1024;

/** @param {string} what @param {(value: any) => boolean} is
 * @returns {(min: number, max: number, sampler?: string) => Rule} */
const range = (what, is) => (min, max, sampler) => ({
  expected: `${what} from ${min} to ${max}`,
  fits: (value) => is(value) && value >= min && value <= max,
  sampler,
});
export const integer = range('an integer', Number.isInteger);
const number = range('a number', (value) => typeof value === 'number');
/** @param {string} expected @param {(value: any) => boolean} fits @returns {Rule} */
export const rule = (expected, fits) => ({ expected, fits });

/** @param {string} expected */
const typed = (expected) => rule(expected, (value) => typeof value === expected.split(' ')[1]);

export const string = typed('a string');
export const object = typed('an object');
const callback = typed('a function');
export const boolean = typed('a boolean');
/** @param {string[]} values */
const oneOf = (...values) => rule(`one of ${values.join(', ')}`, (value) => values.includes(value));
export const signal = rule('an AbortSignal', (value) => value instanceof AbortSignal);

/** @type {Record<string, Rule>} */
export const GENERATE_OPTIONS = {
  maxTokens: integer(0, MAX_TOKENS),
  temperature: number(0, 100, 'temperature'),
  topK: integer(0, 1 << 22, 'top_k'),
  topP: number(0, 1, 'top_p'),
  minP: number(0, 1, 'min_p'),
  typicalP: number(0, 1, 'typical_p'),
  repetitionPenalty: number(0.01, 100, 'repetition_penalty'),
  frequencyPenalty: number(-100, 100, 'frequency_penalty'),
  presencePenalty: number(-100, 100, 'presence_penalty'),
  penaltyWindow: integer(0, MAX_TOKENS, 'penalty_window'),
  seed: integer(0, 2 ** 32 - 1),
  logitBias: rule('an object or Map of token ids to numbers (-Infinity bans a token)',
    (value) => object.fits(value) && biasEntries(value).every(([id, bias]) => {
      return Number.isInteger(id) && id >= 0 && typeof bias === 'number' && bias < Infinity;
    })),
  stop: rule('a string or an array of strings, none of them empty',
    (value) => [value].flat().every((s) => typeof s === 'string' && s !== '')),
  logprobs: integer(0, 64),
  signal,
  onPrefillProgress: callback,
};

/** @type {Record<string, Rule>} */
export const LOAD_OPTIONS = {
  onProgress: callback,
  signal,
  threads: integer(1, 64),
  contextLength: integer(1, 1 << 20),
  variant: oneOf('auto', 'relaxed', 'simd128'),
  floatMatrices: oneOf('auto', 'keep', 'q8_0'),
  kvType: oneOf('auto', 'f32', 'i16', 'q8_0'),
  cache: rule('true, false, modelCache or what openCache gives',
    (value) => typeof value === 'boolean' || value instanceof ModelCache),
  sha256: rule('64 hexadecimal digits, or an array of them: one for each part of a split file',
    (value) => [value].flat().every((s) => typeof s === 'string' && /^[0-9a-f]{64}$/i.test(s))),
  token: rule('a token, without white space', (value) => typeof value === 'string' && /^[!-~]+$/.test(value)),
  headers: rule('a Headers object, an object of strings, or pairs of strings',
    (value) => headerPairs(value) !== null),
};

/** undefined is the same as no option. @param {object} options @param {Record<string, Rule>} table */
export function checkOptions(options, table) {
  checkValue('options', options, object);
  for (const [name, value] of Object.entries(options)) {
    if (!Object.hasOwn(table, name)) throw unknownOption(name, Object.keys(table));
    if (value !== undefined) checkValue(name, value, table[name]);
  }
}

/** @param {string} name @param {unknown} value @param {Rule} rule */
export function checkValue(name, value, { expected, fits }) {
  if (value !== null && fits(value)) return;
  const secret = name === 'headers' || name === 'token';
  const got = secret ? '' : show(value);
  throw new GemmaError('bad-option', name, { expected, got });
}

/** @param {string} name @param {string[]} known */
function unknownOption(name, known) {
  const plain = (/** @type {string} */ word) => word.toLowerCase().replace(/[^a-z]/g, '');
  const near = known.find((word) => plain(word) === plain(name))
    ?? known.find((word) => plain(word).slice(0, 3) === plain(name).slice(0, 3));
  const expected = near ? `"${near}"?` : `one of ${known.join(', ')}`;
  return new GemmaError('bad-option', `there is no option "${name}"`, { expected });
}

/** A value for a message, short. @param {any} value @returns {string} */
export function show(value) {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 80));
  if (Array.isArray(value)) return `[${value.slice(0, 8).map((one) => (Array.isArray(one) ? '[…]' : show(one)))}]`;
  const isObject = typeof value === 'function' || (typeof value === 'object' && value !== null);
  return isObject ? Object.prototype.toString.call(value) : String(value);
}

/** Options in the form that the worker takes. @param {import('./model.js').GenerateOptions} options */
export function postable({ maxTokens = DEFAULT_MAX_TOKENS, logitBias = {}, stop = [], ...rest }) {
  const values = Object.entries(rest).filter(([, value]) => value !== undefined);
  return {
    maxTokens,
    bias: biasEntries(logitBias),
    stop: [stop].flat(),
    sampler: values.flatMap(([name, value]) => {
      const { sampler } = GENERATE_OPTIONS[name];
      return sampler ? [/** @type {[string, number]} */ ([sampler, value])] : [];
    }),
    seed: rest.seed ?? crypto.getRandomValues(new Uint32Array(1))[0],
    logprobs: rest.logprobs ?? null,
    progress: rest.onPrefillProgress !== undefined,
  };
}

/** @param {Map<number, number> | Record<string, number>} bias @returns {[number, number][]} */
function biasEntries(bias) {
  const entries = bias instanceof Map ? [...bias] : Object.entries(bias);
  return entries.map(([id, value]) => [Number(id), value]);
}

/** null if `headers` is not a list of headers. @param {any} headers */
export function headerPairs(headers) {
  try {
    return /** @type {[string, string][]} */ ([...new Headers(headers)]);
  } catch {
    return null;
  }
}
