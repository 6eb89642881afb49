/*
 * lower: compiles a grammar to the bytes that the engine reads (src/text/grammar.h has their layout). Does everything
 * that does not depend on the model's vocabulary: encoding characters, intersecting nodes, unrolling repetitions. The
 * engine later determinises the automaton lazily. Rejects grammars that are too large, left-recursive, or match
 * nothing, in bounded time and memory.
 */
import { KIND, Rule, weight } from './automaton.js';
import { ruleNames } from './nodes.js';
import { leftRecursive, noText, recursive, tooDeep, tooManyRepeats, unknownRule } from './errors.js';
import { Budget, bounded } from './refusal.js';
import { simplified } from './simplify.js';
import { Spells } from './spell.js';

/** @import { Loop } from './automaton.js' */
/** @import { Grammar, Node } from './nodes.js' */
/** @import { Limits } from './refusal.js' */
/** @import { Simple } from './simplify.js' */
/** @import { Spelling } from './spell.js' */
/** spelling: `any` allows every legal escape of a character in a JSON string, `shortest` only the shortest spelling.
 * @typedef {Limits & { spelling?: 'any' | 'shortest', budget?: Budget }} LowerOptions */

const MAGIC = 0x31475747;
const VERSION = 1;
const NO_MOST = 0xffffffff;
const HEAD = 12;
/** Number of steps of the work budget (refusal.js) that one unit of spend() costs. A new state costs one unit. */
const STEP = 1 / 5;
/** Maximum nesting depth of rules under construction, which recurse on JavaScript's stack. */
const DEEPEST = 1100;
/** Maximum number of states of a rule that is inlined. */
const INLINED = 4;
/** Maximum length of a text that keyOf() returns. */
const MOST_KEY = 2000;

/** Compiles a grammar for the engine. Throws `Unsupported`. @param {Grammar} grammar @param {LowerOptions} [options] */
export function lower(grammar, { spelling = 'any', budget, ...limits } = {}) {
  return bounded(() => new Lowering(grammar, spelling, budget ?? new Budget(limits)).run());
}

/** Number of graph nodes (spell.js) above which their cache is cleared. All compilations share the cache, because nodes
 * do not depend on the grammar. */
const KEPT_NODES = 1 << 16;
let spells = new Spells();

class Lowering {
  /** @type {{ node: Node, how: Spelling, rule: Rule | null }[]} */
  #rules = [];
  /** @type {Map<unknown, number>} */
  #calls = new Map();
  /** @type {Record<Spelling, Map<Node, unknown>>} */
  #keys = { text: new Map(), any: new Map(), shortest: new Map() };
  /** @type {Loop[]} */
  #loops = [{ min: 0, max: Infinity }];
  #depth = 0;

  /** @param {Grammar} grammar @param {'any' | 'shortest'} spelling @param {Budget} budget */
  constructor(grammar, spelling, budget) {
    this.grammar = grammar;
    this.spelling = spelling;
    if (spells.graph.count > KEPT_NODES) spells = new Spells();
    this.spell = spells;
    this.budget = budget;
    this.facts = new Facts(grammar, this.spend);
  }

  run() {
    const { start } = this.grammar;
    if (!this.productive(start)) throw noText();
    const first = this.call({ rule: start }, 'text');
    const nullable = this.facts.nullable.has(start);
    if (first < 0 && !nullable) throw noText();
    this.#noLeftRecursion();
    return this.#write(first, nullable);
  }

  spend = (steps = 1) => this.budget.spend('', steps * STEP);

  /** @param {string} name */
  rule(name) {
    return this.facts.rule(name);
  }

  /** @param {string} name */
  regularRule = (name) => {
    if (this.facts.recursive(name)) throw recursive(name);
    return this.rule(name);
  };

  /** @param {string} name */
  productive(name) {
    return this.facts.productive.has(name);
  }

  /** @param {Node} node */
  nullable(node) {
    return this.facts.isNullable(node);
  }

  /** @param {string} name */
  inlined(name) {
    return weight(this.rule(name), INLINED) <= INLINED && !('members' in this.rule(name));
  }

  /** @param {Loop} loop */
  loop(loop) {
    if (loop.min >= NO_MOST) throw tooManyRepeats(loop.min);
    return this.#loops.push(loop) - 1;
  }

  /** Returns the number of the rule for the non-empty texts of a node, or -1 if there are none. Builds the rule if it
   * is new. @param {Node} node @param {Spelling} how */
  call(node, how) {
    const keys = this.#keys[how];
    const key = keys.get(node) ?? keyOf(node, how);
    keys.set(node, key);
    let at = this.#calls.get(key);
    if (at !== undefined) return at;
    this.#calls.set(key, (at = this.#rules.length));
    const made = { node, how, rule: /** @type {Rule | null} */ (null) };
    this.spend(60);
    if (++this.#depth > DEEPEST) throw tooDeep('rules');
    this.#rules.push(made);
    const rule = new Rule(this, how);
    const body = 'rule' in node ? this.rule(node.rule) : node;
    const filled = 'jsonString' in body ? rule.fillString(body.jsonString) : rule.fill(body);
    if (!filled) this.#calls.set(key, (at = -1));
    else made.rule = rule;
    this.#depth--;
    return at;
  }

  #noLeftRecursion() {
    const seen = new Uint8Array(this.#rules.length);
    /** @param {number} at */
    const visit = (at) => {
      const { rule, node } = this.#rules[at];
      seen[at] = 1;
      for (const { kind, label } of rule ? rule.edges[rule.start] : []) {
        if (kind !== KIND.CALL || seen[label] === 2) continue;
        if (seen[label] === 1) throw leftRecursive(nameOf(node));
        visit(label);
      }
      seen[at] = 2;
    };
    this.#rules.forEach((_, at) => seen[at] || visit(at));
  }

  /** @param {number} first @param {boolean} nullable */
  #write(first, nullable) {
    const kept = this.#rules.map(({ rule }) => rule && simplified(rule));
    const bases = [0];
    const edges = [0];
    for (const rule of kept) {
      bases.push(bases[bases.length - 1] + (rule?.accept.length ?? 0));
      edges.push(edges[edges.length - 1] + (rule?.to.length ?? 0));
    }
    const { ends, spans, place } = this.spell.graph.reachable(spellings(kept));
    const states = bases[kept.length];
    const all = edges[kept.length];
    const members = this.#loops.map((loop) => (loop.once ? loop.once.length : 0));
    const sum = members.reduce((a, b) => a + b, 0);
    const loops = this.#loops.length;
    const size = HEAD + ends.length + spans.length + 2 * states + 3 * all + kept.length + 3 * loops + sum;
    const out = new Uint32Array(size);
    out.set([
      MAGIC,
      VERSION,
      size,
      ends.length,
      spans.length / 2,
      states,
      all,
      kept.length,
      loops,
      sum,
      first < 0 ? NO_MOST : first,
      Number(nullable),
    ]);
    out.set(ends, HEAD);
    out.set(spans, HEAD + ends.length);
    const at = HEAD + ends.length + spans.length;
    kept.forEach((rule, i) => {
      rule?.ends.forEach((end, k) => {
        out[at + bases[i] + k] = edges[i] + end;
      });
      rule?.accept.forEach((is, k) => {
        out[at + states + bases[i] + k] = Number(is) | (rule.loop[k] << 1);
      });
      rule?.how.forEach((how, k) => {
        const label = (how & 3) === KIND.BYTES ? place[rule.label[k]] : rule.label[k];
        out.set([how, label, rule.to[k] + bases[i]], at + 2 * states + 3 * (edges[i] + k));
      });
      out[at + 2 * states + 3 * all + i] = rule ? bases[i] : NO_MOST;
    });
    const rest = at + 2 * states + 3 * all + kept.length;
    this.#loops.forEach(({ min, max }, i) => {
      out.set([min, Math.min(max, NO_MOST), members[i]], rest + 3 * i);
    });
    this.#writeMembers(out, rest + 3 * loops);
    return new Uint8Array(out.buffer);
  }

  /** @param {Uint32Array} out @param {number} at */
  #writeMembers(out, at) {
    for (const { once = [], required = [] } of this.#loops) {
      const needed = new Set(required);
      for (let i = 0; i < once.length; i++) out[at++] = Number(once[i]) | (Number(needed.has(i)) << 1);
    }
  }
}

/** Returns the graph nodes (spell.js) with which the edges of rules are labelled. @param {(Simple | null)[]} rules */
const spellings = (rules) =>
  rules.flatMap((rule) => {
    return rule ? rule.label.filter((_, i) => (rule.how[i] & 3) === KIND.BYTES) : [];
  });

/** Determines which rules are nullable (match the empty text), productive (match some text) or recursive. */
class Facts {
  /** @type {Set<string>} */
  nullable = new Set();
  /** @type {Set<string>} */
  productive = new Set();
  /** Results of #isNullable() or #isProductive(), by node. #least() clears them when it adds a rule to its result.
   * @type {Map<Node, boolean>} */
  #found = new Map();
  /** @type {Map<string, boolean>} */
  #recursive = new Map();
  /** @type {Map<string, string[]>} */
  #uses = new Map();

  /** @param {Grammar} grammar @param {(steps?: number) => void} spend */
  constructor(grammar, spend) {
    this.grammar = grammar;
    this.spend = spend;
    this.#collect(grammar.start);
    this.#least((node) => this.isNullable(node), this.nullable);
    this.#least((node) => this.#isProductive(node), this.productive);
  }

  /** @param {string} name */
  rule(name) {
    if (Object.hasOwn(this.grammar.rules, name)) return this.grammar.rules[name];
    throw unknownRule(name);
  }

  /** @param {string} start */
  #collect(start) {
    for (const open = [start]; open.length; ) {
      const name = /** @type {string} */ (open.pop());
      if (this.#uses.has(name)) continue;
      const names = ruleNames(this.rule(name), this.spend);
      this.#uses.set(name, [...names]);
      open.push(...names);
    }
  }

  /** Adds rules that pass `test` to `found`, up to the least fixed point: `test` may depend on `found`.
   * @param {(node: Node) => boolean} test @param {Set<string>} found */
  #least(test, found) {
    /** @type {Map<string, string[]>} */
    const users = new Map();
    for (const [name, used] of this.#uses) {
      for (const other of used) {
        const known = users.get(other);
        if (known) known.push(name);
        else users.set(other, [name]);
      }
    }
    for (const open = [...this.#uses.keys()].reverse(); open.length; ) {
      const name = /** @type {string} */ (open.pop());
      if (found.has(name) || !test(this.rule(name))) continue;
      found.add(name);
      this.#found.clear();
      open.push(...(users.get(name) ?? []));
    }
    this.#found.clear();
  }

  /** @param {Node} node @param {(node: Node) => boolean} test */
  #once(node, test) {
    let known = this.#found.get(node);
    if (known !== undefined) return known;
    this.#found.set(node, (known = test(node)));
    return known;
  }

  /** @param {Node} node @returns {boolean} */
  isNullable(node) {
    if ('literal' in node) return node.literal === '';
    if ('chars' in node) return false;
    return this.#once(node, this.#isNullable);
  }

  /** @param {Node} node @returns {boolean} */
  #isNullable = (node) => {
    this.spend();
    if ('sequence' in node) return node.sequence.every((part) => this.isNullable(part));
    if ('choice' in node) return node.choice.some((part) => this.isNullable(part));
    if ('repeat' in node) return node.min === 0 || this.isNullable(node.repeat);
    if ('rule' in node) return this.nullable.has(node.rule);
    if ('both' in node) return node.both.every((part) => this.isNullable(part));
    if ('except' in node) return this.isNullable(node.except[0]) && !this.isNullable(node.except[1]);
    if ('automaton' in node) return node.automaton.accept.includes(node.automaton.start);
    if ('members' in node) return node.min === 0 && !node.members.some((member) => member.required);
    return false;
  };

  /** Returns whether a node matches some text, assuming that only the rules in `productive` do. @param {Node} node
   * @returns {boolean} */
  #isProductive(node) {
    if ('chars' in node) return node.chars.length > 0;
    return this.#once(node, this.#productive);
  }

  /** @param {Node} node @returns {boolean} */
  #productive = (node) => {
    this.spend();
    if ('sequence' in node) return node.sequence.every((part) => this.#isProductive(part));
    if ('choice' in node) return node.choice.some((part) => this.#isProductive(part));
    if ('repeat' in node) return node.min === 0 || this.#isProductive(node.repeat);
    if ('rule' in node) return this.productive.has(node.rule);
    if ('members' in node) {
      return node.members.every(
        (member) => !member.required || (this.#isProductive(member.key) && this.#isProductive(member.value)),
      );
    }
    return true;
  };

  /** @param {string} name */
  recursive(name) {
    const known = this.#recursive.get(name);
    if (known !== undefined) return known;
    const seen = new Set();
    for (const open = [...(this.#uses.get(name) ?? [])]; open.length; ) {
      const next = /** @type {string} */ (open.pop());
      if (seen.has(next)) continue;
      seen.add(next);
      open.push(...(this.#uses.get(next) ?? []));
    }
    this.#recursive.set(name, seen.has(name));
    return seen.has(name);
  }
}

/** Returns a key that equal nodes share: a text, or the node itself if the text would be too long. Nodes share
 * parts, so a text can be exponentially longer than its node. @param {Node} node @param {string} how */
function keyOf(node, how) {
  if ('rule' in node) return `${how} rule ${node.rule}`;
  if (!('jsonString' in node || 'repeat' in node)) return node;
  let text = how;
  const write = (/** @type {any} */ value) => {
    if (text.length > MOST_KEY) return;
    if (typeof value === 'string') text += JSON.stringify(value.slice(0, MOST_KEY));
    else if (typeof value !== 'object') text += ` ${value}`;
    else {
      const isList = Array.isArray(value);
      text += isList ? '[' : '{';
      for (const key in value) {
        if (!isList) text += key;
        write(value[key]);
        if (text.length > MOST_KEY) return;
      }
      text += isList ? ']' : '}';
    }
  };
  write(node);
  return text.length > MOST_KEY ? node : text;
}

/** @param {Node} node */
const nameOf = (node) => ('rule' in node ? node.rule : Object.keys(node)[0]);
