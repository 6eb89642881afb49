/**
 * check-deps: the layers are one-way. For C and for the package's JavaScript a table of rooms (folders) says which
 * room may use which, and the order of the modules in each; the page may use the package's front door only.
 * A file that no table knows is an error, so that it gets a place on purpose. What tests import must be there.
 *
 *   node tools/check-deps.js
 */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { posix } from 'node:path';
import ts from 'typescript';
import { at } from './proc.js';

/**
 * The rooms of src/, lowest first: what each may use, and its modules, lowest first: each may include those
 * before it, and all of the rooms that its own may use. `name_part.c` is a part of the module `name`.
 */
const C_ROOMS = /** @type {Record<string, { uses: string, modules: string }>} */ ({
  base: { uses: '', modules: 'base half checksum sha256 hash threads pure' },
  file: { uses: 'base', modules: 'formats types gguf store' },
  text: {
    uses: 'base',
    modules:
      'alphabet vocabulary verbatim classes split joins spm bpe tokenizer trie grammar states plain masks matcher',
  },
  kernels: {
    uses: 'base file',
    modules: 'kernels simd relaxed codes planes pack ref q8 q4 floats activations round attention proof scan',
  },
  model: {
    uses: 'base file text kernels',
    modules: 'matrix kv ops attention top arch config tokens model load describe elements forward vectors',
  },
  run: { uses: 'base model', modules: 'sampler session state' },
  api: { uses: 'base file text kernels model run', modules: 'api' },
});

/** Headers from outside the project: the C standard's, and the platform's where they belong. */
const STANDARD = /^(limits|math|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|string|float)\.h$/;
const PLATFORM = /** @type {Record<string, RegExp>} */ ({
  'base/threads': /^(pthread|time)\.h$/,
  'kernels/simd': /^(wasm_simd128|simde\/wasm\/(simd128|relaxed-simd))\.h$/,
});
/** The only modules that may ask what they are compiled for. */
const KNOWS_PLATFORM = /^(base\/base|base\/threads|kernels\/\w+|api\/api)$/;

/**
 * The rooms of js/, lowest first, in the same way. `name.node`, `name-node` and `name-browser` stand where name stands,
 * unless they are named themselves. js/ itself holds three of them: what all use, what users import, and what is
 * started by its path. JSDoc types are free: they are gone at run time.
 */
const JS_ROOMS = /** @type {Record<string, { uses: string, modules: string }>} */ ({
  errors: { uses: '', modules: 'errors' },
  platform: { uses: 'errors', modules: 'features isolation files start port lock env' },
  download: {
    uses: 'errors platform',
    modules:
      'pump hub quants describe feeder identity http checksum checks entries store cache entry shelf states requests lanes download source',
  },
  link: { uses: 'errors platform download', modules: 'signals protocol answers asking connection line' },
  grammar: {
    uses: 'errors',
    modules:
      'refusal ranges nodes ordered regex-parse regex gbnf language numbers text-formats layout references schema-arms schema-arrays schema-objects schema-logic schema-emit trim schema graph spell regular automaton simplify lower index',
  },
  tools: { uses: 'errors grammar', modules: 'partial reading messages build functiongemma dialects index' },
  engine: {
    uses: 'errors platform download link grammar',
    modules:
      'heap helper checker engine text strip template vocabulary grammar forcing shape runner jobs saving embed inside matching meter stream info replay loading host',
  },
  front: {
    uses: 'errors platform download link tools',
    modules: 'probe options matches calls saved states generation chat embed inside model public index',
  },
  shared: {
    uses: 'errors platform download link front',
    modules: 'hall wanted desk relay owner link member load',
  },
  search: { uses: 'errors engine', modules: 'segments folder scan checks join index open' },
  cli: { uses: 'errors front', modules: 'flags format output exact-json match chat inspect bench embed inside main' },
  entries: {
    uses: 'errors platform download grammar tools engine search shared cli',
    modules: 'isolate shared modules template grammar look thread worker search cli',
  },
});
const IN_JS_ITSELF = ['errors', 'front', 'entries'];

/** The only packages that js/ may import, and from where. */
const JS_PACKAGES = /** @type {Record<string, string>} */ ({ '@huggingface/jinja': 'engine/template.js' });
/** Modules that may use Node's own modules. */
const NODE_SIDE = /[-.]node\.js$|^cli(\.js$|\/)/;
/** What web/ may import besides its own files. */
const WEB_IMPORTS = new Set(['../js/index.js', 'marked', 'dompurify', 'temml']);
const WEB_PARTS = /^highlight\.js\/lib\/(core|languages\/\w+)$/;
/** And those that keep the page: what the package has of it is for pages' own service workers (js/isolate.js); the
 * search: the package's, and what it shares with the example. */
const OTHER_IMPORTS = /** @type {Record<string, string[]>} */ ({
  'sw.js': ['../js/platform/features.js', '../js/platform/isolation.js'],
  'offline.js': ['../js/platform/isolation.js'],
  'search-texts.js': ['../js/search.js', '../examples/search/texts.js'],
});

/** @type {string[]} */
const problems = [];

/** Room and module of a file: 'kernels/codes' of 'kernels/codes_relaxed.c'. @param {string} file */
function placeOf(file) {
  const [room, name] = file.includes('/') ? file.split('/') : ['api', file];
  const stem = name.replace(/\.[ch]$/, ''),
    modules = C_ROOMS[room]?.modules.split(' ') ?? [];
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

/** Room of a file of js/, and the place of its module there, -1 if none has it. @param {string} file */
function jsPlaceOf(file) {
  const [folder, name] = file.includes('/') ? file.split('/') : ['', file];
  const full = name.replace(/\.js$/, '');
  for (const room of folder ? [folder] : IN_JS_ITSELF) {
    const modules = JS_ROOMS[room]?.modules.split(' ') ?? [];
    const ranks = [full, full.replace(/[-.](node|browser)$/, '')].map((stem) => modules.indexOf(stem));
    const rank = ranks.find((place) => place >= 0);
    if (rank !== undefined) return { room, rank };
  }
  return { room: folder, rank: -1 };
}

/** @param {string} file @param {string} target */
function importProblem(file, target) {
  const forNode = NODE_SIDE.test(file);
  if (target.startsWith('node:')) return forNode ? '' : 'only a Node-side file may';
  if (!target.startsWith('.')) return JS_PACKAGES[target] === file ? '' : 'that package is not for it';
  const path = posix.join(posix.dirname(file), target);
  if (NODE_SIDE.test(path) && !forNode) return 'that is for Node';
  const from = jsPlaceOf(file),
    to = jsPlaceOf(path);
  if (to.rank < 0) return 'no room has it';
  if (to.room === from.room) return to.rank < from.rank ? '' : 'that does not come before it in its room';
  return JS_ROOMS[from.room].uses.split(' ').includes(to.room) ? '' : 'that is not in a lower room';
}

/** @param {string} file */
function checkPackage(file) {
  if (jsPlaceOf(file).rank < 0) return void problems.push(`js/${file}: no room of the table has it`);
  for (const target of imports(readFileSync(at('js', file), 'utf8'))) {
    const problem = importProblem(file, target);
    if (problem) problems.push(`js/${file} may not import ${target}: ${problem}`);
  }
}

/** @param {string} file */
function checkWeb(file) {
  for (const target of imports(readFileSync(at('web', file), 'utf8'))) {
    const fine = target.startsWith('./') || WEB_IMPORTS.has(target) || WEB_PARTS.test(target);
    if (fine || OTHER_IMPORTS[file]?.includes(target)) continue;
    problems.push(`web/${file}: may not import ${target}`);
  }
}

/** Files of the project, each parsed once. @type {Map<string, ts.SourceFile>} */
const parsed = new Map();

/** @param {string} path */
function parse(path) {
  const known = parsed.get(path);
  const source = known ?? ts.createSourceFile(path, readFileSync(at(path), 'utf8'), ts.ScriptTarget.ES2022);
  parsed.set(path, source);
  return source;
}

/** Names that a module exports; null: those of another one too, so that nobody can say without looking there.
 * @param {string} path @returns {Set<string> | null} */
function exportsOf(path) {
  /** @type {Set<string>} */
  const names = new Set();
  for (const statement of parse(path).statements) {
    if (ts.isExportAssignment(statement)) names.add('default');
    if (ts.isExportDeclaration(statement)) {
      const { exportClause: clause } = statement;
      if (!clause) return null;
      const found = ts.isNamedExports(clause) ? clause.elements.map(({ name }) => name) : [clause.name];
      found.forEach(({ text }) => names.add(text));
    }
    const modifiers = ts.canHaveModifiers(statement) ? ts.getModifiers(statement) : [];
    if (!modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)) continue;
    namesOf(statement).forEach((name) => names.add(name));
  }
  return names;
}

/** What a statement declares. @param {ts.Statement} statement @returns {string[]} */
function namesOf(statement) {
  const named = ts.isFunctionDeclaration(statement) || ts.isClassDeclaration(statement);
  if (named) return [statement.name?.text ?? 'default'];
  if (!ts.isVariableStatement(statement)) return [];
  return statement.declarationList.declarations.flatMap(({ name }) => {
    if (ts.isIdentifier(name)) return [name.text];
    return name.elements.flatMap((one) => ('name' in one && ts.isIdentifier(one.name) ? [one.name.text] : []));
  });
}

/** A test whose imports are gone fails before it says what it tests. @param {string} file */
function checkTest(file) {
  const path = `tests/${file}`;
  for (const statement of parse(path).statements) {
    if (!ts.isImportDeclaration(statement) || !ts.isStringLiteral(statement.moduleSpecifier)) continue;
    const { text } = statement.moduleSpecifier,
      target = posix.join(posix.dirname(path), text);
    if (!text.startsWith('.')) continue;
    if (!existsSync(at(target))) problems.push(`${path}: there is no ${text}`);
    else if (text.endsWith('.js')) checkNames(path, statement, target);
  }
}

/** @param {string} path @param {ts.ImportDeclaration} statement @param {string} target a module that is there */
function checkNames(path, { importClause }, target) {
  const bindings = importClause?.namedBindings,
    there = exportsOf(target);
  if (!there || !bindings || !ts.isNamedImports(bindings)) return;
  for (const { name, propertyName } of bindings.elements) {
    const wanted = (propertyName ?? name).text;
    if (!there.has(wanted)) problems.push(`${path}: ${target} does not export ${wanted}`);
  }
}

/** @param {string} folder @param {RegExp} names @param {(file: string) => unknown} check */
function each(folder, names, check) {
  const files = readdirSync(at(folder), { recursive: true })
    .map(String)
    .filter((name) => names.test(name));
  if (!files.length) problems.push(`${folder}/: no files to check`);
  files.forEach(check);
  return files.length;
}

const counts = {
  src: each('src', /\.[ch]$/, checkC),
  js: each('js', /\.js$/, checkPackage),
  web: each('web', /\.js$/, checkWeb),
  tests: each('tests', /^(c|e2e|faults|fuzz|js)\/[^/]*\.js$/, checkTest),
};
for (const problem of problems) console.log(problem);
const files = Object.entries(counts)
  .map(([folder, count]) => `${count} files in ${folder}`)
  .join(', ');
console.log(`${files}: ${problems.length || 'no'} problems`);
process.exitCode = problems.length ? 1 : 0;
