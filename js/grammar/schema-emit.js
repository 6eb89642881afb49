/*
 * schema-emit: turns the alternatives of schemas (arms, see schema-arms.js) into rules of a grammar. Each goal (set of
 * schemas to match) becomes a node once; goals with arrays or objects become rules, so that recursive schemas
 * terminate. The names of properties are partitioned into classes whose values have the same goal.
 */
import {
  ANY_TEXT,
  EMPTY,
  NOTHING,
  both,
  choice,
  except,
  hasHalfPair,
  isNothing,
  lengths,
  literal,
  ofLength,
  optional,
  repeat,
  sequence,
} from './nodes.js';
import { everyNumber, numberNode } from './numbers.js';
import { tooManyCounts, tooManyPatterns, tooManyViolations, uniqueItems } from './errors.js';
import { ALWAYS, NEVER, TYPES, goalOfName, isNever, joinGoals, noItems, noMembers, textsOf } from './schema-arms.js';

/** @import { Bounds } from '../protocol.js' */
/** @import { Layouts } from './layout.js' */
/** @import { Grammar, Member, Node } from './nodes.js' */
/** @import { Arm, Exists, Goal, Items, Members } from './schema-arms.js' */
/** @import { Logic } from './schema-logic.js' */
/** A name class: all property names that `key` matches. They fulfil the same `exists` requirements (`marks`: their
 * indices), and their values must match `goal`.
 * @typedef {{ key: Node, goal: Goal, marks: Set<number> }} NameClass */
/** A required property of an object, with a fixed name or with any name of a name class.
 * @typedef {{ name?: string, of?: NameClass, key: Node, goal: Goal }} Extra */

/** Maximum number of name classes of one object, and of ways to fulfil its `exists` requirements (schema-arms.js). */
const MOST_CLASSES = 64;
const MOST_WAYS = 256;
/** Maximum number of states that count the items of `contains`. */
const MOST_COUNTS = 3000;
/** Number of `prefixItems` items after which a new rule begins, which limits the depth of nodes. */
const NESTED = 4;

const STRING = /** @type {Node} */ ({ jsonString: ANY_TEXT });

/** Builds the rules of one grammar. */
export class Emitter {
  /** @param {Logic} logic @param {Layouts} layouts
   * @param {{ free: boolean, bounds?: Bounds }} options free: allow any spelling of numbers;
   * bounds: limits for strings, arrays and objects that the schema leaves unbounded */
  constructor(logic, layouts, { free, bounds: { maxLength, maxItems, maxProperties } = {} }) {
    this.logic = logic;
    this.layouts = layouts;
    this.free = free;
    this.most = { length: maxLength ?? Infinity, items: maxItems ?? Infinity, members: maxProperties ?? Infinity };
    /** @type {Record<string, Node>} */
    this.rules = Object.create(null);
    /** @type {Map<string, Node>} */
    this.values = new Map();
    /** @type {{ name: string, make: () => Node }[]} */
    this.open = [];
    this.count = 0;
  }

  /** Returns a reference to a new rule, whose node is built later. @param {() => Node} make @returns {Node} */
  rule(make) {
    const name = `r${this.count++}`;
    this.open.push({ name, make });
    return { rule: name };
  }

  /** Returns the grammar of the JSON texts that match a goal. @param {Goal} goal @returns {Grammar} */
  grammar(goal) {
    const { around } = this.layouts;
    const value = this.value(goal, 0);
    this.rules.start = sequence(around, value, around);
    for (let next = this.open.pop(); next; next = this.open.pop()) this.rules[next.name] = next.make();
    return { rules: this.rules, start: 'start' };
  }

  /** Returns a node for the values that match a goal; NOTHING if no value does.
   * @param {Goal} goal @param {number} depth number of enclosing brackets @returns {Node} */
  value(goal, depth) {
    if (isNever(goal)) return NOTHING;
    const key = `${goal} ${this.layouts.depth(depth)}`;
    const known = this.values.get(key);
    if (known) return known;
    this.logic.budget.spend('', 20);
    const arms = TYPES.map((type) => this.logic.arms(goal, type).filter((arm) => !this.logic.isBarren(arm)));
    const [nulls, trues, falses, numbers, strings, arrays, objects] = arms;
    const flat = [
      nulls.length ? literal('null') : NOTHING,
      trues.length ? literal('true') : NOTHING,
      falses.length ? literal('false') : NOTHING,
      this.numbers(numbers),
      this.strings(strings),
    ];
    if (!arrays.length && !objects.length) {
      const node = choice(flat);
      this.values.set(key, node);
      return node;
    }
    const rule = this.rule(() =>
      choice([
        ...objects.map((arm) => this.object(arm, depth)),
        ...arrays.map((arm) => this.array(arm, depth)),
        ...flat,
      ]),
    );
    this.values.set(key, rule);
    return rule;
  }

  /** Returns a node for the numbers of all alternatives. @param {Arm[]} arms @returns {Node} */
  numbers(arms) {
    const { budget } = this.logic;
    return choice(arms.map(({ number = everyNumber() }) => numberNode(number, this.free, budget)));
  }

  /** Returns a node for the strings of all alternatives, with quotes. Applies the option `maxLength`.
   * @param {Arm[]} arms @returns {Node} */
  strings(arms) {
    if (!arms.length) return NOTHING;
    const texts = choice(arms.map(({ string }) => this.bounded(string ? textsOf(string) : ANY_TEXT)));
    // The budget must cover the work of choice(), which copied the alternatives of several arms.
    if (arms.length > 1 && 'choice' in texts) this.logic.budget.spend('', texts.choice.length / 8);
    return texts === ANY_TEXT ? STRING : { jsonString: texts };
  }

  /** Limits the length of texts that the schema leaves unbounded, unless all of them are longer. @param {Node} texts */
  bounded(texts) {
    const [least, most] = lengths(texts);
    const { length } = this.most;
    if (most < Infinity || length === Infinity) return texts;
    const short = ofLength(texts, 0, Math.max(least, length));
    return this.logic.languages.isEmpty(short) ? texts : short;
  }

  /** Returns a node for the arrays of one alternative, with brackets. Throws `Unsupported` if several items must be
   * unique.
   * @param {Arm} arm @param {number} depth @returns {Node} */
  array({ array: free = noItems() }, depth) {
    const least = Math.max(free.min, ...free.contains.map(({ from, min }) => from + min));
    const items = free.max < Infinity ? free : { ...free, max: Math.max(this.most.items, least) };
    const layout = this.layouts.at(depth);
    const reach = this.reach(items, depth);
    if (items.unique.length && reach > 1) {
      throw uniqueItems(items.unique[0]);
    }
    const first = items.contains.length
      ? this.counted(items, reach, depth)
      : this.tail({ ...items, max: reach }, 0, depth);
    const inner = items.min > 0 || items.contains.some(({ min }) => min > 0) ? NOTHING : layout.empty;
    const some = reach >= Math.max(items.min, 1) ? sequence(layout.open, first, layout.close) : NOTHING;
    return sequence(literal('['), choice([inner, some]), literal(']'));
  }

  /** Returns the maximum number of items of an array, which must end before an item that no value can match.
   * @param {Pick<Items, 'prefix' | 'rest' | 'max'>} items @param {number} depth */
  reach({ prefix, rest, max }, depth) {
    const listed = prefix.slice(0, Math.min(prefix.length, max));
    const end = listed.findIndex((goal) => isNothing(this.value(goal, depth + 1)));
    if (end >= 0) return end;
    return max > prefix.length && isNothing(this.value(rest, depth + 1)) ? Math.min(max, prefix.length) : max;
  }

  /** Returns a node for the items of an array from index `i` on, at least one.
   * @param {Pick<Items, 'prefix' | 'rest' | 'min' | 'max'>} items @param {number} i @param {number} depth
   * @returns {Node} */
  tail(items, i, depth) {
    const { prefix, rest, min, max } = items;
    const { comma } = this.layouts.at(depth);
    const before = i > 0 ? comma : EMPTY;
    if (i >= prefix.length) {
      const value = this.value(rest, depth + 1);
      return sequence(before, value, repeat(sequence(comma, value), Math.max(min - i - 1, 0), max - i - 1));
    }
    const value = this.value(prefix[i], depth + 1);
    const last = i + 1 >= max;
    const next = () => this.tail(items, i + 1, depth);
    const later = last ? EMPTY : i % NESTED === NESTED - 1 ? this.rule(next) : next();
    return sequence(before, value, min > i + 1 ? later : optional(later));
  }

  /** Returns a node for the items of an array with `contains`, with a rule for each combination of item index and
   * numbers of matches. @param {Items} items @param {number} reach maximum number of items
   * @param {number} depth @returns {Node} */
  counted(items, reach, depth) {
    const { prefix, contains, min } = items;
    const { comma } = this.layouts.at(depth);
    const places = Math.max(prefix.length, min, reach < Infinity ? reach : 0, ...contains.map(({ from }) => from));
    /** @type {Map<string, Node>} */
    const states = new Map();
    /** @param {number} at @param {number[]} counts @returns {Node} */
    const from = (at, counts) => {
      const key = `${at} ${counts}`;
      const known = states.get(key);
      if (known) return known;
      if (states.size > MOST_COUNTS) throw tooManyCounts();
      const node = this.rule(() =>
        this.countedItem(items, at, counts, depth, (now) => {
          const done = at + 1 >= min && contains.every((one, i) => now[i] >= one.min);
          const next = at + 1 < reach ? sequence(comma, from(Math.min(at + 1, places), now)) : NOTHING;
          return choice([done ? EMPTY : NOTHING, next]);
        }),
      );
      states.set(key, node);
      return node;
    };
    return from(
      0,
      contains.map(() => 0),
    );
  }

  /** Returns a node for one array item and those after it, with an alternative for each subset of the `contains`
   * schemas that the item matches. @param {Items} items @param {number} at @param {number[]} counts
   * @param {number} depth @param {(counts: number[]) => Node} after @returns {Node} */
  countedItem({ prefix, rest, contains }, at, counts, depth, after) {
    const ways = [{ goal: prefix[at] ?? rest, counts: /** @type {number[]} */ ([]) }];
    contains.forEach((one, i) => {
      const { goal, from, min, max } = one;
      const enough = counts[i] >= min && max === Infinity;
      for (const way of ways.splice(0)) {
        this.logic.budget.spend('', 2);
        const not = max < Infinity && at >= from ? joinGoals(way.goal, this.denied(goal)) : way.goal;
        ways.push({ goal: not, counts: [...way.counts, counts[i]] });
        if (at < from || enough || counts[i] >= max) continue;
        ways.push({ goal: joinGoals(way.goal, goal), counts: [...way.counts, counts[i] + 1] });
      }
    });
    return choice(
      ways.map((way) => {
        const value = this.value(way.goal, depth + 1);
        return isNothing(value) ? NOTHING : sequence(value, after(way.counts));
      }),
    );
  }

  /** Returns the negation of a goal that has one schema. @param {Goal} goal @returns {Goal} */
  denied(goal) {
    if (isNever(goal)) return ALWAYS;
    return goal.length ? [goal[0] ^ 1] : NEVER;
  }

  /** Returns a node for the objects of one alternative, with braces.
   * @param {Arm} arm @param {number} depth @returns {Node} */
  object({ object = noMembers() }, depth) {
    const layout = this.layouts.at(depth);
    const nodes = this.members(object, depth).map((list) => {
      const min = Math.max(object.min, list.filter(({ required }) => required).length);
      const reach = list.every(({ once }) => once) ? list.length : Infinity;
      const bound = object.max < Infinity ? Infinity : Math.max(this.most.members, min);
      const max = Math.min(object.max, reach, bound);
      const empty = min === 0 ? layout.empty : NOTHING;
      if (max < 1 || max < min) return empty;
      const some = { members: list, colon: layout.colon, comma: layout.comma, min: Math.max(min, 1), max };
      return choice([sequence(layout.open, some, layout.close), empty]);
    });
    return sequence(literal('{'), choice(nodes), literal('}'));
  }

  /** Returns lists of properties, one for each way to fulfil the `exists` requirements (schema-arms.js).
   * @param {Members} object @param {number} depth @returns {Member[][]} */
  members(object, depth) {
    const named = this.named(object);
    const classes = this.classes(object, new Set(named.keys()));
    /** @type {{ extra: Extra[] }[]} */
    let ways = [{ extra: [] }];
    object.exists.forEach((one, mark) => {
      const places = [
        ...[...named.keys()]
          .filter((name) => this.existsFits(one, name))
          .map((name) => ({ name, key: EMPTY, goal: one.goal })),
        ...classes.filter(({ marks }) => marks.has(mark)).map((of) => ({ of, key: of.key, goal: one.goal })),
      ];
      const least = ways.length * places.length;
      if (least <= MOST_WAYS) ways = ways.flatMap(({ extra }) => places.flatMap((place) => placed(extra, place)));
      if (Math.max(least, ways.length) > MOST_WAYS) throw tooManyViolations();
    });
    return ways.flatMap(({ extra }) => {
      const list = this.memberList(object, named, classes, extra, depth);
      return list ? [list] : [];
    });
  }

  /** Returns whether a property of this name can fulfil an `exists` requirement.
   * @param {Exists} exists @param {string} name */
  existsFits({ key, name: goal }, name) {
    return this.logic.languages.matches(key, name) && this.nameFits(goal, name);
  }

  /** Returns whether a property name matches a goal. @param {Goal} goal @param {string} name */
  nameFits(goal, name) {
    return !goal.length || this.logic.languages.matches(this.textsOfGoal(goal), name);
  }

  /** Returns a node for the strings, without quotes, that match a goal. @param {Goal} goal @returns {Node} */
  textsOfGoal(goal) {
    const arms = this.logic.arms(goal, 'string');
    return choice(arms.map(({ string }) => (string ? textsOf(string) : ANY_TEXT)));
  }

  /** Returns the goals for the values of properties with a fixed name, in output order. @param {Members} object
   * @returns {Map<string, Goal>} */
  named(object) {
    const names = new Set([...object.names.keys(), ...object.required]);
    for (const { names: more } of object.additional) more.forEach((name) => names.add(name));
    /** @type {Map<string, Goal>} */
    const all = new Map();
    this.logic.budget.spend('', names.size / 4);
    for (const name of names) {
      const goal = this.nameFits(object.nameGoal, name) ? goalOfName(object, name, this.logic.ask) : NEVER;
      all.set(name, goal);
    }
    return all;
  }

  /** Divides all names other than `names` into classes. The values of the properties of a class must match, and not
   * match, the same schemas. @param {Members} object @param {Set<string>} names @returns {NameClass[]} */
  classes(object, names) {
    const { languages } = this.logic;
    const plain = choice([...names].map((name) => literal(name)));
    let classes = [{ key: except(this.textsOfGoal(object.nameGoal), plain), in: /** @type {Set<Node>} */ (new Set()) }];
    const keys = new Set([
      ...object.patterns.map(({ key }) => key),
      ...object.additional.flatMap(({ patterns }) => patterns),
      ...object.exists.map((one) => this.existsKey(one)),
    ]);
    for (const key of keys) {
      if (key === ANY_TEXT) {
        classes.forEach((one) => one.in.add(key));
        continue;
      }
      classes = classes
        .flatMap((one) => [
          { ...one, key: both([one.key, key]), in: new Set([...one.in, key]) },
          { ...one, key: except(one.key, key) },
        ])
        .filter(({ key: texts }) => !languages.isEmpty(texts));
      if (classes.length > MOST_CLASSES) throw tooManyPatterns();
      this.logic.budget.spend('', 50);
    }
    return classes
      .map((one) => this.classGoal(object, one))
      .filter(({ key, goal }) => !isNever(goal) && !languages.isEmpty(key));
  }

  /** Returns a node for the names that fulfil an `exists` requirement. Changes the requirement: its key includes the
   * goal of the name from now on.
   * @param {Exists} one @returns {Node} */
  existsKey(one) {
    one.key = both([one.key, this.textsOfGoal(one.name)]);
    one.name = ALWAYS;
    return one.key;
  }

  /** Returns a class with the goal of its values and the indices of the `exists` requirements that its names fulfil.
   * @param {Members} object @param {{ key: Node, in: Set<Node> }} one in: keys that match all names of the class
   * @returns {NameClass} */
  classGoal({ patterns, additional, exists }, { key, in: inside }) {
    const held = [
      ...patterns.filter((pattern) => inside.has(pattern.key)),
      ...additional.filter((more) => !more.patterns.some((one) => inside.has(one))),
    ];
    const goal = joinGoals(...held.map((one) => one.goal));
    const marks = new Set(exists.flatMap((one, i) => (inside.has(one.key) ? [i] : [])));
    return { key, goal, marks };
  }

  /** Returns the properties of an object for one way to fulfil the `exists` requirements; undefined if a required
   * property is impossible.
   * @param {Members} object @param {Map<string, Goal>} named @param {NameClass[]} classes
   * @param {Extra[]} extra @param {number} depth
   * @returns {Member[] | undefined} */
  memberList(object, named, classes, extra, depth) {
    this.logic.budget.spend('', (named.size * (1 + extra.length / 8) + classes.length) / 4);
    /** @type {Member[]} */
    const list = [];
    for (const [name, own] of named) {
      const more = extra.filter((one) => one.name === name);
      const required = object.required.has(name) || more.length > 0;
      const goal = more.reduce((all, one) => joinGoals(all, one.goal), own);
      const value = this.value(goal, depth + 1);
      const fits = !isNothing(value) && !hasHalfPair(name);
      if (fits) list.push({ key: literal(name), value, required, once: true });
      else if (required) return undefined;
    }
    for (const one of extra) {
      if (!one.of) continue;
      const value = this.value(joinGoals(one.of.goal, one.goal), depth + 1);
      if (isNothing(value)) return undefined;
      list.push({ key: one.key, value, required: true, once: false });
    }
    /** @type {Map<Node, Node[]>} */
    const same = new Map();
    for (const { key, goal } of classes) {
      const value = this.value(goal, depth + 1);
      if (!isNothing(value)) same.set(value, [...(same.get(value) ?? []), key]);
    }
    for (const [value, keys] of same) {
      list.push({ key: this.bounded(choice(keys)), value, required: false, once: false });
    }
    return list;
  }
}

/** Returns the ways to add a required property to `extra`: as a separate property, or merged with one of the same
 * class. @param {Extra[]} extra @param {Extra} place @returns {{ extra: Extra[] }[]} */
function placed(extra, place) {
  const same = extra.flatMap((one, i) => {
    if (!place.of || one.of !== place.of) return [];
    return [{ extra: extra.with(i, { ...one, goal: joinGoals(one.goal, place.goal) }) }];
  });
  return [...same, { extra: [...extra, place] }];
}
