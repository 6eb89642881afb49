/* kills: a process that downloads, loads or deletes a model, or saves conversations, is killed (SIGKILL) at a random
 * moment; the next start must be right, and fetch little that was there; of what was saved the last or the one before
 * must be there, and go on as if nothing had been.
 *   node tests/lab/kills-node.js [--count 200] [--seed 1] [--model parity-q4_0] [--slow 3]
 * The small model says what is right; a large one (oneb-q4_0, 720 MB, with the package's own tuning) what is fetched twice. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cp, mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { loadModel, openCache } from '../../js/index.node.js';
import { environment } from '../../js/platform/env.js';
import { faultyServer } from '../js/faulty-server.js';
import { randoms } from '../support/random.js';
import { testModel } from '../js/models.js';
import { ROUNDS, conversation, next as nextOf } from './talking.js';

const CHILD = fileURLToPath(new URL('child.js', import.meta.url));
const SMALL = {
  segment: 1 << 18,
  alone: 20_000,
  least: 1 << 16,
  journal: 1 << 14,
  backoffMs: 1,
  longestMs: 1500,
  stallMs: 5000,
};

const { values } = parseArgs({
  options: {
    count: { type: 'string', default: '200' },
    seed: { type: 'string', default: '1' },
    model: { type: 'string', default: 'parity-q4_0' },
    slow: { type: 'string', default: '3' },
  },
});
const large = values.model.startsWith('oneb');
const tuning = large ? {} : SMALL;
const random = randoms(Number(values.seed));
/** @type {(() => unknown)[]} */
const after = [];
const bytes = await readFile(await testModel(values.model));
const server = await faultyServer({ after: (/** @type {() => unknown} */ f) => after.push(f) }, bytes, () => ({}), {
  slow: Number(values.slow),
});
const root = await mkdtemp(join(tmpdir(), 'gemma-wasm-kills-'));
environment.tuning = tuning;

/** The digest of some logits, and whence the model came. @param {string} folder */
async function load(folder) {
  const model = await loadModel(server.url, { threads: 1, cache: openCache(folder), contextLength: 64 });
  const logits = await model.logits([2, 300, 310]);
  await model.dispose();
  return { kept: model.info.cache, sum: createHash('sha256').update(logits).digest('hex') };
}

/** A process that is killed after so many ms; gives whether it had ended before. @param {string[]} args @param {number} ms */
async function killed(args, ms) {
  const child = spawn(process.execPath, [CHILD, ...args], { stdio: 'ignore' });
  const ended = new Promise((resolve) => {
    child.on('exit', (status) => resolve(status !== null));
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), ms);
  const early = await ended;
  clearTimeout(timer);
  return early;
}

/** How long it takes when nobody kills it. @param {string[]} args */
async function timeOf(args) {
  const began = performance.now();
  await killed(args, 600_000);
  return performance.now() - began;
}

/** Keeps the first conversation beside the whole copy; gives what each says next. */
async function keepFirst() {
  const model = await loadModel(server.url, { threads: 1, cache: openCache(whole) });
  const said = [];
  await model.stateCache.clear();
  await model.stateCache.put('x', await (await conversation(model, 0)).save());
  for (let round = 0; round < ROUNDS; round++) {
    const chat = await conversation(model, round);
    const saved = await chat.save();
    const { tokens } = await model.chat({ saved }).restored;
    said.push({ tokens, next: await nextOf(chat) });
  }
  await model.dispose();
  return said;
}

/** What was kept: one of the conversations, whole. @param {string} folder @param {number} n */
async function goesOn(folder, n) {
  const model = await loadModel(server.url, { threads: 1, cache: openCache(folder) });
  const saved = await model.stateCache.get('x');
  assert.ok(saved, `kill ${n} of a save: nothing is kept`);
  const chat = model.chat({ saved });
  const restored = (await chat.restored).tokens; // none: where an answer ended
  const { tokens, next } = talks[parseInt(chat.messages[0].content, 10)];
  assert.deepEqual([restored, await nextOf(chat)], [tokens, next], `kill ${n} of a save`);
  const { length } = await model.stateCache.list();
  assert.ok(length === 1 || length === 2, `kill ${n} of a save: ${length} are kept`);
  await model.dispose();
}

const whole = join(root, 'whole');
const scratch = join(root, 'scratch');
/** @type {Record<string, { args: (folder: string) => string[], from?: string }>} */
const WHAT = {
  download: { args: (folder) => ['load', server.url, folder, JSON.stringify(tuning)] },
  load: { args: (folder) => ['load', server.url, folder, JSON.stringify(tuning)], from: whole },
  save: { args: (folder) => ['save', server.url, folder, JSON.stringify(tuning)], from: whole },
  delete: { args: (folder) => ['delete', folder], from: whole },
};
/** @type {Record<string, number>} */
const longest = { download: await timeOf(WHAT.download.args(whole)), load: await timeOf(WHAT.load.args(whole)) };
const { sum } = await load(whole);
const talks = large ? [] : await keepFirst();
longest.save = await timeOf(WHAT.save.args(whole));
await keepFirst();
await cp(whole, scratch, { recursive: true });
longest.delete = await timeOf(WHAT.delete.args(scratch));

const result = {
  kills: 0,
  early: 0,
  worstTwice: 0,
  bytes: bytes.length,
  by: /** @type {Record<string, number>} */ ({}),
};
const turns = large ? ['download'] : ['download', 'save', 'load', 'delete'];
for (let n = 0; result.kills < Number(values.count); n++) {
  const what = turns[n % turns.length];
  const { args, from } = WHAT[what];
  await rm(scratch, { recursive: true, force: true });
  if (from) await cp(from, scratch, { recursive: true });
  server.forget();
  if (await killed(args(scratch), random() * longest[what])) {
    result.early++;
    continue;
  }
  result.kills++;
  result.by[what] = (result.by[what] ?? 0) + 1;
  const next = await load(scratch);
  assert.equal(next.sum, sum, `kill ${n} of a ${what}: wrong logits`);
  const twice = server.sent - (what === 'delete' && next.kept === 'stored' ? bytes.length : from ? 2 : bytes.length);
  result.worstTwice = Math.max(result.worstTwice, what === 'download' ? twice : 0);
  if (from && what === 'load') assert.ok(server.sent <= 2, `kill ${n} of a ${what}: ${server.sent} bytes were fetched`);
  if (what === 'save') await goesOn(scratch, n);
  assert.equal((await load(scratch)).kept, 'cached');
  const left = (await readdir(scratch)).filter((name) => !/\.(gguf|state)$/.test(name));
  assert.deepEqual(left, [], `kill ${n} of a ${what}`);
  if (result.kills % 20 === 0) console.error(JSON.stringify(result));
}
for (const f of after) await f();
await rm(root, { recursive: true });
console.log(JSON.stringify({ ...result, twice: `${((100 * result.worstTwice) / bytes.length).toFixed(2)} %` }));
