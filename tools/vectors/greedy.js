#!/usr/bin/env node
/**
 * Greedy tokens of whole models at true shapes, beside llama.cpp: the presets of tools/make-model.js with random
 * weights (made in build/models/ when missing), or any GGUF. llama.cpp chooses; this engine is led along the same ids,
 * one step at a time, and must choose the same wherever llama.cpp's two best logits are more than 1e-3 apart. Prints a
 * table, ends with 1 when a clear choice differs. Needs what llama.js needs, and a built package.
 *
 *   node tools/vectors/greedy.js                        every preset but Gemma 3's
 *   node tools/vectors/greedy.js gpt2-124m FILE.gguf    these
 *   --tokens 32  --threads 2  --f32-cache (llama.cpp's)  --only-llama (its choices and margins, to judge a file)
 *   --json OUT.json    prompt and llama.cpp's ids and margins of each model, for a comparison elsewhere (a browser)
 */
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { PRESETS, makeModel } from '../make-model.js';
import { SETTINGS, evaluator, nmse, startLlama } from './llama.js';

const MODELS = fileURLToPath(new URL('../../build/models/', import.meta.url));
const PROMPT = 12, CLEAR = 1e-3;

/** @param {string} name a preset or a file @returns {Promise<string>} */
async function fileOf(name) {
  if (!(name in PRESETS)) return name;
  const file = path.join(MODELS, `${name}.gguf`);
  if (!fs.existsSync(file)) {
    fs.mkdirSync(MODELS, { recursive: true });
    await makeModel(PRESETS[name], `${file}.tmp`);
    fs.renameSync(`${file}.tmp`, file);
  }
  return file;
}

/** The two best of a row. @param {Float32Array} row @returns {{ id: number, margin: number }} */
function choice(row) {
  let id = 0, next = -1;
  for (let i = 1; i < row.length; i++) {
    if (row[i] > row[id]) [next, id] = [id, i];
    else if (next < 0 || row[i] > row[next]) next = i;
  }
  return { id, margin: row[id] - row[next] };
}

/** @typedef {{ prompt: number[], ids: number[], margins: number[], rows: Float32Array[] }} Lead */

/** llama.cpp's choices behind a prompt of its own ids. @param {any} llama @param {string} file @param {number} tokens
 * @param {object} options of its context @returns {Promise<Lead>} */
async function lead(llama, file, tokens, options) {
  const model = await llama.loadModel({ modelPath: file, gpuLayers: 0 });
  const { evaluate, extend, close } = await evaluator(model, options);
  const prompt = Array.from({ length: PROMPT }, (_, i) => 300 + (i * i * 37 + i * 5) % 5000);
  const first = /** @type {Float32Array} */ ((await evaluate(prompt)).at(-1)), rows = [first], ids = [], margins = [];
  for (;;) {
    const { id, margin } = choice(rows[rows.length - 1]);
    ids.push(id);
    margins.push(margin);
    if (ids.length === tokens) break;
    rows.push(await extend(id));
  }
  await close();
  await model.dispose();
  return { prompt, ids, margins, rows };
}

/** This engine along the same ids. @param {string} file @param {Lead} led @param {number} threads */
async function follow(file, { prompt, ids, margins, rows }, threads) {
  const { loadModel } = await import('../../js/index.node.js');
  const model = await loadModel(file, { threads });
  const differs = [], errors = [];
  for (let k = 0; k < ids.length; k++) {
    const row = await model.logits([...prompt, ...ids.slice(0, k)]);
    if (choice(row).id !== ids[k]) differs.push({ k, margin: margins[k] });
    errors.push(nmse(row, rows[k]));
  }
  await model.dispose();
  return { differs, error: errors.reduce((a, b) => a + b, 0) / errors.length };
}

/** @param {string} name @param {Lead} led
 * @param {{ differs: { k: number, margin: number }[], error: number } | null} ours */
function line(name, { ids, margins }, ours) {
  const sorted = [...margins].sort((a, b) => a - b), clear = margins.filter((m) => m > CLEAR).length;
  const wrong = ours?.differs.filter(({ margin }) => margin > CLEAR) ?? [];
  const cells = [path.basename(name), `${ids.length}`, `${new Set(ids).size}`, `${clear}`, sorted[0].toPrecision(2),
    sorted[ids.length >> 1].toPrecision(2),
    ...(ours ? [`${ids.length - ours.differs.length}`, `${wrong.length}`, ours.error.toExponential(1)] : ['', '', '']),
    wrong.map(({ k, margin }) => `${k} (${margin.toPrecision(2)})`).join(', ')];
  return { text: `| ${cells.join(' | ')} |`, failed: wrong.length > 0 };
}

async function main() {
  const text = { type: /** @type {const} */ ('string') }, flag = { type: /** @type {const} */ ('boolean') };
  const { values: v, positionals } = parseArgs({ allowPositionals: true, options: {
    tokens: text, threads: text, json: text, 'f32-cache': flag, 'only-llama': flag } });
  const names = positionals.length ? positionals : Object.keys(PRESETS).filter((name) => PRESETS[name].architecture);
  const llama = await startLlama(), options = v['f32-cache'] ? SETTINGS.f32CacheNoFlashAttention : SETTINGS.default;
  /** @type {Record<string, object>} */
  const record = {};
  console.log('| model | tokens | different ids | clear choices | smallest margin | median margin | ours equal '
    + '| clear ones that differ | NMSE between the two | where |\n|---|---|---|---|---|---|---|---|---|---|');
  for (const name of names) {
    const file = await fileOf(name), led = await lead(llama, file, Number(v.tokens ?? 32), options);
    record[path.basename(name)] = { prompt: led.prompt, ids: led.ids, margins: led.margins };
    const ours = v['only-llama'] ? null : await follow(file, led, Number(v.threads ?? 2));
    const { text: row, failed } = line(name, led, ours);
    console.log(row);
    if (failed) process.exitCode = 1;
  }
  if (v.json) fs.writeFileSync(v.json, `${JSON.stringify(record)}\n`);
  await llama.dispose();
}

await main();
