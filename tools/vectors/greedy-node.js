/**
 * Runs greedy-follow.js in this Node, whose version selects the build of the engine. Prints JSON.
 *
 *   node tools/vectors/greedy-node.js FILE.gguf RECORD.json LLAMA.bin THREADS OURS.bin     .bin: logits, float32
 */
import fs from 'node:fs';
import { loadModel } from '../../js/index.node.js';
import { follow } from './greedy-follow.js';
import { nmse } from './llama.js';

const [file, recordFile, rowsFile, threads, outFile] = process.argv.slice(2);
const { led } = JSON.parse(fs.readFileSync(recordFile, 'utf8'));
const bytes = fs.readFileSync(rowsFile);
const size = bytes.length / 4 / led.ids.length;
const out = fs.openSync(outFile, 'w');
let sum = 0;
const found = await follow(loadModel, file, { threads: Number(threads) }, led, (row, k) => {
  const theirs = new Float32Array(bytes.buffer, bytes.byteOffset + 4 * k * size, size);
  fs.writeSync(out, row);
  sum += nmse(row, theirs);
});
console.log(JSON.stringify({ ...found, nmse: sum / led.ids.length }));
