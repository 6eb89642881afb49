/**
 * layers: checks that each folder uses only the folders that it may, that no files form an import cycle, and that the
 * messages of errors are in one file per folder.
 * Type imports in JSDoc count like other imports, except that web/ may use all types of js/.
 *
 *   node tools/check/layers.js
 */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { posix } from 'node:path';
import ts from 'typescript';
import { at } from '../support/proc.js';

/** Folders of each source tree, lowest layer first, each with the folders that it may use. Some files directly in js/
 * form groups (GROUPS), which count as folders. '.' stands for the other files directly in a tree's root.
 * @type {Record<string, Record<string, string>>} */
const LAYERS = {
  src: {
    base: '',
    file: 'base',
    text: 'base',
    kernels: 'base file',
    model: 'base file text kernels',
    run: 'base model',
    '.': 'base file text kernels model run',
  },
  js: {
    errors: '',
    protocol: 'errors',
    platform: 'errors protocol',
    download: 'errors protocol platform',
    rpc: 'errors protocol platform download',
    grammar: 'errors protocol',
    'tool-calling': 'errors protocol grammar',
    engine: 'errors protocol platform download rpc grammar tool-calling',
    front: 'errors protocol platform download rpc tool-calling',
    shared: 'errors protocol platform download rpc front',
    search: 'errors protocol download engine',
    openai: 'errors protocol front',
    'ai-sdk': 'errors protocol rpc front',
    'prompt-api': 'errors protocol front',
    mcp: 'errors protocol front',
    serve: 'errors protocol front openai',
    cli: 'errors protocol front serve',
    '.': 'errors protocol platform download grammar tool-calling engine front search shared openai ai-sdk prompt-api mcp cli',
  },
  web: {
    words: '',
    shell: 'words',
    rendering: 'shell',
    offline: 'shell',
    history: 'shell',
    settings: 'shell history',
    chat: 'shell rendering history settings',
    models: 'shell history chat',
    inside: 'shell history chat',
    search: 'shell history chat models',
    '.': 'words shell rendering offline history settings chat models inside search',
  },
};
/** Groups of files directly in js/. The other files there are entries, which are started or imported by their path. */
const GROUPS = /** @type {Record<string, string>} */ ({
  errors: 'errors',
  protocol: 'protocol',
  generated: 'protocol',
  keywords: 'protocol',
  ...Object.fromEntries(
    'front-errors later-errors answer-parts probe cached options messages schemas matches calls overflow saved chat-cache generation chat embed inside debug model lazy-model public index'
      .split(' ')
      .map((name) => [name, 'front']),
  ),
});
/** Entries of the package that files of js/cli/ may import. */
const STARTS = /^(index|index\.node)\.js$/;

/** Headers from outside the project: those of the C standard, and platform headers with the files that may use them. */
const STANDARD = /^(limits|math|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|string|float)\.h$/;
const PLATFORM = /** @type {[files: RegExp, headers: RegExp][]} */ ([
  [/^base\/threads/, /^(pthread|time)\.h$/],
  [/^kernels\/simd/, /^(wasm_simd128|simde\/wasm\/(simd128|relaxed-simd))\.h$/],
]);
/** The only C files that may test for which platform they are compiled. */
const KNOWS_PLATFORM = /^(base\/(base|threads)|kernels\/|api\.)/;

/** The only packages that js/ may import, and the file that may import each. */
const JS_PACKAGES = /** @type {Record<string, string>} */ ({ '@huggingface/jinja': 'engine/interpreter.js' });
/** Files of js/ that have the error messages of their folders; only they may create errors of the package. */
const ERROR_TABLES = /(^|\/)((front-|later-)?errors|refusal)\.js$/;
const CREATES_ERROR = /\bnew (ModelError|Unsupported|TooComplex)\(|\bfailure\(/;
/** Files of js/ that may import Node modules. */
const NODE_SIDE = /[-.]node\.js$|^cli(\.js$|\/)|^serve\//;
/** Modules outside web/ that all its files may import: the package's index and libraries. */
const WEB_IMPORTS = /^(js\/index\.js|marked|dompurify|temml|highlight\.js\/lib\/(core|languages\/\w+))$/;
/** Modules outside web/ that single files of web/ may import: the package's modules for service workers, and the
 * search. */
const WEB_MORE = /** @type {Record<string, string[]>} */ ({
  'offline/sw.js': ['js/platform/features.js', 'js/platform/isolation.js'],
  'offline/offline.js': ['js/platform/isolation.js'],
  'search/texts.js': ['js/search.js', 'examples/search/texts.js'],
  'search/finds.js': ['examples/search/texts.js'],
});

/** @type {string[]} */
const problems = [];
/** Imports of each file, including type imports. @type {Map<string, string[]>} */
const graph = new Map();

/** @param {string} tree @param {string} file */
function folderOf(tree, file) {
  if (file.includes('/')) return file.split('/')[0];
  return tree === 'js' ? (GROUPS[file.replace(/(\.node)?\.js$/, '')] ?? '.') : '.';
}

/** Records an import within a tree, and returns whether the layers allow it.
 * @param {string} tree @param {string} file @param {string} target both relative to the tree */
function isAllowed(tree, file, target) {
  graph.set(`${tree}/${file}`, [...(graph.get(`${tree}/${file}`) ?? []), `${tree}/${target}`]);
  const from = folderOf(tree, file);
  const to = folderOf(tree, target);
  const uses = LAYERS[tree][from];
  return from === to || uses?.split(' ').includes(to);
}

/** @param {string} file */
function checkC(file) {
  const text = readFileSync(at('src', file), 'utf8');
  for (const [, quote, header] of text.matchAll(/^#\s*include\s+([<"])([^>"]+)/gm)) {
    const fine =
      quote === '"'
        ? isAllowed('src', file, header)
        : STANDARD.test(header) || PLATFORM.some(([files, headers]) => files.test(file) && headers.test(header));
    if (!fine) problems.push(`src/${file}: may not include ${header}`);
  }
  if (!KNOWS_PLATFORM.test(file) && /__wasm|__EMSCRIPTEN|emscripten/.test(text)) {
    problems.push(`src/${file}: tests the platform, which only ${KNOWS_PLATFORM} may do`);
  }
  if (file === 'model/forward.c' && /^#\s*if/m.test(text)) problems.push('src/model/forward.c: must not use #if');
}

/** @param {string} text */
function imports(text) {
  const types = text.matchAll(/@import [^']*'([^']+)'|\bimport\('([^']+)'\)/g);
  const all = ts.preProcessFile(text, true, true).importedFiles.map(({ fileName }) => fileName);
  return { all, types: [...types].map(([, one, other]) => one ?? other).filter((name) => name.startsWith('.')) };
}

/** @param {string} file @param {string} target */
function packageProblem(file, target) {
  const forNode = NODE_SIDE.test(file);
  if (target.startsWith('node:')) return forNode ? '' : 'only files for Node may';
  if (!target.startsWith('.')) return JS_PACKAGES[target] === file ? '' : 'the package is not allowed there';
  const path = posix.join(posix.dirname(file), target);
  if (!existsSync(at('js', path))) return 'the file does not exist';
  if (NODE_SIDE.test(path) && !forNode) return 'the file is for Node';
  return isAllowed('js', file, path) || (/^cli\//.test(file) && STARTS.test(path))
    ? ''
    : 'the file is not in a lower layer';
}

/** @param {string} file */
function checkPackage(file) {
  const text = readFileSync(at('js', file), 'utf8');
  if (!ERROR_TABLES.test(file) && CREATES_ERROR.test(text))
    problems.push(`js/${file}: creates an error. Move its message to the errors.js of the folder.`);
  const { all, types } = imports(text);
  for (const target of new Set([...all, ...types])) {
    const problem = packageProblem(file, target);
    if (problem) problems.push(`js/${file} may not import ${target}: ${problem}`);
  }
}

/** @param {string} file */
function checkWeb(file) {
  const { all, types } = imports(readFileSync(at('web', file), 'utf8'));
  for (const target of new Set([...all, ...types])) {
    const path = target.startsWith('.') ? posix.join('web', posix.dirname(file), target) : target;
    const isOwn = path.startsWith('web/');
    const fine = isOwn
      ? isAllowed('web', file, path.slice(4))
      : WEB_IMPORTS.test(path) || WEB_MORE[file]?.includes(path) || (!all.includes(target) && path.startsWith('js/'));
    if (!fine) problems.push(`web/${file}: may not import ${target}`);
  }
}

/** Reports files that form an import cycle (Tarjan 1972: strongly connected components). */
function checkCircles() {
  /** @type {Map<string, { index: number, low: number, open: boolean }>} */
  const seen = new Map();
  /** @type {string[]} */
  const stack = [];
  const visit = (/** @type {string} */ file) => {
    const mine = { index: seen.size, low: seen.size, open: true };
    seen.set(file, mine);
    stack.push(file);
    for (const target of graph.get(file) ?? []) {
      const other = seen.get(target) ?? visit(target);
      if (other.open) mine.low = Math.min(mine.low, other.low);
    }
    if (mine.low === mine.index) {
      const circle = stack.splice(stack.indexOf(file));
      for (const one of circle) /** @type {{ open: boolean }} */ (seen.get(one)).open = false;
      if (circle.length > 1) problems.push(`import cycle: ${circle.join(', ')}`);
    }
    return mine;
  };
  for (const file of graph.keys()) if (!seen.has(file)) visit(file);
}

/** Records the imports of a file of tests/ or tools/. The type check reports missing files.
 * @param {string} path */
function noteImports(path) {
  const { all, types } = imports(readFileSync(at(path), 'utf8'));
  const own = [...all, ...types].filter((target) => target.startsWith('.'));
  graph.set(
    path,
    own.map((target) => posix.join(posix.dirname(path), target)),
  );
}

/** @param {string} folder @param {RegExp} names @param {(file: string) => unknown} check */
function each(folder, names, check) {
  const files = readdirSync(at(folder), { recursive: true })
    .map(String)
    .filter((name) => names.test(name));
  if (!files.length) problems.push(`${folder}/: no files to check`);
  for (const file of files) {
    const layers = LAYERS[folder];
    if (layers && !(folderOf(folder, file) in layers))
      problems.push(`${folder}/${file}: its folder is in no layer. Add it to LAYERS in tools/check/layers.js.`);
    check(file);
  }
  return files.length;
}

const counts = {
  src: each('src', /\.[ch]$/, checkC),
  js: each('js', /\.js$/, checkPackage),
  web: each('web', /\.js$/, checkWeb),
  tests: each('tests', /\.js$/, (file) => noteImports(`tests/${file}`)),
  tools: each('tools', /\.js$/, (file) => noteImports(`tools/${file}`)),
};
checkCircles();
for (const problem of problems) console.log(problem);
const files = Object.entries(counts)
  .map(([folder, count]) => `${count} files in ${folder}`)
  .join(', ');
console.log(`${files}: ${problems.length || 'no'} problems`);
process.exitCode = problems.length ? 1 : 0;
