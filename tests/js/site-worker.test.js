/**
 * Tests the service worker of a site (web/offline/sw.js, as tools/build/site.js makes it) with hosts that send wrong
 * responses, and with damaged storage. It runs here with fakes of Cache Storage and of the network;
 * tests/e2e/page-offline.test.js tests the same in browsers.
 */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import vm from 'node:vm';
import { after, before, test } from 'node:test';
import { isolate } from '../../js/isolate.js';
import { buildSite } from '../../tools/build/site.js';
import { types } from '../../tools/serve.js';

const HOME = 'https://host.example/demo/';
const HTML = '<!doctype html><title>Sign in to the network</title>';
const NAMES = [
  ...'app.js worker.js thread.js template.js lazy.js style.css storyteller.gguf'.split(' '),
  ...['simd128', 'simd128-threads', 'relaxed', 'relaxed-threads'].map((one) => `gemma-${one}.wasm`),
];

/** @typedef {(name: string, honest: Buffer) => { body: string | Buffer, status?: number, type?: string } | undefined} Lie */

/** @type {string} */
let folder;

before(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'gw-site-worker-'));
  for (const version of ['first', 'second']) {
    const page = path.join(folder, `page-${version}`);
    fs.mkdirSync(page);
    for (const name of NAMES) {
      const own = /^(app|gemma-.*threads)/.test(name) ? version : 'both';
      fs.writeFileSync(path.join(page, name), `/* ${name} of ${own} */ ${'x'.repeat(500)}`);
    }
    const index = `<html><head><title>${version}</title><script src="app.js"></script></head></html>`;
    fs.writeFileSync(path.join(page, 'index.html'), index);
    fs.writeFileSync(path.join(page, 'manifest.webmanifest'), '{}');
    fs.writeFileSync(path.join(page, '404.html'), 'Not found');
    await buildSite({ from: page, out: path.join(folder, version), compressed: false });
  }
});
after(() => fs.rmSync(folder, { recursive: true }));

/** Fakes the parts of a browser's storage and of a host that the page's service worker uses. */
class World {
  live = 'first';
  /** @type {Lie} */
  lie = () => undefined;
  online = true;
  /** Whether the network redirects the document to another origin, as captive portals do. */
  portal = false;
  room = Infinity;
  /** Number of digests that the worker has computed. */
  digests = 0;
  /** Called when the worker asks for the locks of open tabs. */
  onQuery = (/** @type {any} */ registration) => registration;
  /** @type {{ name: string, cache: string }[]} */
  asked = [];
  /** @type {Map<string, Response>} */
  http = new Map();
  /** @type {Map<string, Map<string, { bytes: Buffer, headers: Headers }>>} */
  stored = new Map();

  /** @param {string} version @param {string} name */
  static honest(version, name) {
    const file = path.join(folder, version, name || 'index.html');
    return fs.existsSync(file) ? fs.readFileSync(file) : undefined;
  }

  /** @param {string | { url: string, mode: string }} what @param {{ cache?: string }} [options] */
  async fetch(what, { cache = 'default' } = {}) {
    const url = typeof what === 'string' ? what : what.url;
    if (this.portal && url === HOME) {
      // Requests that are not navigations fail if they are redirected to another origin.
      if (typeof what === 'string' || what.mode !== 'navigate') throw new TypeError('Failed to fetch');
      return Object.defineProperty(new Response(null), 'status', { value: 0 });
    }
    const name = url.slice(HOME.length);
    const known = cache === 'default' && this.http.get(name);
    if (known) return known.clone();
    this.asked.push({ name, cache });
    if (!this.online) throw new TypeError('Failed to fetch');
    const honest = World.honest(this.live, name);
    const wrong = this.lie(name, honest ?? Buffer.alloc(0));
    const type = wrong?.type ?? (wrong ? 'text/html' : types[path.extname(name) || '.html']);
    const status = wrong?.status ?? (wrong || honest ? 200 : 404);
    const answer = new Response(Buffer.from(wrong?.body ?? honest ?? HTML), {
      status,
      headers: { 'Content-Type': type },
    });
    if (name) this.http.set(name, answer.clone()); // Assets are immutable for the HTTP cache.
    return answer;
  }

  /** @param {string} cacheName @param {string} url */
  match(cacheName, url) {
    const found = this.stored.get(cacheName)?.get(url);
    return found && new Response(Buffer.from(found.bytes), { headers: found.headers });
  }

  caches() {
    return {
      keys: async () => [...this.stored.keys()],
      delete: async (/** @type {string} */ name) => this.stored.delete(name),
      match: async (/** @type {string} */ url, /** @type {{ cacheName?: string }} */ { cacheName } = {}) => {
        for (const name of cacheName ? [cacheName] : this.stored.keys()) {
          const found = this.match(name, url);
          if (found) return found;
        }
        return undefined;
      },
      open: async (/** @type {string} */ name) => {
        const files = this.stored.get(name) ?? new Map();
        this.stored.set(name, files);
        return {
          match: async (/** @type {string} */ url) => this.match(name, url),
          put: async (/** @type {string} */ url, /** @type {Response} */ response) => {
            const bytes = Buffer.from(await response.arrayBuffer());
            if (bytes.length > this.room) throw new DOMException('full', 'QuotaExceededError');
            this.room -= bytes.length;
            files.set(url, { bytes, headers: response.headers });
          },
        };
      },
    };
  }

  /** @param {string} version */
  worker(version) {
    /** @type {Map<string, (event: any) => void>} */
    const listeners = new Map();
    /** @type {any} */
    const scope = {
      Response,
      Headers,
      URL,
      crypto: {
        subtle: {
          digest: (/** @type {string} */ algorithm, /** @type {ArrayBuffer} */ bytes) => {
            this.digests++;
            return crypto.subtle.digest(algorithm, bytes);
          },
        },
      },
      btoa,
      location: new URL('sw.js', HOME),
      caches: this.caches(),
      fetch: this.fetch.bind(this),
      registration: {},
      skipWaiting: async () => {},
      navigator: { hardwareConcurrency: 4, locks: { query: async () => this.onQuery(scope.registration) } },
      clients: { claim: async () => {}, matchAll: async () => [] },
      addEventListener: (/** @type {string} */ type, /** @type {(event: any) => void} */ listen) =>
        listeners.set(type, listen),
    };
    scope.self = scope;
    vm.runInNewContext(fs.readFileSync(path.join(folder, version, 'sw.js'), 'utf8'), scope);
    /** @param {string} type @param {object} [more] */
    const fire = async (type, more) => {
      /** @type {Promise<any>[]} */
      const waits = [];
      /** @type {any} */
      let answer;
      listeners.get(type)?.({
        waitUntil: (/** @type {Promise<any>} */ one) => waits.push(one),
        source: { postMessage() {} },
        respondWith: (/** @type {any} */ one) => {
          answer = one;
        },
        ...more,
      });
      const response = await answer;
      const copy = response && Buffer.from(await response.arrayBuffer());
      await Promise.all(waits);
      return { response, body: copy?.toString() };
    };
    return {
      install: () => fire('install'),
      open: () => fire('message'),
      get: (/** @type {string} */ name) =>
        fire('fetch', {
          request: { url: HOME + name, method: 'GET', mode: name ? 'cors' : 'navigate' },
        }),
    };
  }

  assertClean() {
    for (const [cacheName, files] of this.stored) {
      const version = cacheName.endsWith(versionOf('first')) ? 'first' : 'second';
      for (const [url, { bytes }] of files) {
        const name = url.slice(HOME.length);
        assert.equal(bytes.toString(), World.honest(version, name)?.toString(), `${cacheName}: ${name}`);
      }
    }
  }
}

/** @param {string} version */
const versionOf = (version) => /data-version="(\w+)"/.exec(String(World.honest(version, '')))?.[1] ?? '';
/** @param {string} version @param {string} name */
function built(version, name) {
  const { name: stem, ext } = path.parse(name);
  const all = fs.readdirSync(path.join(folder, version, 'assets'));
  return `assets/${all.find((one) => new RegExp(`^${stem}-[0-9a-f]{10}\\${ext}$`).test(one))}`;
}
/** Returns fakes of a browser with the first version installed, and its service worker. */
async function installed() {
  const world = new World();
  const worker = world.worker('first');
  await worker.install();
  return { world, worker };
}

/** Asserts that a service worker responds with the page of a version. @param {ReturnType<World['worker']>} worker
 * @param {string} version */
const opens = async (worker, version) =>
  assert.match((await worker.get('')).body ?? '', new RegExp(`<title>${version}`));

/** Asserts that a service worker responds with a file of the first version. @param {ReturnType<World['worker']>} worker
 * @param {string} name of the file */
const serves = async (worker, name) =>
  assert.equal((await worker.get(name)).body, World.honest('first', name)?.toString(), name);

/** @param {World} world */
const engineOf = (world) =>
  [...[...world.stored.values()][0].keys()].find((url) => url.endsWith('.wasm'))?.slice(HOME.length) ?? '';

/** @type {Record<string, (honest: Buffer) => ReturnType<Lie>>} */
const ANSWERS = {
  'a web page with status 200': () => ({ body: HTML }),
  'a web page with the type of the file': () => ({ body: HTML, type: '' }),
  'the first half': (honest) => ({ body: honest.subarray(0, honest.length / 2) }),
  'wrong bytes of the right length': (honest) => ({ body: Buffer.from(honest.map((byte) => byte ^ 1)) }),
  nothing: () => ({ body: '' }),
  'status 404': () => ({ body: HTML, status: 404 }),
};

for (const [title, answer] of Object.entries(ANSWERS)) {
  test(`a host that sends ${title}: nothing is installed until the host is right; meanwhile, the old version works`, async () => {
    for (const file of ['', 'app-', 'worker-', 'style-', 'gemma-']) {
      const lie = (/** @type {string} */ name, /** @type {Buffer} */ honest) =>
        (file ? name.includes(file) : name === '') ? answer(honest) : undefined;
      const world = new World();
      world.lie = lie;
      await assert.rejects(world.worker('first').install(), /Cannot store .*Upload the whole site again/, file);
      world.assertClean();
      world.lie = () => undefined; // A wrong response stays in the HTTP cache.
      await world.worker('first').install();
      world.assertClean();

      world.live = 'second';
      const old = world.worker('first');
      const changed = file === '' || /app|gemma/.test(file);
      if (changed) {
        world.lie = lie;
        await assert.rejects(world.worker('second').install(), /Cannot store/, file);
        world.online = false;
        await opens(old, 'first');
        for (const name of ['app.js', 'worker.js'])
          assert.match((await old.get(built('first', name))).body ?? '', /^\/\*/);
        world.online = true;
        world.lie = () => undefined;
      }
      await world.worker('second').install();
      world.assertClean();
      world.online = false;
      await opens(world.worker('second'), 'second');
    }
  });

  test(`a host that sends ${title} to a tab: the response is neither used nor stored`, async () => {
    const { world, worker } = await installed();
    const script = built('first', 'lazy.js');
    const model = built('first', 'storyteller.gguf');
    world.lie = (name, honest) => (name.startsWith('assets/') ? answer(honest) : undefined);
    const wrong = await worker.get(script);
    assert.deepEqual([wrong.response.status, wrong.body], [502, '']);
    await worker.get(model); // The service worker does not check models: the page does.
    await worker.open().catch(() => {});
    world.assertClean();
    world.lie = () => undefined;
    for (const name of [script, model]) await serves(worker, name);
    world.online = false;
    for (const name of [script, model]) assert.equal((await worker.get(name)).response.status, 200);
    world.assertClean();
  });
}

test('if a host still sends an old file under a new name, the new version is not installed', async () => {
  const { world } = await installed();
  world.live = 'second';
  world.lie = (name) =>
    name === built('second', 'app.js') ? { body: World.honest('first', built('first', 'app.js')) ?? '' } : undefined;
  await assert.rejects(world.worker('second').install(), /Cannot store .*app-/);
  world.lie = () => undefined;
  await world.worker('second').install();
  world.assertClean();
});

test('wrong responses that an earlier version stored, and damaged storage, are replaced online and not used offline', async () => {
  for (const body of [HTML, null]) {
    // Each damaged file contains a web page or, with `null`, its own bytes with one bit flipped.
    const { world, worker } = await installed();
    await worker.open();
    await worker.get(built('first', 'storyteller.gguf'));
    const damage = () => {
      for (const files of world.stored.values()) {
        for (const [url, file] of files) {
          const flipped = Buffer.from(file.bytes);
          flipped[flipped.length >> 1] ^= 4;
          files.set(url, { ...file, bytes: body ? Buffer.from(body) : flipped });
        }
      }
    };
    const names = ['app.js', 'worker.js', 'lazy.js', 'storyteller.gguf']
      .map((name) => built('first', name))
      .concat(engineOf(world));
    damage();
    world.http.clear();
    world.online = false;
    for (const name of names) await assert.rejects(worker.get(name), /Failed to fetch/, name);
    world.online = true;
    for (const name of names) await serves(worker, name);
    await opens(worker, 'first');
    damage();
    world.live = 'second';
    const next = world.worker('second');
    await next.install();
    await next.open();
    assert.equal(world.stored.size, 1);
    world.assertClean();
  }
});

test('the worker sets the media type, whatever the host sends', async () => {
  const world = new World();
  const worker = world.worker('first');
  world.lie = (name, honest) => ({
    body: honest,
    type: name.endsWith('.wasm') ? 'text/html' : 'application/octet-stream',
  });
  await worker.install();
  for (const name of ['', ...['app.js', 'style.css', 'lazy.js'].map((one) => built('first', one)), engineOf(world)]) {
    const { response } = await worker.get(name);
    assert.equal(response.headers.get('Content-Type'), types[path.extname(name) || '.html'], name);
    assert.equal(response.headers.get('Cross-Origin-Embedder-Policy'), 'require-corp');
  }
});

test('if storage is full, an update is not activated and the old version works; optional files do not block it', async () => {
  const { world, worker } = await installed();
  await worker.get(built('first', 'storyteller.gguf'));
  world.live = 'second';
  world.room = 700;
  await assert.rejects(world.worker('second').install(), { name: 'QuotaExceededError' });
  world.online = false;
  await opens(worker, 'first');
  world.online = true;
  const needed = Object.keys(
    JSON.parse(/self\.site=(.*);\n/.exec(String(World.honest('second', 'sw.js')))?.[1] ?? '').needed,
  );
  // The old version's service worker may delete the cache of the new version.
  world.stored.delete([...world.stored.keys()][1]);
  const next = world.worker('second');
  world.room = [HOME, ...needed.map((name) => HOME + name)].reduce(
    (sum, url) => sum + (World.honest('second', url.slice(HOME.length))?.length ?? 0),
    560,
  ); // Leaves room for the needed files and one engine.
  await next.install();
  world.assertClean();
  world.room = Infinity;
  await next.open();
  world.assertClean();
  world.online = false;
  assert.equal((await next.get(built('second', 'lazy.js'))).response.status, 200);
});

test('a visit does not compute the digests of files that are stored', async () => {
  const { world, worker } = await installed();
  await worker.open();
  assert.notEqual(world.digests, 0);
  world.digests = 0;
  await worker.open();
  assert.equal(world.digests, 0);
  await serves(worker, built('first', 'lazy.js'));
  assert.equal(world.digests, 1);
});

test('a version whose installation begins while old versions are deleted is kept', async () => {
  const { world, worker } = await installed();
  world.onQuery = (registration) => {
    world.stored.set(`gemma-wasm ${HOME} next`, new Map());
    return Object.assign(registration, { installing: {} });
  };
  await worker.open();
  assert.equal(world.stored.size, 2);
});

test('a tab of the old version gets its files from the new worker; missing ones come from the host and are not stored', async () => {
  const { world } = await installed();
  world.live = 'second';
  const next = world.worker('second');
  await next.install();
  const name = built('first', 'app.js');
  await serves(next, name);
  assert.equal((await next.get('assets/gone-0123456789.js')).response.status, 404);
  world.lie = () => ({ body: HTML });
  await next.get('assets/gone-0123456789.js');
  world.assertClean();
});

test('the redirect of a captive portal is shown only if there is no good copy of the document', async () => {
  const { world, worker } = await installed();
  world.portal = true;
  await opens(worker, 'first');
  world.stored.clear();
  assert.equal(
    (await worker.get('')).response.status,
    0,
    'the response is the redirect itself, which the browser follows',
  );
});

test('the worker neither answers requests for the documentation nor stores it', async () => {
  const { world, worker } = await installed();
  for (const name of ['docs/index.html', 'docs/docs.js', 'docs/pagefind/pagefind.js'])
    assert.equal((await worker.get(name)).response, undefined, name);
  assert.ok([...world.stored.values()].every((files) => ![...files.keys()].some((url) => url.includes('/docs/'))));
});

test('isolate() returns false for a page outside the scope of its service worker', async (t) => {
  const serviceWorker = { register: async () => ({ scope: `${HOME}lib/` }), ready: new Promise(() => {}) };
  const values = { isSecureContext: true, navigator: { serviceWorker }, location: new URL(HOME) };
  for (const [name, value] of Object.entries(values)) {
    const before = Object.getOwnPropertyDescriptor(globalThis, name) ?? { value: undefined, configurable: true };
    Object.defineProperty(globalThis, name, { value, configurable: true });
    t.after(() => Object.defineProperty(globalThis, name, before));
  }
  assert.equal(await isolate(`${HOME}lib/isolate.js`), false);
});
