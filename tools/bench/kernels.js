/**
 * kernels: measures matrix products with each type of weights: decode (one row of activations) in GB/s of packed
 * weights, which are as large as in the file, and prefill in GMAC/s. Threads are workers with separate memories that
 * start each measurement together. In decode, the weights exceed the caches. Prints medians of alternate measurements.
 *
 *   node tools/bench/kernels.js [--threads 2] [--rounds 3] [--mb 96] [--prefill] [--wide] [--best] [--only Q5_0,Q6_K]
 *                              [--built] [--streams 1]
 *
 * --wide: int15 activations. --best: takes the fastest pass instead of the mean, for a machine that other programs use.
 * --built: reuses the build of an earlier run. --streams 1: decode reads one stream of weights per thread instead of
 * several (the relaxed engine tries both at loading and keeps the faster one). Measures the build that this Node can
 * use: relaxed SIMD (Node 22 and later) or simd128. Needs emcc.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';
import { at, parseOptions } from '../support/proc.js';
import { median } from './table.js';

const K = 6912;
const K_SHORT = 1152; // row length of Gemma 3 1B's matrices whose rows are not whole super-blocks
const SOURCES = [
  'base/base',
  'base/half',
  'file/types',
  'file/formats',
  ...[
    'pack',
    'pack_planes',
    'ref',
    'q4_relaxed',
    'few_relaxed',
    'activations',
    'round',
    'floats',
    'quants_simd128',
    'quants_relaxed',
    'tiles_relaxed',
    'relaxed',
    'planes_simd128',
    'planes_relaxed',
  ].map((name) => `kernels/${name}`),
];

/** A module with i8x16.relaxed_swizzle, which is valid only with relaxed SIMD. */
const RELAXED = Uint8Array.from([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 15, 1, 13, 0, 65, 0, 253, 15, 65, 0, 253, 15,
  253, 128, 2, 11,
]);

/** Compiles the kernels with kernels.c. If `built`, uses the file of an earlier run. @param {string} variant
 * @param {boolean} [built] @returns {string} path of the wasm file */
function build(variant, built) {
  const folder = at('build', 'bench-kernels');
  const out = `${folder}/${variant}`;
  if (built) return `${out}.wasm`;
  const flags = [
    '-msimd128',
    ...(variant === 'relaxed' ? ['-mrelaxed-simd'] : []),
    '-std=c11',
    '-ffp-contract=off',
    '-mbulk-memory',
    '-DNDEBUG',
  ];
  mkdirSync(folder, { recursive: true });
  const sources = [...SOURCES.map((name) => at('src', `${name}.c`)), at('tools', 'bench', 'kernels.c')];
  const objects = sources.map((source, i) => {
    const rest = ['-O3', `-I${at('src')}`, '-c', source, '-o', `${out}-${i}.o`];
    execFileSync('emcc', [...flags, ...rest], { stdio: 'inherit' });
    return `${out}-${i}.o`;
  });
  execFileSync(
    'emcc',
    [
      ...objects,
      '-O1',
      '--no-entry',
      '-sSTANDALONE_WASM',
      '-sALLOW_MEMORY_GROWTH=1',
      '-sMAXIMUM_MEMORY=4GB',
      '-sSTACK_SIZE=256KB',
      '-sEXPORTED_FUNCTIONS=_bench_set,_bench_streams,_bench_run,_bench_name,_bench_read,_bench_macs',
      '-o',
      `${out}.wasm`,
    ],
    { stdio: 'inherit' },
  );
  return `${out}.wasm`;
}

/** @param {string} path @returns {any} exports of the module */
function instantiate(path) {
  setFlagsFromString('--no-liftoff'); // disables V8's baseline compiler, so that only optimised code is timed
  const none = new Proxy({}, { get: () => () => 0 });
  const imports = new Proxy({}, { get: () => none });
  return new WebAssembly.Instance(new WebAssembly.Module(readFileSync(path)), imports).exports;
}

function work() {
  const engine = instantiate(workerData.path);
  const gate = new Int32Array(workerData.gate);
  let bytes = 0;
  parentPort?.on('message', ({ set, run }) => {
    if (set) {
      bytes = engine.bench_set(set.product, set.bytes, set.k, set.n);
      engine.bench_streams(set.streams);
      parentPort?.postMessage({ bytes });
      return;
    }
    const macs = run.prefill ? engine.bench_macs() : 1;
    const once = () => (run.read ? engine.bench_read() : engine.bench_run(run.wide ? 1 : 0));
    once(); // warm-up: touches pages and fills caches
    const arrived = Atomics.add(gate, 0, 1) + 1; // waits, so that all threads begin measuring together
    while (Atomics.load(gate, 0) < Math.ceil(arrived / workerData.threads) * workerData.threads);
    const begin = performance.now();
    let times = 0;
    let last = begin;
    let least = Infinity;
    do {
      once();
      times++;
      const now = performance.now();
      least = Math.min(least, now - last);
      last = now;
    } while (last - begin < run.ms);
    parentPort?.postMessage({ rate: (bytes * macs) / (run.best ? least : (last - begin) / times) / 1e6 });
  });
}

/** @param {Worker[]} workers @param {any} message @returns {Promise<any[]>} */
const ask = (workers, message) =>
  Promise.all(
    workers.map(
      (worker) =>
        new Promise((resolve) => {
          worker.once('message', resolve);
          worker.postMessage(message);
        }),
    ),
  );

const sumOf = (/** @type {{ rate: number }[]} */ list) => list.reduce((sum, { rate }) => sum + rate, 0);

/** @param {any} engine @returns {string[]} */
function namesOf(engine) {
  const names = [];
  for (let i = 0; engine.bench_name(i); i++) {
    const bytes = new Uint8Array(engine.memory.buffer, engine.bench_name(i), 16);
    names.push(Buffer.from(bytes).toString('latin1').split('\0')[0]);
  }
  return names;
}

/** Returns the weight types and row lengths to measure, always with Q4_0 for comparison. @param {string[]} names
 * of all types @param {string} only the value of --only; '': all types */
const casesOf = (names, only) =>
  names
    .flatMap((name, product) => (/_(K|XS)$/.test(name) ? [K] : [K_SHORT, K]).map((k) => ({ name, product, k })))
    .filter((c) => !only || c.name === 'Q4_0' || only.split(',').includes(c.name));

async function main() {
  const { values: v } = parseOptions({
    threads: 2,
    rounds: 3,
    mb: 96,
    only: '',
    streams: 0,
    prefill: false,
    wide: false,
    best: false,
    built: false,
  });
  const { threads } = v;
  const variant = WebAssembly.validate(RELAXED) ? 'relaxed' : 'simd128';
  const path = build(variant, v.built);
  const n = v.prefill ? 64 : 1;
  const bytes = v.prefill ? 4e6 : (v.mb * 1e6) / threads;
  const workerData = { path, threads, gate: new SharedArrayBuffer(4) };
  const workers = Array.from({ length: threads }, () => new Worker(new URL(import.meta.url), { workerData }));
  const cases = casesOf(namesOf(instantiate(path)), v.only);
  /** @type {Record<string, number[]>} */
  const rates = {};
  const measure = async (/** @type {string} */ name, /** @type {object} */ run) => {
    const answers = await ask(workers, { run: { ...run, best: v.best, ms: 150 } });
    (rates[name] ??= []).push(sumOf(answers));
  };
  for (let round = 0; round < v.rounds; round++) {
    for (const c of cases) {
      await ask(workers, { set: { ...c, bytes, n, streams: v.streams } });
      await measure(`${c.name} ${c.k}`, { wide: v.wide, prefill: v.prefill });
    }
    await measure('plain reads', { read: true });
  }
  console.log(
    `${variant}, Node ${process.version}, threads ${threads}, ${v.wide ? 'int15' : 'int8'} activations, ` +
      (v.prefill ? 'prefill in GMAC/s' : 'decode in GB/s'),
  );
  for (const [name, list] of Object.entries(rates)) {
    const measureOf = rates[`Q4_0 ${name.split(' ')[1]}`] ?? rates[`Q4_0 ${K}`];
    const [ours, theirs] = [list, measureOf].map((one) => Number(median(one)));
    console.log(name.padEnd(14), ours.toFixed(1).padStart(7), (ours / theirs).toFixed(2).padStart(6));
  }
  await Promise.all(workers.map((w) => w.terminate()));
}

if (isMainThread) await main();
else work();
