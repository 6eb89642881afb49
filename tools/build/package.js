/**
 * build/package: builds the npm package in dist/. Each script that is started or imported by its path is one file
 * without bare imports (except Node's modules), with the wasm files beside it. So pages without a build tool, CDNs and
 * bundlers that copy files all work. tools/build/setup.js adds the types.
 *
 * The scripts are minified. The tests, the page and `node js/cli.js` use the source in js/ instead.
 *
 *   node tools/build/package.js
 */
import { chmodSync, copyFileSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join, relative, resolve } from 'node:path';
import { MODULES as FILES } from '../../js/modules.js';
import { Trouble, at, cli, isMain, root } from '../support/proc.js';

export const MODULES = Object.keys(FILES).filter((name) => name.endsWith('.wasm'));

/** Scripts that a page loads to run a model, besides one wasm file. */
export const PAGE_SCRIPTS = ['index.js', 'worker.js', 'thread.js'];
/** Parts of the worker, loaded on first use (js/platform/files.js). */
export const PARTS = Object.keys(FILES).filter((name) => name.endsWith('.js'));
/** Package entries for browsers, besides the index. Node also uses those without a counterpart in NODE_ENTRIES. */
const ENTRIES = ['search.js', 'shared.js', 'openai.js', 'ai-sdk.js', 'prompt-api.js', 'mcp.js'];
const NODE_ENTRIES = ['search.node.js', 'ai-sdk.node.js', 'prompt-api.node.js'];

/** Copies the wasm modules from js/. Throws a Trouble if one is not built.
 * @param {string} out folder that gets the wasm files */
export function copyModules(out) {
  const built = new Set(readdirSync(at('js')));
  const missing = MODULES.filter((name) => !built.has(name));
  if (missing.length) throw new Trouble(`${missing.join(', ')} must be built first. Run npm run build.`);
  for (const name of MODULES) copyFileSync(at('js', name), join(out, name));
}

/** Plugin that replaces the package's entry for Node by the one for browsers, so that scripts can be used in both. */
const browserEntry = {
  name: 'browser-entry',
  /** @param {import('esbuild').PluginBuild} build */
  setup(build) {
    build.onResolve({ filter: /\/index\.node\.js$/ }, () => ({ path: at('js', 'index.js') }));
  },
};

/** Bundles scripts into a folder with the wasm files and an index.html, for benchmarks and checks in a browser.
 * @param {string} out @param {string[]} entries paths in the checkout @param {string} html */
export async function bundlePage(out, entries, html) {
  const esbuild = await import('esbuild');
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  await esbuild.build({
    entryPoints: entries.map((entry) => ({ in: at(entry), out: basename(entry, '.js') })),
    outdir: out,
    bundle: true,
    format: 'esm',
    platform: 'browser',
    target: ['es2022'],
    logLevel: 'warning',
    plugins: [browserEntry],
  });
  copyModules(out);
  writeFileSync(join(out, 'index.html'), html);
}

/** Returns a file and all files that it links to, directly or indirectly.
 * @param {string} first @param {(name: string) => string[]} links */
export function reached(first, links) {
  const found = new Set([first]);
  for (const name of found) for (const other of links(name)) found.add(other);
  return [...found];
}

/** Plugin that fails the build if a script for pages imports a Node module. */
export const noNodeModules = {
  name: 'no-node-modules',
  /** @param {import('esbuild').PluginBuild} build */
  setup(build) {
    build.onResolve({ filter: /^node:|[-.]node\.js$/ }, ({ path, importer }) => ({
      errors: [{ text: `${path} (from ${relative(root, importer)}) is for Node and must not be in a page` }],
    }));
  },
};

/** Builds scripts so that all code that the script `first` shares with other scripts is in one file. esbuild's code
 * splitting writes one file for each set of scripts that share a module, and many small files compress badly. Therefore
 * an import of `first` is added to the scripts `after` and to dynamically imported modules, so that all shared code
 * belongs to the same set. A module without imports is not changed, because `first` may await it at its top level.
 * @param {string} first path @param {string[]} after paths @param {import('esbuild').BuildOptions} options */
export async function buildAround(first, after, options) {
  const esbuild = await import('esbuild');
  const split = { ...options, absWorkingDir: root, splitting: true, metafile: /** @type {const} */ (true) };
  const { inputs } = (await esbuild.build({ ...split, write: false })).metafile;
  const parts = Object.values(inputs)
    .flatMap(({ imports }) => imports.filter(({ kind }) => kind === 'dynamic-import'))
    .filter(({ path }) => inputs[path]?.imports.some(({ kind }) => kind === 'import-statement'));
  const scripts = new Set([...after, ...parts.map(({ path }) => resolve(root, path))]);
  return esbuild.build({ ...split, plugins: [...(options.plugins ?? []), imports(first, scripts)] });
}

/** Returns an esbuild plugin that makes scripts import the script `first`.
 * @param {string} first path @param {Set<string>} scripts paths */
const imports = (first, scripts) => ({
  name: 'imports',
  /** @param {import('esbuild').PluginBuild} build */
  setup(build) {
    build.onResolve({ filter: /^first-script$/ }, () => ({ path: first }));
    build.onLoad({ filter: /\.js$/ }, ({ path }) => {
      return scripts.has(path) ? { contents: `import 'first-script';\n${readFileSync(path, 'utf8')}` } : null;
    });
  },
});

/** Comments that bundlers read. They are added after the build, because esbuild removes comments. */
const WORDS = /** @type {[RegExp, string][]} */ ([
  [/\bimport\((?=[\w$]+\))/g, 'import(/* @vite-ignore *//* webpackIgnore: true *//* turbopackIgnore: true */'],
  [/\bnew URL\((?="\.\/\w+\.node\.js")/g, 'new URL(/* webpackIgnore: true */'],
]);

/** @param {string} path */
function putWordsBack(path) {
  const code = WORDS.reduce((text, [pattern, words]) => text.replace(pattern, words), readFileSync(path, 'utf8'));
  writeFileSync(path, code);
}

/** @param {string[]} names @param {import('esbuild').BuildOptions} options @returns {import('esbuild').BuildOptions} */
const building = (names, options) => ({
  entryPoints: names.map((name) => at('js', name)),
  outdir: at('dist'),
  bundle: true,
  format: 'esm',
  legalComments: 'none',
  logLevel: 'warning',
  charset: 'utf8',
  ...options,
});

/** @param {string[]} names @param {import('esbuild').BuildOptions} options */
async function bundle(names, options) {
  const esbuild = await import('esbuild');
  await esbuild.build(building(names, options));
}

/** Builds the scripts for browsers. The entries share their common code, so that an error that one entry throws is an
 * instance of the class that another exports. */
async function forBrowsers() {
  /** @type {import('esbuild').BuildOptions} */
  const options = { platform: 'browser', target: ['es2022'], minify: true, plugins: [noNodeModules] };
  // search.js does not import the index: a search index is useful without a model.
  const withModel = ENTRIES.filter((name) => name !== 'search.js').map((name) => at('js', name));
  const entries = building(['index.js', ...ENTRIES], { ...options, chunkNames: 'common-[hash]' });
  await buildAround(at('js', 'index.js'), withModel, entries);
  await bundle(PAGE_SCRIPTS.slice(1).concat('isolate.js', PARTS), options);
  // Only bundlers `require` the .cjs files of browser entries, and bundlers can `require` an ES module.
  for (const name of ['isolate', 'shared']) {
    writeFileSync(at('dist', `${name}.cjs`), `module.exports = require("./${name}.js");\n`);
  }
}

/** Builds the scripts for Node, and the entries again as CommonJS, where import.meta does not exist. Node prints the
 * source line and the stack of an uncaught error, so lines are short and identifiers are not minified. */
async function forNode() {
  /** @type {import('esbuild').BuildOptions} */
  const options = {
    platform: 'node',
    target: ['node20'],
    minifyWhitespace: true,
    minifySyntax: true,
    lineLimit: 160,
  };
  await bundle(['worker.node.js', 'thread.node.js'], options);
  const shared = ['index.node.js', ...NODE_ENTRIES, 'cli.js'];
  await bundle(shared, { ...options, splitting: true, chunkNames: 'node-[hash]' });
  const here = 'const here=require("node:url").pathToFileURL(__filename).href;';
  /** @type {import('esbuild').BuildOptions} */
  const cjs = {
    ...options,
    format: 'cjs',
    outExtension: { '.js': '.cjs' },
    define: { 'import.meta.url': 'here' },
    banner: { js: here },
  };
  for (const name of ['index', 'search']) {
    await bundle([`${name}.node.js`], { ...cjs, entryNames: name });
  }
  chmodSync(at('dist', 'cli.js'), 0o755);
}

/** Writes the entries for Angular's builder (export condition es2015). The builder ignores `new URL()` in packages, but
 * copies files that are imported with `loader: "file"`. Such an import yields the path relative to the bundle. */
function forAngular() {
  const files = [...PAGE_SCRIPTS.slice(1), ...Object.keys(FILES)];
  const imports = files.map((name, i) => `import f${i} from "./${name}" with { loader: "file" };`);
  const known = files.map((name, i) => `"${name}": new URL(f${i}, import.meta.url).href`);
  const code = [...imports, `globalThis["gemma-wasm files"] = { ${known.join(', ')} };`].join('\n');
  for (const name of ['index', 'shared', 'ai-sdk', 'prompt-api']) {
    writeFileSync(at('dist', `${name}.angular.js`), `${code}\nexport * from "./${name}.js";\n`);
  }
}

if (isMain(import.meta.url))
  await cli(async () => {
    const out = at('dist');
    rmSync(out, { recursive: true, force: true });
    mkdirSync(out);
    copyModules(out);
    await forBrowsers();
    await forNode();
    forAngular();
    const scripts = readdirSync(out)
      .filter((name) => /\.c?js$/.test(name))
      .map((name) => join(out, name));
    scripts.forEach(putWordsBack);
    const bare = scripts.flatMap(namesIn);
    if (bare.length) throw new Trouble(`dist/ must not have bare imports (found ${bare.join(', ')}). Bundle them.`);
  });

/** Returns a file's bare imports, without Node's modules. @param {string} path */
function namesIn(path) {
  const code = readFileSync(path, 'utf8');
  const found = code.matchAll(/(?:\bfrom|\bimport|\bimport\(|\brequire\()\s*["']([^"'\s]+)["']/g);
  return [...found]
    .map(([, name]) => name)
    .filter((name) => !/^(\.{0,2}\/|node:)/.test(name))
    .map((name) => `${name} (${relative(root, path)})`);
}
