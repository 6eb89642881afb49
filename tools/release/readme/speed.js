/**
 * speed: formats the benchmark's figures in docs/measured.json: full tables, a short table with one row per runtime,
 * and a comparison with other runtimes.
 */
import { CALM, columnsOf, percent, threadCount } from '../../bench/table.js';
import { samplingOptions } from './generated.js';
import { NOT_YET, cell, table } from './markdown.js';

/** @typedef {import('./take.js').Measured} Measured */
/** @typedef {import('./take.js').Speed} Speed */
/** @typedef {import('./take.js').SpeedOf} SpeedOf */

/** Formats a figure with three significant digits, from 100 on as an integer. @param {number | undefined} value */
function figure(value) {
  if (value === undefined) return '-';
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

/** @param {string} column */
const columnTitle = (column) =>
  column
    .replace(/^load s$/, 'load, s')
    .replace(/^prefill (\d+)$/, 'prefill of $1 tokens, tokens/s')
    .replace(/^decode @0$/, 'greedy decode, tokens/s')
    .replace(/^decode sampled$/, 'decode with default sampling, tokens/s')
    .replace(/^decode @(\d+)$/, 'greedy decode after $1 tokens, tokens/s')
    .replace(/^turn ms$/, 'first token of a new turn, ms')
    .replace(/^memory MB$/, 'peak memory, MB');

/** Returns a section for each model and the conditions of the measurement, or NOT_YET if there is none.
 * @param {Measured} measured */
export function speedTable({ speed }) {
  if (!speed) return NOT_YET;
  const tables = speed.models.map((part) => `${describeModel(part)}\n\n${sideTable(part)}\n\n${limits(part)}`);
  return [...tables, conditions(speed)].join('\n\n');
}

/** @param {SpeedOf} part */
function sideTable({ results }) {
  const columns = columnsOf(results.map(({ medians }) => medians));
  const rows = results.map(({ title, threads, medians, error }) => [
    error && !Object.keys(medians).length ? `${title} (failed)` : title,
    String(threads),
    ...columns.map((column) => figure(medians[column])),
  ]);
  return table(['runtime', 'threads', ...columns.map(columnTitle)], rows, columns.length + 1);
}

/** Real models with the exact shape of a test model, by the beginning of the test model's file name. */
const SHAPES = { 'oneb-': 'Gemma 3 1B', 'gemma4-e2b-': 'Gemma 4 E2B' };

/** @param {SpeedOf} part */
function describeModel({ model, modelBytes }) {
  const [, name] = Object.entries(SHAPES).find(([begin]) => model.startsWith(begin)) ?? [];
  const shape = name ? `, the exact shape of ${name} with random weights` : '';
  return `${model.replace(/-[0-9a-f]{12}(?=\.gguf$)/, '')}, ${(modelBytes / 1e6).toFixed(0)} MB${shape}:`;
}

/** Describes the machine's memory bandwidth, and failed runtimes. @param {SpeedOf} part */
function limits({ decodeShare, results }) {
  const shares = decodeShare.map(
    ({ threads, bytesPerSecond, share }) =>
      `With ${threadCount(threads)}, a loop that only reads memory reaches ` +
      `${(bytesPerSecond / 1e9).toFixed(1)} GB/s on this machine. Greedy decoding in Chromium would need ` +
      `${percent(share)} of that if it read all weights for each token.`,
  );
  const failed = results
    .filter(({ error }) => error)
    .map(({ title, threads, error }) => `${title}, ${threadCount(threads)}, failed: ${cell(error ?? '')}.`);
  return [...shares, ...failed].join(' ');
}

/** Returns the number of runs as text, and the number for each runtime that was measured fewer times.
 * @param {number} runs @param {SpeedOf['results']} results */
function visits(runs, results) {
  const slow = results.filter(({ samples }) => samples > 0 && samples < runs);
  const names = [...new Set(slow.map(({ title, samples }) => `${title}: ${samples}`))];
  return `${runs} run${runs > 1 ? 's' : ''}${names.length ? ` (${names.join('; ')})` : ''}`;
}

/** @param {Speed} speed */
function conditions({ date, machine: about, runs, models }) {
  const results = models.flatMap((part) => part.results);
  const sorted = models.flatMap(({ busy }) => busy).sort((a, b) => a - b);
  const [usual, most] = [sorted[sorted.length >> 1] ?? 0, sorted.at(-1) ?? 0].map(percent);
  const calm = (sorted.at(-1) ?? 0) > CALM ? ', so the numbers are not reliable' : '';
  const browsers = [about.chromium, about.firefox]
    .filter(Boolean)
    .join(', ')
    .replace(/ built on [^,]*/, '');
  return [
    `${date.slice(0, 10)}; ${about.processor}, ${about.cores} cores; ${browsers}, Node ${about.node}.`,
    `Medians of ${visits(runs, results)}. A run measures the runtimes in turn.`,
    ...(results.some(({ deep = 0 }) => deep > 0 && deep < runs) ? ['Long contexts were measured once.'] : []),
    `Before a measurement, other programs used ${usual} of the processor time (median), ${most} at most${calm}.`,
  ].join(' ');
}

/** The simd128 build, which the short table does not list. */
const FALLBACK = 'gemma-simd128';

/** Default values of the sampling options that cost time. */
const SAMPLING = samplingOptions()
  .filter(({ name }) => ['temperature', 'topK', 'topP'].includes(name))
  .map(({ sampler, standard }) => `${sampler.replace('_', '-')} ${standard}`);

/** Columns of the short table. Columns without figures are omitted. */
const SHORT = ['load s', 'prefill 256', 'decode @0', 'decode sampled', 'memory MB'];

/** Returns the first model's medians with two threads, from the newer one of the two benchmarks.
 * @param {Measured} measured */
export function shortTable({ speed: full, short }) {
  const speed = short && (!full || short.date > full.date) ? short : full;
  if (!speed) return NOT_YET;
  const [part] = speed.models;
  const results = part.results.filter(({ side, threads }) => threads === 2 && side !== FALLBACK);
  const columns = SHORT.filter((column) => results.some(({ medians }) => column in medians));
  const rows = results.map(({ title, medians }) => [title, ...columns.map((column) => figure(medians[column]))]);
  const sampling = `the defaults of Gemma models and of the page (${SAMPLING.join(', ')})`;
  const sampled = columns.includes('decode sampled')
    ? `Default sampling means ${sampling}.`
    : `Decoding with ${sampling} was not measured.`;
  const where = [
    `Measured on ${speed.date.slice(0, 10)} on ${speed.machine.processor}, ${speed.machine.cores} cores, with 2 threads.`,
    `Model: ${describeModel(part).replace(/:$/, '')}.`,
    `Medians of ${visits(speed.runs, results)}. A run measures the runtimes in turn.`,
    `Greedy decoding has temperature 0. ${sampled}`,
  ];
  return `${table(['runtime', ...columns.map(columnTitle)], rows, columns.length)}\n\n${where.join(' ')}`;
}

/** Returns the first model's medians in Chromium, and by which factor they are better than the other runtimes'.
 * @param {Measured} measured */
export function holdsTable({ speed }) {
  if (!speed) return NOT_YET;
  const [part] = speed.models;
  const of = (/** @type {string} */ side, threads = 2) => {
    return part.results.find((result) => result.side === side && result.threads === threads);
  };
  const ours = of('gemma-chromium');
  const others = [of('wllama-2.4'), of('native')].flatMap((one) => one ?? []);
  if (!ours) return NOT_YET;
  const times = (/** @type {number | undefined} */ value) => (value ? `${figure(value)} x` : '-');
  const rows = columnsOf([ours.medians]).map((column) => [
    columnTitle(column),
    figure(ours.medians[column]),
    figure(of('gemma-chromium', 1)?.medians[column]),
    ...others.map(({ oursIsBetterBy }) => times(oursIsBetterBy[column])),
  ]);
  const heads = ['figure', '2 threads', '1 thread', ...others.map(({ title }) => `better than ${title}`)];
  return `${describeModel(part)}\n\n${table(heads, rows, heads.length - 1)}`;
}
