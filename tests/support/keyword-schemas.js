/* keyword-schemas: random small JSON schemas of every supported keyword, and values to validate. */

const SCALARS = [null, true, false, 0, 1, 2, 2.5, -1, '', 'a', 'b', 'ab'];
const NAMES = ['a', 'b', 'c'];

/** Values to validate: scalars, and arrays and objects of some of them. */
const INSTANCES = [
  ...SCALARS,
  [],
  ...[1, 2.5, 'a', null].map((one) => [one]),
  [1, 2],
  ['a', 1],
  [1, 'a', null],
  [1, 1, 1],
  [[]],
  [{}],
  [2, 2, 'b'],
  {},
  ...NAMES.flatMap((name) => [1, 'a', 'ab'].map((value) => ({ [name]: value }))),
  { a: 1, b: 'a' },
  { b: 'ab', a: 2 },
  { a: 1, b: 1, c: 1 },
  { a: {} },
  { a: { a: 1 } },
  { b: [1] },
  { ab: 1 },
  { a: null, ab: 'a' },
  { c: 1, a: 'a' },
];

/** Returns a schema of one to six keywords, or a boolean. Schemas nest up to `depth` levels.
 * @param {(n: number) => number} roll @param {number} depth @returns {any} */
export function randomSchema(roll, depth) {
  if (roll(12) === 0) return roll(3) > 0;
  /** @type {Record<string, any>} */
  const schema = {};
  const part = () => (depth > 0 ? randomSchema(roll, depth - 1) : true);
  const pick = (/** @type {any[]} */ list) => list[roll(list.length)];
  const parts = () => Array.from({ length: 1 + roll(3) }, part);
  const keywords = /** @type {Record<string, () => any>} */ ({
    type: () => pick(['null', 'boolean', 'number', 'integer', 'string', 'array', 'object', ['string', 'number']]),
    const: () => pick(INSTANCES),
    enum: () => [pick(INSTANCES), pick(INSTANCES)],
    minimum: () => pick([0, 1, 1.5]),
    maximum: () => pick([1, 2]),
    exclusiveMinimum: () => pick([0, 1]),
    multipleOf: () => pick([1, 2, 0.5]),
    minLength: () => 1 + roll(2),
    maxLength: () => roll(2),
    pattern: () => pick(['a', '^a', 'b$', '^(?!a)']),
    minItems: () => 1 + roll(2),
    maxItems: () => roll(3),
    prefixItems: parts,
    items: part,
    contains: part,
    minProperties: () => 1 + roll(2),
    maxProperties: () => roll(2),
    properties: () => ({ [pick(NAMES)]: part(), [pick(NAMES)]: part() }),
    required: () => [pick(NAMES)],
    additionalProperties: part,
    patternProperties: () => ({ [pick(['^a', 'b', 'c$'])]: part() }),
    propertyNames: () => pick([{ maxLength: 1 }, { pattern: '^a' }, { enum: ['a', 'b'] }]),
    dependentRequired: () => ({ a: [pick(NAMES)] }),
    dependentSchemas: () => ({ [pick(NAMES)]: part() }),
    allOf: parts,
    anyOf: parts,
    oneOf: parts,
    not: part,
    unevaluatedProperties: part,
    unevaluatedItems: part,
  });
  for (let count = 1 + roll(3); count > 0; count--) {
    const name = pick(Object.keys(keywords));
    schema[name] = keywords[name]();
  }
  if (roll(6) === 0) Object.assign(schema, { if: part(), then: part(), else: part() });
  return schema;
}
