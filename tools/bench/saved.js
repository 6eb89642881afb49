/**
 * bench/saved: compares the time of saving and restoring a conversation's KV cache with the time of evaluating it. One
 * model evaluates and saves the conversation, a second one restores it. Their logits must be equal bit for bit.
 *
 *   node tools/bench/saved.js MODEL [--tokens 4096] [--threads N] [--kv-type T]
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadModel, openCache } from '../../js/index.node.js';
import { Trouble, cli, parseOptions } from '../support/proc.js';

/** @template T @param {() => Promise<T>} f @returns {Promise<[T, number]>} */
async function timed(f) {
  const before = performance.now();
  return [await f(), performance.now() - before];
}

async function main() {
  const {
    values,
    positionals: [path],
  } = parseOptions({ tokens: 4096, threads: '', 'kv-type': 'auto' }, { allowPositionals: true });
  if (!path) throw new Trouble('Name a model file: node tools/bench/saved.js MODEL.');
  const { tokens } = values;
  const folder = mkdtempSync(join(tmpdir(), 'gemma-wasm-saved-'));
  const options = {
    cache: openCache(folder),
    contextLength: tokens + 16,
    kvType: /** @type {any} */ (values['kv-type']),
    ...(values.threads && { threads: Number(values.threads) }),
  };
  const first = await loadModel(path, options);
  const most = Math.min(5000, first.info.vocabSize - 300);
  const ids = Array.from({ length: tokens + 1 }, (_, i) => 300 + ((i * 37) % most));
  const past = ids.slice(0, tokens);
  const [, evaluate] = await timed(() => first.debug.logits(past));
  const head = new Uint8Array(0);
  const [bytes, save] = await timed(() => first.call('save', { head, ids: past }));
  const [, put] = await timed(() => first.call('stored', { what: 'put', name: 'x', bytes }));
  const expected = await first.debug.logits(ids);
  const { kv } = first.info.memory;
  await first.dispose();
  const second = await loadModel(path, options);
  const [kept, get] = await timed(() => second.call('stored', { what: 'get', name: 'x' }));
  const [restored, load] = await timed(() => second.call('restore', { bytes: kept }));
  const got = await second.debug.logits(ids);
  await second.dispose();
  rmSync(folder, { recursive: true });
  const same = got.every((value, i) => Object.is(value, expected[i]));
  console.log(
    JSON.stringify(
      {
        tokens,
        evaluateMs: evaluate,
        saveMs: save,
        putMs: put,
        getMs: get,
        loadMs: load,
        times: evaluate / (save + put + get + load),
        timesWithoutStore: evaluate / (save + load),
        bytes: bytes.length,
        cacheBytes: kv,
        restored: restored.tokens,
        reason: restored.reason,
        sameBits: same,
      },
      null,
      1,
    ),
  );
  if (!same || restored.tokens !== tokens) process.exitCode = 1;
}

cli(main);
