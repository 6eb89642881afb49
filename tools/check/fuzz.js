/**
 * fuzz: `npm run fuzz -- [--minutes N] [--runs N] [--merge] [HARNESS …]`. Builds the harnesses of tests/fuzz
 * with libFuzzer, ASan and UBSan and runs them one after another, each for some minutes. A finding stops the
 * run and is saved in build/fuzz/findings. New inputs stay in build/fuzz/work; --merge copies those that increase
 * coverage into the corpus, which `npm test` replays without libFuzzer.
 * Needs clang with its compiler-rt (Debian: clang-19 and libclang-rt-19-dev). GW_CLANG selects another clang.
 */
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { Trouble, at, cli, parseOptions } from '../support/proc.js';

/** For each harness: the maximal input length in bytes, whether it uses the dictionary gguf.dict, and the time limit in
 * seconds for one input. The limit for grammars is higher, because one input can compute thousands of masks. */
const HARNESSES = {
  gguf: { length: 2048, words: true, seconds: 20 },
  load: { length: 512, words: true, seconds: 20 },
  tokenizer: { length: 512, words: false, seconds: 20 },
  bpe: { length: 512, words: false, seconds: 20 },
  grammar: { length: 512, words: false, seconds: 180 },
  sampler: { length: 256, words: false, seconds: 20 },
  state: { length: 2048, words: false, seconds: 20 },
};
/** Maximal sizes in bytes of one file of the fuzz corpus, and of all files of one harness. */
const MOST = { file: 512, harness: 48 * 1024 };

/** @typedef {keyof typeof HARNESSES} Harness */

/** @param {string} program @param {string[]} args */
function run(program, args) {
  const environment = { ASAN_OPTIONS: 'quarantine_size_mb=8', UBSAN_OPTIONS: 'print_stacktrace=1', ...process.env };
  const { status, error } = spawnSync(program, args, { cwd: at(), stdio: 'inherit', env: environment });
  if (error || status !== 0) throw new Trouble(`${program} ${error?.message ?? `exited with status ${status}`}`);
}

function findClang() {
  const names = [process.env.GW_CLANG, 'clang', ...Array.from({ length: 12 }, (_, i) => `clang-${22 - i}`)];
  const found = names.find((name) => name && spawnSync(name, ['--version']).status === 0);
  if (!found)
    throw new Trouble('clang is missing. Install it (Debian: clang-19 and libclang-rt-19-dev) or set GW_CLANG.');
  return found;
}

/** @param {Harness[]} names */
function build(names) {
  run('cmake', ['--preset', 'fuzz', `-DCMAKE_C_COMPILER=${findClang()}`]);
  run('cmake', ['--build', '--preset', 'fuzz', '-j2', '--target', ...names.map((name) => `fuzz_${name}`)]);
}

/** @param {Harness} name */
function folders(name) {
  const work = at('build', 'fuzz', 'work', name);
  const findings = at('build', 'fuzz', 'findings');
  const corpus = at('tests', 'fuzz', 'corpus', name);
  for (const folder of [work, findings, corpus]) mkdirSync(folder, { recursive: true });
  return { work, findings, corpus, seeds: [corpus, at('tests', 'fuzz', 'corpus', 'malformed')] };
}

/** @param {Harness} name @param {{ minutes: number, runs: number }} limits */
function fuzz(name, { minutes, runs }) {
  const { work, findings, seeds } = folders(name);
  const { length, words, seconds } = HARNESSES[name];
  run(at('build', 'fuzz', `fuzz_${name}`), [
    `-max_total_time=${Math.round(minutes * 60)}`,
    `-runs=${runs}`,
    `-max_len=${length}`,
    '-print_final_stats=1',
    `-timeout=${seconds}`,
    `-artifact_prefix=${findings}/${name}-`,
    ...(words ? [`-dict=${at('tests', 'fuzz', 'gguf.dict')}`] : []),
    work,
    ...seeds,
  ]);
}

/** Copies new inputs that increase coverage into the corpus, smallest first, up to its size limit.
 * @param {Harness} name */
function merge(name) {
  const { work, corpus, seeds } = folders(name);
  const merged = at('build', 'fuzz', `merged-${name}`);
  rmSync(merged, { recursive: true, force: true });
  mkdirSync(merged);
  for (const folder of seeds) {
    for (const file of readdirSync(folder)) copyFileSync(`${folder}/${file}`, `${merged}/${file}`);
  }
  const before = new Set(readdirSync(merged));
  run(at('build', 'fuzz', `fuzz_${name}`), ['-set_cover_merge=1', `-max_len=${MOST.file}`, merged, work]);
  const files = readdirSync(merged)
    .filter((file) => !before.has(file))
    .map((file) => ({ file, size: statSync(`${merged}/${file}`).size }))
    .sort((a, b) => a.size - b.size);
  let total = readdirSync(corpus).reduce((sum, file) => sum + statSync(`${corpus}/${file}`).size, 0);
  let added = 0;
  for (const { file, size } of files) {
    if (total + size > MOST.harness) break;
    copyFileSync(`${merged}/${file}`, `${corpus}/${file.slice(0, 12)}`);
    total += size;
    added++;
  }
  console.log(`${name}: added ${added} of ${files.length} new files to the corpus, which now has ${total} bytes`);
}

cli(async () => {
  const { values, positionals } = parseOptions({ minutes: 5, runs: -1, merge: false }, { allowPositionals: true });
  const all = /** @type {Harness[]} */ (Object.keys(HARNESSES));
  const wrong = positionals.find((name) => !Object.hasOwn(HARNESSES, name));
  if (wrong) throw new Trouble(`Unknown harness ${wrong}. The harnesses are ${all.join(', ')}.`);
  const names = positionals.length ? /** @type {Harness[]} */ (positionals) : all;
  build(names);
  for (const name of names) {
    if (values.merge) merge(name);
    else fuzz(name, values);
  }
});
