/**
 * test: `npm test`. Installs what is missing, builds everything, runs every kind of test, and
 * closes with one line that counts single tests over all of them. A stage that fails does not stop
 * the others.
 *
 *   npm test -- [--list] [--only STAGE,…] [FILE-SUBSTRING …]
 *
 * FILE-SUBSTRING picks test files of the JavaScript stages. Output of each stage: build/logs/.
 */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Trouble, at, cli, logged, tail } from './proc.js';
import { builds, ensure, goals, testEnvironment } from './setup.js';

const LONGEST_STAGE = 30 * 60;   // seconds: a hanging test must not hang the whole run

/** @typedef {{ passed: number, failed: number, skipped: number }} Counts */
/** @typedef {[program: string, ...args: string[]]} Command */

/**
 * @typedef {object} Stage
 * @property {string} name
 * @property {(keyof typeof builds)[]} needs
 * @property {() => Command[] | string} commands    a string: why the stage is skipped
 * @property {'tests' | 'node' | 'one'} counted     how its output is counted
 */

/** @type {string[]} */
let filters = [];

/** Sorted names in a folder, none without the folder. @param {string} folder @param {RegExp} pattern */
function list(folder, pattern) {
  if (!existsSync(at(folder))) return [];
  return readdirSync(at(folder)).filter((name) => pattern.test(name)).sort();
}

/** Files that say nothing new with another wasm variant: tools, text, sources; and the tokenizer, which has no SIMD. */
const SAME_FOR_VARIANTS = new RegExp(`^(${[
  'bench', 'build', 'cache', 'cli', 'download', 'errors', 'hostile', 'hostile-template',
  'options', 'package', 'quantise', 'source', 'split', 'template', 'text', 'tokenizer',
].join('|')})\\.test\\.js$`);

/**
 * One run of Node's test runner over a folder's files.
 * @param {string} node @param {string} folder @param {RegExp} [without] @returns {Command[]}
 */
function nodeTests(node, folder, without = /^$/) {
  const picked = (/** @type {string} */ name) => !filters.length || filters.some((part) => name.includes(part));
  const files = list(folder, /\.test\.js$/).filter((name) => picked(name) && !without.test(name));
  if (!files.length) return [];
  const concurrency = folder.endsWith('e2e') ? ['--test-concurrency=1'] : [];
  return [[node, '--test', '--test-reporter=spec', ...concurrency, ...files.map((name) => at(folder, name))]];
}

/** The corpus of each fuzz harness and the malformed files, then inputs of its own. @returns {Command[]} */
function fuzzRuns() {
  return list('tests/fuzz', /^fuzz_.*\.c$/).flatMap((source) => {
    const name = source.replace(/\.c$/, '');
    const corpus = `tests/fuzz/corpus/${name.replace(/^fuzz_/, '')}`;
    const files = [corpus, 'tests/fuzz/corpus/malformed']
      .flatMap((folder) => list(folder, /./).map((file) => at(folder, file)));
    const program = at('build', 'asan', name);
    return /** @type {Command[]} */ ([[program, ...files], [program]]);
  });
}

const newer = () => testEnvironment().GW_NODE_NEW;
const noNewer = 'no Node with relaxed SIMD for this platform (give one in GW_NODE_NEW)';
const tsc = at('node_modules', 'typescript', 'bin', 'tsc');

/** @type {Stage[]} */
const stages = [
  { name: 'c-native', needs: ['native'], counted: 'tests', commands: () => [[at('build/native/gw_tests')]] },
  { name: 'c-asan', needs: ['asan'], counted: 'tests', commands: () => [[at('build/asan/gw_tests')]] },
  { name: 'c-tsan', needs: ['tsan'], counted: 'tests', commands: () => [[at('build/tsan/gw_tests')]] },
  { name: 'c-simd128', needs: ['wasm'], counted: 'tests',
    commands: () => [[process.execPath, at('build/wasm/gw_tests_simd128.mjs')]] },
  { name: 'c-relaxed', needs: ['wasm'], counted: 'tests',
    commands: () => (newer() ? [[newer(), at('build/wasm/gw_tests_relaxed.mjs')]] : noNewer) },
  { name: 'fuzz', needs: ['asan'], counted: 'one', commands: fuzzRuns },
  { name: 'tsc', needs: [], counted: 'one', commands: () => [[process.execPath, tsc, '-p', at('tsconfig.json')]] },
  { name: 'deps', needs: [], counted: 'one', commands: () => [[process.execPath, at('tools/check-deps.js')]] },
  { name: 'style', needs: [], counted: 'one', commands: () => [[process.execPath, at('tools/check-style.js')]] },
  { name: 'docs', needs: [], counted: 'one', commands: () => [[process.execPath, at('tools/readme.js'), '--check']] },
  { name: 'size', needs: ['wasm', 'package', 'types'], counted: 'one',
    commands: () => [[process.execPath, at('tools/size-report.js')]] },
  { name: 'js', needs: ['wasm'], counted: 'node', commands: () => nodeTests(process.execPath, 'tests/js') },
  { name: 'js-relaxed', needs: ['wasm'], counted: 'node',
    commands: () => (newer() ? nodeTests(newer(), 'tests/js', SAME_FOR_VARIANTS) : noNewer) },
  { name: 'e2e', needs: ['wasm', 'page'], counted: 'node', commands: () => nodeTests(process.execPath, 'tests/e2e') },
];

/** The number that a pattern finds in a text, 0 if it is not there. @param {string} text @param {RegExp} pattern */
const numberIn = (text, pattern) => Number(text.match(pattern)?.[1] ?? 0);

/**
 * Single tests in a stage's output; null if it does not tell (a crash before the summary).
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

/**
 * Runs one command of a stage and counts; what goes wrong counts as at least one failure.
 * @param {Stage} stage @param {Command} command @param {string} logName
 */
async function runCommand(stage, [program, ...args], logName) {
  const env = { ...testEnvironment(), UBSAN_OPTIONS: 'print_stacktrace=1', FORCE_COLOR: '0' };
  const { status, log } = await logged(logName, program, args, { env, timeout: LONGEST_STAGE });
  const counts = count(stage.counted, readFileSync(log, 'utf8'), status) ?? { passed: 0, failed: 1, skipped: 0 };
  const nothing = counts.passed + counts.failed + counts.skipped === 0;
  if ((status !== 0 || nothing) && counts.failed === 0) counts.failed = 1;
  if (counts.failed) console.log(`\n--- ${program} ${args.join(' ')} (status ${status}); end of ${log}:\n${tail(log, 60)}\n---`);
  return counts;
}

/** @param {Stage} stage @param {Set<string>} broken builds that failed @returns {Promise<Counts>} */
async function runStage(stage, broken) {
  const sum = { passed: 0, failed: 0, skipped: 0 };
  const lost = stage.needs.filter((name) => broken.has(name));
  const commands = lost.length ? [] : stage.commands();
  if (typeof commands === 'string') {
    console.log(`${stage.name.padEnd(12)} skipped: ${commands}`);
    return { ...sum, skipped: 1 };
  }
  const started = Date.now();
  for (const [i, command] of commands.entries()) {
    const counts = await runCommand(stage, command, commands.length > 1 ? `${stage.name}-${i + 1}` : stage.name);
    for (const key of /** @type {(keyof Counts)[]} */ (Object.keys(sum))) sum[key] += counts[key];
  }
  const seconds = ((Date.now() - started) / 1000).toFixed(1);
  if (!commands.length) sum.failed = 1;
  const why = lost.length ? `not built: ${lost.join(', ')}` : commands.length ? `${seconds} s` : 'found no tests';
  const result = sum.failed ? `FAILED ${sum.failed}, passed ${sum.passed}` : `passed ${sum.passed}`;
  console.log(`${stage.name.padEnd(12)} ${result}${sum.skipped ? `, skipped ${sum.skipped}` : ''} (${why})`);
  return sum;
}

/** Builds what the stages need. @param {Stage[]} chosen @returns {Promise<Set<string>>} those that failed */
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
  const { values, positionals } = parseArgs({ allowPositionals: true, options: {
    only: { type: 'string', multiple: true, default: [] },
    list: { type: 'boolean', default: false },
  } });
  filters = positionals;
  const wanted = values.only.flatMap((names) => names.split(','));
  const unknown = wanted.filter((name) => !stages.some((stage) => stage.name === name));
  if (unknown.length) throw new Trouble(`No such stage: ${unknown.join(', ')}. There are: ${stages.map((s) => s.name).join(', ')}.`);
  return { chosen: stages.filter((stage) => !wanted.length || wanted.includes(stage.name)), listOnly: values.list };
}

await cli(async () => {
  const { chosen, listOnly } = options();
  if (listOnly) return console.log(chosen.map((stage) => stage.name).join('\n'));
  await ensure(goals.testTools);
  const broken = await build(chosen);
  const sum = { passed: 0, failed: 0, skipped: 0 };
  for (const stage of chosen) {
    const counts = await runStage(stage, broken);
    for (const key of /** @type {(keyof Counts)[]} */ (Object.keys(sum))) sum[key] += counts[key];
  }
  if (sum.failed) process.exitCode = 1;
  console.log(`\n${sum.passed} passed, ${sum.failed} failed, ${sum.skipped} skipped`);
});
