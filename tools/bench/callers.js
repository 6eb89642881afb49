/**
 * bench/callers: times concurrent callers of a model in this Node, alternately 1, 2 and 4 callers of a model with 4
 * sequences, and one caller of a model with 1 sequence. Prints the tokens per second of all callers together.
 *
 *   node tools/bench/callers.js [MODEL] [--callers 1,2,4] [--threads 2] [--tokens 32] [--rounds 3] [--temperature 0]
 *                               [--variant auto] [--serve] [--write]
 *
 * --serve: the callers are HTTP clients of `gemma-wasm serve`. --write: writes the table of docs/reports/speed.md.
 * MODEL is a file's path; the default is a small test model.
 */
import { testModel } from '../../tests/js/models.js';
import { loadModel } from '../../js/index.node.js';
import { startServer } from '../../js/serve/server.js';
import { keep } from '../../tests/lab/tables.js';
import { cli, parseOptions } from '../support/proc.js';
import { machine } from './machine.js';
import { makePrompt } from './measure.js';
import { median } from './table.js';

/** @typedef {import('../../js/index.js').Model} Model */
/** @typedef {(prompt: number[]) => Promise<unknown>} Ask */

const PROMPT = 8;

/** @param {Model} model @param {{ tokens: number, temperature: number }} how @returns {Ask} */
function direct(model, { tokens, temperature }) {
  const logitBias = Object.fromEntries(model.info.endTokens.map((id) => [id, -Infinity]));
  return (prompt) => model.generate(prompt, { temperature, seed: 1, maxTokens: tokens, logitBias }).result();
}

/** @param {Model} model @param {string} url @param {{ tokens: number, temperature: number }} how @returns {Ask} */
function byHttp({ info }, url, { tokens, temperature }) {
  const bias = Object.fromEntries(info.endTokens.map((id) => [id, -100]));
  return async (prompt) => {
    const body = { model: 'x', prompt, temperature, seed: 1, max_tokens: tokens, logit_bias: bias };
    const init = { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
    const response = await fetch(`${url}/v1/completions`, init);
    if (!response.ok) throw new Error(await response.text());
    return response.json();
  };
}

/** Starts `callers` calls at once. Returns the tokens per second of all calls together.
 * @param {Ask} ask @param {number} callers @param {number} tokens of each @param {number} round */
async function rate(ask, callers, tokens, round) {
  const prompts = Array.from({ length: callers }, (_, i) => makePrompt(PROMPT, 10 * round + i).ids);
  const before = performance.now();
  await Promise.all(prompts.map(ask));
  return (callers * tokens * 1000) / (performance.now() - before);
}

await cli(async () => {
  const { values, positionals } = parseOptions(
    {
      callers: '1,2,4',
      threads: 2,
      tokens: 32,
      rounds: 3,
      temperature: 0,
      variant: 'auto',
      serve: false,
      write: false,
    },
    { allowPositionals: true },
  );
  const { tokens, threads, temperature } = values;
  const counts = values.callers.split(',').map(Number);
  const variant = /** @type {'auto'} */ (values.variant);
  const file = positionals[0] ?? (await testModel('medium'));
  /** @type {{ name: string, ask: Ask, callers: number, rates: number[], close: () => Promise<unknown> }[]} */
  const rows = [];
  for (const sequences of [1, Math.max(...counts)]) {
    const model = await loadModel(file, { threads, sequences, variant, contextLength: 256, cache: false });
    const server = values.serve ? await startServer({ x: model }, { port: 0 }) : null;
    const ask = server ? byHttp(model, server.url, { tokens, temperature }) : direct(model, { tokens, temperature });
    const close = async () => {
      await server?.close(0);
      await model.dispose();
    };
    await rate(ask, sequences, 4, 0); // warm-up: compiles the code
    for (const callers of sequences === 1 ? [1] : counts) {
      rows.push({ name: `${callers} of ${sequences}`, ask, callers, rates: [], close });
    }
  }
  for (let round = 1; round <= values.rounds; round++) {
    for (const { ask, callers, rates } of rows) rates.push(await rate(ask, callers, tokens, round));
  }
  const { processor, cores } = machine();
  console.log(
    `${processor}, ${cores} cores, ${threads} threads, Node ${process.version}, ${variant}, temperature ${temperature}${values.serve ? ', HTTP' : ''}`,
  );
  console.log('callers of sequences   tokens/s   of one');
  const one = Number(median(rows[0].rates));
  /** @type {string[]} */
  const table = [];
  for (const { name, rates } of rows) {
    const all = Number(median(rates));
    console.log(`${name.padEnd(20)}${all.toFixed(1).padStart(11)}${(all / one).toFixed(2).padStart(9)}`);
    const where = `${process.version.split('.')[0].replace('v', 'Node ')}${values.serve ? ', HTTP' : ''}`;
    table.push(`| ${[where, name, all.toFixed(1), (all / one).toFixed(2)].join(' | ')} |`);
  }
  if (values.write) keep('reports/speed.md', 'callers', table, 2);
  for (const close of new Set(rows.map((row) => row.close))) await close();
});
