/**
 * size-report: how large what users download is, and its limits: each wasm module, the package's
 * JavaScript, and the packed package, which must hold what `npm install` users need.
 *
 *   node tools/size-report.js     (after npm run build, and the types)
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { MODULES } from './build-package.js';
import { at } from './proc.js';

const KB = 1000;
const LIMITS = { wasm: 340 * KB, scripts: 140 * KB, compressed: 45 * KB, package: 2000 * KB };
const REQUIRED = [...MODULES, 'index.d.ts', 'index.js', 'index.node.js', 'worker.js', 'thread.js', 'cli.js']
  .map((name) => `dist/${name}`).concat('README.md', 'LICENSE');

let failed = false;

/** @param {string} what @param {number} bytes @param {number} limit @param {number} [small] when compressed */
function row(what, bytes, limit, small) {
  const over = bytes > limit;
  failed ||= over;
  const kb = (/** @type {number} */ n) => `${(n / KB).toFixed(1)} KB`;
  const held = limit < Infinity ? `   limit ${limit / KB} KB${over ? '   TOO LARGE' : ''}` : '';
  console.log(`${what.padEnd(34)}${kb(bytes).padStart(11)}${held}${small ? `   (${kb(small)} compressed)` : ''}`);
}

/** @param {string} problem */
function missing(problem) {
  failed = true;
  console.log(problem);
}

/** The scripts of a folder and its rooms, one after the other. @param {string} folder */
function scripts(folder) {
  const names = existsSync(at(folder)) ? readdirSync(at(folder), { recursive: true }).map(String) : [];
  const modules = names.filter((name) => name.endsWith('.js')).sort();
  const bytes = Buffer.concat(modules.map((name) => readFileSync(at(folder, name))));
  return { what: `${folder}/**/*.js (${modules.length} files)`, bytes };
}

for (const path of MODULES.map((name) => join('dist', name))) {
  if (!existsSync(at(path))) {
    missing(`${path} is not built`);
    continue;
  }
  const bytes = readFileSync(at(path));
  row(path, bytes.length, LIMITS.wasm, gzipSync(bytes).length);
}
const source = scripts('js'), shipped = scripts('dist');
row(shipped.what, shipped.bytes.length, LIMITS.scripts);
row('the same, compressed', gzipSync(shipped.bytes).length, LIMITS.compressed);
row('their sources, with comments', source.bytes.length, Infinity);

const [packed] = JSON.parse(execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'],
  { encoding: 'utf8', cwd: at(), stdio: ['ignore', 'pipe', 'ignore'] }));
const models = packed.files.filter((/** @type {{ path: string }} */ file) => file.path.endsWith('.gguf'));
const weights = models.reduce((/** @type {number} */ sum, /** @type {{ size: number }} */ file) => sum + file.size, 0);
row('npm pack without the storyteller', packed.unpackedSize - weights, LIMITS.package);
row(`npm pack (${packed.entryCount} files)`, packed.unpackedSize, Infinity, packed.size);
const inside = new Set(packed.files.map((/** @type {{ path: string }} */ file) => file.path));
for (const path of REQUIRED) if (!inside.has(path)) missing(`npm pack leaves out ${path}`);
if ([...inside].some((path) => String(path).startsWith('js/'))) missing('npm pack holds js/');
process.exitCode = failed ? 1 : 0;
