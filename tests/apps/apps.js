/* apps: bundlers, frameworks and runtimes, each with a minimal app: its packages (versions are pinned), its files, and
 * the commands that build, serve or run it. */
import { CONSUMERS } from './consumers.js';
import { EXAMPLES } from './examples.js';
import { ASK, FRAMEWORKS, HEADERS, MAIN } from './frameworks.js';

/** @import { App } from './examples.js' */

const PRINT = `${ASK}
  console.log(answer);`;

/** @param {string} script */
const html = (script) => `<!doctype html>\n<meta charset="utf-8">\n<title></title>\n<body></body>\n${script}\n`;
const MODULE = '<script type="module" src="./main.js"></script>';

/** @param {string} version @returns {App[]} */
function vite(version) {
  const major = version.split('.')[0];
  const files = {
    'index.html': html(MODULE),
    'main.js': MAIN,
    'vite.config.js': `const headers = ${HEADERS};\nexport default { server: { headers }, preview: { headers } };\n`,
  };
  const packages = { vite: version };
  const folder = `vite${major}`;
  return [
    {
      name: `vite${major}`,
      title: `Vite ${version}, build`,
      packages,
      files,
      folder,
      build: ['vite', 'build'],
      page: 'dist',
      quick: major === '7',
    },
    {
      name: `vite${major}-dev`,
      title: `Vite ${version}, dev`,
      packages,
      files,
      folder,
      dev: ['vite', '--port', 'PORT', '--strictPort', '--host', 'localhost'],
    },
  ];
}

const COPY = 'cp node_modules/gemma-wasm/dist/*.js node_modules/gemma-wasm/dist/*.wasm';
/** Properties of apps whose bundler ignores `new URL(…, import.meta.url)`. */
const COPIES = {
  recipe:
    "the package's files beside the bundle, because the tool ignores `new URL(…, import.meta.url)`: " +
    `\`${COPY} dist/\``,
  files: { 'main.js': MAIN, 'dist/index.html': html(MODULE) },
  page: 'dist',
};

const WEBPACK = {
  folder: 'webpack',
  packages: { webpack: '5.112.2', 'webpack-cli': '7.3.1', 'webpack-dev-server': '6.1.0' },
  files: {
    'src/index.js': MAIN,
    'dist/index.html': html('<script src="main.js"></script>'),
    'webpack.config.js': `export default { devServer: { static: 'dist', headers: ${HEADERS} } };\n`,
  },
};
const RSBUILD = {
  folder: 'rsbuild',
  packages: { '@rsbuild/core': '2.3.2' },
  files: { 'src/index.js': MAIN, 'rsbuild.config.js': `export default { server: { headers: ${HEADERS} } };\n` },
};
const PARCEL = {
  folder: 'parcel',
  packages: { parcel: '2.16.4' },
  files: {
    'index.html': html(MODULE),
    'main.js': MAIN,
    '.proxyrc.cjs': `module.exports = (app) => app.use((request, response, next) => {
  for (const [name, value] of Object.entries(${HEADERS})) response.setHeader(name, value);
  next();
});\n`,
  },
};
const ESBUILD = { ...COPIES, folder: 'esbuild', packages: { esbuild: '0.28.2' } };

/** @type {App[]} */
export const APPS = [
  ...['5.4.9', '6.4.6', '7.3.8', '8.3.8'].flatMap(vite),
  {
    ...WEBPACK,
    name: 'webpack',
    title: 'webpack 5.112.2, build',
    build: ['webpack', '--mode', 'production'],
    page: 'dist',
  },
  {
    ...WEBPACK,
    name: 'webpack-dev',
    title: 'webpack 5.112.2, webpack-dev-server 6.1.0',
    newer: true,
    dev: ['webpack', 'serve', '--mode', 'development', '--port', 'PORT', '--host', 'localhost'],
  },
  { ...RSBUILD, name: 'rsbuild', title: 'Rsbuild 2.3.2, build', build: ['rsbuild', 'build'], page: 'dist' },
  { ...RSBUILD, name: 'rsbuild-dev', title: 'Rsbuild 2.3.2, dev', dev: ['rsbuild', 'dev', '--port', 'PORT'] },
  {
    ...COPIES,
    name: 'rollup',
    title: 'Rollup 4.68.7',
    packages: { rollup: '4.68.7', '@rollup/plugin-node-resolve': '16.0.3' },
    build: ['sh', '-c', `rollup main.js -d dist -f es -p 'node-resolve={browser:true}' && ${COPY} dist/`],
  },
  {
    ...PARCEL,
    name: 'parcel',
    title: 'Parcel 2.16.4, build',
    page: 'dist',
    build: ['parcel', 'build', 'index.html', '--no-cache', '--public-url', './'],
  },
  {
    ...PARCEL,
    name: 'parcel-dev',
    title: 'Parcel 2.16.4, dev',
    dev: ['parcel', 'serve', 'index.html', '--port', 'PORT', '--no-cache'],
  },
  {
    ...ESBUILD,
    name: 'esbuild',
    title: 'esbuild 0.28.2, ES module',
    quick: true,
    build: ['sh', '-c', `esbuild main.js --bundle --format=esm --outdir=dist && ${COPY} dist/`],
  },
  {
    ...ESBUILD,
    name: 'esbuild-iife',
    title: 'esbuild 0.28.2, IIFE',
    files: { 'main.js': MAIN, 'dist/index.html': html('<script src="main.js"></script>') },
    build: ['sh', '-c', `esbuild main.js --bundle --format=iife --outdir=dist && ${COPY} dist/`],
  },
  {
    name: 'esbuild-node',
    title: 'esbuild 0.28.2, platform=node',
    packages: { esbuild: '0.28.2' },
    quick: true,
    folder: 'esbuild',
    files: { 'main.js': `import { loadModel } from 'gemma-wasm';\n(async () => {\n  ${PRINT}\n})();\n` },
    build: ['esbuild', 'main.js', '--bundle', '--platform=node', '--outfile=out/main.cjs'],
    run: ['node', 'out/main.cjs'],
  },
  {
    ...COPIES,
    name: 'bun-build',
    title: 'Bun 1.4.5, build',
    packages: { bun: '1.4.5' },
    folder: 'bun',
    build: ['sh', '-c', `bun build main.js --target browser --outdir dist && ${COPY} dist/`],
  },
  {
    name: 'plain',
    title: 'no tool: a page with an import map',
    packages: {},
    quick: true,
    files: {
      'index.html': html(
        '<script type="importmap">{"imports":{"gemma-wasm":"./node_modules/gemma-wasm/dist/index.js"}}' +
          `</script>\n${MODULE}`,
      ),
      'main.js': MAIN,
    },
    page: '.',
  },
  ...FRAMEWORKS,
  {
    name: 'node-cjs',
    title: 'Node, CommonJS',
    packages: {},
    run: ['node', 'main.cjs'],
    files: { 'main.cjs': `const { loadModel } = require('gemma-wasm');\n(async () => {\n  ${PRINT}\n})();\n` },
  },
  {
    name: 'bun',
    title: 'Bun 1.4.5, run time',
    folder: 'bun',
    packages: { bun: '1.4.5' },
    run: ['bun', 'main.mjs'],
    files: { 'main.mjs': `import { loadModel } from 'gemma-wasm';\n  ${PRINT}\n` },
  },
  {
    name: 'deno',
    title: 'Deno 2.9.6, run time',
    packages: { deno: '2.9.6' },
    run: ['deno', 'run', '-A', 'main.mjs'],
    files: { 'main.mjs': `import { loadModel } from 'gemma-wasm';\n  ${PRINT}\n` },
  },
  {
    name: 'vitest',
    title: 'Vitest 5.1.1',
    packages: { vitest: '5.1.1' },
    run: ['vitest', 'run', '--reporter=verbose'],
    files: {
      'a.test.js': `import { test } from 'vitest';\nimport { loadModel } from 'gemma-wasm';
test('a', async () => {\n  ${PRINT}\n}, 60000);\n`,
    },
  },
  {
    name: 'jest',
    title: 'Jest 30.5.2',
    packages: { jest: '30.5.2' },
    run: ['jest'],
    files: {
      'a.test.cjs': `const { loadModel } = require('gemma-wasm');
test('a', async () => {\n  ${PRINT.replace('console.log(answer)', 'process.stdout.write(answer)')}\n}, 60000);\n`,
      'jest.config.cjs': 'module.exports = { testMatch: ["**/*.test.cjs"] };\n',
    },
  },
  ...EXAMPLES,
  ...CONSUMERS,
];
