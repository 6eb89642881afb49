/** report: `npm run bench -- --report`: measures this package alone, and prints a Markdown block to send back. */
import { existsSync, readFileSync, statSync, writeSync } from 'node:fs';
import { Trouble, at, must } from '../support/proc.js';
import { buildPage } from './browser.js';
import { machine } from './machine.js';
import { SIDES } from './sides.js';
import { threadCount } from './table.js';
import { visit } from './visit.js';

/** @typedef {import('./measure.js').Sample} Sample */
/** @typedef {{ title: string, threads: number, sample?: Sample, error?: string }} Row */

const PREFILL = 256;
/** Seconds that one measurement of a model of the 1B shape takes on a laptop. */
const VISIT = 20;

/** @param {ReturnType<typeof machine>} here */
function sidesOf({ chromium }) {
  const newer = SIDES['gemma-node-new'].node?.();
  return [
    'gemma-node',
    ...(newer && newer !== process.execPath ? ['gemma-node-new'] : []),
    ...(chromium ? ['gemma-chromium'] : []),
  ];
}

/** @param {number | undefined} value @param {number} digits */
const show = (value, digits) => (value === undefined ? '-' : value.toFixed(digits));

/** @param {Row} row */
function line({ title, threads, sample, error }) {
  if (!sample) return `| ${title} | ${threads} | failed: ${error?.replaceAll('|', '/')} | | | | | | |`;
  const { loadMs, prefill, decode, sampled, rows, memory, facts } = sample;
  const cells = [
    show(loadMs / 1000, 2),
    show(prefill[PREFILL], 1),
    show(decode[0], 1),
    show(sampled, 1),
    rows === undefined ? '-' : `${rows.toFixed(2)} x`,
    show(memory === undefined ? undefined : memory / 1e6, 0),
    `${facts.build}; ${facts.product}`,
  ];
  return `| ${title} | ${threads} | ${cells.join(' | ')} |`;
}

/** Returns the report as a Markdown block. After an interruption, a line says how many of the planned rows are missing.
 * @param {{ here: ReturnType<typeof machine>, version: string, model: string, bytes: number,
 *   rows: Row[], planned: number }} report */
export function markdown({ here, version, model, bytes, rows, planned }) {
  const { processor, cores, memory, system, node, chromium } = here;
  const missing = planned - rows.length;
  return [
    `**gemma-wasm ${version}** on ${processor}, ${cores} cores, ${(memory / 2 ** 30).toFixed(0)} GB, ${system}`,
    '',
    `Node ${node.slice(1)}${chromium ? `, ${chromium}` : ''}; ${model}, ${(bytes / 1e6).toFixed(0)} MB, random weights; tokens/s`,
    '',
    `| runtime | threads | load, s | prefill of ${PREFILL} | greedy | sampled | 4 tokens relative to 1 | memory, MB | build; dot product |`,
    '|---|---:|---:|---:|---:|---:|---:|---:|---|',
    ...rows.map(line),
    '',
    'Sampled: temperature 1, top-k 64, top-p 0.95. 4 tokens relative to 1: time of a step with 4 tokens, divided by that with 1. Memory: peak of the process.',
    ...(missing ? [`Interrupted: ${missing} of ${planned} rows are missing.`] : []),
  ].join('\n');
}

/** Measures, and prints the report on standard output and progress on standard error. SIGINT prints the finished rows.
 * @param {{ path: string, model: string, tokens: number, threads?: number[], sides?: string[] }} options */
export async function report({ path, model, tokens, threads, sides }) {
  if (!existsSync(at('js', 'gemma-relaxed-threads.wasm'))) {
    console.error('Building the engine ...');
    await must('setup', process.execPath, [at('tools', 'build', 'setup.js'), 'build']);
  }
  const here = machine();
  const { version } = JSON.parse(readFileSync(at('package.json'), 'utf8'));
  const counts = threads ?? [...new Set([1, Math.min(2, here.cores), here.cores])];
  const names = sides ?? sidesOf(here);
  const visits = names.flatMap((side) => counts.map((count) => ({ side, threads: count })));
  /** @type {Row[]} */
  const rows = [];
  const finish = () => {
    const all = { here, version, model, bytes: statSync(path).size, rows, planned: visits.length };
    writeSync(1, `${markdown(all)}\n`);
  };
  process.once('SIGINT', () => {
    finish();
    process.exit(130);
  });
  const minutes = Math.ceil((visits.length * VISIT) / 60);
  console.error(`${visits.length} rows, about ${minutes} minutes. Press Ctrl-C to stop and print the finished rows.`);
  if (names.some((side) => SIDES[side].where !== 'node')) await buildPage();
  for (const [i, { side, threads: count }] of visits.entries()) {
    const { title } = SIDES[side];
    console.error(`${i + 1} of ${visits.length}: ${title}, ${threadCount(count)}`);
    rows.push({ title, threads: count, ...(await measured(path, side, count, tokens)) });
  }
  finish();
  if (rows.some(({ error }) => error)) throw new Trouble('A row could not be measured.');
}

/** @param {string} path @param {string} side @param {number} threads @param {number} tokens */
async function measured(path, side, threads, tokens) {
  const job = { threads, contextLength: 512, prefill: [PREFILL], longest: Infinity, contexts: [0], tokens, seed: 1 };
  try {
    return { sample: await visit(SIDES[side], path, { ...job, turn: false, rows: true }) };
  } catch (error) {
    return { error: String(error instanceof Error ? error.message : error).split('\n')[0] };
  }
}
