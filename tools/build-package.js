/**
 * build-package: what `npm pack` ships, in dist/: the modules of js/ without their comments, and the wasm
 * files beside them, as in js/. The comments are types for the most part: tsc makes .d.ts files of them
 * (the next step of tools/setup.js).
 *
 * js/ itself is what the tests, the page and `node js/cli.js` run; nothing there needs a build but the wasm.
 *
 *   node tools/build-package.js
 */
import { chmodSync, copyFileSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Trouble, at, cli, isMain } from './proc.js';
import { stripComments } from './strip-comments.js';

/** The wasm files. */
export const MODULES = ['simd128', 'simd128-threads', 'relaxed', 'relaxed-threads'].map((name) => `gemma-${name}.wasm`);

/** @param {string} out folder that gets the wasm files */
export function copyModules(out) {
  const built = new Set(readdirSync(at('js')));
  const missing = MODULES.filter((name) => !built.has(name));
  if (missing.length) throw new Trouble(`Not built: ${missing.join(', ')} (npm run build)`);
  for (const name of MODULES) copyFileSync(at('js', name), join(out, name));
}

/** @param {string} out folder */
function writeScripts(out) {
  for (const name of readdirSync(at('js'), { recursive: true }).map(String).filter((file) => file.endsWith('.js'))) {
    mkdirSync(join(out, dirname(name)), { recursive: true });
    writeFileSync(join(out, name), stripComments(readFileSync(at('js', name), 'utf8')));
  }
  chmodSync(join(out, 'cli.js'), 0o755);
}

if (isMain(import.meta.url)) await cli(async () => {
  const out = at('dist');
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out);
  copyModules(out);
  writeScripts(out);
});
