/**
 * check/sizes: checks the sizes of the wasm modules, of the JavaScript that a page loads, of the npm package and of the
 * project's page against their limits. Also checks that the package has all files that its users need.
 *
 *   node tools/check/sizes.js     (after npm run build and tools/build/types.js)
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { MODULES, PAGE_SCRIPTS, PARTS } from '../build/package.js';
import { at } from '../support/proc.js';

const KB = 1000;
/** Limits in bytes, and why they were raised (in KB):
 *   wasm        one wasm module: 340, + 40 for grammars, + 10 for embeddings, inspection and saved state, + 30 for
 *               Gemma 4, + 16 for small batches and sequences, + 3 for two-stage output heads, + 4.5 for assistants,
 *               + 2.5 for pages of the KV cache
 *   scripts     the JavaScript that a page loads to run a model
 *   compressed  these scripts, compressed: their size at commit c9feb2b, + 0.9 for tables of messages
 *   package     the npm package without the storyteller and INTERFACES: an earlier size + 2 %. In the wasm modules:
 *               + 40 for Gemma 4, + 66 for small batches and sequences, + 34 for processors without dot product
 *               instructions, + 17 for the output head, + 18 for assistants. In the other files: + 28 for descriptions
 *               in the types, + 53 for readable stacks in Node, + 16 for temporary files, + 82 for thoughts, tables on
 *               disk, drafts, longer chats and the documents, + 5 for names of pre-tokenizers, banned tokens and checks
 *               of formats, + 12 for draft models, + 2 for assistants, + 16 for tables of messages. + 2 for
 *               prompts of Gemma 4, + 14 for pages of the KV cache (both wasm and other files)
 *   visit       all files that the project's page loads before its first answer, compressed
 *   server      the script of `gemma-wasm serve` */
const LIMITS = {
  wasm: 446 * KB,
  scripts: 140 * KB,
  compressed: 48.1 * KB,
  package: 2642 * KB,
  visit: 150 * KB,
  server: 80 * KB,
};
/** Limits in bytes on the code that entries for other APIs add to the index in a browser.
 * @type {Record<string, number>} */
const INTERFACES = { openai: 35 * KB, 'ai-sdk': 25 * KB, 'prompt-api': 25 * KB, mcp: 25 * KB };
const REQUIRED = [
  ...MODULES,
  ...PAGE_SCRIPTS,
  ...PARTS,
  'index.d.ts',
  'index.d.cts',
  'index.node.js',
  'index.cjs',
  'cli.js',
]
  .map((name) => `dist/${name}`)
  .concat('README.md', 'LICENSE', 'NOTICES.md');

let failed = false;

/** Prints a size and its limit. Above the limit, the check fails. @param {string} what @param {number} bytes
 * @param {number} limit @param {number} [small] bytes when compressed */
function row(what, bytes, limit, small) {
  const over = bytes > limit;
  failed ||= over;
  const kb = (/** @type {number} */ n) => `${(n / KB).toFixed(1)} KB`;
  const held = limit < Infinity ? `   limit ${limit / KB} KB${over ? '   TOO LARGE' : ''}` : '';
  console.log(`${what.padEnd(44)}${kb(bytes).padStart(11)}${held}${small ? `   (${kb(small)} compressed)` : ''}`);
}

/** @param {string} problem */
function missing(problem) {
  failed = true;
  console.log(problem);
}

/** @param {string[]} names @param {string} [folder] */
function sizes(names, folder = 'dist') {
  const files = names
    .map((name) => at(folder, name))
    .filter(existsSync)
    .map((path) => readFileSync(path));
  const total = (/** @type {(file: Buffer) => number} */ size) => files.reduce((sum, file) => sum + size(file), 0);
  return { bytes: total((file) => file.length), small: total((file) => gzipSync(file, { level: 9 }).length) };
}

for (const path of MODULES.map((name) => join('dist', name))) {
  if (!existsSync(at(path))) {
    missing(`${path} is not built: run npm run build`);
    continue;
  }
  const bytes = readFileSync(at(path));
  row(path, bytes.length, LIMITS.wasm, gzipSync(bytes).length);
}
/** Returns the text of a built file, or '' if it is missing. @param {...string} path */
const built = (...path) => (existsSync(at(...path)) ? readFileSync(at(...path), 'utf8') : '');
const chunksOf = (/** @type {string} */ name) =>
  [...built('dist', name).matchAll(/(?:from|\bimport)"\.\/([\w-]+\.js)"/g)].map(([, chunk]) => chunk);
// Chunks that the index shares with other entries are loaded with the index.
const shared = chunksOf('index.js');
const page = sizes([...PAGE_SCRIPTS, ...shared]);
row(`a page: ${PAGE_SCRIPTS.join(', ')}`, page.bytes, LIMITS.scripts);
row('the same, compressed', page.small, LIMITS.compressed);
for (const name of PARTS) row(`when first used: ${name}`, sizes([name]).bytes, Infinity, sizes([name]).small);
for (const [name, limit] of Object.entries(INTERFACES)) {
  const own = sizes([`${name}.js`, ...chunksOf(`${name}.js`).filter((chunk) => !shared.includes(chunk))]);
  row(`gemma-wasm/${name}, after index.js`, own.bytes, limit, own.small);
}

// The service worker's script has a list of the files that it stores first.
const [, list = ''] = /"needed":(\{.*?\})/.exec(built('site', 'sw.js')) ?? [];
if (!list) missing('site/ is not built: run npm run build');
const visit = ['index.html', 'sw.js', ...(list ? Object.keys(JSON.parse(list)) : [])];
row('the page before its first answer, compressed', sizes(visit, 'site').small, LIMITS.visit);

const [packed] = JSON.parse(
  execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    encoding: 'utf8',
    cwd: at(),
    stdio: ['ignore', 'pipe', 'ignore'],
  }),
);
// The command line loads the server, which includes OpenAI's handler, only for `serve`.
const [, server = 'none'] = /import\("\.\/(node-[\w-]+)\.js"\)/.exec(built('dist', 'cli.js')) ?? [];
row('gemma-wasm serve, with OpenAI’s handler', sizes([`${server}.js`]).bytes, LIMITS.server);
const apart = new RegExp(`^(models/|(dist|docs)/(${[...Object.keys(INTERFACES), 'serve', server].join('|')})\\.)`);
const others = packed.files.filter((/** @type {{ path: string }} */ { path }) => apart.test(path));
const its = others.reduce((/** @type {number} */ sum, /** @type {{ size: number }} */ file) => sum + file.size, 0);
row('npm pack without storyteller, interfaces', packed.unpackedSize - its, LIMITS.package);
row(`npm pack (${packed.entryCount} files)`, packed.unpackedSize, Infinity, packed.size);
const inside = new Set(packed.files.map((/** @type {{ path: string }} */ file) => file.path));
for (const path of REQUIRED) if (!inside.has(path)) missing(`The npm package lacks ${path}.`);
if ([...inside].some((path) => String(path).startsWith('js/'))) missing('The npm package must not contain js/.');
process.exitCode = failed ? 1 : 0;
