/**
 * bench/threads: times loading, prefill and decode of a small model in this Node with increasing numbers of threads,
 * and writes docs/reports/threads.md. Each number is measured with the real number of cores, and with an engine that
 * sees 32 cores, as in a container that may use fewer cores than it sees. Both are measured alternately.
 *
 *   node tools/bench/threads.js [--rounds 3] [--model medium] [--print]
 */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import workers from 'node:worker_threads';
import { testModel } from '../../tests/js/models.js';
import { loadModel } from '../../js/index.node.js';
import { Trouble, at, cli } from '../support/proc.js';
import { machine } from './machine.js';
import { makePrompt } from './measure.js';
import { median } from './table.js';

/** @typedef {{ loadMs: number, prefill: number, decode: number, used: number }} Sample */

const COUNTS = [1, 2, 4, 8, 16, 64];
const PROMPT = 256;
const TOKENS = 64;
const CORES = 32;

/** Makes workers that start after this call see CORES cores. */
function pretend() {
  const script = `require('node:os').availableParallelism = () => ${CORES}; require('node:module').syncBuiltinESMExports();`;
  const start = (/** @type {string | URL} */ file) => `${script} import(${JSON.stringify(String(file))});`;
  const { Worker } = workers;
  /** @type {any} */ (workers).Worker = class extends Worker {
    constructor(/** @type {string | URL} */ file, /** @type {object} */ options) {
      super(start(file), { ...options, eval: true });
    }
  };
  syncBuiltinESMExports();
}

/** Returns a sample of each number of threads. @param {string} file */
async function samples(file) {
  /** @type {Record<string, Sample>} */
  const all = {};
  for (const threads of COUNTS) {
    const before = performance.now();
    const model = await loadModel(file, { threads, contextLength: 512, cache: false });
    const loadMs = performance.now() - before;
    const logitBias = Object.fromEntries(model.info.endTokens.map((id) => [id, -Infinity]));
    const options = { temperature: 0, maxTokens: TOKENS + 1, logitBias };
    await model.generate(makePrompt(32, 1).ids, options).result(); // compiles the code
    const { timings } = await model.generate(makePrompt(PROMPT, 2).ids, options).result();
    const { prefillTokensPerSecond: prefill, decodeTokensPerSecond: decode } = timings;
    all[threads] = { loadMs, prefill, decode, used: model.info.threads };
    await model.dispose();
  }
  return all;
}

/** Measures in a new process. @param {string} file @param {boolean} many pretend to have CORES cores
 * @returns {Record<string, Sample>} */
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
 * @param {number} one @param {number} two rates */
const serial = (one, two) => (2 * one) / two - 1;
/** Returns Amdahl's speedup. @param {number} share @param {number} n */
const amdahl = (share, n) => 1 / (share + (1 - share) / n);

/** @param {Record<string, Sample>[]} rounds */
function table(rounds) {
  const of = (/** @type {number} */ n, /** @type {keyof Sample} */ key) =>
    Number(median(rounds.map((round) => round[n][key])));
  const row = (/** @type {number} */ n) =>
    `| ${n} | ${of(n, 'used')} | ${of(n, 'loadMs').toFixed(0)} | ${of(n, 'prefill').toFixed(0)} | ${of(n, 'decode').toFixed(0)} |`;
  const shares = /** @type {const} */ (['prefill', 'decode']).map((key) => serial(of(1, key), of(2, key)));
  return {
    lines: [
      '| `threads` | threads in use | load, ms | prefill, tokens/s | decode, tokens/s |',
      '|---:|---:|---:|---:|---:|',
      ...COUNTS.map(row),
    ],
    shares,
  };
}

/** @param {string} name @param {Record<string, Sample>[]} plain @param {Record<string, Sample>[]} pretended */
function report(name, plain, pretended) {
  const { processor, cores, node } = machine();
  const { lines, shares } = table(plain);
  const percent = (/** @type {number} */ share) => `${(share * 100).toFixed(0)} %`;
  const [prefill, decode] = shares;
  return `# Threads

\`node tools/bench/threads.js\` wrote this report on ${processor} with ${cores} cores, Node ${node.slice(1)}. The model is the test model \`${name}\`,
41 MB with random weights: a small model shows the cost of synchronisation best. Prefill has ${PROMPT} tokens, greedy decode ${TOKENS}. The figures
are medians of ${plain.length} rounds.

## Detected cores: ${cores}

The engine limits the option \`threads\` to twice the number of cores, or to four if that is more.

${lines.join('\n')}

## Detected cores: ${CORES}

Here, the engine detects ${CORES} cores on a machine with ${cores}, as in a container that may use fewer cores than it reports. All requested threads run,
time-sliced. Set \`threads\` in such a container.

${table(pretended).lines.join('\n')}

## More cores

Speed on more than ${cores} cores was not measured: no such machine was available. One and two threads give a bound. The part of the time that
a second thread did not halve was ${percent(prefill)} in prefill and ${percent(decode)} in decode. It contains serial code, waiting, the start of
helper threads, and memory that both threads share. If all of it were serial, 8 threads would give at most ${amdahl(prefill, 8).toFixed(1)} x in prefill and
${amdahl(decode, 8).toFixed(1)} x in decode. Only a serial part of 2.5 % or less would allow 0.85 of the linear
speedup at 8 threads.
`;
}

await cli(async () => {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: '3' },
      model: { type: 'string', default: 'medium' },
      print: { type: 'boolean', default: false },
      child: { type: 'string' },
      pretend: { type: 'boolean', default: false },
    },
  });
  if (values.pretend) pretend();
  if (values.child) return console.log(JSON.stringify(await samples(values.child)));
  const file = await testModel(values.model);
  /** @type {Record<string, Sample>[][]} */
  const [plain, pretended] = [[], []];
  for (let round = 0; round < Number(values.rounds); round++) {
    plain.push(measured(file, false));
    pretended.push(measured(file, true));
  }
  const text = report(values.model, plain, pretended);
  if (values.print || availableParallelism() < 2) console.log(text);
  else writeFileSync(at('docs', 'reports', 'threads.md'), text);
});
