/**
 * Tests the page as hosts serve it (site/): after one visit it opens offline, and its own model (the storyteller) and
 * cached models answer; a new version arrives during an answer; threads work on hosts that send no headers; the
 * storyteller is fetched once; wrong responses and damaged storage do not last (site-worker.test.js has more such
 * cases).
 */
import assert from 'node:assert/strict';
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { buildSite } from '../../tools/build/site.js';
import { testModel } from '../js/models.js';
import {
  ANSWERED,
  FAILED,
  PICKING,
  READY,
  ask,
  assertReady,
  loadAddress,
  modelAddress,
  onlyIn,
  openTab,
  root,
  say,
  serveFor,
  setOptions,
  sharedBrowser,
  suite,
  textOf,
  until,
  valueOf,
} from './helpers.js';

/** Options with which tools/serve.js sends no headers, as a static host without configuration. */
const NO_HEADERS = {
  isolation: false,
  headers: {
    'Content-Security-Policy': '',
    'Cross-Origin-Resource-Policy': '',
    'X-Content-Type-Options': '',
    'Referrer-Policy': '',
    'Cache-Control': '',
  },
};
const UNREACHED = /Failed to load|NetworkError|ERR_|reach|refused/i;
const SIGN_IN = '<!doctype html><title>Sign in to the network</title>';
const UPDATE = '#update:not([hidden])';

/** @type {string} */
let folder;

/** @param {import('puppeteer-core').Page} page */
const versionOf = (page) => page.evaluate(() => document.documentElement.dataset.version);

before(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'gemma-wasm-offline-'));
  const page = path.join(folder, 'page');
  cpSync(path.join(root, 'build', 'page'), page, { recursive: true });
  cpSync(await testModel('tiny'), path.join(page, 'storyteller.gguf'));
  const index = path.join(page, 'index.html');
  for (const version of ['first', 'second']) {
    const html = readFileSync(index, 'utf8')
      .replace('<html', `<html data-version="${version}"`)
      .replace(/<meta name="storyteller".*>\n/, '')
      .replace('</head>', '<meta name="storyteller" content="storyteller.gguf" data-bytes="1">\n</head>');
    writeFileSync(index, html);
    writeFileSync(
      path.join(page, 'style.css'),
      `/* ${version} */\n${readFileSync(path.join(page, 'style.css'), 'utf8')}`,
    );
    await buildSite({ from: page, out: path.join(folder, version), compressed: false });
  }
});
after(() => rmSync(folder, { recursive: true }));

/** Starts a server that serves the site under /demo/ and records the requests. Its take() switches to another version
 * of the site. @param {import('node:test').TestContext} t
 * @param {Partial<import('../../tools/serve.js').Options>} [options] */
async function host(t, options) {
  const place = mkdtempSync(path.join(folder, 'host-'));
  const live = path.join(place, 'live');
  const take = (/** @type {string} */ version) => {
    rmSync(live, { force: true });
    symlinkSync(path.join(folder, version), live);
  };
  take('first');
  /** @type {string[]} */
  const asked = [];
  const server = await serveFor(t, {
    root: place,
    mounts: { '/demo/': live, '/models/': path.dirname(await testModel('tiny')) },
    ...options,
    intercept: (request, response) => {
      asked.push(request.url ?? '');
      return options?.intercept?.(request, response) ?? false;
    },
  });
  const count = (/** @type {RegExp} */ pattern) => asked.filter((url) => pattern.test(url)).length;
  return { ...server, url: `${server.url}demo/`, take, count };
}

/** Runs in the page before its scripts: holds back the messages of workers, except heartbeats, while window.held is a
 * list. */
function holdable() {
  const all = /** @type {any} */ (window);
  const receive = Object.getOwnPropertyDescriptor(Worker.prototype, 'onmessage');
  Object.defineProperty(Worker.prototype, 'onmessage', {
    ...receive,
    set(handler) {
      receive?.set?.call(this, (/** @type {MessageEvent} */ event) => {
        if (all.held && event.data?.kind !== 'beat') all.held.push(() => handler(event));
        else handler(event);
      });
    },
  });
}

/** @param {import('puppeteer-core').Page} page @param {string} text */
async function talk(page, text) {
  await setOptions(page, { maxTokens: 8 });
  await ask(page, text);
  assert.match(await textOf(page, '.from-model:last-child .stats'), /tokens/);
}

/** @param {import('puppeteer-core').Page} page @param {string} text */
async function searchFor(page, text) {
  await page.click('#search-toggle');
  await page.waitForSelector('#search .link'); // The link appears once the panel has an embedding model.
  await page.click('#search summary');
  await page.type('#search details textarea', text);
  await page.click('#search details button');
  await page.waitForSelector('#search .texts:not([hidden]) .name');
  await page.type('#search input[type="search"]', 'who eats what?');
  await page.waitForSelector('#search .hits p');
  assert.equal(await textOf(page, '#search .hits p'), text);
  await page.click('#search-toggle');
}

/** Opens the page and waits until its model is loaded. The page may reload itself, which aborts goto().
 * @param {import('puppeteer-core').Page} page @param {string} url */
async function open(page, url) {
  await page.goto(url).catch((error) => {
    if (!/abort/i.test(error.message)) throw error;
  });
  await until(page, READY);
}

/** Tests with onlyIn() test only the page's own code. The others show that the service workers and caches of each
 * browser work. */
const inEach = suite('the page on a static host', async (name) => {
  const browser = await sharedBrowser(name);

  /** @param {string} url @param {import('./helpers.js').TabOptions} [options] */
  async function visit(url, options) {
    const { page } = await openTab(browser, 'about:blank', options);
    await open(page, url);
    return page;
  }
  return { browser, visit };
});

inEach(
  'on a plain static host, threads work from the first visit, and everything works offline afterwards',
  async ({ visit }, t) => {
    const site = await host(t, NO_HEADERS);
    const page = await visit(site.url, { expected: UNREACHED });
    assert.equal(await page.evaluate(() => crossOriginIsolated), true);
    assert.deepEqual(await page.$$eval('#chat-notice .notice', (all) => all.map((one) => one.textContent)), []);
    const cores = await page.evaluate(() => navigator.hardwareConcurrency);
    assert.match(
      await page.$eval('#info', (info) => info.textContent ?? ''),
      cores > 1 ? /SIMD\), \d+\sthreads/ : /1\sthread/,
    );
    assert.equal(site.count(/^\/demo\/$/), 2, 'two requests: of the first visit, and of the service worker');
    assert.equal(site.count(/storyteller/), 1);

    await page.goto(`${site.url}?pick`);
    await until(page, PICKING);
    await loadAddress(page, await modelAddress('tiny'));
    await assertReady(page);
    await page.waitForFunction(async () => {
      // The service worker stores some files only after the page has opened.
      const [name] = await caches.keys();
      const kept = await (await caches.open(name)).keys();
      return [/grammar-/, /look-/, /search-/, /gemma-simd128-(?!threads)/].every((part) =>
        kept.some(({ url }) => part.test(url)),
      );
    });
    await site.close();
    await page.goto(site.url);
    await until(page, READY);
    assert.match(await textOf(page, '#model-name'), /^tiny$/);
    await talk(page, 'From the store');
    await searchFor(page, 'Slugs eat lettuce.');

    await page.goto(`${site.url}?pick`);
    await until(page, PICKING);
    await page.click('#presets li button');
    await until(page, READY);
    assert.equal(await textOf(page, '#model-name'), 'Storyteller');
    assert.equal(await page.evaluate(() => crossOriginIsolated), true);
    await talk(page, 'From the page');
  },
);

inEach(
  'without a service worker, or without storage for it, the page works, on one thread if headers are missing',
  async ({ visit }, t) => {
    let visits = 0;
    const broken = await host(t, {
      ...NO_HEADERS,
      intercept: ({ url }, response) => {
        if (url !== '/demo/' || ++visits === 1) return false;
        response.writeHead(503).end();
        return true;
      },
    });
    const hidden = () => Object.defineProperty(Navigator.prototype, 'serviceWorker', { get: () => undefined });
    for (const [site, before] of /** @type {const} */ ([[broken], [await host(t, NO_HEADERS), hidden]])) {
      const page = await visit(site.url, { before });
      assert.match(await textOf(page, '#chat-notice'), /one thread.*doesn’t send the two headers/);
      assert.equal(await page.$('#update:not([hidden])'), null);
      await talk(page, 'Alone');
    }
  },
  onlyIn('chromium'),
);

inEach(
  'a first visit over a slow network works without a worker, and a reload loses no typed text',
  async ({ visit }, t) => {
    let visits = 0;
    let release = () => {};
    const gate = new Promise((open) => {
      release = () => open(false);
    });
    const site = await host(t, { ...NO_HEADERS, intercept: ({ url }) => url === '/demo/' && ++visits > 1 && gate });
    const page = await visit(site.url, {
      before: () => {
        const { setTimeout: usual } = window; // Removes offline.js's timeout of four seconds.
        Object.assign(window, {
          setTimeout: (/** @type {TimerHandler} */ act, ms = 0) => usual(act, ms === 4000 ? 0 : ms),
        });
      },
    });
    assert.match(await textOf(page, '#chat-notice'), /one thread for now.*Reload/);
    await page.type('#input', 'Half a message');
    release();
    await page.waitForFunction(() => Boolean(navigator.serviceWorker.controller));
    assert.equal(await valueOf(page, '#input'), 'Half a message');
    assert.equal(await page.evaluate(() => crossOriginIsolated), false);
    await page.reload();
    await until(page, READY);
    assert.equal(await page.evaluate(() => crossOriginIsolated), true);
  },
  onlyIn('chromium'),
);

inEach(
  'a new version is announced after the running answer has ended, and old tabs keep working',
  async ({ visit }, t) => {
    const site = await host(t);
    const page = await visit(site.url, { before: holdable });
    const other = await page.browserContext().newPage();
    await other.goto(site.url);
    await until(other, READY);
    await page.bringToFront(); // Chromium does not draw hidden tabs.
    await talk(page, 'Before');

    await page.evaluate(() => {
      /** @type {any} */ (window).held = [];
    });
    await say(page, 'During');
    await until(page, 'body[data-busy="true"]');
    site.take('second');
    await page.evaluate(async () => {
      await (await navigator.serviceWorker.getRegistration())?.update();
    });
    await until(page, UPDATE);
    const shown = () => page.$eval('#update', (one) => one.getClientRects().length > 0);
    assert.equal(await shown(), false, 'the update is not offered during an answer');
    await page.evaluate(() => {
      const all = /** @type {any} */ (window);
      const { held } = all;
      all.held = null;
      held.forEach((/** @type {() => void} */ handle) => handle());
    });
    await until(page, ANSWERED);
    await until(page, 'body[data-busy="false"]');
    assert.equal(await shown(), true);
    assert.equal(await versionOf(page), 'first');
    const before = await page.$$eval('.from-model .md', (all) => all.map((one) => one.textContent));
    assert.equal(before.length, 2);

    await Promise.all([page.waitForNavigation(), page.click('#update button')]);
    await until(page, READY);
    assert.equal(await versionOf(page), 'second');
    assert.deepEqual(await page.$$eval('.from-model .md', (all) => all.map((one) => one.textContent)), before);
    assert.equal(await page.$(UPDATE), null);
    assert.equal(site.count(/storyteller/), 1, 'both versions use one storyteller');

    const style = (/** @type {import('puppeteer-core').Page} */ one) =>
      one.evaluate(async () => {
        const link = /** @type {HTMLLinkElement} */ (document.querySelector('link[rel=stylesheet]'));
        return (await (await fetch(link.href)).text()).slice(0, 12);
      });
    assert.deepEqual([await style(other), await style(page)], ['/* first */\n', '/* second */']);
    await other.bringToFront();
    await talk(other, 'Still here');
    await other.close();
    await page.bringToFront();
    await page.reload();
    await until(page, READY);
    await page.waitForFunction(async () => (await caches.keys()).length === 1);
  },
);

inEach(
  'if the server sends HTML instead of the script on the first visit, the page says so, and starts later',
  async ({ browser }, t) => {
    let lies = true;
    const site = await host(t, {
      intercept: ({ url = '' }, response) => {
        if (!lies || !/\/app-/.test(url)) return false;
        response.writeHead(200, { 'Content-Type': 'text/html' }).end(SIGN_IN);
        return true;
      },
    });
    const { page } = await openTab(browser, `${site.url}none`, { expected: /404|MIME|module/i });
    await page.goto(site.url);
    await page.waitForSelector('#not-started:not([hidden])');
    lies = false;
    await Promise.all([page.waitForNavigation(), page.click('#not-started a')]);
    await until(page, READY);
    assert.equal(await page.$('#not-started:not([hidden])'), null);
  },
);

inEach(
  'after a server has sent HTML instead of assets for a while, the page works online and offline',
  async ({ browser }, t) => {
    let lies = true;
    const site = await host(t, {
      ...NO_HEADERS,
      intercept: ({ url = '' }, response) => {
        if (!lies || !/worker-|template-|style-|\.wasm|\.gguf/.test(url)) return false;
        response.writeHead(200, {
          'Content-Type': 'text/html',
          'Cache-Control': 'public, max-age=31536000, immutable',
        });
        response.end(SIGN_IN);
        return true;
      },
    });
    const { page } = await openTab(browser, site.url, { expected: /./ });
    await until(page, FAILED);
    assert.equal(
      await page.evaluate(async () => {
        const registration = await navigator.serviceWorker.getRegistration();
        return Boolean(registration?.active);
      }),
      false,
    );
    lies = false;
    await open(page, site.url);
    await talk(page, 'Online again');
    await page.waitForFunction(async () => {
      const [name] = await caches.keys();
      const kept = await (await caches.open(name)).keys();
      return [/grammar-/, /storyteller-/].every((part) => kept.some(({ url }) => part.test(url)));
    });
    await site.close();
    await open(page, site.url);
    assert.equal(await page.evaluate(() => crossOriginIsolated), true);
    await talk(page, 'Offline');
  },
);

inEach(
  'after a broken update or damaged storage, the old version works until the new one is complete',
  async ({ visit }, t) => {
    /** @type {(url: string) => string | Buffer | undefined} */
    let lie = () => undefined;
    const site = await host(t, {
      intercept: ({ url = '' }, response) => {
        const body = lie(url);
        if (body === undefined) return false;
        response.writeHead(200, { 'Content-Type': url.includes('style') ? 'text/css' : 'text/html' }).end(body);
        return true;
      },
    });
    const page = await visit(site.url, { expected: /./ });
    const update = () =>
      page.evaluate(async () => {
        const registration = await navigator.serviceWorker.ready;
        await registration.update().catch(() => {});
        const worker = registration.installing;
        await new Promise((done) => {
          const look = () => {
            if (!worker || ['redundant', 'activated'].includes(worker.state)) done(undefined);
          };
          worker?.addEventListener('statechange', look);
          look();
        });
      });
    site.take('second');
    const [sheet] = readdirSync(path.join(folder, 'second', 'assets')).filter((one) => one.startsWith('style-'));
    const style = readFileSync(path.join(folder, 'second', 'assets', sheet));
    for (const [title, wrong] of /** @type {[string, typeof lie][]} */ ([
      ['a web page for everything, the service worker too', () => SIGN_IN],
      [
        'the old file',
        (url) => (url.includes('style-') ? `/* first */${style.subarray('/* second */'.length)}` : undefined),
      ],
    ])) {
      lie = wrong;
      await update();
      await open(page, site.url);
      assert.equal(await versionOf(page), 'first', title);
      assert.equal(await page.$(UPDATE), null, title);
    }
    await talk(page, 'The old version');

    await page.evaluate(async (text) => {
      // Replaces all stored responses by sign-in pages, which earlier versions of the page could store by mistake.
      for (const name of await caches.keys()) {
        const cache = await caches.open(name);
        for (const { url } of await cache.keys()) await cache.put(url, new Response(text));
      }
    }, SIGN_IN);
    lie = () => undefined;
    await update();
    await open(page, site.url);
    assert.equal(await versionOf(page), 'second');
    await talk(page, 'The new version');

    await page.evaluate(async () => {
      for (const name of await caches.keys()) {
        const cache = await caches.open(name);
        for (const { url } of await cache.keys()) {
          const response = await cache.match(url);
          const bytes = new Uint8Array((await response?.arrayBuffer()) ?? []);
          bytes[bytes.length >> 1] ^= 1;
          await cache.put(url, new Response(bytes, { headers: response?.headers }));
        }
      }
    });
    await open(page, site.url);
    await talk(page, 'Repaired');
  },
  onlyIn('chromium'),
);

test('site/: a file that does not exist has status 404 and a page that says so', async (t) => {
  const site = await serveFor(t, { root: path.join(root, 'site') });
  for (const missing of ['assets/gemma-simd128-0123456789.wasm', 'nothing/here']) {
    const answer = await fetch(site.url + missing);
    assert.deepEqual([answer.status, answer.headers.get('content-type')], [404, 'text/html; charset=utf-8']);
    assert.equal(answer.headers.get('cache-control'), 'no-cache');
    assert.match(await answer.text(), /Page not found[\s\S]*href="\.\/"/);
  }
});

test('site/: files except the entry points have a hash in their name, are immutable, and compressed if that helps', async (t) => {
  const site = await serveFor(t, { root: path.join(root, 'site') });
  const index = await fetch(site.url);
  assert.equal(index.headers.get('cache-control'), 'no-cache');
  const document = await index.text();
  assert.match(document, /src="assets\/app-[0-9a-f]{10}\.js"/);
  // The page's script only imports the chunk that contains the code, which the document preloads.
  const chunks = [...document.matchAll(/rel="modulepreload" href="(assets\/[\w-]+-[0-9a-f]{10}\.js)"/g)].map(
    ([, name]) => name,
  );
  const read = (/** @type {string} */ name) => readFileSync(path.join(root, 'site', name), 'utf8');
  const [script] = chunks.sort((a, b) => read(b).length - read(a).length);
  const plain = read(script);
  const answer = await fetch(site.url + script);
  const header = (/** @type {string} */ one) => answer.headers.get(one);
  assert.equal(header('cache-control'), 'public, max-age=31536000, immutable');
  assert.match(header('content-encoding') ?? '', /^(br|gzip)$/);
  assert.ok(Number(header('content-length')) < plain.length / 2);
  assert.equal(await answer.text(), plain);
  assert.equal((await fetch(`${site.url}sw.js`)).headers.get('cache-control'), 'no-cache');
  const { icons } = JSON.parse(readFileSync(path.join(root, 'site', 'manifest.webmanifest'), 'utf8'));
  for (const { src } of icons) assert.ok(existsSync(path.join(root, 'site', src)), src);
});
