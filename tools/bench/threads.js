/**
 * bench/threads: times loading, prefill and decode of a small model in this Node with several values of `threads` and
 * the default, and writes docs/reports/threads.md. Alternates between an engine that sees the real number of cores and
 * one that sees 32, as in a container that may use fewer cores than it sees.
 *
 *   node tools/bench/threads.js [--rounds 3] [--model medium] [--print]
 */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { pretendCores } from '../../tests/js/many-cores.js';
import { testModel } from '../../tests/js/models.js';
import { loadModel } from '../../js/index.node.js';
import { Trouble, at, cli, parseOptions } from '../support/proc.js';
import { machine } from './machine.js';
import { makePrompt } from './measure.js';
import { median } from './table.js';

/** @typedef {{ loadMs: number, prefill: number, decode: number, used: number }} Sample */

const COUNTS = [1, 2, 4, 8, 16, 64];
const DEFAULT = 'default';
const PROMPT = 256;
const TOKENS = 64;
const CORES = 32;

/** @param {string} file */
async function samples(file) {
  /** @type {Record<string, Sample>} */
  const all = {};
  for (const threads of [...COUNTS, undefined]) {
    const before = performance.now();
    const model = await loadModel(file, { threads, contextLength: 512, cache: false });
    const loadMs = performance.now() - before;
    const logitBias = Object.fromEntries(model.info.endTokens.map((id) => [id, -Infinity]));
    const options = { temperature: 0, maxTokens: TOKENS + 1, logitBias };
    await model.generate(makePrompt(32, 1).ids, options).result(); // warm-up: compiles the code
    const { timings } = await model.generate(makePrompt(PROMPT, 2).ids, options).result();
    const { prefillTokensPerSecond: prefill, decodeTokensPerSecond: decode } = timings;
    all[threads ?? DEFAULT] = { loadMs, prefill, decode, used: model.info.threads };
    await model.dispose();
  }
  return all;
}

/** Measures a model in a separate process. Returns a sample for each number of threads.
 * @param {string} file @param {boolean} many pretend to have CORES cores @returns {Record<string, Sample>} */
function measured(file, many) {
  const flags = ['--child', file, ...(many ? ['--pretend'] : [])];
  const { stdout, status } = spawnSync(process.execPath, [at('tools', 'bench', 'threads.js'), ...flags], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (status) throw new Trouble(`A measurement failed with status ${status}.`);
  return JSON.parse(stdout);
}

/** Returns the serial share of the time, which a second thread does not reduce.
 * @param {number} one rate with one thread @param {number} two rate with two */
const serial = (one, two) => (2 * one) / two - 1;
/** Returns the speedup of n threads (Amdahl's law). `share`: serial share of the time. @param {number} share
 * @param {number} n */
const amdahl = (share, n) => 1 / (share + (1 - share) / n);

/** @param {Record<string, Sample>[]} rounds */
const choices = (rounds) => rounds.map((round) => round[DEFAULT].used).join(', ');

/** @param {Record<string, Sample>[]} rounds */
function table(rounds) {
  const of = (/** @type {number | string} */ n, /** @type {keyof Sample} */ key) =>
    Number(median(rounds.map((round) => round[n][key])));
  const speeds = (/** @type {number | string} */ n) =>
    `${of(n, 'loadMs').toFixed(0)} | ${of(n, 'prefill').toFixed(0)} | ${of(n, 'decode').toFixed(0)} |`;
  const row = (/** @type {number} */ n) => `| ${n} | ${of(n, 'used')} | ${speeds(n)}`;
  const shares = /** @type {const} */ (['prefill', 'decode']).map((key) => serial(of(1, key), of(2, key)));
  return {
    lines: [
      '| `threads` | threads in use | load, ms | prefill, tokens/s | decode, tokens/s |',
      '|---:|---:|---:|---:|---:|',
      ...COUNTS.map(row),
    ],
    chosen: `${choices(rounds)} | ${speeds(DEFAULT)}`,
    shares,
  };
}

/** @param {string} name @param {Record<string, Sample>[]} plain @param {Record<string, Sample>[]} pretended */
function report(name, plain, pretended) {
  const { processor, cores, node } = machine();
  const { lines, chosen, shares } = table(plain);
  const many = table(pretended);
  const percent = (/** @type {number} */ share) => `${(share * 100).toFixed(0)} %`;
  const [prefill, decode] = shares;
  return `# Threads

\`node tools/bench/threads.js\` wrote this report on ${processor} with ${cores} cores, Node ${node.slice(1)}. The model is the test model \`${name}\`,
41 MB with random weights: a small model shows the cost of synchronisation best. The prompt has ${PROMPT} tokens, the answer ${TOKENS}. The figures
are medians of ${plain.length} rounds.

## Detected cores: ${cores}

The engine limits the option \`threads\` to twice the number of cores, or to four if that is more.

${lines.join('\n')}

## Detected cores: ${CORES}

Here, the engine detects ${CORES} cores, but the machine has ${cores}, as in a container that may use fewer cores than it reports. All requested
threads run and share the ${cores} cores.

${many.lines.join('\n')}

## Chosen by measurement

Without the option \`threads\`, the engine starts one thread per core. If there are more than two cores, it measures matrix products with the loaded
weights, first with two threads, then with 3, 4, 6, 8, 12 and so on, until a number is clearly slower than the fastest one,
or not faster although it is twice as large
([js/engine/autotune.js](../../js/engine/autotune.js)). The remaining threads sleep.

| detected cores | threads chosen in each round | load, ms | prefill, tokens/s | decode, tokens/s |
|---:|---:|---:|---:|---:|
| ${cores} | ${chosen}
| ${CORES} | ${many.chosen}

## More cores

Speed on more than ${cores} cores was not measured: no such machine was available. The speeds with one and two threads allow an estimate. A
second thread halves the time except for a part: ${percent(prefill)} of the time in prefill and ${percent(decode)} in decode. This part contains serial code, waiting, the
start of helper threads, and memory bandwidth that both threads share. If all of it were serial, 8 threads would be at most ${amdahl(prefill, 8).toFixed(1)} times as
fast as one in prefill, and ${amdahl(decode, 8).toFixed(1)} times in decode. To reach 85 % of the linear speedup with 8 threads, the serial part must be at most 2.5 %.
`;
}

await cli(async () => {
  const { values } = parseOptions({ rounds: 3, model: 'medium', print: false, child: '', pretend: false });
  if (values.pretend) pretendCores(CORES);
  if (values.child) return console.log(JSON.stringify(await samples(values.child)));
  const file = await testModel(values.model);
  /** @type {Record<string, Sample>[][]} */
  const [plain, pretended] = [[], []];
  for (let round = 0; round < values.rounds; round++) {
    plain.push(measured(file, false));
    pretended.push(measured(file, true));
  }
  const text = report(values.model, plain, pretended);
  if (values.print || availableParallelism() < 2) console.log(text);
  else writeFileSync(at('docs', 'reports', 'threads.md'), text);
});
