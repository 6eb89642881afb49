/* schema-objects: translates object keywords to clauses (schema-arms.js). */
import { ANY_TEXT, choice, except, literal } from './nodes.js';
import { escapePointer, isObject } from './references.js';
import { mustBe } from './errors.js';
import { ALWAYS, NEVER, clause, isNever, mergeArms, objectArm, sizeClauses } from './schema-arms.js';

/** @import { Located } from './references.js' */
/** @import { Arm, Clause, Logic } from './schema-arms.js' */

/** @param {string} name */
const forbidden = (name) => objectArm({ names: new Map([[name, NEVER]]) });
/** @param {string[]} names */
const demanded = (names) => objectArm({ required: new Set(names) });

/** @param {Located} place @param {Record<string, any>} schema @param {string} key @returns {[string, any][]} */
function entries({ pointer }, schema, key) {
  if (schema[key] === undefined) return [];
  if (!isObject(schema[key])) throw mustBe(key, 'an object', `${pointer}/${key}`);
  return Object.entries(schema[key]);
}

/** @param {Logic} logic @param {Located} place @param {any} names @param {string} path @returns {string[]} */
function nameList({ budget }, { pointer }, names, path) {
  if (!Array.isArray(names) || names.some((name) => typeof name !== 'string'))
    throw mustBe('the value', 'an array of names', pointer + path);
  budget.spend(pointer + path, 1 + names.length);
  return names;
}

/** @param {Logic} logic @param {Located} place @param {Record<string, any>} schema @returns {Clause[]} */
function valueClauses(logic, place, schema) {
  /** @type {Clause[]} */
  const all = [];
  const named = entries(place, schema, 'properties').map(([name, part]) => ({
    name,
    part: logic.child(place, part, `/properties/${escapePointer(name)}`),
  }));
  if (named.length) {
    const names = new Map(named.map(({ name, part }) => [name, logic.goal(part)]));
    all.push({
      demand: () => [objectArm({ names, seenNames: new Set(names.keys()) })],
      deny: () =>
        named
          .map(({ name, part }) => ({ name, goal: logic.goal(part, true) }))
          .filter(({ goal }) => !isNever(goal))
          .map(({ name, goal }) => objectArm({ names: new Map([[name, goal]]), required: new Set([name]) })),
    });
  }
  const patterns = entries(place, schema, 'patternProperties').map(([text, part]) => {
    const path = `/patternProperties/${escapePointer(text)}`;
    return { key: logic.pattern(text, place.pointer + path), part: logic.child(place, part, path) };
  });
  if (patterns.length) {
    all.push({
      demand: () => [
        objectArm({
          patterns: patterns.map(({ key, part }) => ({ key, goal: logic.goal(part) })),
          seenPatterns: patterns.map(({ key }) => key),
        }),
      ],
      deny: () =>
        patterns
          .map(({ key, part }) => ({ key, name: ALWAYS, goal: logic.goal(part, true) }))
          .filter(({ goal }) => !isNever(goal))
          .map((one) => objectArm({ exists: [one] })),
    });
  }
  if (schema.additionalProperties === undefined) return all;
  const rest = logic.child(place, schema.additionalProperties, '/additionalProperties');
  const names = new Set(named.map(({ name }) => name));
  const keys = patterns.map(({ key }) => key);
  const other = except(ANY_TEXT, choice([...[...names].map((name) => literal(name)), ...keys]));
  const denied = logic.goal(rest, true);
  all.push(
    clause(
      [objectArm({ additional: [{ names, patterns: keys, goal: logic.goal(rest) }], seenAll: true })],
      isNever(denied) ? [] : [objectArm({ exists: [{ key: other, name: ALWAYS, goal: denied }] })],
    ),
  );
  return all;
}

/** Returns a clause that applies only to objects with the property `name`. @param {string} name
 * @param {() => Arm[]} demand @param {() => Arm[]} deny @returns {Clause} */
const dependent = (name, demand, deny) => ({
  demand: () => [forbidden(name), ...demand().map((arm) => mergeArms(demanded([name]), arm))],
  deny: () => deny().map((arm) => mergeArms(demanded([name]), arm)),
});

/** @param {Logic} logic @param {Located} place @param {Record<string, any>} schema @param {boolean} track
 * @returns {Clause[]} */
function dependencyClauses(logic, place, schema, track) {
  /** @type {Clause[]} */
  const all = [];
  const names = (/** @type {string} */ key, /** @type {string} */ name, /** @type {any} */ list) => {
    const wanted = nameList(logic, place, list, `/${key}/${escapePointer(name)}`);
    if (wanted.length)
      all.push(
        dependent(
          name,
          () => [demanded(wanted)],
          () => wanted.map(forbidden),
        ),
      );
  };
  const schemas = (/** @type {string} */ key, /** @type {string} */ name, /** @type {any} */ part) => {
    const place2 = logic.child(place, part, `/${key}/${escapePointer(name)}`);
    all.push(
      dependent(
        name,
        () => logic.fit(place2, 'object', track),
        () => logic.misfit(place2, 'object'),
      ),
    );
  };
  if (place.draft >= 2019) {
    for (const [name, list] of entries(place, schema, 'dependentRequired')) names('dependentRequired', name, list);
    for (const [name, part] of entries(place, schema, 'dependentSchemas')) schemas('dependentSchemas', name, part);
  }
  for (const [name, part] of entries(place, schema, 'dependencies')) {
    if (Array.isArray(part) || typeof part === 'string') names('dependencies', name, [part].flat());
    else schemas('dependencies', name, part);
  }
  return all;
}

/** Returns the clauses of all keywords for objects. Throws `Unsupported` for a keyword with an invalid value.
 * @param {Logic} logic @param {Located} place @param {Record<string, any>} schema
 * @param {boolean} track see Logic.clauses() @returns {Clause[]} */
export function objectClauses(logic, place, schema, track) {
  const all = valueClauses(logic, place, schema);
  if (schema.propertyNames !== undefined && place.draft >= 6) {
    const part = logic.child(place, schema.propertyNames, '/propertyNames');
    const denied = logic.goal(part, true);
    all.push(
      clause(
        [objectArm({ nameGoal: logic.goal(part) })],
        isNever(denied) ? [] : [objectArm({ exists: [{ key: ANY_TEXT, name: denied, goal: ALWAYS }] })],
      ),
    );
  }
  if (schema.required) {
    const names = nameList(logic, place, schema.required, '/required');
    if (names.length) all.push(clause([demanded(names)], names.map(forbidden)));
  }
  all.push(...sizeClauses(place, schema, ['minProperties', 'maxProperties'], objectArm));
  all.push(...dependencyClauses(logic, place, schema, track));
  return all;
}
