/*
 * schema-arms: the disjunctive normal form of schemas. For each type, the values that a schema allows are a union of
 * alternatives ("arms"). An alternative is a list of requirements (a range, a pattern, properties and items with the
 * schemas of their values). Merging two alternatives requires both. The schemas of properties and items are not
 * expanded: they stay goals, sets of schemas that a value must match or must not match.
 */
import { both, choice, except, ofLength } from './nodes.js';
import { bothNumbers, everyNumber, noNumber } from './numbers.js';
import { count } from './references.js';
import { tooManySchemas } from './errors.js';

/** @import { Node } from './nodes.js' */
/** @import { Numbers } from './numbers.js' */
/** @import { Located } from './references.js' */
/** @import { Budget } from './refusal.js' */
/** The schemas that a value must or must not match, as sorted numbers: 2 * id of a schema, + 1 if the value must not
 * match it. A value matches the goal if it fulfils all of them. NEVER if no value can.
 * @typedef {number[]} Goal */
/** @typedef {'null' | 'true' | 'false' | 'number' | 'string' | 'array' | 'object'} Type */
/** @typedef {{ all: Node[], none: Node[], min: number, max: number }} Strings */
/** A requirement of an array: at least `min` and at most `max` items from index `from` on match the schemas of `goal`.
 * @typedef {{ goal: Goal, from: number, min: number, max: number }} Contains */
/** Requirements of an array. `seen`: number of items that count as evaluated for unevaluatedItems (Infinity: all);
 * `alsoSeen`: goals whose matching items count as evaluated.
 * @typedef {{ prefix: Goal[], rest: Goal, min: number, max: number, contains: Contains[], unique: string[],
 *   seen: number, alsoSeen: Goal[] }} Items */
/** A requirement of an object: values of properties that are neither in `names` nor match `patterns` match `goal`.
 * @typedef {{ names: Set<string>, patterns: Node[], goal: Goal }} Additional */
/** A requirement of an object: some property has a name that `key` and `name` match, and a value that matches `goal`.
 * @typedef {{ key: Node, name: Goal, goal: Goal }} Exists */
/** Requirements of an object. `seen*`: names of properties that count as evaluated for unevaluatedProperties.
 * @typedef {{ names: Map<string, Goal>, patterns: { key: Node, goal: Goal }[], additional: Additional[],
 *   nameGoal: Goal, required: Set<string>, min: number, max: number, exists: Exists[],
 *   seenNames: Set<string>, seenPatterns: Node[], seenAll: boolean }} Members */
/** @typedef {{ number?: Numbers, string?: Strings, array?: Items, object?: Members }} Arm */
/** The meaning of a keyword for values of one type. demand: returns the alternatives that fulfil it; deny: returns
 * the alternatives that violate it.
 * @typedef {{ demand: () => Arm[], deny: () => Arm[] }} Clause */
/** Functions of schema-logic.js. fits: whether a node matches a name; empty: whether certainly no value matches a goal;
 * noText: whether certainly no text fulfils the requirements.
 * @typedef {{ fits: (key: Node, name: string) => boolean, empty: (goal: Goal) => boolean,
 *   noText: (strings: Strings) => boolean, spend: (steps: number) => void }} Ask */
/** The members of Logic (schema-logic.js) that the keywords of arrays and objects use.
 * @typedef {{ budget: Budget, goal: (place: Located, deny?: boolean) => Goal,
 *   child: (from: Located, schema: any, path: string) => Located, pattern: (text: string, pointer: string) => Node,
 *   list: (place: Located, schema: Record<string, any>, key: string) => Located[],
 *   fit: (place: Located, type: Type, track: boolean) => Arm[],
 *   misfit: (place: Located, type: Type) => Arm[] }} Logic */

export const TYPES = /** @type {Type[]} */ (['null', 'true', 'false', 'number', 'string', 'array', 'object']);

/** Maximum number of schemas for one value. */
const MOST_GOALS = 1000;

/** @type {Goal} */
export const NEVER = [-1];
/** @type {Goal} */
export const ALWAYS = [];

/** Returns whether a goal is NEVER. Other goals may be impossible to match, too. @param {Goal} goal */
export const isNever = (goal) => goal[0] === -1;

/** Combines goals: a value must match all of them. @param {Goal[]} goals @returns {Goal} */
export function joinGoals(...goals) {
  if (goals.some(isNever)) return NEVER;
  const some = goals.filter((goal) => goal.length);
  if (some.length < 2) return some[0] ?? ALWAYS;
  const all = [...new Set(some.flat())].sort((x, y) => x - y);
  if (all.length > MOST_GOALS) throw tooManySchemas();
  return all.some((one, i) => one % 2 === 0 && all[i + 1] === one + 1) ? NEVER : all;
}

/** The alternative without requirements. @returns {Arm} */
export const FREE = Object.freeze({});

/** @returns {Strings} */
const noStrings = () => ({ all: [], none: [], min: 0, max: Infinity });
/** Returns requirements that every array fulfils. @returns {Items} */
export const noItems = () => ({
  prefix: [],
  rest: ALWAYS,
  min: 0,
  max: Infinity,
  contains: [],
  unique: [],
  seen: 0,
  alsoSeen: [],
});
/** Returns requirements that every object fulfils. @returns {Members} */
export const noMembers = () => ({
  names: new Map(),
  patterns: [],
  additional: [],
  nameGoal: ALWAYS,
  required: new Set(),
  min: 0,
  max: Infinity,
  exists: [],
  seenNames: new Set(),
  seenPatterns: [],
  seenAll: false,
});

/** Returns an alternative for numbers. Without demands, all numbers fulfil it.
 * @param {Partial<Numbers>} demands @returns {Arm} */
export const numberArm = (demands) => ({ number: { ...everyNumber(), ...demands } });
/** Returns an alternative for strings. Without demands, all strings fulfil it.
 * @param {Partial<Strings>} demands @returns {Arm} */
export const stringArm = (demands) => ({ string: { ...noStrings(), ...demands } });
/** Returns an alternative for arrays. Without demands, all arrays fulfil it.
 * @param {Partial<Items>} demands @returns {Arm} */
export const arrayArm = (demands) => ({ array: { ...noItems(), ...demands } });
/** Returns an alternative for objects. Without demands, all objects fulfil it.
 * @param {Partial<Members>} demands @returns {Arm} */
export const objectArm = (demands) => ({ object: { ...noMembers(), ...demands } });

/** Returns a clause whose alternatives are known already.
 * @param {Arm[]} demand @param {Arm[]} deny @returns {Clause} */
export const clause = (demand, deny) => ({ demand: () => demand, deny: () => deny });

/** Returns the clauses of two keywords that bound a size, such as minItems and maxItems. @param {Located} place
 * @param {Record<string, any>} schema @param {[least: string, most: string]} keys
 * @param {(bounds: { min?: number, max?: number }) => Arm} arm @returns {Clause[]} */
export function sizeClauses(place, schema, [least, most], arm) {
  const min = count(place, schema, least);
  const max = count(place, schema, most);
  return [
    ...(min ? [clause([arm({ min })], [arm({ max: min - 1 })])] : []),
    ...(max === undefined ? [] : [clause([arm({ max })], [arm({ min: max + 1 })])]),
  ];
}

/** @param {Strings} a @param {Strings} b @returns {Strings} */
const bothStrings = (a, b) => ({
  all: [...new Set([...a.all, ...b.all])],
  none: [...new Set([...a.none, ...b.none])],
  min: Math.max(a.min, b.min),
  max: Math.min(a.max, b.max),
});

/** @param {Items} a @param {Items} b @returns {Items} */
function bothItems(a, b) {
  const length = Math.max(a.prefix.length, b.prefix.length);
  const at = (/** @type {Items} */ items, /** @type {number} */ i) => items.prefix[i] ?? items.rest;
  return {
    prefix: Array.from({ length }, (_, i) => joinGoals(at(a, i), at(b, i))),
    rest: joinGoals(a.rest, b.rest),
    min: Math.max(a.min, b.min),
    max: Math.min(a.max, b.max),
    contains: [...a.contains, ...b.contains],
    unique: [...a.unique, ...b.unique],
    seen: Math.max(a.seen, b.seen),
    alsoSeen: [...a.alsoSeen, ...b.alsoSeen],
  };
}

/** @param {Map<string, Goal>} a @param {Map<string, Goal>} b */
function bothNames(a, b) {
  const names = new Map(a);
  for (const [name, goal] of b) names.set(name, joinGoals(names.get(name) ?? ALWAYS, goal));
  return names;
}

/** @template T @param {Set<T>} a @param {Set<T>} b */
const union = (a, b) => (!b.size ? a : a.size ? new Set([...a, ...b]) : b);

/** @param {Members} a @param {Members} b @returns {Members} */
const bothMembers = (a, b) => ({
  names: bothNames(a.names, b.names),
  patterns: [...a.patterns, ...b.patterns],
  additional: [...a.additional, ...b.additional],
  nameGoal: joinGoals(a.nameGoal, b.nameGoal),
  required: union(a.required, b.required),
  min: Math.max(a.min, b.min),
  max: Math.min(a.max, b.max),
  exists: [...a.exists, ...b.exists],
  seenNames: union(a.seenNames, b.seenNames),
  seenPatterns: [...a.seenPatterns, ...b.seenPatterns],
  seenAll: a.seenAll || b.seenAll,
});

/** Merges two alternatives (arms). The result has the requirements of both alternatives. @param {Arm} a
 * @param {Arm} b @returns {Arm} */
export function mergeArms(a, b) {
  if (a === FREE || b === FREE) return a === FREE ? b : a;
  if (a.number && b.number) return { number: bothNumbers(a.number, b.number) };
  if (a.string && b.string) return { string: bothStrings(a.string, b.string) };
  if (a.array && b.array) return { array: bothItems(a.array, b.array) };
  if (a.object && b.object) return { object: bothMembers(a.object, b.object) };
  return { ...a, ...b };
}

/** Returns the cost of merging two alternatives, in steps of the budget. @param {Arm} a @param {Arm} b */
export const mergeCost = (a, b) => (sizeOf(a) + sizeOf(b)) / 4;

/** @param {Arm} arm */
function sizeOf({ number, string, array, object }) {
  if (number) return number.intervals.length + number.multiples.length + number.notMultiples.length;
  if (string) return string.all.length + string.none.length;
  if (array) {
    const goals = array.prefix.reduce((sum, goal) => sum + 1 + goal.length, 0);
    return goals + array.contains.length + array.unique.length + array.alsoSeen.length;
  }
  if (!object) return 0;
  let goals = object.nameGoal.length;
  for (const goal of object.names.values()) if (goal.length > 1) goals += goal.length - 1;
  return (
    goals +
    object.names.size +
    object.patterns.length +
    object.additional.length +
    object.required.size +
    object.exists.length +
    object.seenNames.size +
    object.seenPatterns.length
  );
}

/** Returns the alternative without its record of evaluated properties and items, because schemas under `not` evaluate
 * none. @param {Arm} arm */
export function unseen(arm) {
  if (arm.array) return arrayArm({ ...arm.array, seen: 0, alsoSeen: [] });
  if (!arm.object) return arm;
  return objectArm({ ...arm.object, seenNames: new Set(), seenPatterns: [], seenAll: false });
}

/** Returns the goal (schemas to match) for the value of the property `name`. @param {Members} members
 * @param {string} name @param {Pick<Ask, 'fits' | 'spend'>} ask @returns {Goal} */
export function goalOfName({ names, patterns, additional }, name, { fits, spend }) {
  spend((patterns.length + additional.length) / 8);
  const goals = [names.get(name) ?? ALWAYS];
  for (const { key, goal } of patterns) if (fits(key, name)) goals.push(goal);
  for (const more of additional) {
    if (!more.names.has(name) && !more.patterns.some((key) => fits(key, name))) goals.push(more.goal);
  }
  return joinGoals(...goals);
}

/** Returns true if certainly no value matches an alternative. @param {Arm} arm @param {Ask} ask */
export function isBarren(arm, ask) {
  if (arm.number) return noNumber(arm.number);
  if (arm.string) return arm.string.min > arm.string.max || ask.noText(arm.string);
  if (arm.array) {
    const { min, max, prefix, rest } = arm.array;
    if (min > max) return true;
    const needed = [...prefix.slice(0, min), ...(min > prefix.length ? [rest] : [])];
    return needed.some((goal) => goal.length > 0 && ask.empty(goal));
  }
  if (!arm.object) return false;
  const { object } = arm;
  if (object.min > object.max || object.required.size > object.max) return true;
  return [...object.required].some((name) => {
    const goal = goalOfName(object, name, ask);
    return goal.length > 0 && ask.empty(goal);
  });
}

/** Returns a node for the texts that fulfil requirements of strings. @param {Strings} strings @returns {Node} */
export const textsOf = ({ all, none, min, max }) => except(ofLength(both(all), min, max), choice(none));
