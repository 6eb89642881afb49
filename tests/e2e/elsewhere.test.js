/* Tests the package outside this project's server: from another origin such as a CDN, in the README's one-file page;
 * isolated by gemma-wasm/isolate, on hosts without headers; under content security policies, in frames and in
 * workers. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadModel } from '../../js/index.node.js';
import { openTab, pageFolder, root, serveFor, sharedBrowser, suite } from './helpers.js';

const CDN = /https:\/\/cdn\.jsdelivr\.net\/npm\/gemma-wasm@[\d.]+/g;
const NO_POLICY = { 'Content-Security-Policy': '' };
const OPEN = { ...NO_POLICY, 'Access-Control-Allow-Origin': '*', 'Cross-Origin-Resource-Policy': 'cross-origin' };
const STORYTELLER = join(root, 'models', 'storyteller', 'storyteller.gguf');

const MOUNTS = { '/dist/': join(root, 'dist'), '/models/': join(root, 'models') };
const CSP = "default-src 'self'; script-src 'self' 'unsafe-inline'";

/** @param {import('puppeteer-core').Page | import('puppeteer-core').Frame} page
 * @returns {Promise<{ text?: string, reason?: string, code?: string, message?: string }>} */
const tryModel = (page) =>
  page.evaluate(async () => {
    const path = '/dist/index.js';
    const { loadModel: load } = await import(path);
    try {
      const model = await load('/models/storyteller/storyteller.gguf', { cache: false });
      const text = await model.generate('Once', { maxTokens: 4, seed: 1 }).text();
      const { reason } = model.info;
      await model.dispose();
      return { text, reason };
    } catch (/** @type {any} */ error) {
      return { code: error.code, message: error.message };
    }
  });

const test = suite('the package elsewhere', async (name) => {
  const browser = await sharedBrowser(name);

  /** Serves a folder with the package and opens its page. @param {import('node:test').TestContext} t
   * @param {import('../../tools/serve.js').Options} options @param {RegExp} [expected] errors to ignore */
  async function visit(t, options, expected) {
    const site = await serveFor(t, { mounts: MOUNTS, ...options });
    return (await openTab(browser, site.url, { expected })).page;
  }
  return { visit };
});

test("the README's single-file page works with the package from another origin", async ({ visit }, t) => {
  const [text] = /<!doctype html>[^]*?(?=\n```)/.exec(readFileSync(join(root, 'README.md'), 'utf8')) ?? [''];
  assert.ok(text.split('\n').length <= 12 && CDN.test(text), text);
  const cdn = await serveFor(t, { root: join(root, 'dist'), isolation: false, headers: OPEN, mounts: MOUNTS });
  const folder = pageFolder(t, text.replace(CDN, cdn.url.slice(0, -1)));
  for (const isolation of [false, true]) {
    const page = await visit(t, { root: folder, isolation, headers: NO_POLICY });
    // The story's seed is random, so a story may be as short as 35 characters.
    await page.waitForFunction(() => (document.querySelector('#story')?.textContent ?? '').length >= 35);
    assert.match(await page.$eval('#story', (story) => story.textContent ?? ''), /^Once upon a time[ ,]/);
  }
});

test('the error names the address of a missing package', async ({ visit }, t) => {
  const page = await visit(t, { root: pageFolder(t) }, /404|load|script/i);
  const said = await page.evaluate(async () => {
    const path = '/dist/index.js';
    const { loadModel: load } = await import(path);
    return load('/x.gguf', { baseUrl: '/nowhere' }).catch(
      (/** @type {any} */ error) => `${error.code} ${error.message}`,
    );
  });
  assert.match(said, /^worker-failed .*\/nowhere\/worker\.js answered status 404.*`baseUrl`/s);
});

test(
  'on a host without headers, the service worker of gemma-wasm/isolate enables threads',
  async ({ visit }, t) => {
    const folder = pageFolder(
      t,
      `<!doctype html><title></title><script type="module">
    import { isolate } from './isolate.js';
    import { loadModel } from './dist/index.js';
    const isolated = await isolate();
    const model = await loadModel('/models/storyteller/storyteller.gguf', { cache: false });
    const { text } = await model.generate('Once', { maxTokens: 8, seed: 1 }).result();
    document.title = JSON.stringify({ isolated, threads: model.info.threads > 1, text });
  </script>`,
    );
    writeFileSync(join(folder, 'isolate.js'), readFileSync(join(root, 'dist', 'isolate.js')));
    const page = await visit(t, { root: folder, isolation: false, headers: NO_POLICY });
    await page.waitForFunction(() => document.title);
    const model = await loadModel(STORYTELLER, { threads: 1 });
    const { text } = await model.generate('Once', { maxTokens: 8, seed: 1 }).result();
    await model.dispose();
    assert.deepEqual(JSON.parse(await page.title()), { isolated: true, threads: true, text });
  },
  ['chromium'],
);

test('if the content security policy requires Trusted Types, workers start through the policy gemma-wasm', async ({
  visit,
}, t) => {
  const policy = `${CSP} 'wasm-unsafe-eval'; require-trusted-types-for 'script'; trusted-types gemma-wasm`;
  const page = await visit(t, { root: pageFolder(t), headers: { 'Content-Security-Policy': policy } });
  assert.ok((await tryModel(page)).text);
});

test('if the content security policy forbids WebAssembly, the error says so and names the remedy', async ({
  visit,
}, t) => {
  const options = { root: pageFolder(t), headers: { 'Content-Security-Policy': CSP } };
  const { code, message } = await tryModel(await visit(t, options, /wasm|WebAssembly|eval/i));
  assert.equal(code, 'unsupported-platform');
  assert.match(message ?? '', /^The content security policy forbids WebAssembly\. Add 'wasm-unsafe-eval'/);
});

for (const shared of [true, false]) {
  test(`a sandboxed frame ${shared ? 'loads a model' : 'says that the server must allow its origin'}`, async ({
    visit,
  }, t) => {
    const folder = pageFolder(t, '<!doctype html><iframe sandbox="allow-scripts" src="frame.html"></iframe>');
    const load = "import('/dist/index.js')";
    writeFileSync(
      join(folder, 'frame.html'),
      `<!doctype html><title></title><script type="module">window.ready = ${load}</script>`,
    );
    const options = {
      root: folder,
      isolation: false,
      headers: OPEN,
      intercept: (/** @type {any} */ request, /** @type {any} */ response) => {
        if (!shared && /worker\.js/.test(request.url)) {
          response.setHeader('Access-Control-Allow-Origin', 'https://x.test');
        }
        return false;
      },
    };
    const page = await visit(t, options, /./);
    const told = await tryModel(await page.waitForFrame((one) => one.url().endsWith('frame.html')));
    if (shared) {
      assert.ok(told.text, JSON.stringify(told));
      assert.match(told.reason ?? '', /in a frame also on the page around it, and allow="cross-origin-isolated"/);
    } else {
      assert.match(told.message ?? '', /This frame is sandboxed: .* the server must allow the origin null by CORS/);
    }
  });
}

/** Functions that run in the page. Each starts a worker that tries to load a model, and returns the worker's answer. */
const WORKERS = {
  'service worker': async () => {
    const { active, installing } = await navigator.serviceWorker.register('/told.js', { type: 'module' });
    const answer = new Promise((resolve) => {
      navigator.serviceWorker.onmessage = ({ data }) => resolve(data);
    });
    await navigator.serviceWorker.ready;
    (active ?? installing)?.postMessage('load');
    return answer;
  },
  'shared worker': () =>
    new Promise((resolve) => {
      const { port } = new SharedWorker('/told.js', { type: 'module' });
      port.onmessage = ({ data }) => resolve(data);
    }),
};

for (const [kind, ask] of Object.entries(WORKERS)) {
  test(
    `a ${kind} cannot load a model, and probe() reports it`,
    async ({ visit }, t) => {
      const folder = pageFolder(t);
      writeFileSync(
        join(folder, 'told.js'),
        `import { loadModel, probe } from './dist/index.js';
      async function tell(source) {
        const error = await loadModel('/models/x.gguf').catch((error) => error);
        source.postMessage({ code: error.code, message: error.message, probe: probe() });
      }
      self.onmessage = ({ source }) => tell(source);
      self.onconnect = ({ ports }) => tell(ports[0]);`,
      );
      const page = await visit(t, { root: folder, headers: NO_POLICY });
      const { code, message, probe } = /** @type {any} */ (await page.evaluate(ask));
      assert.deepEqual([code, probe.variant, probe.reason], ['unsupported-platform', null, message]);
      assert.match(message, /^Service workers and shared workers cannot start the engine/);
    },
    ['chromium'],
  );
}
