/* options: the tables of what generate() and loadModel() accept, and the one check of both. */
import { GemmaError } from './errors.js';

/**
 * @typedef {object} Rule
 * @property {'number' | 'integer' | 'string' | 'function' | 'signal' | 'other'} type
 * @property {number} [min]
 * @property {number} [max]
 * @property {string} [sampler] the engine's name for it
 * @property {string} [expected] in words, for `other`
 * @property {(value: any) => boolean} [test] for `other`
 */

const MAX_TOKENS = 1 << 20;
const MAX_TOP_LOGPROBS = 64;
/** Answers end here when maxTokens is not given. */
export const DEFAULT_MAX_TOKENS = 1024;

/** @type {Record<string, Rule>} */
export const GENERATE_OPTIONS = {
  maxTokens: { type: 'integer', min: 0, max: MAX_TOKENS },
  temperature: { type: 'number', min: 0, max: 100, sampler: 'temperature' },
  topK: { type: 'integer', min: 0, max: 1 << 22, sampler: 'top_k' },
  topP: { type: 'number', min: 0, max: 1, sampler: 'top_p' },
  minP: { type: 'number', min: 0, max: 1, sampler: 'min_p' },
  typicalP: { type: 'number', min: 0, max: 1, sampler: 'typical_p' },
  repetitionPenalty: { type: 'number', min: 0.01, max: 100, sampler: 'repetition_penalty' },
  frequencyPenalty: { type: 'number', min: -100, max: 100, sampler: 'frequency_penalty' },
  presencePenalty: { type: 'number', min: -100, max: 100, sampler: 'presence_penalty' },
  penaltyWindow: { type: 'integer', min: 0, max: MAX_TOKENS, sampler: 'penalty_window' },
  seed: { type: 'integer', min: 0, max: 2 ** 32 - 1 },
  logitBias: {
    type: 'other',
    expected: 'an object or Map of token ids to numbers (-Infinity bans a token)',
    test: (value) => typeof value === 'object' && value !== null
      && biasEntries(value).every(([id, bias]) => {
        return Number.isInteger(id) && id >= 0 && typeof bias === 'number' && bias < Infinity;
      }),
  },
  stop: {
    type: 'other',
    expected: 'a string or an array of strings, none of them empty',
    test: (value) => [value].flat().every((s) => typeof s === 'string' && s !== ''),
  },
  logprobs: { type: 'integer', min: 0, max: MAX_TOP_LOGPROBS },
  signal: { type: 'signal' },
  onPrefillProgress: { type: 'function' },
};

/** @type {Record<string, Rule>} */
export const LOAD_OPTIONS = {
  onProgress: { type: 'function' },
  signal: { type: 'signal' },
  threads: { type: 'integer', min: 1, max: 64 },
  contextLength: { type: 'integer', min: 1, max: 1 << 20 },
  variant: {
    type: 'other',
    expected: '"auto", "relaxed" or "simd128"',
    test: (value) => ['auto', 'relaxed', 'simd128'].includes(value),
  },
  cache: {
    type: 'other',
    expected: 'false (keeping models in a cache comes in a later version)',
    test: (value) => value === false,
  },
  sha256: {
    type: 'other',
    expected: '64 hexadecimal digits',
    test: (value) => typeof value === 'string' && /^[0-9a-f]{64}$/i.test(value),
  },
  headers: {
    type: 'other',
    expected: 'a Headers object, an object of strings, or pairs of strings',
    test: (value) => headerPairs(value) !== null,
  },
};

/** @type {Record<string, Rule>} */
export const SIGNAL_OPTIONS = { signal: { type: 'signal' } };

/** Throws `bad-option` for an unknown name, a wrong type, a value out of range. A value of
 * undefined is the same as none.
 * @param {object} options @param {Record<string, Rule>} table */
export function checkOptions(options, table) {
  if (typeof options !== 'object' || options === null) {
    throw new GemmaError('bad-option', 'options', { expected: 'an object', got: show(options) });
  }
  for (const [name, value] of Object.entries(options)) {
    if (!Object.hasOwn(table, name)) throw unknownOption(name, Object.keys(table));
    if (value !== undefined) checkValue(name, value, table[name]);
  }
}

/** @param {string} name @param {any} value @param {Rule} rule */
export function checkValue(name, value, rule) {
  const { expected, fits } = expectation(rule);
  // The value of `headers` may be a secret.
  const got = name === 'headers' ? '' : show(value);
  if (!fits(value)) throw new GemmaError('bad-option', name, { expected, got });
}

/** @param {Rule} rule @returns {{ expected: string, fits: (value: any) => boolean }} */
function expectation({ type, min = -Infinity, max = Infinity, expected = '', test }) {
  /** @param {any} value */
  const inRange = (value) => value >= min && value <= max;
  switch (type) {
    case 'integer':
      return {
        expected: `an integer from ${min} to ${max}`,
        fits: (value) => Number.isInteger(value) && inRange(value),
      };
    case 'number':
      return {
        expected: `a number from ${min} to ${max}`,
        fits: (value) => typeof value === 'number' && inRange(value),
      };
    case 'string': return { expected: 'a string', fits: (value) => typeof value === 'string' };
    case 'function': return { expected: 'a function', fits: (value) => typeof value === 'function' };
    case 'signal':
      return { expected: 'an AbortSignal', fits: (value) => value instanceof AbortSignal };
    case 'other': return { expected, fits: (value) => test?.(value) ?? true };
  }
}

/** @param {string} name @param {string[]} known */
function unknownOption(name, known) {
  const ranked = known.map((word) => ({ word, far: distance(name.toLowerCase(), word.toLowerCase()) }));
  ranked.sort((a, b) => a.far - b.far);
  return new GemmaError('bad-option', `there is no option "${name}"`, {
    expected: ranked[0].far <= 3 ? `"${ranked[0].word}"?` : `one of ${known.join(', ')}`,
  });
}

/** Levenshtein's. @param {string} a @param {string} b */
function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = row[j - 1] + Number(a[i - 1] !== b[j - 1]);
      next.push(Math.min(change, row[j] + 1, next[j - 1] + 1));
    }
    row = next;
  }
  return row[b.length];
}

/** A value for a message, short. @param {any} value */
function show(value) {
  if (typeof value === 'function' || typeof value === 'symbol') return typeof value;
  if (typeof value === 'number' || typeof value === 'bigint') return String(value);
  try {
    const text = JSON.stringify(value) ?? String(value);
    return text.length > 80 ? `${text.slice(0, 77)}...` : text;
  } catch {
    return typeof value;
  }
}

/** @param {Map<number, number> | Record<string, number>} bias @returns {[number, number][]} */
export function biasEntries(bias) {
  const entries = bias instanceof Map ? [...bias] : Object.entries(bias);
  return entries.map(([id, value]) => [Number(id), value]);
}

/** Pairs, or null if `headers` is not a list of headers. @param {any} headers
 * @returns {[string, string][] | null} */
export function headerPairs(headers) {
  try {
    return /** @type {[string, string][]} */ ([...new Headers(headers)]);
  } catch {
    return null;
  }
}
