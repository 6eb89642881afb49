/**
 * build-page: the static page, in build/page/, flat: any web server can serve that folder.
 *
 * The page needs a bundler because a strict content security policy forbids the inline import map
 * that bare imports (marked, dompurify, @huggingface/jinja) would ask for. The workers are entries of
 * their own beside app.js, which is where `new URL('./worker.js', import.meta.url)` looks for them.
 *
 * The storyteller of models/storyteller/ goes with it, where it is there, so that whoever opens the page
 * has something to talk to at once; a <meta> in index.html tells the page.
 *
 *   node tools/build-page.js [--out DIR] [--no-minify] [--storyteller FILE.gguf | '']
 */
import {
  copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync,
} from 'node:fs';
import { parseArgs } from 'node:util';
import { extname, join } from 'node:path';
import { PAGE_SCRIPTS, PARTS, copyModules, noNodeModules } from './build-package.js';
import { at, cli, isMain } from './proc.js';
import { contentSecurityPolicy, isolationHeaders } from './serve.js';

const ENTRIES = ['web/app.js', ...PAGE_SCRIPTS.slice(1).concat(PARTS).map((name) => `js/${name}`)];
const COPIED = new Set(['.html', '.css', '.svg', '.png', '.ico', '.webmanifest', '.txt']);

/** @param {string} out @param {boolean} minify */
async function bundle(out, minify) {
  const esbuild = await import('esbuild'), [app, ...workers] = ENTRIES;
  // What the page imports when it is first used is a chunk of its own; workers share nothing with it.
  for (const entries of [[app], workers]) await esbuild.build({
    entryPoints: entries.map((entry) => ({ in: at(entry), out: entry.replace(/^.*\/|\.js$/g, '') })),
    outdir: out, bundle: true, format: 'esm', platform: 'browser', target: ['es2022'],
    minify, legalComments: 'eof', logLevel: 'warning', plugins: [noNodeModules],
    splitting: entries[0] === app,
  });
}

/** The page's own files, and the wasm modules beside the worker. @param {string} out */
function copy(out) {
  const names = readdirSync(at('web')).filter((name) => COPIED.has(extname(name)));
  for (const name of names) copyFileSync(at('web', name), join(out, name));
  copyModules(out);
}

/** The model that comes with the project, '' without one. */
function ownStoryteller() {
  const folder = at('models', 'storyteller');
  const name = existsSync(folder) && readdirSync(folder).find((file) => file.endsWith('.gguf'));
  return name ? join(folder, name) : '';
}

/** The tag by which the page knows of its storyteller. @param {string} address @param {number} bytes */
export function storytellerTag(address, bytes) {
  return `<meta name="storyteller" content="${address}" data-bytes="${bytes}">`;
}

/** @param {string} out @param {string} model   its file, '' for none */
function addStoryteller(out, model) {
  if (!model) return;
  copyFileSync(model, join(out, 'storyteller.gguf'));
  const index = join(out, 'index.html');
  const tag = storytellerTag('storyteller.gguf', statSync(model).size);
  writeFileSync(index, readFileSync(index, 'utf8').replace('</head>', `  ${tag}\n</head>`));
}

/** Headers for static hosts that read a `_headers` file (Netlify, Cloudflare Pages). @param {string} out */
function writeHeaders(out) {
  const headers = { ...isolationHeaders, 'Content-Security-Policy': contentSecurityPolicy };
  const lines = Object.entries(headers).map(([name, value]) => `  ${name}: ${value}`);
  writeFileSync(join(out, '_headers'), ['/*', ...lines, ''].join('\n'));
}

if (isMain(import.meta.url)) await cli(async () => {
  const { values } = parseArgs({ options: {
    out: { type: 'string', default: at('build', 'page') },
    'no-minify': { type: 'boolean', default: false },
    storyteller: { type: 'string', default: ownStoryteller() },
  } });
  rmSync(values.out, { recursive: true, force: true });
  mkdirSync(values.out, { recursive: true });
  await bundle(values.out, !values['no-minify']);
  copy(values.out);
  addStoryteller(values.out, values.storyteller);
  writeHeaders(values.out);
});
