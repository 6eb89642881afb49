#!/usr/bin/env node
/**
 * greedy: compares greedy tokens of whole models with llama.cpp's: the presets of tools/models/make-model.js with
 * random weights (made in build/models/ if missing), or any GGUF files. This engine evaluates llama.cpp's tokens, and
 * must make the same choices where llama.cpp's two largest logits differ by more than 1e-3; otherwise the exit status
 * is 1. It runs in this Node, in a newer one (the relaxed build) and in Chromium. Needs a built package.
 *
 *   node tools/vectors/greedy.js                        all presets except Gemma 3's
 *   node tools/vectors/greedy.js gpt2-124m FILE.gguf    only these models
 *   --tokens 32  --threads 2
 *   --f32-cache     llama.cpp uses an f32 KV cache
 *   --only-llama    runs only llama.cpp, to see how far apart its two largest logits are
 *   --in node,node-new,chromium     runs this engine only there, on llama.cpp's choices of an earlier run
 *   --write         only writes tests/vectors/greedy.md from the results in build/greedy/
 *
 * Writes the results (JSON) and both engines' logits (float32, for greedy.py) to build/greedy/.
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { PRESETS, makeModel } from '../models/make-model.js';
import { at, parseOptions } from '../support/proc.js';
import { withPage } from '../support/browser.js';
import { ask, buildPage, withServer } from '../bench/browser.js';
import { testEnvironment } from '../build/setup.js';
import { choice } from './greedy-follow.js';
import { HEAD, document, row } from './greedy-table.js';
import { NODE_LLAMA, SETTINGS, evaluator, startLlama } from './llama.js';

const PROMPT = 12;
const WHERE = ['node', 'node-new', 'chromium'];

/** @typedef {import('./greedy-table.js').Recorded} Recorded */

/** @param {string} name a preset or a file @returns {Promise<string>} */
async function fileOf(name) {
  if (!(name in PRESETS)) return name;
  const file = at('build', 'models', `${name}.gguf`);
  if (!fs.existsSync(file)) {
    fs.mkdirSync(path.dirname(file), { recursive: true });
    await makeModel(PRESETS[name], `${file}.tmp`);
    fs.renameSync(`${file}.tmp`, file);
  }
  return file;
}

/** @param {any} llama @param {string} file @param {number} tokens @param {object} options of its context */
async function lead(llama, file, tokens, options) {
  const model = await llama.loadModel({ modelPath: file, gpuLayers: 0 });
  const { evaluate, extend, close } = await evaluator(model, options);
  const prompt = Array.from({ length: PROMPT }, (_, i) => 300 + ((i * i * 37 + i * 5) % 5000));
  const rows = [/** @type {Float32Array} */ ((await evaluate(prompt)).at(-1))];
  const ids = [];
  const seconds = [];
  const margins = [];
  for (;;) {
    const { id, second, margin } = choice(rows[rows.length - 1]);
    ids.push(id);
    seconds.push(second);
    margins.push(margin);
    if (ids.length === tokens) break;
    rows.push(await extend(id));
  }
  await close();
  await model.dispose();
  return { led: { prompt, ids, seconds, margins }, rows };
}

/** @param {string} file */
async function typesOf(file) {
  const { inspectModel } = await import('../../js/index.node.js');
  /** @type {Record<string, number>} */
  const bytes = {};
  for (const t of (await inspectModel(file)).tensors) {
    if (t.shape.length > 1) bytes[t.type] = (bytes[t.type] ?? 0) + t.bytes;
  }
  return Object.keys(bytes)
    .sort((a, b) => bytes[b] - bytes[a])
    .join(', ');
}

const leftFor = (/** @type {string} */ name) => at('build', 'greedy', path.basename(name, '.gguf'));
/** @param {string} name @returns {Recorded} */
const recordOf = (name) => JSON.parse(fs.readFileSync(`${leftFor(name)}.json`, 'utf8'));

/** @param {any} llama @param {string} name @param {string} file @param {number} tokens @param {object} options */
async function begin(llama, name, file, tokens, options) {
  const { led, rows } = await lead(llama, file, tokens, options);
  const left = leftFor(name);
  /** @type {Recorded} */
  const record = {
    name: path.basename(name, '.gguf'),
    types: await typesOf(file),
    bytes: fs.statSync(file).size,
    llama: `node-llama-cpp ${NODE_LLAMA}, llama.cpp ${llama.llamaCppRelease?.release}`,
    led,
    runs: {},
  };
  fs.mkdirSync(path.dirname(left), { recursive: true });
  fs.writeFileSync(`${left}.json`, JSON.stringify(record));
  fs.writeFileSync(`${left}.llama.bin`, Buffer.concat(rows.map((r) => Buffer.from(r.buffer))));
  return record;
}

/** @param {string} file @param {import('./greedy-follow.js').Led} led @param {number} threads
 * @returns {Promise<import('./greedy-table.js').Run>} */
async function runInChromium(file, led, threads) {
  await buildPage();
  return withServer(path.resolve(file), true, (url, model) =>
    withPage('chromium', async (page) => ({
      ...(await ask(page, url, { driver: 'greedy', model, threads, led })),
      version: await page.browser().version(),
    })),
  );
}

/** @param {string} place @param {string} name @param {string} file @param {Recorded} record @param {number} threads */
async function runIn(place, name, file, record, threads) {
  if (place === 'chromium') return runInChromium(file, record.led, threads);
  const left = leftFor(name);
  const node = place === 'node' ? process.execPath : testEnvironment().GW_NODE_NEW;
  const version = execFileSync(node, ['--version'], { encoding: 'utf8' }).trim();
  const out = execFileSync(
    node,
    [
      at('tools', 'vectors', 'greedy-node.js'),
      file,
      `${left}.json`,
      `${left}.llama.bin`,
      `${threads}`,
      `${left}.${place}.bin`,
    ],
    { encoding: 'utf8', maxBuffer: 1 << 26 },
  );
  return { ...JSON.parse(out), version: `Node ${version.slice(1)}` };
}

/** @param {string[]} names @param {string[]} places */
async function study(names, places) {
  const llama = await startLlama();
  const options = v['f32-cache'] ? SETTINGS.f32CacheNoFlashAttention : SETTINGS.default;
  console.log(HEAD);
  for (const name of names) {
    const file = await fileOf(name);
    const before = v.in && fs.existsSync(`${leftFor(name)}.json`);
    const record = before ? recordOf(name) : await begin(llama, name, file, v.tokens, options);
    if (!places.length) console.log(row(record, '', null).text);
    for (const place of places) {
      const run = (record.runs[place] = await runIn(place, name, file, record, v.threads));
      fs.writeFileSync(`${leftFor(name)}.json`, JSON.stringify(record));
      const { text, failed } = row(record, place, run);
      console.log(text);
      if (failed) process.exitCode = 1;
    }
  }
  await llama.dispose();
}

const { values: v, positionals } = parseOptions(
  { tokens: 32, threads: 2, in: '', 'f32-cache': false, 'only-llama': false, write: false },
  { allowPositionals: true },
);
const names = positionals.length ? positionals : Object.keys(PRESETS).filter((name) => PRESETS[name].architecture);
if (v.write) {
  const found = names.filter((name) => fs.existsSync(`${leftFor(name)}.json`)).map(recordOf);
  fs.writeFileSync(at('tests', 'vectors', 'greedy.md'), document(found, PRESETS));
} else {
  await study(names, v['only-llama'] ? [] : v.in ? v.in.split(',') : WHERE);
}
