/**
 * check-deps: the layers are one-way. For C a table says which module may include which; for the
 * package's JavaScript an ordered list says who is below whom; the page may use the package's
 * front door only. A file that no table knows is an error, so that it gets a place on purpose.
 *
 *   node tools/check-deps.js
 */
import { readFileSync, readdirSync } from 'node:fs';
import ts from 'typescript';
import { at } from './proc.js';

/**
 * The rooms of src/, lowest first: what each may use, and its modules, lowest first: each may include those
 * before it, and all of the rooms that its own may use. `name_part.c` is a part of the module `name`.
 */
const C_ROOMS = /** @type {Record<string, { uses: string, modules: string }>} */ ({
  base: { uses: '', modules: 'base half sha256 threads' },
  file: { uses: 'base', modules: 'formats types gguf' },
  text: { uses: 'base', modules: 'tokenizer' },
  kernels: { uses: 'base file', modules: 'kernels simd relaxed codes planes pack ref q8 q4 floats activations round attention proof' },
  model: { uses: 'base file text kernels', modules: 'kv ops attention top model load describe forward' },
  run: { uses: 'base model', modules: 'sampler session' },
  api: { uses: 'base file text kernels model run', modules: 'api' },
});

/** Headers from outside the project: the C standard's, and the platform's where they belong. */
const STANDARD = /^(limits|math|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|string|float)\.h$/;
const PLATFORM = /** @type {Record<string, RegExp>} */ ({
  'base/threads': /^pthread\.h$/,
  'kernels/simd': /^(wasm_simd128|simde\/wasm\/(simd128|relaxed-simd))\.h$/,
});
/** The only modules that may ask what they are compiled for. */
const KNOWS_PLATFORM = /^(base\/base|base\/threads|kernels\/\w+|api\/api)$/;

/**
 * Layers of js/, lowest first; a module may import those of lower layers. `name.node`, `name-node` and
 * `name-browser` stand where name stands, unless they are named themselves. JSDoc types are free:
 * they are gone at run time.
 */
const JS_LAYERS = [
  'errors features pump',
  'heap',
  'protocol text env port entries store',
  'env-node env-browser cache template engine helper http',
  'options download',
  'source',
  'stream vocabulary runner',
  'jobs',
  'host connection',
  'thread worker generation',
  'chat',
  'model',
  'public',
  'index',
  'cli',
];

/** The only packages that js/ may import, and from where. */
const JS_PACKAGES = /** @type {Record<string, string>} */ ({ '@huggingface/jinja': 'template.js' });
/** Modules that may use Node's own modules. */
const NODE_SIDE = /[-.]node\.js$|^cli(-\w+)?\.js$/;
/** What web/ may import besides its own files. */
const WEB_IMPORTS = new Set(['../js/index.js', 'marked', 'dompurify']);

/** @type {string[]} */
const problems = [];

/** Room and module of a file: 'kernels/codes' of 'kernels/codes_relaxed.c'. @param {string} file */
function placeOf(file) {
  const [room, name] = file.includes('/') ? file.split('/') : ['api', file];
  const stem = name.replace(/\.[ch]$/, ''), modules = C_ROOMS[room]?.modules.split(' ') ?? [];
  const module = modules.includes(stem) ? stem : stem.split('_')[0];
  return { room, module, rank: modules.indexOf(module), name: `${room}/${module}` };
}

/** @param {ReturnType<typeof placeOf>} from @param {string} header */
function mayInclude(from, header) {
  const to = placeOf(header);
  if (to.rank < 0) return false;
  return to.room === from.room ? to.rank <= from.rank : C_ROOMS[from.room].uses.split(' ').includes(to.room);
}

/** @param {string} file */
function checkC(file) {
  const from = placeOf(file);
  const text = readFileSync(at('src', file), 'utf8');
  if (from.rank < 0) return void problems.push(`src/${file}: no room of the table has that module`);
  for (const [, own, header] of text.matchAll(/^#\s*include\s+([<"])([^>"]+)/gm)) {
    const fine = own === '"' ? mayInclude(from, header) : STANDARD.test(header) || PLATFORM[from.name]?.test(header);
    if (!fine) problems.push(`src/${file}: ${from.name} may not include ${header}`);
  }
  if (!KNOWS_PLATFORM.test(from.name) && /__wasm|__EMSCRIPTEN|emscripten/.test(text)) {
    problems.push(`src/${file}: only ${KNOWS_PLATFORM} may know the platform`);
  }
  if (file === 'model/forward.c' && /^#\s*if/m.test(text)) problems.push('src/model/forward.c: the recipe has no #if');
}

/** Modules that a JavaScript file imports, statically or not. @param {string} text */
const imports = (text) => ts.preProcessFile(text, true, true).importedFiles.map((file) => file.fileName);

/** Place of a file's module in the list, -1 if it has none. @param {string} file */
function layer(file) {
  const full = file.replace(/\.js$/, '');
  const names = [full, full.replace(/[-.](node|browser)$/, ''), full.split('-')[0]];
  const places = names.map((name) => JS_LAYERS.findIndex((layer) => layer.split(' ').includes(name)));
  return places.find((place) => place >= 0) ?? -1;
}

/** @param {string} file @param {string} target */
function importProblem(file, target) {
  const forNode = NODE_SIDE.test(file);
  if (target.startsWith('node:')) return forNode ? '' : 'only a Node-side file may';
  if (!target.startsWith('./')) return JS_PACKAGES[target] === file ? '' : 'that package is not for it';
  if (NODE_SIDE.test(target) && !forNode) return 'that is for Node';
  const below = layer(target.slice(2)) >= 0 && layer(target.slice(2)) < layer(file);
  const family = file.startsWith('cli') && target.startsWith('./cli-');
  return below || family ? '' : 'that is not in a lower layer';
}

/** @param {string} file */
function checkPackage(file) {
  if (layer(file) < 0) problems.push(`js/${file}: no layer names it`);
  for (const target of imports(readFileSync(at('js', file), 'utf8'))) {
    const problem = importProblem(file, target);
    if (problem) problems.push(`js/${file} may not import ${target}: ${problem}`);
  }
}

/** @param {string} file */
function checkWeb(file) {
  for (const target of imports(readFileSync(at('web', file), 'utf8'))) {
    if (target.startsWith('./') || WEB_IMPORTS.has(target)) continue;
    problems.push(`web/${file}: may not import ${target}`);
  }
}

/** @param {string} folder @param {RegExp} names @param {(file: string) => unknown} check */
function each(folder, names, check) {
  const files = readdirSync(at(folder), { recursive: true }).map(String).filter((name) => names.test(name));
  if (!files.length) problems.push(`${folder}/: no files to check`);
  files.forEach(check);
  return files.length;
}

const counts = {
  src: each('src', /\.[ch]$/, checkC),
  js: each('js', /\.js$/, checkPackage),
  web: each('web', /\.js$/, checkWeb),
};
for (const problem of problems) console.log(problem);
const files = Object.entries(counts).map(([folder, count]) => `${count} files in ${folder}`).join(', ');
console.log(`${files}: ${problems.length || 'no'} problems`);
process.exitCode = problems.length ? 1 : 0;
