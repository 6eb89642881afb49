/**
 * Tests downloads in browsers, through the public API: files stay in the origin private file system, closing a tab
 * during a download loses hardly any bytes, two tabs do not disturb each other, and full storage does not fail a load.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { loadModel } from '../../js/index.node.js';
import { byteRange } from '../../tools/serve.js';
import { testModel } from '../js/models.js';
import { flip, openBuilt } from './built.js';
import { sleep } from '../lab/inject.js';
import { suite } from './helpers.js';

const IDS = [2, 300, 301, 302];

/** @param {import('puppeteer-core').Page} page @param {string} url
 * @param {string} [cache] */
const load = (page, url, cache = 'usual') =>
  page.evaluate(
    async (url, cache, ids) => {
      const { loadModel, openCache } = /** @type {any} */ (window).gemma;
      const files = new Map();
      const ends = new Map();
      const store = {
        list: async () => [...files.keys()],
        size: async (/** @type {string} */ name) => ends.get(name) ?? 0,
        read: async (/** @type {string} */ name, /** @type {number} */ at, /** @type {Uint8Array} */ into) => {
          into.set(files.get(name).subarray(at, at + into.length));
          return into.length;
        },
        write: async (/** @type {string} */ name, /** @type {number} */ at, /** @type {Uint8Array} */ bytes) => {
          const file = files.get(name) ?? new Uint8Array(30e6);
          if (cache === 'full' && at > 5e6 && at < 20e6) throw new DOMException('full', 'QuotaExceededError');
          if (cache === 'slow' && at > 10e6 && at < 20e6 && !('heldAt' in window)) {
            await new Promise((release) => {
              Object.assign(window, { heldAt: at, release });
            });
          }
          file.set(bytes, at);
          files.set(name, file);
          ends.set(name, Math.max(ends.get(name) ?? 0, at + bytes.length));
        },
        remove: async (/** @type {string} */ name) => {
          files.delete(name);
        },
      };
      const last = {};
      const seen = new Set();
      const onProgress = (/** @type {any} */ event) => {
        Object.assign(last, event);
        if (event.phase === 'fetch') seen.add(event.loaded);
      };
      const model = await loadModel(url, {
        threads: 1,
        onProgress,
        ...(cache !== 'usual' && { cache: openCache(store) }),
      });
      const logits = [...(await model.debug.logits(ids))];
      await model.dispose();
      const codes = model.info.notices.map((/** @type {any} */ notice) => `${notice.code}: ${notice.message}`);
      return {
        cache: model.info.cache,
        codes,
        fromCache: /** @type {any} */ (last).fromCache,
        logits,
        left: files.size,
        seen: [...seen],
      };
    },
    url,
    cache,
    IDS,
  );

/** Starts a server on another origin than the page's. @param {(request: import('node:http').IncomingMessage, response:
 * import('node:http').ServerResponse) => void} handler */
async function foreign(handler) {
  const server = createServer(handler);
  await new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve(null));
  });
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${port}/`,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** @param {import('puppeteer-core').Page} page */
const clear = (page) => page.evaluate(() => /** @type {any} */ (window).gemma.modelCache.clear());
/** @param {import('puppeteer-core').Page} page @returns {Promise<any[]>} */
const list = (page) => page.evaluate(() => /** @type {any} */ (window).gemma.modelCache.list());

const test = suite('downloads', async (name) => {
  const file = await testModel('parity-f32');
  const bytes = readFileSync(file);
  const model = await loadModel(file, { threads: 1 });
  const expected = [...(await model.debug.logits(IDS))];
  await model.dispose();
  const site = await openBuilt(name, bytes);
  const forget = () => Object.assign(site.state, { sent: 0, ranges: [], delay: 0, gone: false });
  return { ...site, name, page: await site.openPage(), expected, bytes, forget };
});

test('a load stores the model; the next one sends a single request, and none without a network', async ({
  page,
  url,
  bytes,
  expected,
  state,
  forget,
}) => {
  const first = await load(page, url);
  assert.deepEqual([first.cache, first.codes, state.sent], ['stored', [], bytes.length]);
  forget();
  const second = await load(page, url);
  assert.deepEqual([second.cache, second.fromCache, state.ranges], ['cached', bytes.length, ['bytes=0-0']]);
  state.gone = true;
  const third = await load(page, url);
  assert.equal(third.cache, 'cached');
  assert.match(third.codes[0], /^offline/);
  for (const { logits } of [first, second, third]) assert.deepEqual(logits, expected);
});

test("stored models are listed and deleted on the page's thread", async ({ page, url, bytes }) => {
  const [{ key, url: shown, complete, stored, total }] = await list(page);
  assert.deepEqual([shown, complete, stored, total], [url, true, bytes.length, bytes.length]);
  const { usage, quota } = await page.evaluate(() => /** @type {any} */ (window).gemma.modelCache.estimate());
  assert.ok(usage >= bytes.length / 2 && quota > usage, `${usage} of ${quota}`);
  await page.evaluate((name) => /** @type {any} */ (window).gemma.modelCache.delete(name), key);
  assert.deepEqual(await list(page), []);
});

test('after a tab is closed during a download, the next load resumes and fetches at most 1 % twice', async ({
  openPage,
  url,
  bytes,
  page,
  expected,
  state,
  forget,
}, t) => {
  forget();
  state.delay = 10;
  const doomed = await openPage();
  void load(doomed, url).catch(() => {});
  while (state.sent < bytes.length / 2) await sleep(20);
  assert.equal((await list(page)).length, 1);
  await doomed.close();
  await sleep(300); // Gives the server time to notice the closed tab.
  const before = state.sent;
  const [{ stored, complete }] = await list(page);
  assert.ok(!complete && stored > bytes.length / 4, `${stored} bytes stored`);
  forget();
  const { cache, logits, fromCache } = await load(page, url);
  assert.deepEqual([cache, logits], ['stored', expected]);
  assert.ok(fromCache >= stored);
  assert.ok(state.sent <= bytes.length - stored, `${state.sent} sent, ${stored} of ${bytes.length} were stored`);
  t.diagnostic(`${before} sent, ${stored} stored when the tab was closed`);
});

test('while the store does not finish a write, hardly any further bytes are requested', async ({
  openPage,
  url,
  bytes,
  expected,
  state,
  forget,
}, t) => {
  forget();
  // The server is so slow that the loader requests only ranges of the minimum length, because a range covers the bytes
  // that arrive during one response time.
  state.delay = 4;
  const least = 1 << 20;
  const tab = await openPage();
  t.after(() => tab.close());
  await tab.evaluate((least) => {
    Object.assign(/** @type {any} */ (window).gemma.environment.tuning, { alone: 0, least });
  }, least);
  const loading = load(tab, url, 'slow');
  await tab.waitForFunction('window.heldAt');
  state.delay = 0;
  for (let before = -1; before < state.sent; ) {
    before = state.sent;
    await sleep(100);
  }
  const ahead = state.sent - (await tab.evaluate(() => /** @type {any} */ (window).heldAt));
  t.diagnostic(`${ahead} bytes were sent and not stored`);
  // Bytes that are not stored yet: at most the rest of the current range, and the next range if it was requested
  // early.
  assert.ok(ahead >= 0 && ahead <= 2 * least, `${ahead} of ${bytes.length} bytes were sent and not stored`);
  await tab.evaluate(() => /** @type {any} */ (window).release());
  const { cache, logits } = await loading;
  assert.deepEqual([cache, logits, state.sent], ['stored', expected, bytes.length]);
});

test('a load right after an aborted one works', async ({ page, url, bytes, expected, state, forget }) => {
  await clear(page);
  forget();
  state.delay = 2;
  const code = await page.evaluate(
    async (address, half) => {
      const controller = new AbortController();
      const onProgress = (/** @type {any} */ { loaded }) => {
        if (loaded > half) controller.abort();
      };
      const loading = /** @type {any} */ (window).gemma.loadModel(address, {
        threads: 1,
        signal: controller.signal,
        onProgress,
      });
      return loading.catch((/** @type {any} */ error) => error.code);
    },
    url,
    bytes.length / 2,
  );
  assert.equal(code, 'aborted');
  const { cache, logits, fromCache } = await load(page, url);
  assert.deepEqual([cache, logits], ['stored', expected]);
  assert.ok(fromCache > bytes.length / 4, `${fromCache} bytes from the cache`);
});

test('two tabs that load one model share one download and its progress', async ({
  page,
  openPage,
  url,
  expected,
  bytes,
  state,
  forget,
}) => {
  await clear(page);
  forget();
  state.delay = 10;
  const other = await openPage();
  const both = await Promise.all([load(page, url), load(other, url)]);
  for (const { logits } of both) assert.deepEqual(logits, expected);
  assert.deepEqual(both.map(({ cache }) => cache).sort(), ['cached', 'stored']);
  assert.deepEqual(
    both.map(({ codes }) => codes),
    [[], []],
  );
  assert.ok(state.sent <= bytes.length + 3, `${state.sent} of ${bytes.length} bytes were sent`);
  const waited = both.find(({ cache }) => cache === 'cached')?.seen;
  assert.ok(waited && waited.length >= 3, `saw ${waited}`);
  forget();
  // A complete cached file can be read by two tabs at once.
  const again = await Promise.all([load(page, url), load(other, url)]);
  assert.deepEqual(
    again.map(({ cache }) => cache),
    ['cached', 'cached'],
  );
  await other.close();
});

test('if the downloading tab is closed, the waiting tab resumes the download', async ({
  page,
  openPage,
  url,
  bytes,
  expected,
  state,
  forget,
}) => {
  await clear(page);
  forget();
  state.delay = 10;
  const doomed = await openPage();
  void load(doomed, url).catch(() => {});
  while (state.sent < bytes.length / 4) await sleep(20);
  const waiting = load(page, url);
  while (state.sent < bytes.length / 2) await sleep(20);
  await doomed.close();
  const { cache, logits, fromCache, codes } = await waiting;
  assert.deepEqual([cache, logits, codes], ['stored', expected, []]);
  assert.ok(fromCache > bytes.length / 4, `${fromCache} bytes from the cache`);
  assert.ok(state.sent < bytes.length * 1.2, `${state.sent} of ${bytes.length} bytes were sent`);
});

test('a corrupt piece of a cached file is fetched again, or reported if the server is unreachable', async ({
  page,
  url,
  bytes,
  expected,
  state,
  forget,
}) => {
  const at = Math.floor(bytes.length * 0.6);
  forget();
  await flip(page, at);
  const { cache, logits, codes } = await load(page, url);
  assert.deepEqual([cache, logits], ['cached', expected]);
  assert.match(codes.join(), /^mended: The cached copy was corrupt at piece \d+ of \d+ /);
  assert.ok(state.sent <= 65536 + 1, `${state.sent} bytes were sent`);
  assert.deepEqual((await load(page, url)).codes, []);
  await flip(page, at);
  state.gone = true;
  const refused = await page.evaluate(
    (address) =>
      /** @type {any} */ (window).gemma
        .loadModel(address, { threads: 1 })
        .catch((/** @type {any} */ { code, message }) => ({ code, message })),
    url,
  );
  assert.equal(refused.code, 'cache-corrupt');
  assert.match(refused.message, /^The cached copy of \S+ is corrupt at piece \d+ of \d+ \(bytes \d+ to \d+\)/);
});

test('after a reload, a stored conversation continues with the same answer and without re-evaluation', async ({
  page,
  url,
  forget,
}) => {
  forget();
  const first = await page.evaluate(async (address) => {
    const model = await /** @type {any} */ (window).gemma.loadModel(address, { threads: 1, contextLength: 512 });
    const chat = model.chat({ maxTokens: 6, seed: 2 });
    await chat.send('Hello, who is there? '.repeat(8)).text();
    const saved = await chat.save();
    await model.chatCache.put('draft', saved);
    const { tokens, usage } = await chat.send('Go on.').result();
    await model.dispose();
    return { bytes: saved.length, tokens, usage };
  }, url);
  await page.reload();
  await page.waitForFunction('window.gemma');
  const second = await page.evaluate(async (address) => {
    const { loadModel, modelCache } = /** @type {any} */ (window).gemma;
    const model = await loadModel(address, { threads: 1, contextLength: 512 });
    const saved = await model.chatCache.get('draft');
    const chat = model.chat({ saved });
    const restored = await chat.restored;
    const { tokens, usage } = await chat.send('Go on.').result();
    const models = (await modelCache.list()).length;
    const [{ name, fits }] = await model.chatCache.list();
    await model.chatCache.clear();
    const left = (await model.chatCache.list()).length;
    await model.dispose();
    return { bytes: saved.length, restored, tokens, usage, models, name, fits, left };
  }, url);
  const { restored, models, name, fits, left, ...same } = second;
  assert.deepEqual(same, first);
  assert.ok(restored.tokens > 30 && restored.tokens === first.usage.reusedTokens, JSON.stringify(restored));
  assert.deepEqual([models, name, fits, left], [1, 'draft', true, 0]);
});

test('redirects to another host, as on Hugging Face: ranges and cache work, and the token stays with the first host', async ({
  bytes,
  name,
  page,
  expected,
}) => {
  /** @type {import('node:http').IncomingHttpHeaders[][]} */
  const [hubSaw, filesSaw] = [[], []];
  for (const exposed of [true, false]) {
    const files = await foreign(({ method, headers }, response) => {
      // The host of the files, to which the hub redirects, refuses CORS preflight requests.
      if (method === 'OPTIONS') return void response.writeHead(403).end();
      filesSaw.push(headers);
      const range = byteRange(headers.range, bytes.length);
      const [first, last] = Array.isArray(range) ? range : [0, bytes.length - 1];
      response.setHeader('Access-Control-Allow-Origin', '*');
      if (exposed) response.setHeader('Access-Control-Expose-Headers', 'ETag, Content-Range');
      if (range) response.setHeader('Content-Range', `bytes ${first}-${last}/${bytes.length}`);
      response.writeHead(range ? 206 : 200, { ETag: '"x"', 'Content-Length': last + 1 - first });
      response.end(bytes.subarray(first, last + 1));
    });
    const hub = await foreign(({ method, headers }, response) => {
      response.setHeader('Access-Control-Allow-Origin', '*');
      response.setHeader('Access-Control-Allow-Headers', 'authorization');
      if (method === 'OPTIONS') return void response.writeHead(204).end();
      hubSaw.push(headers);
      response.writeHead(302, { Location: `${files.url}blob?signature=1` }).end();
    });
    // Sends the token in Chromium only: it makes the request to the hub need a CORS preflight, and Firefox would then
    // send a preflight to the host of the files as well.
    const token = name === 'chromium' ? 'hf_SECRET' : undefined;
    const got = await page.evaluate(
      async (url, ids, token) => {
        const model = await /** @type {any} */ (window).gemma.loadModel(url, { threads: 1, token });
        const logits = [...(await model.debug.logits(ids))];
        await model.dispose();
        return { cache: model.info.cache, logits };
      },
      `${hub.url}model.gguf`,
      IDS,
      token,
    );
    assert.deepEqual(got, { cache: exposed ? 'stored' : 'none', logits: expected });
    const ranges = filesSaw.splice(0).map((headers) => {
      assert.deepEqual([headers.authorization, headers['if-range']], [undefined, undefined]);
      return headers.range;
    });
    assert.equal(ranges.length > 10, exposed, String(ranges));
    assert.ok(hubSaw.splice(0).every(({ authorization }) => authorization === (token && `Bearer ${token}`)));
    files.close();
    hub.close();
  }
});

test('a model that does not fit into storage runs, and leaves nothing stored', async ({
  page,
  url,
  expected,
  name,
  bytes,
  forget,
}) => {
  await clear(page);
  forget();
  const full = await load(page, url, 'full');
  assert.deepEqual([full.cache, full.left, full.logits], ['none', 0, expected]);
  assert.match(full.codes[0], /not-cached.*storage is full/);
  if (name !== 'chromium') return;
  const client = await page.createCDPSession();
  const { usage } = await page.evaluate(() => /** @type {any} */ (window).gemma.modelCache.estimate());
  await client.send('Storage.overrideQuotaForOrigin', {
    origin: new URL(url).origin,
    quotaSize: usage + Math.floor(bytes.length / 2),
  });
  const { cache, codes, logits } = await load(page, url);
  assert.deepEqual([cache, logits], ['none', expected]);
  assert.match(codes[0], /not-cached.*(free|storage is full)/);
  assert.deepEqual(await list(page), []);
});
