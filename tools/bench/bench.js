/**
 * bench: compares gemma-wasm with other runtimes (peers) on this machine. A side is a runtime in Node or in a browser.
 *
 *   npm run bench -- [--quick] [--sides A,B] [--threads 2,1] [--runs N] [--json FILE] [--list]
 *                    [--model NAME|PATH,…] [--prefill 256,1024] [--contexts 0,4096,16384] [--tokens N] [--turn]
 *                    [--busy N] [--neighbour SECONDS] [--patience SECONDS] [--slow SECONDS]
 *   npm run bench -- --report [--model NAME|PATH] [--sides A,B] [--threads 2,1] [--tokens N]
 *
 * Without options, it measures all sides (--list) with 2 threads and 1 thread, on a model of Gemma 3 1B's shape in Q4_0
 * and then in Q8_0: prefill of 256 and 1024 tokens, and decode after 0 and, on fast sides, 4096 and 16384 tokens. This
 * takes an hour or two for each model. --quick (only gemma-wasm and wllama 2.4.0, Q4_0, 2 threads, no long prompts) and
 * --report (only gemma-wasm, in Node and, if found, in Chromium; prints Markdown to send back) take minutes.
 *
 * Each round measures every side once, in changing order, so that slow minutes of the machine affect all sides. Each
 * measurement (visit.js) starts a new browser or process and times loading from a local server, prefill (until the
 * first token) and decode (greedy, end tokens ignored; gemma-wasm also with its default sampling), and takes the peak
 * memory. Prints medians, and how many times better gemma-wasm in Chromium is than each other side with as many
 * threads. Long contexts are measured separately, only with the largest number of threads, so that all sides load with
 * the same context length. These measurements also time decode at 0, so that the speeds at 0 and after long contexts
 * come from the same minutes. A measurement that took longer than --slow seconds is not repeated, and prompts that
 * would take longer are skipped.
 *
 * --turn: also times the first token of a new turn, on sides that reuse the history's KV cache. --busy N: runs N
 * processes that each keep a core busy. --neighbour N (default 60, with --quick 0): for N seconds, measures gemma-wasm
 * in one page alternately with one thread, with the largest number of threads, and with these beside a busy process.
 * --patience N: waits up to N seconds before each measurement until other programs are idle.
 */
import { openSync, readSync, closeSync, existsSync, statSync, writeFileSync, mkdirSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { basename, dirname, resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { MODELS, readHeader, testModel } from '../../tests/js/models.js';
import { tensorBytes } from '../models/gguf-write.js';
import { Trouble, at, cli, parseOptions } from '../support/proc.js';
import { buildPage } from './browser.js';
import { machine } from './machine.js';
import { install, isInstalled } from './peers.js';
import { TURN } from './measure.js';
import { besideNeighbour, keepBusy } from './neighbour.js';
import { report as reportMachine } from './report.js';
import { OURS, QUICK, SIDES } from './sides.js';
import { CALM, median, medians, percent, ratios, remarks, render, summary } from './table.js';
import { readBandwidth, visit } from './visit.js';

/** @typedef {import('./table.js').Result} Result */
/** @typedef {import('./measure.js').Sample} Sample */
/** @typedef {ReturnType<typeof readOptions>} Options */
/** Bandwidths of plain reads with `threads` threads, one per round, in bytes per second: from memory, and from
 * processor caches (`cached`).
 * @typedef {{ threads: number, bytesPerSecond: number[], cached: number[] }} Reads */

/** Context lengths are multiples of this number of tokens. */
const CONTEXT_STEP = 256;

/** Options of the command line, with their defaults. Where the default is '', readOptions() chooses one that depends on
 * other options. */
const DEFAULTS = {
  quick: false,
  report: false,
  list: false,
  sides: '',
  threads: '',
  runs: '3',
  model: '',
  prefill: '',
  contexts: '',
  tokens: '',
  turn: false,
  busy: '0',
  neighbour: '',
  patience: '0',
  slow: '200',
  json: at('build', 'bench.json'),
};

/** @param {string} text @param {string} name @param {number} least */
function integers(text, name, least) {
  const all = text.split(',').map(Number);
  if (all.every((n) => Number.isInteger(n) && n >= least)) return all;
  throw new Trouble(`--${name} must be integers of at least ${least}, separated by commas (got ${text}).`);
}

function readOptions() {
  const { values } = parseOptions(DEFAULTS);
  const { quick } = values;
  const sides = values.sides ? values.sides.split(',') : quick ? QUICK : Object.keys(SIDES);
  const unknown = sides.find((side) => !Object.hasOwn(SIDES, side));
  if (unknown !== undefined)
    throw new Trouble(`Unknown side ${unknown}. The sides are ${Object.keys(SIDES).join(', ')}.`);
  const [runs] = integers(values.runs, 'runs', 1);
  const [tokens] = integers(values.tokens || (quick ? '32' : '64'), 'tokens', 1);
  const [busy] = integers(values.busy, 'busy', 0);
  const [neighbour] = integers(values.neighbour || (quick ? '0' : '60'), 'neighbour', 0);
  const [patience] = integers(values.patience, 'patience', 0);
  const [slow] = integers(values.slow, 'slow', 0);
  return {
    ...values,
    given: values,
    sides,
    runs,
    tokens,
    busy,
    neighbour,
    patience,
    slow,
    models: (values.model || (quick ? 'oneb-q4_0' : 'oneb-q4_0,oneb-q8_0')).split(','),
    threads: integers(values.threads || (quick ? '2' : '2,1'), 'threads', 1),
    prefill: integers(values.prefill || (quick ? '256' : '256,1024'), 'prefill', 1).sort((a, b) => a - b),
    contexts: integers(values.contexts || (quick ? '0' : '0,4096,16384'), 'contexts', 0),
  };
}

/** Returns the path of a model, which is made if it does not exist. @param {string} name of a test model, or a path */
async function findModel(name) {
  if (Object.hasOwn(MODELS, name)) return testModel(name);
  if (existsSync(name)) return resolve(name);
  throw new Trouble(`The model ${name} is neither a file nor one of ${Object.keys(MODELS).join(', ')}.`);
}

/** Tensor of Gemma 4 from which decode reads only one row per token. */
const TABLE = 'per_layer_token_embd.weight';

/** Returns the number of bytes of weights that decode reads for each token: all except TABLE. The embedding counts,
 * because it is also the output head.
 * @param {string} path */
function weightBytes(path) {
  const file = openSync(path, 'r');
  try {
    const { size } = statSync(path);
    const head = Buffer.alloc(Math.min(size, 64e6));
    readSync(file, head, 0, head.length, 0);
    const { dataOffset, tensors } = readHeader(head);
    const table = tensors.find(({ name }) => name === TABLE);
    return size - dataOffset - (table ? tensorBytes(table.type, table.shape) : 0);
  } finally {
    closeSync(file);
  }
}

/** Waits a second. Returns the share of all cores' time that programs used meanwhile. */
async function busyShare() {
  const read = () =>
    cpus().reduce(
      ([busy, all], { times }) => {
        const total = Object.values(times).reduce((a, b) => a + b);
        return [busy + total - times.idle, all + total];
      },
      [0, 0],
    );
  const [busy, all] = read();
  await wait(1000);
  const [busyAfter, allAfter] = read();
  return (busyAfter - busy) / (allAfter - all);
}

/** Waits up to `patience` seconds until other programs are idle. Returns the share of the machine that they still use.
 * @param {Options} options */
async function settleDown({ patience, busy }) {
  const until = performance.now() + patience * 1000;
  let share = await busyShare();
  while (!busy && share > CALM && performance.now() < until) share = await busyShare();
  return share;
}

/** @param {Options} options */
function plan({ sides, threads }) {
  return sides.flatMap((side) =>
    threads.map((count) => {
      return /** @type {Result} */ ({ side, title: SIDES[side].title, threads: count, samples: [], deep: [] });
    }),
  );
}

/** Returns a context length for the longest prompt and its answer. @param {number[]} lengths of the prompts
 * @param {number} tokens of each answer */
const room = (lengths, tokens) => Math.ceil((Math.max(...lengths) + tokens + 1) / CONTEXT_STEP) * CONTEXT_STEP;

/** Returns a side's settings for short contexts (`plain`) and for long contexts (`deep`: null if they are not
 * measured).
 * @param {Options} options @param {Result} result @param {number} round */
function settings({ prefill, contexts, tokens, turn, slow, threads: counts }, { side, threads }, round) {
  const common = { threads, tokens, longest: slow, seed: 1000 * round };
  const short = contexts.filter((context) => context === 0);
  const long = contexts.filter((context) => context > 0);
  const contextLength = room([...prefill, turn ? TURN.history + TURN.message : 0], tokens);
  const deep = long.length > 0 && SIDES[side].deep && threads === Math.max(...counts);
  const far = { ...common, prefill: [], contexts: [0, ...long, 0], turn: false, contextLength: room(long, tokens) };
  return { plain: { ...common, prefill, contexts: short, turn, contextLength }, deep: deep ? far : null };
}

/** Measures a side once, and adds the sample to `result`. Returns a list with the share of the machine that other
 * programs used before it. Measures nothing and returns an empty list if an earlier measurement was too slow.
 * @param {string} model @param {Options} options @param {Result} result @param {number} round
 * @param {'plain' | 'deep'} kind */
async function measureOnce(model, options, result, round, kind) {
  const asked = settings(options, result, round)[kind];
  const samples = kind === 'deep' ? result.deep : result.samples;
  if (!asked || samples.some(({ seconds }) => Number(seconds) > options.slow)) return [];
  const share = await settleDown(options);
  const before = performance.now();
  const sample = await visit(SIDES[result.side], model, asked);
  samples.push({ ...sample, seconds: (performance.now() - before) / 1000 });
  report(result, samples, round);
  return [share];
}

/** @param {string} model @param {Options} options @param {Result[]} results @param {number} round */
async function playRound(model, options, results, round) {
  const turned = results.map((_, i) => results[(i + round) % results.length]);
  const shares = [];
  for (const result of round % 2 ? turned.reverse() : turned) {
    if (result.error) continue;
    try {
      for (const kind of /** @type {const} */ (['plain', 'deep'])) {
        shares.push(...(await measureOnce(model, options, result, round, kind)));
      }
    } catch (error) {
      result.error = String(error instanceof Error ? error.message : error).split('\n')[0];
      console.error(`${result.side}, ${result.threads} threads: ${result.error}`);
    }
  }
  return shares;
}

/** @param {Result} result @param {Sample[]} samples @param {number} round */
function report({ side, threads }, samples, round) {
  const figures = Object.entries(medians(samples.slice(-1)));
  const text = figures.map(([column, value]) => `${column} ${value?.toFixed(2) ?? '-'}`).join(', ');
  console.error(`round ${round + 1}, ${side}, ${threads} threads: ${text}`);
}

/** @param {Result[]} results */
function withRatios(results) {
  return results.map((result) => {
    const own = summary(result);
    const ours = results.find((other) => other.side === OURS && other.threads === result.threads);
    return { ...result, medians: own, oursIsBetterBy: ours ? ratios(summary(ours), own) : {} };
  });
}

/** Returns the median read bandwidth by number of threads, and the share of it that gemma-wasm's decode reaches at
 * context length 0. @param {Result[]} results @param {number} bytes of weights @param {Reads[]} reads */
function shares(results, bytes, reads) {
  return reads.flatMap(({ threads, bytesPerSecond, cached }) => {
    const ours = results.find((result) => result.side === OURS && result.threads === threads);
    const rate = medians(ours?.samples ?? [])['decode @0'];
    const speed = median(bytesPerSecond);
    if (!rate || !speed) return [];
    return [{ threads, bytesPerSecond: speed, cached: median(cached) ?? 0, share: (rate * bytes) / speed }];
  });
}

/** @param {Options} options */
async function listSides({ sides }) {
  for (const [name, { title, peer }] of Object.entries(SIDES)) {
    const note = peer && !isInstalled(peer) ? ' (to be installed)' : '';
    console.log(`${sides.includes(name) ? '*' : ' '} ${name.padEnd(16)} ${title}${note}`);
  }
}

/** @param {string} model @param {Options} options @param {Result[]} results */
async function play(model, options, results) {
  const reads = options.threads.map((threads) => /** @type {Reads} */ ({ threads, bytesPerSecond: [], cached: [] }));
  const busy = [];
  const stop = keepBusy(options.busy);
  try {
    for (let round = 0; round < options.runs; round++) {
      busy.push(...(await playRound(model, options, results, round)));
      for (const { threads, bytesPerSecond, cached } of options.sides.includes(OURS) ? reads : []) {
        bytesPerSecond.push(await readBandwidth(model, threads, false));
        cached.push(await readBandwidth(model, threads, true));
      }
    }
  } finally {
    stop();
  }
  return { reads, busy };
}

/** @param {string} name @param {Options} options */
async function compare(name, options) {
  const path = await findModel(name);
  const results = plan(options);
  const before = loadavg();
  const bytes = weightBytes(path);
  const { reads, busy } = await play(path, options, results);
  const most = Math.max(...options.threads);
  const beside = options.neighbour > 0 && most > 1 && options.sides.includes(OURS);
  const neighbour = beside ? await besideNeighbour(path, most, options.neighbour) : undefined;
  return {
    model: basename(path),
    modelBytes: statSync(path).size,
    weightBytes: bytes,
    load: { before, after: loadavg(), busy },
    results: withRatios(results),
    reads,
    decodeShare: shares(results, bytes, reads),
    neighbour,
  };
}

/** @param {Awaited<ReturnType<typeof compare>>} part @param {Options} options */
function print({ model, load, results, decodeShare, neighbour }, { runs, busy, threads }) {
  const { processor, cores } = machine();
  console.log(`${processor}, ${cores} cores; ${model}; medians of ${runs}; tokens/s\n`);
  console.log(`${render(results, OURS)}\n`);
  for (const line of remarks(results)) console.log(line);
  for (const { threads, bytesPerSecond, cached, share } of decodeShare) {
    const [memory, cache] = [bytesPerSecond, cached].map((speed) => (speed / 1e9).toFixed(1));
    const ours = `decode @0 of ${SIDES[OURS].title}: ${percent(share)} of memory's`;
    console.log(`plain reads, ${threads} threads: ${memory} GB/s from memory, ${cache} from caches; ${ours}`);
  }
  if (neighbour) printNeighbour(neighbour, Math.max(...threads));
  const most = Math.max(0, ...load.busy);
  const note = most > CALM && !busy ? ': the figures are less reliable' : '';
  const usual = percent(median(load.busy) ?? 0);
  console.log(
    `before measurements, other programs used ${usual} of the processor time (median), at most ${percent(most)}${note}\n`,
  );
}

/** @param {Awaited<ReturnType<typeof besideNeighbour>>} answer @param {number} threads */
function printNeighbour({ turns, beside, scaling }, threads) {
  const text = ({ prefill, decode } = scaling) => `prefill ${prefill.toFixed(2)} x, decode ${decode.toFixed(2)} x`;
  console.log(
    `${SIDES[OURS].title}, speed with ${threads} threads relative to 1, medians of ${turns} rounds: ${text()}. ` +
      `While another program keeps a core busy, relative to 1 thread without that program: ${text(beside)}.`,
  );
}

// Exits on SIGTERM and SIGHUP, so that the browsers end: puppeteer would leave them running.
for (const signal of ['SIGTERM', 'SIGHUP']) process.once(signal, () => process.exit(1));

await cli(async () => {
  const options = readOptions();
  if (options.list) return listSides(options);
  if (options.report) {
    const [model] = options.models;
    const { sides, threads, tokens, given } = options;
    const chosen = { ...(given.sides && { sides }), ...(given.threads && { threads }) };
    return reportMachine({ path: await findModel(model), model, tokens, ...chosen });
  }
  await install([...new Set(options.sides.flatMap((side) => SIDES[side].peer ?? []))]);
  await buildPage();
  const { json, ...asked } = options;
  /** @type {Awaited<ReturnType<typeof compare>>[]} */
  const models = [];
  mkdirSync(dirname(resolve(json)), { recursive: true });
  for (const name of options.models) {
    models.push(await compare(name, options));
    print(models[models.length - 1], options); // at once: measuring the next model may take an hour
    const report = { date: new Date().toISOString(), options: asked, machine: machine(), models };
    writeFileSync(json, `${JSON.stringify(report, null, 2)}\n`);
  }
  if (models.some(({ results }) => results.some(({ error }) => error))) process.exitCode = 1;
});
