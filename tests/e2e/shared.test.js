/**
 * Tests tabs that share a model (js/shared/): one download, one engine, right answers, and no lost calls when the owner
 * leaves. Runs a part of the fault-injection case `tabs` (tests/lab).
 */
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { testModel } from '../js/models.js';
import { sharedBrowser, suite } from './helpers.js';
import { Tabs, asksOf, serveModel } from '../lab/tabs.js';

/** @type {Awaited<ReturnType<typeof serveModel>>} */ let server;
/** @type {import('../lab/tabs.js').Ask[]} */ let asks;

before(async () => {
  const file = await testModel('tiny');
  asks = await asksOf(file, 3, 120);
  server = await serveModel(file);
});
after(() => server.close());

const test = suite('several tabs', async (name) => {
  const tabs = new Tabs(await (await sharedBrowser(name)).createBrowserContext(), server);
  server.source.forget();
  return { tabs, close: () => tabs.close() };
});

test('two tabs that load at once: one download, progress in both, one engine, right answers in both', async ({
  tabs,
}) => {
  assert.deepEqual(await tabs.open(2), [512, 512]);
  assert.equal(server.source.sent, server.size);
  for (const progress of await tabs.each((lab) => lab.progress)) assert.ok(progress > 0);
  await tabs.owner();
  assert.deepEqual(
    (await tabs.each((lab) => lab.workers.length)).sort(),
    [0, 2],
    'one tab has a worker and a helper thread',
  );
  await tabs.ask(asks);
  assert.deepEqual(await tabs.answers(), { count: 6, wrong: [] });
});

for (const how of ['close', 'dispose']) {
  test(`after the owner ends (${how}), the calls of the other tab continue, even after they returned text`, async ({
    tabs,
  }) => {
    await tabs.open(2 - tabs.pages.length);
    const owner = await tabs.owner();
    const other = /** @type {any} */ (tabs.pages.find((page) => page !== owner));
    await tabs.hold(other, asks[0]);
    await tabs.end(how);
    await tabs.ask(asks);
    await other.evaluate('lab.go()');
    assert.deepEqual(await tabs.answers(), { count: 4, wrong: [] });
    await tabs.owner();
  });
}

test('aborts, other calls and errors are the same as with an unshared model', async ({ tabs }) => {
  await tabs.open(2 - tabs.pages.length);
  const seen = await Promise.all(
    tabs.pages.map((page) =>
      page.evaluate(async () => {
        const {
          lab: { model },
          gemma,
        } = /** @type {any} */ (window);
        const pieces = [];
        for await (const piece of model.generate('x', { maxTokens: 400, seed: 1 })) {
          if (pieces.push(piece) === 3) break;
        }
        const controller = new AbortController();
        const { signal } = controller;
        const long = { maxTokens: 400, seed: 1, logitBias: { 1: -1e30, 8: -1e30 } };
        // The second answer waits for the first, so that it cannot end before it is aborted.
        const answers = [long, { ...long, signal }].map((options) => model.generate('y', options).result());
        await model.tokenize('z'); // the worker replies to this call before the first answer ends
        controller.abort();
        const [, { finishReason }] = await Promise.all(answers);
        const refused = await model.debug.logits([1 << 20]).catch((/** @type {any} */ error) => error);
        const [ids, logits] = [await model.tokenize('some text'), await model.debug.logits([2, 300])];
        const saved = await model
          .chat({ messages: [] })
          .save()
          .then(
            (/** @type {Uint8Array} */ bytes) => bytes.length > 16,
            () => 'none',
          );
        return {
          pieces: pieces.length,
          finishReason,
          code: refused.code,
          ours: refused instanceof gemma.ModelError,
          ids,
          logits: [...logits.slice(0, 8)],
          saved,
        };
      }),
    ),
  );
  assert.deepEqual(seen[0], seen[1]);
  const { ids, logits, saved, ...rest } = seen[0];
  assert.deepEqual(rest, { pieces: 3, finishReason: 'aborted', code: 'bad-token', ours: true });
  assert.ok(ids.length && logits.some(Boolean) && saved);
});

test('a source that other tabs cannot load is refused; a failing load fails in each tab', async ({ tabs }) => {
  const [page, other] = tabs.pages;
  const codes = await page.evaluate(async () => {
    const { shared } = /** @type {any} */ (window).gemma;
    const code = (/** @type {any} */ error) => error.code;
    return [await shared.loadModel(new Blob(['x'])).catch(code), await shared.loadModel(new Uint8Array(9)).catch(code)];
  });
  assert.deepEqual(codes, ['unsupported-source', 'unsupported-source']);
  const missing = `${server.url}nothing.gguf`;
  const open = (/** @type {import('puppeteer-core').Page} */ one) =>
    one.evaluate((url) => {
      return /** @type {any} */ (window).gemma.shared.loadModel(url).then(
        () => '',
        (/** @type {any} */ error) => error.code,
      );
    }, missing);
  assert.deepEqual(await Promise.all([open(page), open(other)]), ['http-error', 'http-error']);
  assert.equal(await open(page), 'http-error');
});

test("an abort during a load, or while waiting for another tab's load, ends only that call", async ({ tabs }) => {
  const [page, other] = tabs.pages;
  const ends = await other.evaluate(
    (url) =>
      Promise.all(
        [0, 1, 3, 10, 30].map(async (ms) => {
          const controller = new AbortController();
          const { signal } = controller;
          setTimeout(() => controller.abort(), ms);
          const options = { signal, contextLength: 300 + ms, threads: 1 };
          const model = await /** @type {any} */ (window).gemma.shared
            .loadModel(url, options)
            .catch((/** @type {any} */ error) => error);
          await model.dispose?.();
          return model.code ?? 'loaded';
        }),
      ),
    server.model,
  );
  assert.equal(ends[0], 'aborted');
  for (const end of ends) assert.ok(['aborted', 'loaded'].includes(end), end);
  const both = await Promise.all(
    [page, other].map((one) =>
      one.evaluate(async (url) => {
        const model = await /** @type {any} */ (window).gemma.shared.loadModel(url, { contextLength: 300 });
        const logits = await model.debug.logits([2, 300]);
        await model.dispose();
        return logits[5];
      }, server.model),
    ),
  );
  assert.equal(both[0], both[1]);
});
