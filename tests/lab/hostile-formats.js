/* hostile-formats: generates regular expressions, schemas, grammars and choices of all sizes, of kinds that make format
 * compilers slow. Each one compiles or is refused with a code within the time limit, the engine still handles a simple
 * format, and memory stays bounded. A watchdog outside the compiling thread reports a hang with its seed. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';
import { Matcher } from '../../js/engine/grammar.js';
import { Budget, Unsupported, compile, lower, toBytes } from '../../js/grammar/index.js';
import { ordered } from '../../js/grammar/ordered.js';
import { bareEngine } from '../js/bare-engine.js';
import { testModel } from '../js/models.js';
import { randoms } from '../support/random.js';

/** @typedef {(n: number) => number} Random */
/** @typedef {{ compiled: number, 'bad-format': number, 'format-too-complex': number, slowest: { seed: number, ms: number },
 *   mostCpu: { seed: number, ms: number }, engineHeap: number }} Counts */

/** Time limit in ms of each step: compiling, loading the result, each of the first masks, the simple format. The test
 * in tests/js has only the watchdog. */
const LIMIT_MS = 2000;
const HANGS_MS = 30_000;
/** Limit of a thread's JavaScript heap in megabytes. A thread that needs more dies, which counts as a failure. */
const HEAP_MB = 1024;
/** Bytes that one matcher may use in the engine besides its grammar: the DFA cache of 20 MiB, and scratch memory, which
 * depends on the vocabulary. */
export const MATCHER_BYTES = 28 * 2 ** 20;
const VOCABULARIES = ['tiny', 'gemma-vocab-tiny'];
const STEPS = 6;

const times = (/** @type {number} */ n, /** @type {(i: number) => any} */ make) =>
  Array.from({ length: n }, (_, i) => make(i));
const named = (/** @type {number} */ n, /** @type {(i: number) => any} */ make) =>
  Object.fromEntries(times(n, (i) => [`m${i}`, make(i)]));

/** @param {number} depth @param {(inner: any) => any} around @param {any} inner */
function nested(depth, around, inner) {
  for (let i = 0; i < depth; i++) inner = around(inner);
  return inner;
}

const ATOMS =
  String.raw`a . \w \b \B ^ $ [a-f] [^a] \p{L} (?=a) (?!ab) (a|b) (a|ab)* b? c{2,5} .* \d+ (x|y|z){0,3} \s é [\p{L}\d] (?:a*)*`.split(
    ' ',
  );

/** @param {Random} random @param {number} most */
const glued = (random, most) => times(1 + random(most), () => ATOMS[random(ATOMS.length)]).join('');

const SCRIPTS =
  'Arab Armn Beng Bopo Brai Cher Copt Cyrl Deva Ethi Geor Goth Grek Gujr Guru Hang Hani Hebr Hira Kana Khmr Knda Laoo ' +
  'Latn Mlym Mong Mymr Ogam Orya Runr Sinh Syrc Taml Telu Thaa Thai Tibt Yiii';
/** Unicode properties, each of which needs a scan of all code points. */
export const PROPERTIES = SCRIPTS.split(' ').flatMap((name) => [
  `Script=${name}`,
  `sc=${name}`,
  `scx=${name}`,
  `Script_Extensions=${name}`,
]);

/** @type {((random: Random, n: number) => string)[]} */
const REGEX = [
  (random, n) => glued(random, 4).repeat(n),
  (random, n) =>
    `(${glued(random, 3)})${['*', '+', `{${n}}`, `{0,${n}}`, `{${n >> 1},}`][random(5)]}${glued(random, 2)}`,
  (random, n) =>
    nested(Math.min(n, 400), (inner) => `(${inner}${['*', '?', '{0,9}', '|a', 'b'][random(5)]})`, glued(random, 2)),
  (random, n) => times(n, (i) => `${glued(random, 2)}${i}`).join('|'),
  (random, n) => `(${times(n, (i) => `w${i}${'x'.repeat(random(3))}`).join('|')})*`,
  (random, n) =>
    `${times(n, (i) => `(?${random(2) ? '=' : '!'}.*${String.fromCharCode(97 + (i % 26))}{${i}})`).join('')}.*`,
  (random, n) => `(a|b)*a(a|b){${n}}`,
  (random, n) => `${'('.repeat(n)}a${')'.repeat(n)}`,
  (random, n) => `${glued(random, 2)}?`.repeat(n) + glued(random, 2).repeat(n),
  (random, n) => `.{${n}}\\b.{0,${n}}${glued(random, 2)}`,
  (random, n) => `[${['\\p{L}', '\\w', 'a-zé', '^'][random(4)].repeat(n)}]${glued(random, 2)}`,
  (random, n) => '{'.repeat(n) + ['', '}', '1}', ',1}'][random(4)],
  (random, n) => times(n, () => `\\p{${PROPERTIES[random(PROPERTIES.length)]}}`).join(['', '|'][random(2)]),
  (random, n) =>
    `(?:(?:(?:${glued(random, 2).repeat(n)})${['\\b', '(?=b)', '$'][random(3)]}){${1 + random(16)}}){${1 + random(16)}}`,
];

const PARTS = [
  () => ({ type: 'string' }),
  () => ({ type: 'integer', multipleOf: 7 }),
  () => ({ minimum: 3 }),
  () => ({ pattern: 'a.*b' }),
  () => ({ format: 'email' }),
  () => ({ enum: [1, 'x', null] }),
  () => ({ type: 'object', required: ['a', 'b'] }),
  () => ({ items: { const: 1 } }),
  () => ({ not: { type: 'null' } }),
  () => ({ maxLength: 9 }),
  () => ({ uniqueItems: false }),
  () => ({ contains: { type: 'number' } }),
];
/** @param {Random} random @returns {any} */
const part = (random) =>
  random(4)
    ? PARTS[random(PARTS.length)]()
    : { [['anyOf', 'allOf', 'oneOf'][random(3)]]: [part(random), part(random)] };

/** @type {((random: Random, n: number) => any)[]} */
const SCHEMA = [
  (random, n) => ({ type: 'object', required: times(n, (i) => `r${i}`) }),
  (random, n) => ({
    type: 'object',
    properties: named(n, () => part(random)),
    minProperties: n >> random(3),
    required: ['m0'],
  }),
  (random, n) => ({ [['allOf', 'anyOf', 'oneOf'][random(3)]]: times(n, () => part(random)) }),
  (random, n) => ({
    [['allOf', 'anyOf', 'oneOf'][random(3)]]: times(n, (i) => ({
      properties: { [`a${i % (1 + random(9))}`]: part(random) },
    })),
  }),
  (random, n) =>
    nested(
      n,
      (inner) =>
        [{ not: inner }, { anyOf: [inner, part(random)] }, { items: inner }, { properties: { a: inner } }][random(4)],
      part(random),
    ),
  (random, n) => ({ patternProperties: named(n, () => part(random)), properties: named(n, () => part(random)) }),
  (random, n) => ({
    patternProperties: Object.fromEntries(times(n, (i) => [`a.{${i}}b|${glued(random, 2)}`, part(random)])),
  }),
  (random, n) => ({ enum: times(n, (i) => [i, `v${i}`, { a: i }, [i, i]][random(4)]) }),
  (random, n) => ({
    $defs: named(n, (i) => ({
      properties: { a: { $ref: `#/$defs/m${random(n)}` }, b: { $ref: `#/$defs/m${(i + 1) % n}` } },
    })),
    $ref: '#/$defs/m0',
  }),
  (random, n) => ({
    $defs: named(n, (i) => ({ anyOf: [{ $ref: `#/$defs/m${Math.min(i + 1, n - 1)}` }, part(random)] })),
    items: { $ref: '#/$defs/m0' },
  }),
  (random, n) => ({
    type: 'string',
    pattern: REGEX[random(REGEX.length)](random, n),
    ...(random(2) && { maxLength: n }),
  }),
  (random, n) => ({
    type: 'array',
    minItems: n >> random(4),
    maxItems: n,
    items: part(random),
    contains: part(random),
    minContains: random(n),
  }),
  (random, n) => ({ prefixItems: times(n, () => part(random)), items: false }),
  (random, n) => ({ dependentRequired: named(Math.min(n, 2000), (i) => [`m${(i + 1) % n}`, `x${i}`]) }),
  (random, n) => ({
    type: ['integer', 'number'][random(2)],
    multipleOf: 1 + random(n),
    minimum: -random(n),
    not: { multipleOf: 2 + random(9) },
  }),
  (random, n) => ({
    type: 'string',
    minLength: n,
    not: { pattern: REGEX[random(REGEX.length)](random, 1 + (n % 30)) },
  }),
  (random, n) => nested(n, (inner) => ({ if: part(random), then: inner, else: part(random) }), part(random)),
  (random, n) => ({
    anyOf: times(n, (i) => ({ properties: { [`a${i}`]: part(random) } })),
    unevaluatedProperties: false,
  }),
  (random, n) => ({
    properties: named(n, () => ({ type: 'string' })),
    propertyNames: { pattern: glued(random, 3) },
    additionalProperties: part(random),
  }),
  (random, n) => ({ const: nested(n, (inner) => [inner, random(9)], 'x') }),
  (random, n) => ({ allOf: times(2 + random(3), (k) => ({ enum: times(n, (i) => i * (k + random(2))) })) }),
  (random, n) => ({
    [['oneOf', 'anyOf', 'allOf'][random(3)]]: times(1 + random(80), (k) => ({ enum: times(n, (i) => i + k) })),
  }),
  (random, n) => ({
    type: 'object',
    required: times(1 + random(200), (i) => `r${i}`),
    allOf: times(
      n,
      (i) => [{ additionalProperties: { minimum: i } }, { properties: named(30, () => part(random)) }][random(2)],
    ),
  }),
  (random, n) => ({ [['const', 'pattern', 'format'][random(3)]]: 'a'.repeat(n * 160), maxLength: random(9) }),
  (random, n) => ({
    $defs: { e: { enum: times(n, (i) => [i, `v${i}`][random(2)]) }, o: { properties: { a: { $ref: '#/$defs/e' } } } },
    properties: named(
      random(2000),
      (i) =>
        [
          { properties: { [`a${i}`]: { $ref: '#/$defs/e' } } },
          { anyOf: [{ $ref: '#/$defs/e' }, { const: `w${i}` }] },
          { $ref: '#/$defs/o' },
        ][random(3)],
    ),
  }),
  (random, n) => ({
    properties: Object.fromEntries(
      times(n, (i) => [`${i < 32 ? 'qz'[i % 2] : 'm'}${i}`, random(9) ? true : part(random)]),
    ),
    additionalProperties: false,
    allOf: times(1 + random(3), (i) => ({ not: { propertyNames: { pattern: `^[^${'qzm'[i]}]` } } })),
  }),
  (random, n) => ({
    type: ['number', 'integer'][random(2)],
    exclusiveMinimum: -(10 ** ((n % 600) - 300)),
    exclusiveMaximum: 10 ** ((n % 616) - 308),
    not: { enum: times(n, (i) => i / 8) },
  }),
];

/** @type {((random: Random, n: number) => string)[]} */
const GBNF = [
  (random, n) =>
    `root ::= r0\n${times(n, (i) => `r${i} ::= r${i + 1} ${random(2) ? `r${i + 1}` : '"b"'}`).join('\n')}\nr${n} ::= "a"?`,
  (random, n) => `root ::= ${times(n, (i) => `"t ${i * 7919}"`).join(' | ')}`,
  (random, n) =>
    `root ::= ${times(n, (i) => `r${i}`).join(' | ')}\n${times(n, (i) => `r${i} ::= x "${i}" ${random(3) ? '' : `r${random(n)}`}`).join('\n')}\nx ::= "a" | "b" x`,
  (random, n) => `root ::= ${'('.repeat(n)}"a"${')*'.repeat(n)}`,
  (random, n) =>
    `root ::= ${times(n, () => ['"a"', '[a-z]', '"b"?', '("c" | "d")*', '.', '[^x]{0,7}'][random(6)]).join(' ')}`,
  (random, n) => `root ::= (${times(n, (i) => `[a-z]{${i}} "x"`).join(' | ')})*`,
  (random, n) => `root ::= x{${n}} y{0,${n}}\nx ::= "a" | [b-d]\ny ::= x{0,9} "e"?`,
  (random, n) => `root ::= s\ns ::= "a" s s | "a" s | "a"${' | "b" s'.repeat(n)}`,
];

/** @type {((random: Random, n: number) => string[])[]} */
const CHOICES = [
  (random, n) => times(n, (i) => `choice ${i * 7919}`),
  (random, n) => times(Math.min(n, 2500), (i) => 'a'.repeat(i + 1)),
  (random, n) => times(1 + random(9), () => String.fromCharCode(97 + random(26)).repeat(n * 8)),
  (random, n) =>
    times(n, () =>
      // Choices must not contain lone surrogates.
      /** @type {any} */ (times(1 + random(12), () => 'aé中😀"\\\n'[random(7)]).join('')).toWellFormed(),
    ),
];

/** Returns the random format that a seed determines. Its size is at most 2 ** 16, and usually small.
 * @param {number} seed @returns {any} */
function hostileFormat(seed) {
  const random = randoms(seed);
  const n = 1 + random(2 ** Math.min(random(17), random(17)));
  const kind = random(10);
  const one = (/** @type {((random: Random, n: number) => any)[]} */ list) => list[random(list.length)](random, n);
  if (kind < 3) return { regex: one(REGEX) };
  if (kind < 7) return { schema: one(SCHEMA), whitespace: ['compact', 'pretty', 'any'][random(3)] };
  return kind < 9 ? { grammar: one(GBNF) } : { choices: one(CHOICES) };
}

/** @param {any} format @param {boolean} judging */
function bytesOf(format, judging) {
  if (judging) return toBytes(format, { matching: true, milliseconds: Infinity });
  const budget = new Budget({ milliseconds: Infinity });
  return lower(ordered(compile(format, { budget }), budget), { spelling: 'shortest', budget });
}

/** Compiles the format of a seed, and computes its first token masks with each engine. Calls `lap` between the steps.
 * Returns 'compiled', or the code of the expected error. @param {any[]} engines @param {number} seed
 * @param {() => void} lap @returns {'compiled' | 'bad-format' | 'format-too-complex'} */
function tryOne(engines, seed, lap) {
  const format = hostileFormat(seed);
  lap();
  let bytes;
  try {
    bytes = bytesOf(format, seed % 3 === 0);
  } catch (error) {
    assert.ok(error instanceof Unsupported && error.what.length > 3 && error.what.length < 600, String(error));
    return error.code;
  }
  for (const engine of engines) {
    let matcher;
    try {
      lap();
      matcher = new Matcher(engine, bytes);
      for (let i = 0; i < STEPS; i++) {
        lap();
        const mask = matcher.mask();
        const at = mask.findIndex(Boolean);
        if (at < 0) break;
        matcher.accept(32 * at + 31 - Math.clz32(mask[at]));
      }
      assert.ok(matcher.heapBytes - bytes.length <= MATCHER_BYTES, `${matcher.heapBytes} bytes in the engine`);
    } catch (error) {
      if (/** @type {any} */ (error).code !== 'bad-format') throw error;
    } finally {
      matcher?.dispose();
    }
  }
  return 'compiled';
}

/** Returns the CPU time of this thread in ms, NaN where the system does not report it. */
function cpuTime() {
  try {
    return Number(readFileSync('/proc/thread-self/schedstat', 'utf8').split(' ')[0]) / 1e6;
  } catch {
    return NaN;
  }
}

/** Runs in the compiling thread. Posts the result of each seed, with the elapsed and the CPU time of its longest step.
 * @param {{ first: number, end: number }} work */
async function compileAll({ first, end }) {
  const engines = await Promise.all(VOCABULARIES.map(async (name) => bareEngine(await testModel(name))));
  const sound = toBytes({ choices: ['fine'] });
  for (let seed = first; seed < end; seed++) {
    let how;
    let failure;
    let [ms, cpu] = [0, 0];
    let [before, cpuBefore] = [performance.now(), cpuTime()];
    const lap = () => {
      const [now, cpuNow] = [performance.now(), cpuTime()];
      [ms, cpu] = [Math.max(ms, now - before), Math.max(cpu, cpuNow - cpuBefore)];
      [before, cpuBefore] = [now, cpuNow];
    };
    try {
      how = tryOne(engines, seed, lap);
      for (const engine of engines) {
        lap();
        const matcher = new Matcher(engine, sound);
        assert.ok(matcher.acceptBytes(new TextEncoder().encode('fine')) && matcher.finished, 'the plain call');
        matcher.dispose();
      }
    } catch (error) {
      failure = String(/** @type {any} */ (error).stack);
    }
    lap();
    const heap = Math.max(...engines.map(({ heapBytes }) => heapBytes));
    parentPort?.postMessage({ seed, how, ms, cpu, failure, heap });
  }
}

/** Runs a thread until its seeds are done, or until one of them hangs or kills it. Returns the next seed.
 * @param {{ first: number, end: number }} work
 * @param {(done: { seed: number, how?: keyof Counts, ms?: number, cpu?: number, failure?: string,
 *   heap?: number }) => void} hear */
async function runThread(work, hear) {
  let seed = work.first;
  const worker = new Worker(new URL(import.meta.url), {
    workerData: work,
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
  });
  const failure = await new Promise((resolve) => {
    const timer = setTimeout(resolve, HANGS_MS, 'it hangs');
    worker.on('error', (error) => resolve(String(error)));
    worker.on('message', (done) => {
      timer.refresh();
      hear(done);
      seed = done.seed + 1;
      if (seed === work.end) resolve(clearTimeout(timer));
    });
  });
  await worker.terminate();
  if (failure) hear({ seed: seed++, failure });
  return seed;
}

/** Tries formats with every vocabulary. Returns the counts, and the failures.
 * @param {number} count @param {number} first seed @param {number} [limit] in milliseconds for each */
export async function tryHostile(count, first, limit = Infinity) {
  const end = first + count;
  /** @type {string[]} */
  const failures = [];
  /** @type {Counts} */
  const counts = {
    compiled: 0,
    'bad-format': 0,
    'format-too-complex': 0,
    slowest: { seed: 0, ms: 0 },
    mostCpu: { seed: 0, ms: 0 },
    engineHeap: 0,
  };
  for (let from = first; from < end; ) {
    from = await runThread({ first: from, end }, ({ seed, how, ms = 0, cpu = 0, failure, heap = 0 }) => {
      if (how) counts[/** @type {'compiled'} */ (how)]++;
      if (failure || ms > limit) failures.push(`seed ${seed}: ${failure ?? `${ms.toFixed(0)} ms`}`);
      if (ms > counts.slowest.ms) counts.slowest = { seed, ms };
      if (cpu > counts.mostCpu.ms) counts.mostCpu = { seed, ms: cpu };
      counts.engineHeap = Math.max(counts.engineHeap, heap);
    });
  }
  return { counts, failures };
}

/** Tries `count` formats with each vocabulary. Also reports the peak memory of the process and the machine's load.
 * @param {import('./cases.js').Run} run */
export async function run({ count, seed }) {
  const load = [loadavg()[1]];
  const { counts, failures } = await tryHostile(count, seed, LIMIT_MS);
  load.push(loadavg()[1]);
  const peak = `${(process.resourceUsage().maxRSS / 1000).toFixed(0)} MB`;
  return {
    counts: { lastSeed: seed + count - 1, ...counts, peakOfProcess: peak, loadBeforeAndAfter: load },
    broken: failures,
  };
}

if (!isMainThread && workerData?.end) await compileAll(workerData);
