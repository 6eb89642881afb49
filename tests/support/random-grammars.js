/**
 * random-grammars: random small grammars for tests, without left recursion (a rule calls others only after a character,
 * or calls later rules), over a few characters of one to four bytes, so that a small vocabulary covers all of them.
 */

export const LETTERS = [...'abc"\\,{}[]: 01\n', 'é', '中', '😀'];
/** Number of rules of a grammar. */
const RULES = 4;
const points = LETTERS.map((letter) => /** @type {number} */ (letter.codePointAt(0))).sort((a, b) => a - b);

const ANY = {
  chars: [
    [0, 0xd7ff],
    [0xe000, 0x10ffff],
  ],
};

/** @param {(n: number) => number} random @param {() => any} value @returns {any} */
function members(random, value) {
  const names = ['a', 'b', 'ab'].slice(0, 1 + random(3));
  const required = names.filter(() => random(2) === 0);
  const max = random(2) ? Infinity : Math.max(required.length, 1 + random(3));
  const others = {
    except: [
      { repeat: { chars: [[0x61, 0x63]] }, min: 0, max: Infinity },
      { choice: names.map((literal) => ({ literal })) },
    ],
  };
  return {
    members: [
      ...names.map((literal) => ({
        key: { literal },
        required: required.includes(literal),
        once: true,
        value: {
          choice: [{ literal: '1' }, { sequence: [{ literal: '[' }, value(), { literal: ']' }] }],
        },
      })),
      ...(random(2) ? [{ key: others, value: { literal: '0' }, required: false, once: false }] : []),
    ],
    colon: { literal: ':' },
    comma: { literal: ',' },
    min: Math.min(random(3), max, names.length),
    max,
  };
}

/** Returns a grammar. Each of its rules has a literal as an alternative, so it matches some text.
 * @param {(n: number) => number} random */
export function randomGrammar(random) {
  const text = () => Array.from({ length: 1 + random(3) }, () => LETTERS[random(LETTERS.length)]).join('');
  const chars = () => {
    if (random(6) === 0) return ANY;
    const chosen = points.filter(() => random(4) === 0);
    if (!chosen.length) chosen.push(points[random(points.length)]);
    return { chars: chosen.map((point) => [point, point]) };
  };
  const times = (/** @type {any} */ repeat) => {
    const min = random(4);
    const max = [Infinity, min + random(3), 1, min + 20 + random(30)][random(4)];
    return { repeat, min: Math.min(min, max), max: Math.max(max, 1) };
  };
  /** @returns {any} */
  const plain = (/** @type {number} */ depth) => {
    const kinds = [
      () => ({ literal: text() }),
      chars,
      () => ({ sequence: [plain(depth + 1), plain(depth + 1)] }),
      () => ({ choice: [plain(depth + 1), plain(depth + 1)] }),
      () => times(plain(depth + 1)),
      () => ({ choice: [{ literal: text() }, { literal: text() }, chars()] }),
    ];
    return kinds[random(depth > 2 ? 2 : kinds.length)]();
  };
  /** @returns {any} */
  const part = (/** @type {number} */ rule, /** @type {number} */ depth) => {
    const behind = (/** @type {any} */ node) => ({ sequence: [{ literal: text() }, node] });
    const next = () => part(rule, depth + 1);
    const kinds = [
      () => ({ literal: text() }),
      chars,
      () => behind({ rule: `r${random(RULES)}` }),
      () => ({ sequence: [next(), next()] }),
      () => ({ choice: [next(), next()] }),
      () => times(next()),
      () => (rule + 1 < RULES ? { rule: `r${rule + 1 + random(RULES - rule - 1)}` } : { literal: text() }),
      () => ({ jsonString: random(2) ? plain(0) : times(chars()) }),
      () => ({ [random(2) ? 'both' : 'except']: [plain(0), plain(0)] }),
      () => ({ sequence: [{ literal: '{' }, members(random, () => part(rule, depth + 2)), { literal: '}' }] }),
      () => behind({ sequence: [{ rule: `r${random(RULES)}` }, { literal: text() }] }),
    ];
    return kinds[random(depth > 3 ? 3 : kinds.length)]();
  };
  return {
    start: 'r0',
    rules: Object.fromEntries(
      Array.from({ length: RULES }, (_, i) => [`r${i}`, { choice: [part(i, 0), { literal: text() }] }]),
    ),
  };
}
