/**
 * bench/embed: times embeddings of texts of 64 tokens by a model of EmbeddingGemma's shape in Q8_0 with random weights.
 * Compares gemma-wasm in Chromium, with single and batched texts, with onnxruntime-web (transformers.js' engine on
 * CPUs; only the matrix products are timed) and native llama.cpp. Prints medians over rounds.
 *
 *   node tools/bench/embed.js [--threads 2] [--rounds 3]
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { testModel } from '../../tests/js/models.js';
import { askBrowser, buildPage } from './browser.js';
import { embeddingMatrices } from './onnx.js';
import { install, startLlama } from './peers.js';
import { median } from './table.js';
import { at, cli, parseOptions } from '../support/proc.js';

const TOKENS = 64;
const TOGETHER = 16;
const RUNS = 5;
/** The shape of EmbeddingGemma 300M (its config.json). */
const SHAPE = { layers: 24, width: 768, kv: 256, ff: 1152, dense: 3072 };

/** @param {string} modelPath @param {number} threads */
async function native(modelPath, threads) {
  const { llama } = await startLlama(threads);
  const model = await llama.loadModel({ modelPath, gpuLayers: 0 });
  const context = await model.createEmbeddingContext({ contextSize: 512, batchSize: 512, threads });
  const ids = [2, ...Array.from({ length: TOKENS - 2 }, () => 506), 1];
  const runs = [];
  for (let i = -2; i < 4 * RUNS; i++) {
    const before = performance.now();
    await context.getEmbeddingFor(ids);
    if (i >= 0) runs.push(performance.now() - before);
  }
  await llama.dispose();
  return runs;
}

/** Writes an ONNX file that has only the model's matrices, for inputs of `rows` tokens. Returns its path.
 * @param {number} rows */
function matricesFile(rows) {
  const path = at('build', 'models', `embed-matrices-${rows}.onnx`);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, embeddingMatrices({ rows, ...SHAPE }));
  return path;
}

await cli(async () => {
  const { threads, rounds } = parseOptions({ threads: 2, rounds: 3 }).values;
  const model = await testModel('embed-300m');
  await install(['onnx', 'native']);
  await buildPage();
  const files = [TOKENS, TOKENS * TOGETHER].map(matricesFile);
  /** @type {Record<string, number[]>} */
  const all = {
    'gemma-wasm, alone': [],
    'gemma-wasm, 16 together': [],
    'onnxruntime-web, matrices, alone': [],
    'onnxruntime-web, matrices, 16 together': [],
    'llama.cpp, native': [],
  };
  const [alone, together, onnx, onnxTogether, llama] = Object.values(all);
  for (let round = 0; round < rounds; round++) {
    const task = { driver: 'embed', threads, tokens: TOKENS, together: TOGETHER, rounds: RUNS };
    const ours = await askBrowser('chromium', model, task);
    if (!round) console.log(JSON.stringify(ours.facts));
    alone.push(...ours.alone);
    together.push(...ours.together);
    const job = { driver: 'onnx', threads, width: SHAPE.width, rounds: RUNS, peers: '/peers/' };
    onnx.push(...(await askBrowser('chromium', files[0], { ...job, rows: TOKENS })).runs);
    const many = await askBrowser('chromium', files[1], { ...job, rows: TOKENS * TOGETHER });
    onnxTogether.push(...many.runs.map((/** @type {number} */ ms) => ms / TOGETHER));
    llama.push(...(await native(model, threads)));
  }
  const best = Number(median(together));
  for (const [name, runs] of Object.entries(all)) {
    const ms = Number(median(runs));
    console.log(
      `${name.padEnd(40)} ${ms.toFixed(1).padStart(7)} ms per text  ${((TOKENS / ms) * 1000).toFixed(0).padStart(6)} tokens/s` +
        `  ${(ms / best).toFixed(2)} times the time of gemma-wasm with 16 texts per call`,
    );
  }
});
