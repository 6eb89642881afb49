/* Compares the memory that the page names for its preset models with the engine's memory plan for the same shapes, and
 * the page's addresses of files with the package's. */
import assert from 'node:assert/strict';
import { truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { hubAddress } from '../../js/download/hub.js';
import { modelCache } from '../../js/index.js';
import { inspectModel } from '../../js/index.node.js';
import { PRESETS as SHAPES, headerOf } from '../../tools/models/make-model.js';
import { afterRefusal, tooLarge } from '../../web/models/preflight.js';
import { PRESETS, addressOf, choiceOfPreset, memoryOf } from '../../web/models/presets.js';
import { modelsHere } from '../../web/models/stored.js';
import { newFolder } from './helpers.js';

/** Shapes of the presets' models whose rows stay on disk, by file. The other presets have all weights in memory.
 * @type {Record<string, string>} */
const SHAPE_OF = { 'gemma-4-E2B_q4_0-it.gguf': 'gemma4-e2b', 'gemma-4-E4B_q4_0-it.gguf': 'gemma4-e4b' };

test('the address of a file on Hugging Face is the one under which the package stores it', () => {
  const source = { repo: 'a/b', file: 'big models/m+1.gguf', revision: 'refs/pr/1' };
  assert.equal(addressOf(source), hubAddress(source));
});

test('a stored copy is opened under the address under which it is stored', async (t) => {
  const url = 'https://huggingface.co/a/b/resolve/main/m.gguf';
  const urls = [url, `${url}?download=true`, 'https://x.org/m-00001-of-00002.gguf?download=true'];
  const all = [...urls, 'https://x.org/m-00002-of-00002.gguf?download=true'];
  const entries = all.map((one) => ({ key: one, url: one, file: 'm.gguf', stored: 1, total: 1, complete: true }));
  t.mock.method(modelCache, 'list', async () => entries);
  assert.deepEqual(
    (await modelsHere()).map(({ choice }) => addressOf(choice.source)),
    urls,
    'the parts of a split model are listed as one model',
  );
});

test('a file whose tables stay on disk is judged by its memory, not by its size', (t) => {
  const { navigator } = globalThis;
  const pretend = (/** @type {object} */ value) =>
    Object.defineProperty(globalThis, 'navigator', { value, configurable: true });
  pretend({ deviceMemory: 4 });
  t.after(() => pretend(navigator));
  const [e2b, e4b] = PRESETS.filter(({ memory }) => memory);
  const listed = { repo: e4b.repo, file: e4b.file, bytes: e4b.bytes };
  assert.equal(tooLarge(memoryOf(listed)), '');
  assert.notEqual(tooLarge(memoryOf({ ...listed, repo: 'other/repository' })), '');
  const [instead, ofItself] = [e4b, e2b].map((preset) => {
    const [, ...files] = afterRefusal(choiceOfPreset(preset)); // the first remedy is a shorter context
    return files.some(({ choice }) => choice.label === e2b.name);
  });
  assert.ok(instead && !ofItself);
});

for (const preset of PRESETS.filter(({ memory }) => memory)) {
  test(`${preset.name}: the page names the memory of the memory plan`, async (t) => {
    const { header } = headerOf(SHAPES[SHAPE_OF[preset.file]]);
    const path = join(newFolder(t), preset.file);
    await writeFile(path, header.bytes);
    await truncate(path, header.total);
    const { info } = await inspectModel(path, { contextLength: 4096 });
    const { memory, fileBytes } = info;
    t.diagnostic(`${memory.total} bytes in memory, ${memory.onDisk} on disk; the file has ${fileBytes} bytes`);
    assert.ok(
      Math.abs(fileBytes / preset.bytes - 1) < 0.001,
      `the shape is not that of the published file, which has ${preset.bytes} bytes: ${fileBytes}`,
    );
    assert.equal(preset.memory, Math.round(memory.total / 1e7) * 1e7);
  });
}
