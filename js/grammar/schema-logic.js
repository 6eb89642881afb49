/*
 * schema-logic: expands JSON schemas to alternatives ("arms", see schema-arms.js, which also explains goals). Every
 * keyword is a clause that can be required or negated: allOf is a product of alternatives, anyOf a union; `not`, and
 * the other branches of oneOf and if/then/else, are negated. The result is exact. Schemas that need too many
 * alternatives, or cannot be expressed like this, are rejected with an error that names the keyword and its location.
 */
import * as nodes from './nodes.js';
import { gaps, pointIntervals } from './numbers.js';
import { isObject, isSchema } from './references.js';
import { searchNode } from './regex.js';
import * as errors from './errors.js';
import { Unsupported } from './refusal.js';
import {
  ALWAYS,
  FREE,
  NEVER,
  TYPES,
  arrayArm,
  clause,
  isBarren,
  isNever,
  mergeArms,
  mergeCost,
  numberArm,
  objectArm,
  sizeClauses,
  stringArm,
  textsOf,
  unseen,
} from './schema-arms.js';
import { arrayClauses } from './schema-arrays.js';
import { objectClauses } from './schema-objects.js';
import { formatNode } from './text-formats.js';

/** @import { Languages } from './language.js' */
/** @import { Node } from './nodes.js' */
/** @import { Document, Located } from './references.js' */
/** @import { Budget } from './refusal.js' */
/** @import { Arm, Clause, Goal, Strings, Type } from './schema-arms.js' */
/** A branch of `oneOf`, and the alternatives into which it was split. @typedef {{ part: Located, list: Arm[] }} Branch */

const KINDS = /^(null|boolean|number|integer|string|array|object|any)$/;
/** Keywords whose values have no other check, with the required type. In draft 3, `required` is a boolean; false
 * requires nothing. @type {[key: string, type: string, fits: (value: any) => boolean][]} */
const SHAPES = [
  ['pattern', 'a string', (value) => typeof value === 'string'],
  ['format', 'a string', (value) => typeof value === 'string'],
  ['uniqueItems', 'a boolean', (value) => typeof value === 'boolean'],
  ['required', 'an array of names', (value) => value === false || Array.isArray(value)],
  ['items', 'a schema', (value) => isSchema(value) || Array.isArray(value)],
  ['prefixItems', 'an array', Array.isArray],
  ['additionalItems', 'a schema', isSchema],
];
/** Maximum number of alternatives for one type of one schema. */
const MOST_ARMS = 1500;
/** Maximum depth of the search for contradictions. */
const LOOK_DEPTH = 4;
/** Maximum number of branches of `anyOf` whose subsets are enumerated, if unevaluatedItems or unevaluatedProperties
 * depends on which branches match. */
const MOST_BRANCHES = 6;

const ANY_VALUE = [FREE];

/** Computes and caches the alternatives of the schemas of one document. */
export class Logic {
  /** @param {Document} document @param {Languages} languages
   * @param {Budget} budget @param {boolean | undefined} formats whether `format` is enforced;
   * undefined for the draft's default @param {boolean} narrow whether to use the narrower formats for answers */
  constructor(document, languages, budget, formats, narrow) {
    this.document = document;
    this.languages = languages;
    this.budget = budget;
    this.formats = formats;
    this.narrow = narrow;
    /** @type {Map<string, Arm[] | null>} */
    this.known = new Map();
    /** @type {Map<string, boolean>} */
    this.emptyGoals = new Map();
    /** @type {Map<string, Node>} */
    this.patterns = new Map();
    this.looking = 0;
    this.ask = {
      fits: (/** @type {Node} */ key, /** @type {string} */ name) => this.languages.matches(key, name),
      empty: (/** @type {Goal} */ goal) => this.isEmpty(goal),
      noText: (/** @type {Strings} */ strings) =>
        (strings.all.length > 0 || strings.none.length > 0) && this.languages.isEmpty(textsOf(strings)),
      spend: (/** @type {number} */ steps) => this.budget.spend('', steps),
    };
  }

  /** Returns the goal of matching a schema, or of not matching it.
   * @param {Located} place @param {boolean} [deny] @returns {Goal} */
  goal(place, deny = false) {
    const { schema } = place;
    if (schema === true || (isObject(schema) && !Object.keys(schema).length)) return deny ? NEVER : ALWAYS;
    if (schema === false) return deny ? ALWAYS : NEVER;
    return [place.id * 2 + (deny ? 1 : 0)];
  }

  /** Adds a schema that is not in the document, at the location of `like`. @param {Record<string, any>} schema
   * @param {Located} like */
  synthetic(schema, like) {
    return this.document.locate(schema, like.base, like.pointer, like.draft);
  }

  /** Returns the location of a schema inside another schema (Document.child()).
   * @param {Located} from @param {any} schema @param {string} path */
  child(from, schema, path) {
    return this.document.child(from, schema, path);
  }

  /** Returns the alternatives of one type that match a goal; none if no value of the type does.
   * @param {Goal} goal @param {Type} type @returns {Arm[]} */
  arms(goal, type) {
    if (isNever(goal)) return [];
    return goal.reduce(
      (/** @type {Arm[]} */ arms, one) => this.product(arms, () => this.literal(one, type, false)),
      ANY_VALUE,
    );
  }

  /** Returns the alternatives for one element of a goal. Throws `Unsupported` if a `$ref` points to itself.
   * @param {number} one an element of a goal @param {Type} type @param {boolean} track see clauses()
   * @returns {Arm[]} */
  literal(one, type, track) {
    const place = this.document.all[one >> 1];
    const key = `${one} ${type} ${track}`;
    const known = this.known.get(key);
    if (known) return known;
    if (known === null) throw errors.circular(place.pointer);
    this.known.set(key, null);
    this.budget.spend(place.pointer, 5);
    const arms = one % 2 ? this.deny(place, type) : this.demand(place, type, track);
    this.known.set(key, arms);
    return arms;
  }

  /** Returns the alternatives that match a schema.
   * @param {Located} place @param {Type} type @param {boolean} track @returns {Arm[]} */
  fit(place, type, track) {
    const goal = this.goal(place);
    if (isNever(goal)) return [];
    return goal.length ? this.literal(goal[0], type, track) : ANY_VALUE;
  }

  /** Returns the alternatives that violate a schema. @param {Located} place @param {Type} type @returns {Arm[]} */
  misfit(place, type) {
    const goal = this.goal(place, true);
    if (isNever(goal)) return [];
    return goal.length ? this.literal(goal[0], type, false).map(unseen) : ANY_VALUE;
  }

  /** Computes the alternatives that match a schema. literal() caches them.
   * @param {Located} place @param {Type} type @param {boolean} track @returns {Arm[]} */
  demand(place, type, track) {
    const schema = /** @type {Record<string, any>} */ (place.schema);
    const judges = type === 'array' ? 'unevaluatedItems' : type === 'object' ? 'unevaluatedProperties' : '';
    const late = judges in schema && place.draft >= 2019;
    let arms = /** @type {Arm[]} */ (ANY_VALUE);
    for (const { demand } of this.clauses(place, type, track || late)) {
      arms = this.product(arms, demand, place.pointer);
      if (!arms.length) return arms;
    }
    return late ? arms.map((arm) => this.unevaluated(place, arm, judges)) : arms;
  }

  /** Computes the alternatives that violate a schema. literal() caches them.
   * @param {Located} place @param {Type} type @returns {Arm[]} */
  deny(place, type) {
    const schema = /** @type {Record<string, any>} */ (place.schema);
    for (const key of ['unevaluatedItems', 'unevaluatedProperties']) {
      if (key in schema && place.draft >= 2019 && type === (key === 'unevaluatedItems' ? 'array' : 'object')) {
        throw errors.notWithin(key, `${place.pointer}/${key}`);
      }
    }
    return this.union(
      this.clauses(place, type, false).map(({ deny }) => deny()),
      place.pointer,
    );
  }

  /** Returns one list of the alternatives in all lists. Throws TooComplex if there are too many.
   * @param {Arm[][]} lists @param {string} pointer @returns {Arm[]} */
  union(lists, pointer) {
    const all = lists.flat();
    if (all.includes(FREE)) return ANY_VALUE;
    this.bound(all, pointer);
    return all;
  }

  /** Spends a step per alternative. Throws TooComplex if there are more than MOST_ARMS.
   * @param {Arm[]} arms @param {string} pointer */
  bound(arms, pointer) {
    this.budget.spend(pointer, arms.length);
    if (arms.length > MOST_ARMS) throw errors.tooManyAlternatives(pointer);
  }

  /** Returns every combination of an alternative of each list, without contradictory ones. Throws TooComplex if there
   * are too many.
   * @param {Arm[]} left @param {() => Arm[]} more computes the other list, if `left` is not empty
   * @param {string} [pointer] for errors @returns {Arm[]} */
  product(left, more, pointer = '') {
    if (!left.length) return left;
    const right = more();
    if (right.length === 1 && right[0] === FREE) return left;
    if (left.length === 1 && left[0] === FREE) return right;
    const all = [];
    for (const one of left) {
      for (const other of right) {
        this.budget.spend(pointer, 2 + mergeCost(one, other));
        const arm = mergeArms(one, other);
        if (left.length + right.length === 2 || !this.isBarren(arm)) all.push(arm);
        if (all.length > MOST_ARMS) throw errors.tooManyAlternatives(pointer);
      }
    }
    return all;
  }

  /** Returns true if certainly no value matches an alternative. False can mean undecided. @param {Arm} arm */
  isBarren(arm) {
    if (this.looking > LOOK_DEPTH) return false;
    this.looking++;
    try {
      return isBarren(arm, this.ask);
    } finally {
      this.looking--;
    }
  }

  /** Returns true if certainly no value matches a goal. @param {Goal} goal @returns {boolean} */
  isEmpty(goal) {
    if (isNever(goal) || !goal.length) return isNever(goal);
    const key = goal.join();
    const known = this.emptyGoals.get(key);
    if (known !== undefined) return known;
    if (this.looking > LOOK_DEPTH) return false;
    this.emptyGoals.set(key, false);
    this.budget.spend('', 5);
    const empty = TYPES.every((type) => this.arms(goal, type).every((arm) => this.isBarren(arm)));
    if (empty || this.looking === 0) this.emptyGoals.set(key, empty);
    else this.emptyGoals.delete(key);
    return empty;
  }

  /** Returns a node for the texts in which a regular expression finds a match. Throws `Unsupported` or TooComplex.
   * @param {string} text @param {string} pointer @returns {Node} */
  pattern(text, pointer) {
    const known = this.patterns.get(text);
    if (known) return known;
    try {
      const node = searchNode(text, this.budget);
      this.patterns.set(text, node);
      return node;
    } catch (error) {
      if (!(error instanceof Unsupported)) throw error;
      throw errors.inPattern(text, error, pointer);
    }
  }

  /** Returns the clauses of all keywords of a schema for one type. Throws `Unsupported` for a keyword with an invalid
   * value.
   * @param {Located} place @param {Type} type @param {boolean} track whether `unevaluated…` keywords need to know
   * which branches match @returns {Clause[]} */
  clauses(place, type, track) {
    const schema = /** @type {Record<string, any>} */ (place.schema);
    const refs = ['$ref', '$dynamicRef', '$recursiveRef'].filter(
      (key) => key in schema && (key === '$ref' || place.draft >= 2019),
    );
    const all = refs.map((key) => this.subschema(this.document.target(place, key), type, track));
    if (place.draft <= 7 && '$ref' in schema) return all;
    for (const [key, type, fits] of SHAPES) {
      if (schema[key] !== undefined && !fits(schema[key])) {
        throw errors.mustBe(key, type, `${place.pointer}/${key}`);
      }
    }
    all.push(...this.typeClauses(place, schema, type));
    if (type === 'number') all.push(...numberClauses(place, schema));
    if (type === 'string') all.push(...this.stringClauses(place, schema));
    if (type === 'array') all.push(...arrayClauses(this, place, schema));
    if (type === 'object') all.push(...objectClauses(this, place, schema, track));
    all.push(...this.combinations(place, schema, type, track));
    return all;
  }

  /** Returns the clause of a whole schema, such as the target of a reference: the value matches it.
   * @param {Located} place @param {Type} type @param {boolean} track @returns {Clause} */
  subschema(place, type, track) {
    return { demand: () => this.fit(place, type, track), deny: () => this.misfit(place, type) };
  }

  /** Returns the clauses of `type`, `const` and `enum`.
   * @param {Located} place @param {Record<string, any>} schema @param {Type} type @returns {Clause[]} */
  typeClauses(place, schema, type) {
    /** @type {Clause[]} */
    const all = [];
    if (schema.type !== undefined) {
      const names = [schema.type].flat();
      this.budget.spend(place.pointer, names.length / 16);
      const own = type === 'true' || type === 'false' ? 'boolean' : type;
      const unknown = names.find((name) => typeof name !== 'string' || !KINDS.test(name));
      if (unknown !== undefined) throw errors.notType(unknown, `${place.pointer}/type`);
      if (type === 'number' && names.includes('integer') && !names.includes('number')) {
        all.push(clause([numberArm({ multiples: [1] })], [numberArm({ notMultiples: [1] })]));
      } else if (!names.includes(own) && !names.includes('any')) all.push(clause([], ANY_VALUE));
    }
    if ('const' in schema && place.draft >= 6) all.push(this.values(place, [schema.const], type));
    if (Array.isArray(schema.enum)) all.push(this.values(place, schema.enum, type));
    else if (schema.enum !== undefined) throw errors.mustBe('enum', 'an array', `${place.pointer}/enum`);
    return all;
  }

  /** Returns the clause of `const` or `enum`: the value equals one of `values` that have the type.
   * @param {Located} place @param {any[]} values @param {Type} type @returns {Clause} */
  values(place, values, type) {
    this.budget.spend(place.pointer, values.length / 16);
    const own = values.filter((value) => typeOf(value) === type && !(type === 'string' && nodes.hasHalfPair(value)));
    if (!own.length) return clause([], ANY_VALUE);
    for (const value of own) this.budget.spend(place.pointer, typeof value === 'string' ? value.length / 32 : 0);
    if (type === 'number') {
      this.budget.spend(place.pointer, own.length / 4);
      return {
        demand: () => [numberArm({ intervals: pointIntervals(own) })],
        deny: () => [numberArm({ intervals: gaps(own) })],
      };
    }
    if (type === 'string') {
      const texts = nodes.choice(own.map((value) => nodes.literal(value)));
      return clause([stringArm({ all: [texts] })], [stringArm({ none: [texts] })]);
    }
    if (type !== 'array' && type !== 'object') return clause(ANY_VALUE, []);
    const places = own.map((value) => this.synthetic(exactly(value), { ...place, draft: 2020 }));
    const { demand, deny } = this.anyOf(places, type, false, place.pointer);
    return { demand: () => demand().map(unseen), deny };
  }

  /** Returns the clauses of `minLength`, `maxLength`, `pattern` and `format`.
   * @param {Located} place @param {Record<string, any>} schema @returns {Clause[]} */
  stringClauses(place, schema) {
    const all = sizeClauses(place, schema, ['minLength', 'maxLength'], stringArm);
    if (schema.pattern !== undefined) {
      const node = this.pattern(schema.pattern, `${place.pointer}/pattern`);
      all.push(clause([stringArm({ all: [node] })], [stringArm({ none: [node] })]));
    }
    const held = this.formats ?? !this.document.annotates;
    if (held && schema.format !== undefined) {
      const [node, wide] = [this.narrow, false].map((narrow) =>
        formatNode(schema.format, this.budget, `${place.pointer}/format`, narrow),
      );
      if (node && wide) all.push(clause([stringArm({ all: [node] })], [stringArm({ none: [wide] })]));
    }
    return all;
  }

  /** Returns the clauses of `allOf`, `anyOf`, `oneOf`, `not` and `if`.
   * @param {Located} place @param {Record<string, any>} schema @param {Type} type @param {boolean} track
   * @returns {Clause[]} */
  combinations(place, schema, type, track) {
    const all = this.list(place, schema, 'allOf').map((part) => this.subschema(part, type, track));
    if (schema.anyOf !== undefined) {
      all.push(this.anyOf(this.list(place, schema, 'anyOf'), type, track, `${place.pointer}/anyOf`));
    }
    if (schema.oneOf !== undefined) {
      all.push(this.oneOf(this.list(place, schema, 'oneOf'), type, track, `${place.pointer}/oneOf`));
    }
    if (schema.not !== undefined) {
      const part = this.child(place, schema.not, '/not');
      all.push({ demand: () => this.misfit(part, type), deny: () => this.fit(part, type, false).map(unseen) });
    }
    if (schema.if !== undefined && place.draft >= 7) all.push(this.conditional(place, schema, type, track));
    return all;
  }

  /** Returns the schemas in a keyword's list, none without the keyword. Throws `Unsupported` if the value is not a
   * list.
   * @param {Located} place @param {Record<string, any>} schema @param {string} key @returns {Located[]} */
  list(place, schema, key) {
    if (schema[key] === undefined) return [];
    if (!Array.isArray(schema[key])) throw errors.mustBe(key, 'an array', `${place.pointer}/${key}`);
    const parts = /** @type {any[]} */ (schema[key]);
    return parts.map((part, i) => this.child(place, part, `/${key}/${i}`));
  }

  /** Returns the clause of `anyOf`: at least one of the schemas matches.
   * @param {Located[]} parts @param {Type} type @param {boolean} track @param {string} pointer @returns {Clause} */
  anyOf(parts, type, track, pointer) {
    return {
      demand: () => {
        const lists = parts.map((part) => this.fit(part, type, track));
        return track ? this.subsets(lists, pointer) : this.union(lists, pointer);
      },
      deny: () =>
        parts.reduce(
          (/** @type {Arm[]} */ arms, part) => this.product(arms, () => this.misfit(part, type), pointer),
          ANY_VALUE,
        ),
    };
  }

  /** Returns the alternatives for every subset of `anyOf` branches that can match together, each with the properties or
   * items that it evaluates. @param {Arm[][]} lists @param {string} pointer */
  subsets(lists, pointer) {
    const live = lists.filter((list) => list.length);
    if (live.length > MOST_BRANCHES) throw errors.tooManyBranches(pointer);
    /** @type {Arm[][]} */
    const all = [];
    for (let set = 1; set < 1 << live.length; set++) {
      const chosen = live.filter((_, i) => (set >> i) & 1);
      all.push(chosen.reduce((/** @type {Arm[]} */ arms, list) => this.product(arms, () => list, pointer), ANY_VALUE));
    }
    const arms = all.flat();
    this.bound(arms, pointer);
    return arms;
  }

  /** Returns the clause of `oneOf`: exactly one of the schemas matches.
   * @param {Located[]} parts @param {Type} type @param {boolean} track @param {string} pointer @returns {Clause} */
  oneOf(parts, type, track, pointer) {
    return {
      demand: () => {
        const live = parts
          .map((part) => ({ part, list: this.fit(part, type, track) }))
          .filter(({ list }) => list.length);
        return this.union(
          live.map((branch) => this.only(branch, live, type, pointer)),
          pointer,
        );
      },
      deny: () => {
        const none = this.anyOf(parts, type, false, pointer).deny();
        const lists = parts.map((part) => this.fit(part, type, false));
        const two = lists.flatMap((list, i) =>
          lists.slice(i + 1).map((other) => this.product(list, () => other, pointer)),
        );
        return this.union([none, ...two], pointer);
      },
    };
  }

  /** Returns the alternatives that match a branch of `oneOf` and no other branch. @param {Branch} branch
   * @param {Branch[]} branches
   * @param {Type} type @param {string} pointer @returns {Arm[]} */
  only(branch, branches, type, pointer) {
    return branch.list.flatMap((arm) => {
      let arms = [arm];
      for (const other of branches) {
        if (other === branch) continue;
        if (!arms.length) break;
        arms = arms.flatMap((one) => {
          const apart = other.list.every((theirs) => {
            this.budget.spend(pointer, 1 + mergeCost(one, theirs) / 4);
            return this.isBarren(mergeArms(one, theirs));
          });
          return apart
            ? [one]
            : this.product([one], () => this.misfit(other.part, type), pointer).filter((rest) => !this.isBarren(rest));
        });
        this.bound(arms, pointer);
      }
      return arms;
    });
  }

  /** Returns the clause of `if`, `then` and `else`.
   * @param {Located} place @param {Record<string, any>} schema @param {Type} type @param {boolean} track
   * @returns {Clause} */
  conditional(place, schema, type, track) {
    const test = this.child(place, schema.if, '/if');
    const always = this.synthetic({}, place);
    const yes = schema.then === undefined ? always : this.child(place, schema.then, '/then');
    const no = schema.else === undefined ? always : this.child(place, schema.else, '/else');
    const at = place.pointer;
    return {
      demand: () =>
        this.union(
          [
            this.product(this.fit(test, type, track), () => this.fit(yes, type, track), at),
            this.product(this.misfit(test, type), () => this.fit(no, type, track), at),
          ],
          at,
        ),
      deny: () =>
        this.union(
          [
            this.product(this.fit(test, type, false), () => this.misfit(yes, type), at),
            this.product(this.misfit(test, type), () => this.misfit(no, type), at),
          ],
          at,
        ),
    };
  }

  /** Adds the requirements of unevaluatedItems and unevaluatedProperties to an alternative. @param {Located} place
   * @param {Arm} arm
   * @param {string} key @returns {Arm} */
  unevaluated(place, arm, key) {
    const schema = /** @type {Record<string, any>} */ (place.schema);
    const part = this.child(place, schema[key], `/${key}`);
    if (key === 'unevaluatedProperties') {
      const { seenNames: names = new Set(), seenPatterns: patterns = [], seenAll = false } = arm.object ?? {};
      if (seenAll) return arm;
      const additional = [{ names, patterns, goal: this.goal(part) }];
      return mergeArms(arm, objectArm({ additional, seenAll: true }));
    }
    const { seen = 0, alsoSeen = [] } = arm.array ?? {};
    if (seen === Infinity) return arm;
    const prefix = Array(seen).fill(ALWAYS);
    const also = alsoSeen.map((goal) => this.document.all[goal[0] >> 1].schema);
    const rest = also.length ? this.synthetic({ anyOf: [part.schema, ...also] }, place) : part;
    return mergeArms(arm, arrayArm({ prefix, rest: this.goal(rest), seen: Infinity }));
  }
}

/** @param {any} value @returns {Type} */
function typeOf(value) {
  if (value === null) return 'null';
  if (typeof value === 'boolean') return value ? 'true' : 'false';
  if (typeof value === 'bigint') return 'number';
  return Array.isArray(value) ? 'array' : /** @type {Type} */ (typeof value);
}

/** Returns a schema that only the given array or object matches. @param {any} value @returns {Record<string, any>} */
function exactly(value) {
  if (Array.isArray(value)) {
    return { type: 'array', prefixItems: value.map(constant), items: false, minItems: value.length };
  }
  const names = Object.keys(value);
  const properties = Object.create(null);
  for (const name of names) properties[name] = constant(value[name]);
  return { type: 'object', properties, required: names, additionalProperties: false };
}

/** @param {any} value */
const constant = (value) => ({ const: value });

/** @param {Located} place @param {Record<string, any>} schema @returns {Clause[]} */
function numberClauses({ pointer }, schema) {
  /** @type {Clause[]} */
  const all = [];
  const number = (/** @type {string} */ key) => {
    if (schema[key] === undefined || (typeof schema[key] === 'boolean' && key.startsWith('exclusive')))
      return undefined;
    if (!['number', 'bigint'].includes(typeof schema[key])) {
      throw errors.mustBe(key, 'a number', `${pointer}/${key}`);
    }
    return /** @type {number | bigint} */ (schema[key]);
  };
  const least = (/** @type {number | bigint} */ lo, /** @type {boolean} */ open) =>
    all.push(
      clause(
        [numberArm({ intervals: [{ lo, loOpen: open, hi: Infinity, hiOpen: true }] })],
        [numberArm({ intervals: [{ lo: -Infinity, loOpen: true, hi: lo, hiOpen: !open }] })],
      ),
    );
  const most = (/** @type {number | bigint} */ hi, /** @type {boolean} */ open) =>
    all.push(
      clause(
        [numberArm({ intervals: [{ lo: -Infinity, loOpen: true, hi, hiOpen: open }] })],
        [numberArm({ intervals: [{ lo: hi, loOpen: !open, hi: Infinity, hiOpen: true }] })],
      ),
    );
  const [low, high] = [number('minimum'), number('maximum')];
  const [above, below] = [number('exclusiveMinimum'), number('exclusiveMaximum')];
  const step = number('multipleOf');
  if (low !== undefined) least(low, schema.exclusiveMinimum === true);
  if (high !== undefined) most(high, schema.exclusiveMaximum === true);
  if (above !== undefined) least(above, true);
  if (below !== undefined) most(below, true);
  if (step !== undefined) {
    if (typeof step === 'bigint' || !(step > 0)) {
      throw errors.mustBe('multipleOf', `above 0, not ${step}`, `${pointer}/multipleOf`);
    }
    all.push(clause([numberArm({ multiples: [step] })], [numberArm({ notMultiples: [step] })]));
  }
  return all;
}
