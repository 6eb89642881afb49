/**
 * test: `npm test`. Installs missing tools, builds everything, runs every kind of test, and prints the number of
 * individual tests on the last line. A failure does not stop the other tests.
 *
 *   npm test -- [--list] [--only STAGE,…] [--quick] [--everywhere] [FILE-SUBSTRING …]
 *
 * --quick: types, lint, dependencies between folders and the fast tests, in about a minute (`npm run check`).
 * --everywhere: runs tests of the page's code in every browser, not only in one. FILE-SUBSTRING selects test files of
 * the JavaScript stages. A stage consists of tasks: each runs a program or a test file. Tasks run in parallel
 * (lanes.js). The output of each task is in build/logs/.
 */
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { inLanes } from './support/lanes.js';
import { Trouble, at, cli, logged, tail } from './support/proc.js';
import { builds, ensure, goals, testEnvironment } from './build/setup.js';

const LONGEST_TASK = 30 * 60; // seconds, so that a hanging test does not block the whole run
const SLOWEST = 8; // number of tasks whose durations are printed at the end

/** @typedef {{ passed: number, failed: number, skipped: number }} Counts */

/**
 * @typedef {object} Task
 * @property {string} name         also the name of its log
 * @property {[program: string, ...args: string[]]} command
 */

/**
 * @typedef {object} Stage
 * @property {string} name
 * @property {(keyof typeof builds)[]} needs
 * @property {() => Task[] | string} tasks    returns the tasks, or the reason for skipping the stage
 * @property {'tests' | 'node' | 'one'} counted     one: each task is one test; else the format of the tasks' summaries
 */

/** Browser test files that need a separate process: one loads the large model, one rebuilds the page. */
const ALONE = /^(big|start)\.test\.js$/;
/** Tasks that rebuild or read dist/ or build/page/. They run one after the other, before the tasks of BROWSERS. */
const IN_TURN = /^(js-build|js-package|docs|size|e2e-bundlers|e2e-start)$/;
/** Tasks that drive a browser: at most two run at once, because each has two engine threads. */
const BROWSERS = /^e2e-/;
/** Number of processes for browser tests. Each starts its own browsers, so there are few. */
const GROUPS = 2;
/** Prefix of the commands of `free` jobs (lanes.js): gives priority to the browser tests, which take longest. */
const LATER = ['nice', '-n', '5'];
/** Duration of each task in its last run, in milliseconds, by its name. The longest start first, so that all lanes
 * (lanes.js) end at about the same time. */
const DURATIONS = at('build', 'durations.json');
/** @type {Record<string, number>} */
const lastDurations = existsSync(DURATIONS) ? JSON.parse(readFileSync(DURATIONS, 'utf8')) : {};

/** @type {string[]} */
let filters = [];

/** Stages and test files of `npm run check`. */
const QUICK = {
  stages: ['c-native', 'tsc', 'lint', 'prose', 'deps', 'style', 'docs', 'js'],
  files: [
    'chat-family',
    'documents',
    'errors',
    'evaluate',
    'generate',
    'grammar.test',
    'lanes',
    'options',
    'partial',
    'rpc',
    'schema-suite',
    'text-formats',
    'text.test',
    'tools.test',
  ],
};

/** @param {string} folder @param {RegExp} pattern */
function list(folder, pattern) {
  if (!existsSync(at(folder))) return [];
  return readdirSync(at(folder))
    .filter((name) => pattern.test(name))
    .sort();
}

/** Test files whose results could depend on the wasm variant. The others test code that both variants share. */
const BOTH_VARIANTS = new RegExp(
  `^(${[
    'chat',
    'drafts',
    'engine-fault',
    'evaluate',
    'exactness',
    'floats',
    'formats',
    'generate',
    'kv-types',
    'life',
    'processors',
    'real-weights',
    'saved',
  ].join('|')})\\.test\\.js$`,
);

/** @param {string} folder @param {RegExp} [pattern] */
function testFiles(folder, pattern = /\.test\.js$/) {
  const picked = (/** @type {string} */ name) => !filters.length || filters.some((part) => name.includes(part));
  return list(folder, pattern).filter(picked);
}

/** Node flags that halve the start time of workers. */
const QUICKLY = ['--import', at('tests/js/quick.js')];

/** Runs each file in a separate process. Does not use `node --test`, which would start a second process for each.
 * @param {string} stage @param {string} program @param {RegExp} [pattern] @returns {Task[]} */
function nodeTests(stage, program, pattern) {
  const folder = 'tests/js';
  return testFiles(folder, pattern).map((file) => ({
    name: `${stage}-${file.replace('.test.js', '')}`,
    command: [program, ...QUICKLY, '--test-reporter=spec', at(folder, file)],
  }));
}

/** Returns the browser tests: a process for each file in ALONE, and a few processes that share browsers for the others.
 * @returns {Task[]} */
function browserTests() {
  const task = (/** @type {string} */ name, /** @type {string[]} */ ...files) =>
    /** @type {Task} */ ({
      name: `e2e-${name}`,
      command: [node, ...QUICKLY, '--test-reporter=spec', ...files.map((file) => at('tests/e2e', file))],
    });
  const all = testFiles('tests/e2e');
  const shared = all.filter((file) => !ALONE.test(file));
  const groups = Array.from({ length: GROUPS }, (_, i) => shared.filter((_, k) => k % GROUPS === i));
  return [
    ...all.filter((file) => ALONE.test(file)).map((file) => task(file.replace('.test.js', ''), file)),
    ...groups.filter((group) => group.length).map((group, i) => task(`${i + 1}`, 'together.js', ...group)),
  ];
}

/** @returns {Task[]} */
function fuzzRuns() {
  return list('tests/fuzz', /^fuzz_.*\.c$/).flatMap((source) => {
    const name = source.replace(/\.c$/, '');
    const corpus = `tests/fuzz/corpus/${name.replace(/^fuzz_/, '')}`;
    const files = [corpus, 'tests/fuzz/corpus/malformed'].flatMap((folder) =>
      list(folder, /./).map((file) => at(folder, file)),
    );
    const program = at('build', 'asan', name);
    return [
      { name, command: /** @type {Task['command']} */ ([program, ...files]) },
      { name: `${name}-own`, command: /** @type {Task['command']} */ ([program]) },
    ];
  });
}

/** C tests to run natively with relaxed kernels. For the other tests, these kernels make no difference; the stage
 * c-relaxed runs all tests with them. */
const KERNEL_TESTS = ['test_kernels', 'test_topk', 'test_proof'];

/** Returns the C tests of a native build and, if SIMDe is installed, KERNEL_TESTS of the same engine with relaxed
 * kernels. @param {string} build @returns {Task[]} */
function cTests(build) {
  const relaxed = at('build', build, 'gw_tests_relaxed');
  /** @type {Task[]} */
  const tasks = [{ name: `c-${build}`, command: [at('build', build, 'gw_tests')] }];
  return existsSync(relaxed) ? [...tasks, { name: `c-${build}-relaxed`, command: [relaxed, ...KERNEL_TESTS] }] : tasks;
}

const node = process.execPath;
const newer = () => testEnvironment().GW_NODE_NEW;
const noNewer = 'there is no Node with relaxed SIMD for this platform (GW_NODE_NEW can name one)';
const tsc = at('node_modules', 'typescript', 'bin', 'tsc');

/** @param {string} name @param {Stage['counted']} counted @param {Stage['needs']} needs
 * @param {() => [string, ...string[]]} command @returns {Stage} */
function single(name, counted, needs, command) {
  return { name, counted, needs, tasks: () => [{ name, command: command() }] };
}

/** @type {Stage[]} */
const stages = [
  { name: 'c-native', needs: ['native'], counted: 'tests', tasks: () => cTests('native') },
  { name: 'c-asan', needs: ['asan'], counted: 'tests', tasks: () => cTests('asan') },
  single('c-tsan', 'tests', ['tsan'], () => [at('build/tsan/gw_tests'), '--threaded']),
  single('families', 'node', ['asan', 'tsan', 'wasm', 'quick'], () => [
    node,
    ...QUICKLY,
    '--test-reporter=spec',
    at('tests/families/families.test.js'),
  ]),
  {
    name: 'c-simd128',
    needs: ['wasm'],
    counted: 'tests',
    tasks: () => {
      const tests = at('build/wasm/gw_tests_simd128.mjs');
      // Without AVX, V8's baseline compiler compiled i8x16.swizzle wrongly in V8 11.3 (Node 20).
      const flags = ['--no-enable-avx', '--liftoff-only'];
      return [
        { name: 'c-simd128', command: [node, tests] },
        { name: 'c-simd128-no-avx', command: [node, ...flags, tests, ...KERNEL_TESTS] },
      ];
    },
  },
  {
    name: 'c-relaxed',
    needs: ['wasm'],
    counted: 'tests',
    tasks: () => {
      return newer() ? [{ name: 'c-relaxed', command: [newer(), at('build/wasm/gw_tests_relaxed.mjs')] }] : noNewer;
    },
  },
  { name: 'fuzz', needs: ['asan'], counted: 'one', tasks: fuzzRuns },
  // The incremental build info makes later runs of tsc faster.
  single('tsc', 'one', [], () => [
    node,
    tsc,
    '-p',
    at('tsconfig.json'),
    '--incremental',
    '--tsBuildInfoFile',
    at('build/tsc.tsbuildinfo'),
  ]),
  single('deps', 'one', [], () => [node, at('tools/check/layers.js')]),
  single('lint', 'one', [], () => [at('node_modules', '.bin', 'biome'), 'ci', '--diagnostic-level=warn']),
  single('prose', 'one', [], () => [node, at('tools/check/prose.js')]),
  single('style', 'one', [], () => [node, at('tools/check/c-style.js')]),
  single('docs', 'one', [], () => [node, at('tools/release/readme.js'), '--check']),
  single('size', 'one', ['wasm', 'page', 'site', 'package', 'types'], () => [node, at('tools/check/sizes.js')]),
  { name: 'js', needs: ['wasm', 'quick'], counted: 'node', tasks: () => nodeTests('js', node) },
  {
    name: 'js-relaxed',
    needs: ['wasm', 'quick'],
    counted: 'node',
    tasks: () => (newer() ? nodeTests('js-relaxed', newer(), BOTH_VARIANTS) : noNewer),
  },
  // The stage runs only the quick tests of bundlers. node tests/apps/run.js runs all.
  {
    name: 'bundlers',
    needs: ['wasm', 'package', 'types'],
    counted: 'node',
    tasks: () => [{ name: 'e2e-bundlers', command: [node, '--test-reporter=spec', at('tests/apps/apps.test.js')] }],
  },
  { name: 'e2e', needs: ['wasm', 'quick', 'page', 'site', 'package', 'types'], counted: 'node', tasks: browserTests },
];

/** @param {string} text @param {RegExp} pattern */
const numberIn = (text, pattern) => Number(text.match(pattern)?.[1] ?? 0);

/**
 * Counts the individual tests in a task's output. Returns null if it has no summary, for example after a crash.
 * @param {Stage['counted']} counted @param {string} text @param {number} status
 * @returns {Counts | null}
 */
function count(counted, text, status) {
  if (counted === 'one') return { passed: Number(status === 0), failed: Number(status !== 0), skipped: 0 };
  if (counted === 'tests') {
    const [, passed, failed, skipped] = text.match(/(\d+) passed, (\d+) failed, (\d+) skipped\s*$/)?.map(Number) ?? [];
    return passed === undefined ? null : { passed, failed, skipped };
  }
  if (!/^ℹ tests \d+$/m.test(text)) return null;
  return {
    passed: numberIn(text, /^ℹ pass (\d+)$/m),
    failed: numberIn(text, /^ℹ fail (\d+)$/m) + numberIn(text, /^ℹ cancelled (\d+)$/m),
    skipped: numberIn(text, /^ℹ skipped (\d+)$/m) + numberIn(text, /^ℹ todo (\d+)$/m),
  };
}

/** @param {string} name of a task @returns {import('./support/lanes.js').Job['beside']} */
const besides = (name) => (IN_TURN.test(name) ? 'turn' : BROWSERS.test(name) ? 'pair' : 'free');

/**
 * Runs a task of a stage and counts its tests. A crash counts as at least one failure.
 * @param {Stage} stage @param {Task} task
 */
async function runTask(stage, { name, command }) {
  const [program, ...args] = besides(name) === 'free' ? [...LATER, ...command] : command;
  const env = { ...testEnvironment(), UBSAN_OPTIONS: 'print_stacktrace=1', FORCE_COLOR: '0' };
  const { status, log } = await logged(name, program, args, { env, timeout: LONGEST_TASK });
  const counts = count(stage.counted, readFileSync(log, 'utf8'), status) ?? { passed: 0, failed: 1, skipped: 0 };
  if (status !== 0 && counts.failed === 0) counts.failed = 1;
  if (counts.failed)
    console.log(`\n--- ${program} ${args.join(' ')} (status ${status}); end of ${log}:\n${tail(log, 60)}\n---`);
  return counts;
}

/** @param {Counts} sum @param {Counts} counts */
function add(sum, counts) {
  for (const key of /** @type {(keyof Counts)[]} */ (Object.keys(sum))) sum[key] += counts[key];
}

/** Prints the result of a stage. A stage without tests counts as failed.
 * @param {string} name @param {Counts} sum @param {string} why */
function report(name, sum, why) {
  if (sum.passed + sum.failed + sum.skipped === 0) sum.failed = 1;
  const result = sum.failed ? `FAILED ${sum.failed}, passed ${sum.passed}` : `passed ${sum.passed}`;
  console.log(`${name.padEnd(12)} ${result}${sum.skipped ? `, skipped ${sum.skipped}` : ''} (${why})`);
}

/** Duration of each task of this run, in milliseconds, by its name. @type {Map<string, number>} */
const durations = new Map();

/**
 * Returns the tasks of a stage as jobs. The last job to end prints the stage's result.
 * @param {Stage} stage @param {Set<string>} broken builds that failed @param {(counts: Counts) => void} done
 * @returns {import('./support/lanes.js').Job[]}
 */
function jobsOf(stage, broken, done) {
  const sum = { passed: 0, failed: 0, skipped: 0 };
  const lost = stage.needs.filter((name) => broken.has(name));
  const tasks = lost.length ? [] : stage.tasks();
  if (typeof tasks === 'string') {
    console.log(`${stage.name.padEnd(12)} skipped: ${tasks}`);
    done({ ...sum, skipped: 1 });
    return [];
  }
  if (!tasks.length) {
    report(stage.name, sum, lost.length ? `not built: ${lost.join(', ')}` : 'found no tests');
    done(sum);
  }
  let [left, milliseconds] = [tasks.length, 0];
  return tasks.map((task) => ({
    beside: besides(task.name),
    expected: lastDurations[task.name] ?? LONGEST_TASK * 1000,
    run: async () => {
      const started = Date.now();
      add(sum, await runTask(stage, task));
      durations.set(task.name, Date.now() - started);
      milliseconds += Date.now() - started;
      if (--left > 0) return;
      report(stage.name, sum, `${(milliseconds / 1000).toFixed(1)} s`);
      done(sum);
    },
  }));
}

/** @param {Stage[]} chosen @returns {Promise<Set<string>>} the failed builds */
async function build(chosen) {
  const broken = new Set();
  for (const name of /** @type {(keyof typeof builds)[]} */ (Object.keys(builds))) {
    if (!chosen.some((stage) => stage.needs.includes(name))) continue;
    try {
      await ensure([builds[name]]);
    } catch (error) {
      if (!(error instanceof Trouble)) throw error;
      console.log(error.message);
      broken.add(name);
    }
  }
  return broken;
}

/** @returns {{ chosen: Stage[], listOnly: boolean }} */
function options() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      only: { type: 'string', multiple: true, default: [] },
      list: { type: 'boolean', default: false },
      quick: { type: 'boolean', default: false },
      everywhere: { type: 'boolean', default: false },
    },
  });
  filters = values.quick ? QUICK.files : positionals;
  if (values.everywhere) process.env.GW_EVERYWHERE = '1';
  const wanted = values.quick ? QUICK.stages : values.only.flatMap((names) => names.split(','));
  const unknown = wanted.filter((name) => !stages.some((stage) => stage.name === name));
  if (unknown.length)
    throw new Trouble(`Unknown stage ${unknown.join(', ')}. The stages are ${stages.map((s) => s.name).join(', ')}.`);
  return { chosen: stages.filter((stage) => !wanted.length || wanted.includes(stage.name)), listOnly: values.list };
}

await cli(async () => {
  const { chosen, listOnly } = options();
  if (listOnly) return console.log(chosen.map((stage) => stage.name).join('\n'));
  const started = Date.now();
  await ensure(goals.testTools);
  const broken = await build(chosen);
  const sum = { passed: 0, failed: 0, skipped: 0 };
  await inLanes(chosen.flatMap((stage) => jobsOf(stage, broken, (counts) => add(sum, counts))));
  if (sum.failed) process.exitCode = 1;
  writeFileSync(DURATIONS, JSON.stringify({ ...lastDurations, ...Object.fromEntries(durations) }));
  const slowest = [...durations].sort(([, a], [, b]) => b - a).slice(0, SLOWEST);
  const seconds = slowest.map(([name, milliseconds]) => `${name} ${Math.round(milliseconds / 1000)} s`);
  console.log(`\nThe slowest: ${seconds.join(', ')}`);
  const minutes = ((Date.now() - started) / 60000).toFixed(1);
  console.log(`${sum.passed} passed, ${sum.failed} failed, ${sum.skipped} skipped (${minutes} min)`);
});
