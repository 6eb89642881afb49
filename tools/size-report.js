/**
 * size-report: how large what users download is, and its limits: each wasm module, the package's
 * JavaScript, and the packed package, which must hold what `npm install` users need.
 *
 *   node tools/size-report.js     (after npm run build, and the types)
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import ts from 'typescript';
import { at } from './proc.js';

const KB = 1000;
/** Comments are types for the most part; bundlers drop them. */
const LIMITS = { wasm: 300 * KB, js: 175 * KB, code: 122 * KB, package: 2000 * KB, packed: 20000 * KB };
const MODULES = ['simd128', 'simd128-threads', 'relaxed', 'relaxed-threads'].map((name) => `js/gemma-${name}.wasm`);
const REQUIRED = [...MODULES, 'types/index.d.ts', 'js/index.js', 'js/index.node.js', 'js/cli.js',
  'README.md', 'LICENSE'];

let failed = false;

/** As it is written, but for comments and empty lines. @param {string} source */
function withoutComments(source) {
  const file = ts.createSourceFile('', source, ts.ScriptTarget.Latest, true, ts.ScriptKind.JS);
  /** @type {Map<number, number>} */
  const comments = new Map();
  /** @param {ts.Node} node */
  const collect = (node) => {
    const found = [ts.getLeadingCommentRanges(source, node.pos), ts.getTrailingCommentRanges(source, node.end)];
    for (const { pos, end } of found.flatMap((ranges) => ranges ?? [])) comments.set(pos, end);
    node.getChildren(file).filter(({ kind }) => kind !== ts.SyntaxKind.JSDoc).forEach(collect);
  };
  collect(file);
  let rest = source;
  for (const [pos, end] of [...comments].sort(([a], [b]) => b - a)) rest = rest.slice(0, pos) + rest.slice(end);
  return rest.split('\n').map((line) => `${line.trimEnd()}\n`).filter((line) => line !== '\n').join('');
}

/** @param {string} what @param {number} bytes @param {number} limit @param {string} [more] */
function row(what, bytes, limit, more = '') {
  const over = bytes > limit;
  failed ||= over;
  const kb = `${(bytes / KB).toFixed(1)} KB`;
  console.log(`${what.padEnd(34)}${kb.padStart(11)}   limit ${limit / KB} KB${over ? '   TOO LARGE' : ''}${more}`);
}

/** @param {string} problem */
function missing(problem) {
  failed = true;
  console.log(problem);
}

for (const path of MODULES) {
  if (!existsSync(at(path))) {
    missing(`${path} is not built`);
    continue;
  }
  const bytes = readFileSync(at(path));
  row(path, bytes.length, LIMITS.wasm, `   (${(gzipSync(bytes).length / KB).toFixed(1)} KB gzipped)`);
}
const scripts = readdirSync(at('js')).filter((name) => name.endsWith('.js'));
const total = scripts.reduce((sum, name) => sum + statSync(at('js', name)).size, 0);
row(`js/*.js (${scripts.length} files)`, total, LIMITS.js);
const code = scripts.reduce((sum, name) => sum + withoutComments(readFileSync(at('js', name), 'utf8')).length, 0);
row('js/*.js without comments', code, LIMITS.code);

const [packed] = JSON.parse(execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'],
  { encoding: 'utf8', cwd: at(), stdio: ['ignore', 'pipe', 'ignore'] }));
const archive = `   (${(packed.size / KB).toFixed(1)} KB packed)`;
const models = packed.files.filter((/** @type {{ path: string }} */ file) => file.path.endsWith('.gguf'));
const weights = models.reduce((/** @type {number} */ sum, /** @type {{ size: number }} */ file) => sum + file.size, 0);
row('npm pack without the storyteller', packed.unpackedSize - weights, LIMITS.package);
row(`npm pack (${packed.entryCount} files)`, packed.unpackedSize, LIMITS.packed, archive);
const shipped = new Set(packed.files.map((/** @type {{ path: string }} */ file) => file.path));
for (const path of REQUIRED) if (!shipped.has(path)) missing(`npm pack leaves out ${path}`);
process.exitCode = failed ? 1 : 0;
