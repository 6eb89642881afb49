/* answer-schemas: random JSON schemas of every kind that can constrain answers. Their values are so small that models
 * with random weights end their answers. */

import { randoms } from './random.js';

const NAMES = ['name', 'age', 'id', 'tags', 'a b', 'ключ', '"q"', 'x', 'y', 'nested', 'kind', 'when', '$ref-like', ''];
const PATTERNS = [
  '^[a-z]{1,5}$',
  '^\\d{3}-\\d{2}$',
  '^(yes|no|maybe)$',
  '^[^"\\\\]{0,4}$',
  'ab',
  '^.{2}é?$',
  '^\\p{Lu}\\w{0,3}$',
];
const FORMATS = ['date', 'time', 'date-time', 'uuid', 'ipv4', 'ipv6', 'email'];
const CONSTANTS = ['a', 'two words', '"quoted"\n', 0, -1.5, true, null, [1, 'b'], { k: [] }, 'שלום', '😀'];

/** @type {((next: (n: number) => number, depth: number) => any)[]} */
const SORTS = [
  (next) => ({ type: 'integer', minimum: -next(50), maximum: next(2000) }),
  (next) => ({ type: 'integer', multipleOf: 1 + next(7), minimum: 0, maximum: 500 }),
  (next) => ({ type: 'number', exclusiveMinimum: -next(3), maximum: 1 + next(100) }),
  () => ({ type: 'boolean' }),
  (next) => ({ enum: Array.from({ length: 1 + next(4) }, (_, i) => CONSTANTS[(next(5) + 2 * i) % CONSTANTS.length]) }),
  (next) => ({ const: CONSTANTS[next(CONSTANTS.length)] }),
  (next) => ({ type: 'string', minLength: next(3), maxLength: 3 + next(6) }),
  (next) => ({ type: 'string', pattern: PATTERNS[next(PATTERNS.length)], maxLength: 12 }),
  (next) => ({ type: 'string', format: FORMATS[next(FORMATS.length)] }),
  (next) => ({ type: ['null', 'boolean', 'integer'], minimum: 0, maximum: 9 + next(90) }),
  (next, depth) => ({ type: 'array', items: made(next, depth - 1), minItems: next(2), maxItems: 1 + next(3) }),
  (next, depth) => ({
    type: 'array',
    prefixItems: [made(next, depth - 1), made(next, depth - 1)],
    items: false,
    minItems: 2,
  }),
  (next, depth) => ({ anyOf: [made(next, depth - 1), made(next, depth - 1)] }),
  (next, depth) => ({ oneOf: [{ type: 'string', maxLength: 4 }, objectOf(next, depth - 1)] }),
  (next, depth) => ({ allOf: [objectOf(next, depth - 1), { minProperties: 1 }] }),
  (next, depth) => objectOf(next, depth),
  (next, depth) => objectOf(next, depth),
];

/** @param {(n: number) => number} next @param {number} depth */
function made(next, depth) {
  return SORTS[next(depth > 0 ? SORTS.length : 10)](next, depth);
}

/** @param {(n: number) => number} next @param {number} depth */
function objectOf(next, depth) {
  const first = next(NAMES.length);
  const names = Array.from({ length: 1 + next(4) }, (_, i) => NAMES[(first + 3 * i) % NAMES.length]);
  return {
    type: 'object',
    properties: Object.fromEntries(names.map((name) => [name, made(next, depth - 1)])),
    required: names.filter(() => next(3)),
    additionalProperties: next(6) === 0 ? { type: 'integer', minimum: 0, maximum: 9 } : false,
    maxProperties: names.length + 1,
  };
}

/** A recursive tree and a recursive list, because the random schemas are not recursive. */
const RECURSIVE = [
  {
    $ref: '#/$defs/tree',
    $defs: {
      tree: {
        type: 'object',
        properties: {
          v: { type: 'integer', minimum: 0, maximum: 9 },
          kids: { type: 'array', items: { $ref: '#/$defs/tree' }, maxItems: 2 },
        },
        required: ['v'],
        additionalProperties: false,
      },
    },
  },
  {
    type: 'object',
    properties: { v: { type: 'boolean' }, next: { anyOf: [{ $ref: '#' }, { type: 'null' }] } },
    required: ['v', 'next'],
    additionalProperties: false,
  },
];

/** Returns schemas of the seeds 0 to `count` - 1. The first two are recursive. @param {number} count */
export function randomSchemas(count) {
  return Array.from({ length: count }, (_, seed) => RECURSIVE[seed] ?? made(randoms(seed), 2 + (seed % 2)));
}
