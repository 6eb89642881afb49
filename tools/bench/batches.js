/**
 * batches: times evaluation steps of 1 to 8 tokens, separately for the layers and the output head. Prints medians in
 * milliseconds, and how many times longer each step takes than a step of one token.
 *
 *   node tools/bench/batches.js MODEL [--rows 1,2,3,4,6,8] [--variant relaxed] [--threads 2] [--times 15]
 *                              [--context 256] [--all] [--sequential] [--modules DIR,DIR]
 *                              [--write]
 *
 * The head computes only the argmax of up to 4 tokens; with --all, all of their logits. --context: number of tokens
 * before the step. --sequential: steps of one token read weights sequentially (src/api.h, gw_autotune). --modules:
 * folders of wasm modules to measure alternately. --write: writes the table of docs/reports/speed.md.
 */
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { RUN } from '../../js/engine/engine.js';
import { loadedEngine } from '../../tests/js/bare-engine.js';
import { keep } from '../../tests/lab/tables.js';
import { at, cli, parseOptions } from '../support/proc.js';
import { median } from './table.js';

/** @import { Engine } from '../../js/engine/engine.js' */

const LOGIT_ROWS = 4;
const SLICE = 16; // number of warm-up steps, after which optimised code is timed

function readArguments() {
  const { values, positionals } = parseOptions(
    {
      rows: '1,2,3,4,6,8',
      variant: 'relaxed',
      threads: 2,
      times: 15,
      context: 256,
      modules: at('js'),
      all: false,
      sequential: false,
      write: false,
    },
    { allowPositionals: true },
  );
  const [model] = positionals;
  if (!model) throw new Error('Name a model: node tools/bench/batches.js MODEL.');
  if (!(values.context > 0)) throw new Error(`--context must be at least 1 (got ${values.context}).`);
  return { ...values, model, rows: values.rows.split(',').map(Number) };
}

/** Evaluates the pending tokens, at most `layers` layers of them, or all if `layers` is 0.
 * @param {Engine} engine @param {number} layers @returns {number} the duration in milliseconds */
function run(engine, layers) {
  const before = performance.now();
  const state = engine.call('run', layers);
  if (!layers && state !== RUN.DONE) throw new Error(`Evaluation stopped in state ${state}.`);
  return performance.now() - before;
}

/** Appends and evaluates n tokens in one step, then removes them. @param {Engine} engine @param {number} n
 * @param {number} context */
function step(engine, n, context) {
  engine.call('want_last', Math.min(n, LOGIT_ROWS));
  for (let i = 0; i < n; i++) engine.call('append', 5000 + 977 * i);
  const layers = run(engine, engine.number('n_layer'));
  const head = run(engine, 0);
  engine.call('truncate', context);
  return { layers, head };
}

/** @param {ReturnType<typeof readArguments>} v @param {string} folder */
async function ready(v, folder) {
  const modules = pathToFileURL(`${resolve(folder)}/`);
  const options = { threads: v.threads, modules, context: v.context + 64 };
  const engine = await loadedEngine(v.model, v.variant, options);
  engine.resetSampler();
  engine.setOption('temperature', 0);
  engine.call('autotune', Number(v.sequential), -1, 1);
  engine.sync(Array.from({ length: v.context }, (_, i) => 1000 + ((i * 7919) % 40000)));
  if (!v.all) engine.call('want_top', 1);
  run(engine, 0);
  for (let i = 0; i < SLICE; i++) step(engine, 1 + (i % 8), v.context);
  return engine;
}

await cli(async () => {
  const v = readArguments();
  const folders = v.modules.split(',');
  /** @type {Engine[]} */
  const engines = [];
  for (const folder of folders) engines.push(await ready(v, folder));
  const times = v.rows.map(() =>
    engines.map(() => ({ layers: /** @type {number[]} */ ([]), head: /** @type {number[]} */ ([]) })),
  );
  for (let turn = 0; turn < v.times; turn++)
    v.rows.forEach((n, i) =>
      engines.forEach((engine, e) => {
        const took = step(engine, n, v.context);
        times[i][e].layers.push(took.layers);
        times[i][e].head.push(took.head);
      }),
    );
  engines.forEach((engine, e) => {
    console.log(`${folders[e]}: ${engine.variant}, Node ${process.version}, threads ${engine.threads}`);
    console.log('rows  layers    head  together  of one');
    /** @type {number | undefined} */
    let one;
    /** @type {string[]} */
    const table = [];
    v.rows.forEach((n, i) => {
      const [layers, head] = [times[i][e].layers, times[i][e].head].map((list) => Number(median(list)));
      one ??= layers + head;
      const cells = [layers, head, layers + head, (layers + head) / one];
      console.log(String(n).padStart(4), ...cells.map((cell) => cell.toFixed(2).padStart(7)));
      const name = `${process.version.split('.')[0].replace('v', 'Node ')}, ${engine.variant.split('+')[0]}`;
      const [together, ofOne] = [cells[2].toFixed(1), cells[3].toFixed(2)];
      table.push(`| ${[name, n, layers.toFixed(1), head.toFixed(1), together, ofOne].join(' | ')} |`);
    });
    if (v.write) keep('reports/speed.md', 'batches', table, 2);
    engine.close();
  });
});
