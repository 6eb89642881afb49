/**
 * built: builds the package for browsers in a temporary folder, with adjustable internal limits, and serves it.
 */
import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PARTS } from '../../tools/build/package.js';
import { byteRange, serve } from '../../tools/serve.js';
import { sleep } from '../lab/inject.js';
import { root, sharedBrowser } from './helpers.js';

export const TUNING = {
  segment: 1 << 20,
  alone: Number.MAX_VALUE,
  journal: 1 << 18,
  backoffMs: 50,
  longestMs: 5000,
  stallMs: 20_000,
};

/** Builds one module of the package with its workers, and a page whose window has the module as `gemma`. The code
 * `before` is put before the workers' code. @param {{ tuning?: object, script?: string, before?: string, more?: string,
 * plugins?: import('esbuild').Plugin[] }} [options] `script` adds code to the page, `more` to the module */
async function buildPackage({ tuning = TUNING, script = '', before = '', more = '', plugins = [] } = {}) {
  const esbuild = await import('esbuild');
  const out = mkdtempSync(path.join(tmpdir(), 'gemma-wasm-e2e-'));
  const common = { outdir: out, bundle: true, format: /** @type {const} */ ('esm'), target: ['es2022'] };
  const scripts = ['worker', 'thread'].map((name) => path.join(root, 'js', `${name}.js`));
  await esbuild.build({ ...common, entryPoints: scripts, banner: { js: before }, plugins });
  await esbuild.build({ ...common, entryPoints: PARTS.map((name) => path.join(root, 'js', name)) });
  await esbuild.build({
    ...common,
    entryNames: 'package',
    stdin: {
      resolveDir: root,
      contents: `export * from "./js/index.js";
    export { environment } from "./js/platform/env.js"; export * as shared from "./js/shared.js"; ${more}`,
    },
  });
  for (const name of readdirSync(path.join(root, 'js'))) {
    if (name.endsWith('.wasm')) copyFileSync(path.join(root, 'js', name), path.join(out, name));
  }
  writeFileSync(
    path.join(out, 'index.html'),
    '<!doctype html><title>package</title><script type="module" src="start.js"></script>',
  );
  writeFileSync(
    path.join(out, 'start.js'),
    `import * as gemma from './package.js';
    gemma.environment.tuning = ${JSON.stringify(tuning)};
    ${script}
    window.gemma = gemma;`,
  );
  return out;
}

/** Builds and serves the package. `close` also removes the folder.
 * @param {Parameters<typeof buildPackage>[0] & Partial<import('../../tools/serve.js').Options>} [options] */
export async function serveBuilt({ tuning, script, before, more, plugins, ...options } = {}) {
  const folder = await buildPackage({ tuning, script, before, more, plugins });
  const server = await serve({ root: folder, ...options });
  const close = async () => {
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  };
  return { url: server.url, close };
}

/** Returns a server hook that sends a model with a delay after every 64 KiB, or, if `state.gone`, closes each
 * connection. @param {Buffer} bytes @param {{ gone: boolean, delay: number, sent: number, ranges: string[] }} state
 * @returns {NonNullable<import('../../tools/serve.js').Options['intercept']>} */
const modelFrom =
  (bytes, state) =>
  async ({ url, headers }, response) => {
    if (!url?.startsWith('/models/')) return false;
    if (state.gone) return (response.destroy(), true);
    state.ranges.push(headers.range ?? '');
    const range = byteRange(headers.range, bytes.length);
    const [first, last] = Array.isArray(range) ? range : [0, bytes.length - 1];
    response.setHeader('ETag', '"1"');
    response.writeHead(206, {
      'Content-Range': `bytes ${first}-${last}/${bytes.length}`,
      'Content-Length': last + 1 - first,
    });
    let open = true;
    response.on('close', () => {
      open = false;
    });
    for (let at = first; at <= last && open; at += 65536) {
      if (state.delay) await sleep(state.delay);
      const piece = bytes.subarray(at, Math.min(at + 65536, last + 1));
      await new Promise((resolve) => {
        response.write(piece, resolve);
      });
      state.sent += piece.length;
    }
    response.end();
    return true;
  };

/** Serves the package and a model to pages in one private context of a browser.
 * @param {import('./helpers.js').BrowserName} name @param {Buffer} bytes */
export async function openBuilt(name, bytes) {
  const state = { gone: false, delay: 0, sent: 0, ranges: /** @type {string[]} */ ([]) };
  const server = await serveBuilt({ intercept: modelFrom(bytes, state) });
  const context = await (await sharedBrowser(name)).createBrowserContext();
  const openPage = async () => {
    const page = await context.newPage();
    await page.goto(server.url);
    await page.waitForFunction('window.gemma');
    return page;
  };
  const close = async () => {
    await context.close();
    await server.close();
  };
  return { url: `${server.url}models/model.gguf`, state, openPage, close };
}

/** Flips a bit in the byte `at` of the only cached file. @param {import('puppeteer-core').Page} page
 * @param {number} at */
export const flip = (page, at) =>
  page.evaluate(async (at) => {
    const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle('gemma-wasm');
    for await (const [name, file] of /** @type {any} */ (folder).entries()) {
      if (!name.endsWith('.gguf')) continue;
      const [byte] = new Uint8Array(await (await file.getFile()).slice(at, at + 1).arrayBuffer());
      const writer = await file.createWritable({ keepExistingData: true });
      await writer.write({ type: 'write', position: at, data: Uint8Array.of(byte ^ 16) });
      await writer.close();
    }
  }, at);
