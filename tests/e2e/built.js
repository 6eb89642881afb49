/**
 * built: builds the package for browsers in a temporary folder, with adjustable internal limits, and serves it.
 */
import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PARTS } from '../../tools/build/package.js';
import { serve } from '../../tools/serve.js';
import { root } from './helpers.js';

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
export async function buildPackage({ tuning = TUNING, script = '', before = '', more = '', plugins = [] } = {}) {
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

/** @param {Parameters<typeof buildPackage>[0] & Partial<import('../../tools/serve.js').Options>} [options] */
export async function serveBuilt({ tuning, script, before, more, plugins, ...options } = {}) {
  const folder = await buildPackage({ tuning, script, before, more, plugins });
  const server = await serve({ root: folder, ...options });
  const close = async () => {
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  };
  return { url: server.url, close };
}
