/**
 * build/package: what `npm pack` ships, in dist/: each script that is started or imported by its path is one file
 * that imports nothing by name (but Node's own modules), with the wasm files beside it. So pages without any tool,
 * CDNs and bundlers that copy files all work alike. The types are the next step of tools/build/setup.js.
 *
 * All is minified: js/ is the text to read, and what the tests, the page and `node js/cli.js` run; nothing there needs
 * a build but the wasm.
 *
 *   node tools/build/package.js
 */
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join, relative } from 'node:path';
import { MODULES as FILES } from '../../js/modules.js';
import { Trouble, at, cli, isMain, root } from '../support/proc.js';

/** The wasm files. */
export const MODULES = Object.keys(FILES).filter((name) => name.endsWith('.wasm'));

/** What a page with a model loads, besides one wasm file. */
export const PAGE_SCRIPTS = ['index.js', 'worker.js', 'thread.js'];
/** Parts of the worker that are loaded when they are first used (js/platform/files.js). */
export const PARTS = Object.keys(FILES).filter((name) => name.endsWith('.js'));
/** What users import besides the index, in a browser. */
const ENTRIES = ['search.js', 'shared.js', 'isolate.js'].filter((name) => existsSync(at('js', name)));

/** @param {string} out folder that gets the wasm files */
export function copyModules(out) {
  const built = new Set(readdirSync(at('js')));
  const missing = MODULES.filter((name) => !built.has(name));
  if (missing.length) throw new Trouble(`Not built: ${missing.join(', ')} (npm run build)`);
  for (const name of MODULES) copyFileSync(at('js', name), join(out, name));
}

/** Fails the build when a module that only Node has is about to get into a page. */
export const noNodeModules = {
  name: 'no-node-modules',
  /** @param {import('esbuild').PluginBuild} build */
  setup(build) {
    build.onResolve({ filter: /^node:|[-.]node\.js$/ }, ({ path, importer }) => ({
      errors: [{ text: `${path} (from ${relative(root, importer)}) is for Node and must not be in a page` }],
    }));
  },
};

/** Words to bundlers, which esbuild takes out. */
const WORDS = /** @type {[RegExp, string][]} */ ([
  [/\bimport\((?=[\w$]+\))/g, 'import(/* @vite-ignore *//* webpackIgnore: true *//* turbopackIgnore: true */'],
  [/\bnew URL\((?="\.\/\w+\.node\.js")/g, 'new URL(/* webpackIgnore: true */'],
]);

/** @param {string} path */
function putWordsBack(path) {
  const code = WORDS.reduce((text, [pattern, words]) => text.replace(pattern, words), readFileSync(path, 'utf8'));
  writeFileSync(path, code);
}

/** Scripts of js/ as files of their own. @param {string[]} names @param {import('esbuild').BuildOptions} options */
async function bundle(names, options) {
  const esbuild = await import('esbuild');
  await esbuild.build({
    entryPoints: names.map((name) => at('js', name)),
    outdir: at('dist'),
    bundle: true,
    format: 'esm',
    legalComments: 'none',
    logLevel: 'warning',
    charset: 'utf8',
    ...options,
  });
}

/** For browsers. Those that people import together share what they have in common: an error of one is an instance of
 * the class that the other exports. */
async function forBrowsers() {
  /** @type {import('esbuild').BuildOptions} */
  const options = { platform: 'browser', target: ['es2022'], minify: true, plugins: [noNodeModules] };
  await bundle(['index.js', ...ENTRIES], { ...options, splitting: true, chunkNames: 'common-[hash]' });
  await bundle(PAGE_SCRIPTS.slice(1).concat('isolate.js', PARTS), options);
  // Only bundlers `require` these, of whatever kind the module is.
  for (const name of ['isolate', 'shared']) {
    writeFileSync(at('dist', `${name}.cjs`), `module.exports = require("./${name}.js");\n`);
  }
}

/** Writes the scripts for Node, and those that are imported by name once more for `require`, where import.meta is not
 * known. Node prints the source line and the stack of an uncaught error: so lines are short, and modules keep names. */
async function forNode() {
  /** @type {import('esbuild').BuildOptions} */
  const options = {
    platform: 'node',
    target: ['node20'],
    minifyWhitespace: true,
    minifySyntax: true,
    lineLimit: 160,
  };
  await bundle(['worker.node.js', 'thread.node.js'], { ...options, minifyIdentifiers: true });
  const shared = ['index.node.js', 'search.node.js', 'cli.js'];
  await bundle(shared, { ...options, splitting: true, chunkNames: 'node-[hash]' });
  const here = 'const here=require("node:url").pathToFileURL(__filename).href;';
  /** @type {import('esbuild').BuildOptions} */
  const cjs = {
    ...options,
    minifyIdentifiers: true,
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

/** The entries for Angular's builder (condition es2015), which does not look at addresses in packages: it copies what
 * is imported with this attribute, and gives its path from where the bundle lies. */
function forAngular() {
  const files = [...PAGE_SCRIPTS.slice(1), ...Object.keys(FILES)];
  const imports = files.map((name, i) => `import f${i} from "./${name}" with { loader: "file" };`);
  const known = files.map((name, i) => `"${name}": new URL(f${i}, import.meta.url).href`);
  const code = [...imports, `globalThis["gemma-wasm files"] = { ${known.join(', ')} };`].join('\n');
  for (const name of ['index', 'shared']) {
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
    if (bare.length) throw new Trouble(`imported by name: ${bare.join(', ')}`);
  });

/** What a file imports that is neither a path nor Node's. @param {string} path */
function namesIn(path) {
  const code = readFileSync(path, 'utf8');
  const found = code.matchAll(/(?:\bfrom|\bimport|\bimport\(|\brequire\()\s*["']([^"'\s]+)["']/g);
  return [...found]
    .map(([, name]) => name)
    .filter((name) => !/^(\.{0,2}\/|node:)/.test(name))
    .map((name) => `${name} (${relative(root, path)})`);
}
