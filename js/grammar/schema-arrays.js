/* schema-arrays: translates array keywords to clauses (schema-arms.js). */
import { count, isSchema } from './references.js';
import { notWithin } from './errors.js';
import { ALWAYS, arrayArm, clause, isNever, sizeClauses } from './schema-arms.js';

/** @import { Located } from './references.js' */
/** @import { Clause, Logic } from './schema-arms.js' */

/** @param {Logic} logic @param {Located} place @param {Record<string, any>} schema @returns {Clause[]} */
function itemClauses(logic, place, schema) {
  const tuple = Array.isArray(schema.items);
  const listed = Array.isArray(schema.prefixItems) && place.draft >= 2019;
  const first = tuple ? 'items' : listed ? 'prefixItems' : '';
  const others = tuple ? 'additionalItems' : 'items';
  /** @type {Clause[]} */
  const all = [];
  const parts = first ? logic.list(place, schema, first) : [];
  if (parts.length) {
    const prefix = parts.map((part) => logic.goal(part));
    const deny = () =>
      parts.flatMap((part, i) => {
        const goal = logic.goal(part, true);
        logic.budget.spend(place.pointer, i);
        return isNever(goal) ? [] : [arrayArm({ min: i + 1, prefix: [...Array(i).fill(ALWAYS), goal] })];
      });
    all.push({ demand: () => [arrayArm({ prefix, seen: parts.length })], deny });
  }
  if (!isSchema(schema[others])) return all;
  const rest = logic.child(place, schema[others], `/${others}`);
  const from = parts.length;
  const prefix = Array(from).fill(ALWAYS);
  all.push(
    clause(
      [arrayArm({ prefix, rest: logic.goal(rest), seen: Infinity })],
      [arrayArm({ contains: [{ goal: logic.goal(rest, true), from, min: 1, max: Infinity }] })],
    ),
  );
  return all;
}

/** @param {Logic} logic @param {Located} place @param {Record<string, any>} schema @returns {Clause[]} */
function containsClauses(logic, place, schema) {
  if (schema.contains === undefined || place.draft < 6) return [];
  const part = logic.child(place, schema.contains, '/contains');
  const goal = logic.goal(part);
  const not = logic.goal(part, true);
  const counted = place.draft >= 2019;
  const min = (counted ? count(place, schema, 'minContains') : undefined) ?? 1;
  const max = (counted ? count(place, schema, 'maxContains') : undefined) ?? Infinity;
  const alsoSeen = place.draft >= 2020 && goal.length && !isNever(goal) ? [goal] : [];
  const seen = place.draft >= 2020 && !goal.length ? Infinity : 0;
  const few =
    min > 1
      ? [arrayArm({ contains: [{ goal, from: 0, min: 0, max: min - 1 }] })]
      : min === 1
        ? [arrayArm({ rest: not })]
        : [];
  const many = max < Infinity ? [arrayArm({ contains: [{ goal, from: 0, min: max + 1, max: Infinity }] })] : [];
  const contains = min > 0 || max < Infinity ? [{ goal, from: 0, min, max }] : [];
  return [clause([arrayArm({ contains, alsoSeen, seen })], [...few, ...many])];
}

/** Returns the clauses of all keywords for arrays. Throws `Unsupported` for a keyword with an invalid value.
 * @param {Logic} logic @param {Located} place @param {Record<string, any>} schema @returns {Clause[]} */
export function arrayClauses(logic, place, schema) {
  const all = itemClauses(logic, place, schema);
  all.push(...sizeClauses(place, schema, ['minItems', 'maxItems'], arrayArm));
  all.push(...containsClauses(logic, place, schema));
  if (schema.uniqueItems === true) {
    const pointer = `${place.pointer}/uniqueItems`;
    all.push({
      demand: () => [arrayArm({ unique: [pointer] })],
      deny: () => {
        throw notWithin('uniqueItems', pointer);
      },
    });
  }
  return all;
}
