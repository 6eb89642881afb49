/**
 * Tests weights that stay on disk (`rowsOnDisk`) in browsers: rows of a cached file and of a Blob, in two tabs at once,
 * and after a bit of the cached file was flipped.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { loadModel } from '../../js/index.node.js';
import { testModel } from '../js/models.js';
import { flip, openBuilt } from './built.js';
import { suite } from './helpers.js';

const IDS = Array.from({ length: 90 }, (_, i) => (i * 131) % 300);

/** @param {import('puppeteer-core').Page} page @param {number[]} [ids] */
const logits = (page, ids = IDS) =>
  page.evaluate(
    (ids) =>
      /** @type {any} */ (window).model.debug.logits(ids).then(
        (/** @type {Float32Array} */ values) => [...values],
        (/** @type {any} */ error) => error.code,
      ),
    ids,
  );
const dispose = (/** @type {import('puppeteer-core').Page} */ page) =>
  page.evaluate(() => /** @type {any} */ (window).model.dispose());

const test = suite('rows on disk', async (name) => {
  const file = await testModel('gemma4-q4_0');
  const bytes = readFileSync(file);
  const model = await loadModel(file, { threads: 1, rowsOnDisk: false });
  const expected = [...(await model.debug.logits(IDS))];
  const { tensors } = await model.inspect();
  const table = /** @type {any} */ (tensors.find((tensor) => tensor.name === 'per_layer_token_embd.weight'));
  await model.dispose();
  const site = await openBuilt(name, bytes);

  /** @param {import('puppeteer-core').Page} page */
  const load = (page, options = {}) =>
    page.evaluate(
      async (url, options) => {
        const { blob, ...rest } = /** @type {any} */ (options);
        const source = blob ? await (await fetch(url)).blob() : url;
        const model = await /** @type {any} */ (window).gemma.loadModel(source, {
          threads: 1,
          rowsOnDisk: true,
          rowsLater: false,
          ...rest,
        });
        Object.assign(window, { model });
        return { cache: model.info.cache, onDisk: model.info.memory.onDisk };
      },
      site.url,
      options,
    );
  return { ...site, expected, table, load };
});

test('rows of the cached file, in two tabs at once, and of a Blob give the right logits', async ({
  openPage,
  load,
  table,
  expected,
}) => {
  const page = await openPage();
  assert.deepEqual(await load(page), { cache: 'stored', onDisk: table.bytes });
  assert.deepEqual(await logits(page), expected);
  const other = await openPage();
  assert.deepEqual(await load(other), { cache: 'cached', onDisk: table.bytes });
  assert.deepEqual(await logits(other), expected);
  assert.deepEqual(await logits(page, [...IDS, 7].reverse()), await logits(other, [...IDS, 7].reverse()));
  await dispose(page);
  assert.deepEqual(
    await logits(other, IDS.slice().reverse()),
    (await load(page), await logits(page, IDS.slice().reverse())),
  );
  await dispose(other);
  await dispose(page);
  assert.deepEqual(await load(page, { blob: true }), { cache: 'none', onDisk: table.bytes });
  assert.deepEqual(await logits(page), expected);
  await dispose(page);
  await page.close();
  await other.close();
});

test('a flipped bit of a row is repaired, or fails with cache-corrupt if the server is unreachable', async ({
  openPage,
  table,
  load,
  expected,
  state,
}) => {
  const page = await openPage();
  const row = table.bytes / table.shape[1];
  const at = table.offset + 250 * row + 5;
  await flip(page, at);
  await load(page);
  state.gone = true;
  assert.equal(await logits(page, [2, 250]), 'cache-corrupt');
  assert.equal((await logits(page, [2, 5])).length, expected.length);
  state.gone = false;
  state.sent = 0;
  const repaired = await logits(page, [2, 250]);
  assert.equal(repaired.length, expected.length);
  assert.ok(state.sent > 0 && state.sent < 1 << 20, `${state.sent} bytes`);
  await dispose(page);
  state.gone = true;
  await load(page);
  assert.deepEqual(await logits(page, [2, 250]), repaired);
  assert.deepEqual(await logits(page), expected);
  await dispose(page);
  state.gone = false;
  await page.close();
});

/** Waits up to five seconds until there are `count` temporary files. Returns the number of files.
 * @param {import('puppeteer-core').Page} page @param {number} count */
const temporary = (page, count) =>
  page.evaluate(async (count) => {
    const root = await navigator.storage.getDirectory();
    const folder = /** @type {any} */ (await root.getDirectoryHandle('gemma-wasm-temporary', { create: true }));
    for (let tries = 0; ; tries++) {
      let found = 0;
      for await (const _ of folder.keys()) found++;
      if (found === count || tries === 50) return found;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }, count);

test('a URL that is not cached: the table is in a temporary file, which is removed', async ({
  openPage,
  load,
  table,
  expected,
}) => {
  const page = await openPage();
  const options = { cache: false };
  assert.deepEqual(await load(page, options), { cache: 'none', onDisk: table.bytes });
  assert.equal(await temporary(page, 1), 1);
  assert.deepEqual(await logits(page), expected);
  const other = await openPage();
  await load(other, options);
  assert.equal(await temporary(page, 2), 2);
  assert.deepEqual(await logits(page, IDS.slice().reverse()), await logits(other, IDS.slice().reverse()));
  await dispose(page);
  assert.equal(await temporary(page, 1), 1);
  // The temporary file of a closed tab is removed when the next model is loaded.
  await other.close();
  // The worker of a closed tab may hold its lock for a moment.
  await page.waitForFunction(
    async () => !(await navigator.locks.query()).held?.some(({ name }) => /temporary/.test(String(name))),
  );
  await load(page, options);
  assert.equal(await temporary(page, 1), 1);
  await dispose(page);
  assert.equal(await temporary(page, 0), 0);
  await page.close();
});

test('a stream that is aborted in the middle leaves no temporary file', async ({ openPage }) => {
  const page = await openPage();
  const code = await page.evaluate(async () => {
    const whole = new Uint8Array(await (await fetch('/models/rows.gguf')).arrayBuffer());
    const abort = new AbortController();
    let at = 0;
    const stream = new ReadableStream({
      pull(controller) {
        if (at > 3e6) return new Promise(() => setTimeout(() => abort.abort(), 500));
        controller.enqueue(whole.slice(at, (at += 1e6)));
        return undefined;
      },
    });
    const options = { threads: 1, rowsOnDisk: true, signal: abort.signal };
    return /** @type {any} */ (window).gemma.loadModel(stream, options).then(
      () => '',
      (/** @type {any} */ error) => error.code,
    );
  });
  assert.equal(code, 'aborted');
  assert.equal(await temporary(page, 0), 0);
  await page.close();
});
