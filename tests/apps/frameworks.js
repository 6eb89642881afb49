/* frameworks: apps of frameworks (apps.js), and projects of `npm create vite` with the lines that a reader of the
 * README would add. */
/** @import { App } from './examples.js' */
import { streams } from './examples.js';

export const HEADERS = `{ 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' }`;
/** Code of each app that asks the model. The code fits into an async function or a module. */
export const ASK = `const model = await loadModel(MODEL, { cache: false });
  const { text } = await model.chat().send('Hello', { maxTokens: 12, seed: 3 }).result();
  const answer = JSON.stringify({ text, threads: model.info.threads });
  await model.dispose();`;
/** Script that asks the model and puts the answer into the page's title. */
export const MAIN = `import { loadModel } from 'gemma-wasm';
(async () => {
  ${ASK}
  document.title = answer;
})().catch((error) => { document.title = JSON.stringify({ error: String(error) }); });
`;
const VITE_PORT = ['--port', 'PORT', '--strictPort', '--host', 'localhost'];

/** Returns four apps of a Next version: a client component and a route handler, each built and in development.
 * @param {string} version @param {string[]} flags that choose the bundler @param {string} how the bundler's name
 * @returns {App[]} */
export function next(version, flags, how) {
  const major = version.split('.')[0];
  const name = `next${major}-${how}`;
  const packages = { next: version, react: '19.3.1', 'react-dom': '19.3.1' };
  const folder = `next${major}`;
  const files = {
    'app/layout.js': 'export default ({ children }) => <html><body>{children}</body></html>;\n',
    'app/page.js': `'use client';
import { useEffect } from 'react';
export default function Page() {
  useEffect(() => { import('./ask.js'); }, []);
  return null;
}
`,
    'app/ask.js': MAIN,
    'app/api/route.js': `import { loadModel } from 'gemma-wasm';
export const dynamic = 'force-dynamic';
export async function GET() {
  ${ASK}
  return new Response(answer);
}
`,
    'next.config.mjs': `const headers = Object.entries(${HEADERS}).map(([key, value]) => ({ key, value }));
export default { headers: async () => [{ source: '/:path*', headers }] };
`,
  };
  const start = ['next', 'start', '-p', 'PORT'];
  const build = ['next', 'build', ...flags];
  const env = { NEXT_TELEMETRY_DISABLED: '1' };
  const title = `Next ${version}, ${how}`;
  const one = { packages, files, folder, env };
  const dev = ['next', 'dev', ...flags, '-p', 'PORT'];
  return [
    { ...one, name, title: `${title}, build: client component`, build, dev: start },
    { ...one, name: `${name}-route`, title: `${title}, build: route handler`, build, dev: start, path: 'api' },
    { ...one, name: `${name}-dev`, title: `${title}, dev: client component`, dev },
    { ...one, name: `${name}-dev-route`, title: `${title}, dev: route handler`, dev, path: 'api' },
  ];
}

/** @type {Pick<App, 'folder' | 'packages' | 'newer' | 'files'>} */
const SVELTEKIT = {
  folder: 'sveltekit',
  newer: true,
  packages: {
    '@sveltejs/kit': '3.2.0',
    '@sveltejs/vite-plugin-svelte': '7.3.1',
    svelte: '5.57.3',
    vite: '8.3.8',
    '@sveltejs/adapter-node': '6.0.1',
  },
  files: {
    'vite.config.js': `import { sveltekit } from '@sveltejs/kit/vite';
import adapter from '@sveltejs/adapter-node';
const headers = ${HEADERS};
export default { plugins: [sveltekit({ adapter: adapter() })], server: { headers }, preview: { headers } };
`,
    'src/app.html':
      '<!doctype html><html lang="en"><head>%sveltekit.head%</head><body><div>%sveltekit.body%</div></body></html>\n',
    'src/routes/+page.svelte': `<script>
  import { onMount } from 'svelte';
  import { loadModel } from 'gemma-wasm';
  onMount(async () => {
  ${ASK}
  document.title = answer;
  });
</script>
`,
    // adapter-node sends no isolation headers, which pages and worker scripts need.
    'server.js': `import { createServer } from 'node:http';
import { handler } from './build/handler.js';
createServer((request, response) => {
  for (const [name, value] of Object.entries(${HEADERS})) response.setHeader(name, value);
  handler(request, response);
}).listen(process.env.PORT);
`,
    'src/hooks.server.js': `export async function handle({ event, resolve }) {
  const response = await resolve(event);
  for (const [name, value] of Object.entries(${HEADERS})) response.headers.set(name, value);
  return response;
}
`,
    'src/routes/api/+server.js': `import { loadModel } from 'gemma-wasm';
export async function GET() {
  ${ASK}
  return new Response(answer);
}
`,
  },
};

/** @type {Pick<App, 'folder' | 'packages' | 'newer' | 'files' | 'env'>} */
const ASTRO = {
  folder: 'astro',
  newer: true,
  packages: { astro: '7.3.5' },
  env: { ASTRO_TELEMETRY_DISABLED: '1' },
  files: {
    'astro.config.mjs': `import { defineConfig } from 'astro/config';
export default defineConfig({ server: { headers: ${HEADERS} } });
`,
    'src/pages/index.astro': `<html lang="en"><head><title></title></head><body><script>\n${MAIN}</script></body></html>\n`,
  },
};

const ANGULAR_JSON = {
  version: 1,
  cli: { analytics: false },
  projects: {
    app: {
      projectType: 'application',
      root: '',
      sourceRoot: 'src',
      architect: {
        build: {
          builder: '@angular/build:application',
          options: {
            browser: 'src/main.ts',
            index: 'src/index.html',
            tsConfig: 'tsconfig.json',
            outputPath: 'dist',
            assets: [],
          },
          configurations: {
            production: { outputHashing: 'all' },
            development: { optimization: false, sourceMap: true },
          },
          defaultConfiguration: 'production',
        },
        serve: {
          builder: '@angular/build:dev-server',
          options: { buildTarget: 'app:build:development', headers: JSON.parse(HEADERS.replaceAll("'", '"')) },
        },
      },
    },
  },
};

/** @type {Pick<App, 'folder' | 'packages' | 'newer' | 'files' | 'env'>} */
const ANGULAR = {
  folder: 'angular',
  newer: true,
  env: { NG_CLI_ANALYTICS: 'false' },
  packages: Object.fromEntries([
    ...['core', 'common', 'compiler', 'platform-browser', 'compiler-cli'].map((name) => [`@angular/${name}`, '22.2.6']),
    ['@angular/cli', '22.2.7'],
    ['@angular/build', '22.2.7'],
    ['rxjs', '7.8.2'],
    ['typescript', '6.0.3'],
    ['tslib', '2.8.1'],
  ]),
  files: {
    'angular.json': JSON.stringify(ANGULAR_JSON),
    'tsconfig.json': JSON.stringify({
      compilerOptions: { strict: true, target: 'ES2022', module: 'preserve', skipLibCheck: false },
      files: ['src/main.ts'],
    }),
    'src/index.html':
      '<!doctype html><html lang="en"><head><base href="/"><title></title></head><body><app-root></app-root>' +
      '</body></html>\n',
    'src/main.ts': `import { Component, provideZonelessChangeDetection } from '@angular/core';
import { bootstrapApplication } from '@angular/platform-browser';
import { loadModel } from 'gemma-wasm';
@Component({ selector: 'app-root', template: '' })
class App {
  async ngOnInit() {
  ${ASK}
  document.title = answer;
  }
}
bootstrapApplication(App, { providers: [provideZonelessChangeDetection()] })
  .catch((error) => { document.title = JSON.stringify({ error: String(error) }); });
`,
  },
};

const STREAM = "for await (const piece of model.chat().send('Hello', { maxTokens: 12, seed: 3 }))";

/** Returns apps made from a template of `npm create vite`, with isolation headers and code that asks the model.
 * @param {string} template @param {App['files']} files @returns {App[]} */
function created(template, files) {
  const name = `create-${template}`;
  const headers = `headers: ${HEADERS}`;
  /** @type {Omit<App, 'name' | 'title'>} */
  const one = {
    folder: name,
    packages: {},
    use: streams,
    create: ['npm', 'create', '--yes', 'vite@9.3.0', '.', '--', '--template', template, '--no-interactive'],
    files: {
      ...(template === 'vanilla'
        ? { 'vite.config.js': `export default { server: { ${headers} }, preview: { ${headers} } };\n` }
        : {
            'vite.config.js': (text) =>
              text.replace('plugins:', `server: { ${headers} }, preview: { ${headers} },\n  plugins:`),
          }),
      ...files,
    },
  };
  return [
    {
      ...one,
      name,
      title: `npm create vite@9.3.0, template ${template}, plus six lines of code: build`,
      build: ['npm', 'run', 'build'],
      dev: ['vite', 'preview', ...VITE_PORT],
    },
    {
      ...one,
      name: `${name}-dev`,
      title: `npm create vite@9.3.0, template ${template}, plus six lines of code: dev`,
      dev: ['vite', ...VITE_PORT],
    },
  ];
}

const CREATED = [
  ...created('vanilla', {
    'src/main.js': (text) => `${text}
import { loadModel } from 'gemma-wasm';
const model = await loadModel(MODEL);
${STREAM} {
  document.body.append(piece);
}
`,
  }),
  ...created('svelte', {
    'src/App.svelte': (text) =>
      text.replace(
        '</script>',
        `import { loadModel } from 'gemma-wasm'
const loading = loadModel(MODEL)
let answer = $state('')
const ask = async () => { const model = await loading; ${STREAM} answer += piece }
</script>
<button onclick={ask}>Ask</button>
<p>{answer}</p>`,
      ),
  }),
];

/** @type {App[]} */
export const FRAMEWORKS = [
  ...next('15.5.29', [], 'webpack'),
  ...next('15.5.29', ['--turbopack'], 'turbopack'),
  ...next('16.4.6', ['--webpack'], 'webpack'),
  ...next('16.4.6', [], 'turbopack'),
  {
    ...SVELTEKIT,
    name: 'sveltekit',
    title: 'SvelteKit 3.2.0, adapter-node',
    build: ['vite', 'build'],
    dev: ['sh', '-c', 'PORT=PORT node server.js'],
  },
  { ...SVELTEKIT, name: 'sveltekit-dev', title: 'SvelteKit 3.2.0, dev', dev: ['vite', 'dev', ...VITE_PORT] },
  {
    ...SVELTEKIT,
    name: 'sveltekit-route',
    title: 'SvelteKit 3.2.0, adapter-node: route handler',
    path: 'api',
    build: ['vite', 'build'],
    dev: ['sh', '-c', 'PORT=PORT node build'],
  },
  { ...ASTRO, name: 'astro', title: 'Astro 7.3.5, build', build: ['astro', 'build'], page: 'dist' },
  { ...ASTRO, name: 'astro-dev', title: 'Astro 7.3.5, dev', dev: ['astro', 'dev', '--port', 'PORT'] },
  { ...ANGULAR, name: 'angular', title: 'Angular 22.2.6, build', build: ['ng', 'build'], page: 'dist/browser' },
  { ...ANGULAR, name: 'angular-dev', title: 'Angular 22.2.6, dev', dev: ['ng', 'serve', '--port', 'PORT'] },
  ...CREATED,
];
