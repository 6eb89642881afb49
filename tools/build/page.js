/**
 * build/page: builds the static page in build/page/, without subfolders. Tests and `npm start` serve it, and
 * build/site.js turns it into the site for hosts.
 *
 * The page needs a bundler because a strict content security policy forbids the inline import map that bare imports
 * (marked, dompurify, @huggingface/jinja) would need. The workers are separate entries beside app.js, where
 * `new URL('./worker.js', import.meta.url)` finds them.
 *
 * The page includes the storyteller of models/storyteller/, if it exists, so that visitors can chat without a download;
 * a <meta> in index.html names it.
 *
 *   node tools/build/page.js [--out DIR] [--no-minify] [--storyteller FILE.gguf | '']
 */
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { PAGE_SCRIPTS, PARTS, buildAround, copyModules, noNodeModules, reached } from './package.js';
import { Trouble, at, cli, isMain, parseOptions } from '../support/proc.js';
import { ATTRIBUTES } from '../../web/shell/language.js';
import { page as texts } from '../../web/words/en.js';

const ENTRIES = [
  'web/app.js',
  ...PAGE_SCRIPTS.slice(1)
    .concat(PARTS)
    .map((name) => `js/${name}`),
];

/** Bundles the page and its workers. Returns the chunks that app.js imports, directly or indirectly.
 * @param {string} out @param {boolean} minify */
async function bundle(out, minify) {
  const esbuild = await import('esbuild');
  const [app, ...workers] = ENTRIES.map((entry) => ({ in: at(entry), out: entry.replace(/^.*\/|\.js$/g, '') }));
  /** @type {import('esbuild').BuildOptions} */
  const common = {
    outdir: out,
    bundle: true,
    format: 'esm',
    platform: 'browser',
    target: ['es2022'],
    minify,
    legalComments: 'eof',
    logLevel: 'warning',
    plugins: [noNodeModules],
    loader: { '.css': 'text' },
  };
  // The page's script is split, because it loads some parts later. A worker is one file, so that it starts without
  // waiting for further files.
  const { metafile } = await buildAround(app.in, [], { ...common, entryPoints: [app], chunkNames: '[name]-[hash]' });
  await esbuild.build({ ...common, entryPoints: workers });
  await esbuild.build({ ...common, entryPoints: [at('web', 'static', 'style.css')], loader: {} });
  const outputs = Object.entries(metafile.outputs);
  const imports = (/** @type {string} */ name) => {
    const all = outputs.find(([path]) => basename(path) === name)?.[1].imports ?? [];
    return all.filter(({ kind }) => kind === 'import-statement').map(({ path }) => basename(path));
  };
  return reached('app.js', imports).slice(1);
}

/** Copies the page's static files and the wasm modules. @param {string} out
 * @param {string[]} chunks   files that the browser fetches together with app.js */
function copy(out, chunks) {
  const sheet = (/** @type {string} */ from) => !from.endsWith('.css'); // bundle() has written the style sheets
  cpSync(at('web', 'static'), out, { recursive: true, filter: sheet });
  copyModules(out);
  for (const name of ['index.html', '404.html', 'manifest.webmanifest']) {
    const file = join(out, name);
    writeFileSync(file, withTexts(readFileSync(file, 'utf8')));
  }
  addToHead(out, chunks.map((name) => `  <link rel="modulepreload" href="${name}">\n`).join(''));
}

/** @param {string} out @param {string} html */
function addToHead(out, html) {
  const index = join(out, 'index.html');
  writeFileSync(index, readFileSync(index, 'utf8').replace('</head>', `${html}</head>`));
}

/** Writes the English texts into a document, so that it can be read before its scripts run. In other languages
 * web/shell/language.js replaces them. @param {string} document */
export function withTexts(document) {
  const text = (/** @type {string} */ key) => {
    const found = /** @type {Record<string, string>} */ (texts)[`page.${key}`];
    if (!found) throw new Trouble(`web/words/en.js has no text “page.${key}”`);
    return found.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
  };
  return document
    .split(/(<script>[^]*?<\/script>)/) // inline scripts stay as they are: the content security policy has their hash
    .map((part, i) => (i % 2 ? part : part.replace(/<!--[^]*?-->\n?/g, '').replace(/^\s+/gm, '')))
    .join('')
    .replace(/"\{page\.([\w.-]+)\}"/g, (_, key) => JSON.stringify(text(key)))
    .replace(/data-([lhpc])="([^"]+)"/g, (all, name, key) => {
      return `${all} ${/** @type {Record<string, string>} */ (ATTRIBUTES)[name]}="${text(key)}"`;
    })
    .replace(/(data-t="([^"]+)"[^>]*>)(?=<\/)/g, (_, tag, key) => tag + text(key))
    .replace(/(data-t="([^"]+)"[^>]*>)(<a\b.*?<\/a>)/g, (_, tag, key, link) => tag + text(key).replace('{link}', link));
}

function ownStoryteller() {
  const folder = at('models', 'storyteller');
  const name = existsSync(folder) && readdirSync(folder).find((file) => file.endsWith('.gguf'));
  return name ? join(folder, name) : '';
}

/** Returns the <meta> that names the page's storyteller. @param {string} address
 * @param {number} bytes   the file's size, 0 if it is unknown
 * @param {string} [sha256]   the file's digest in hexadecimal, which the page then checks */
export function storytellerTag(address, bytes, sha256) {
  const digest = sha256 ? ` data-sha256="${sha256}"` : '';
  return `<meta name="storyteller" content="${address}" data-bytes="${bytes}"${digest}>`;
}

/** Copies the storyteller, and names it in index.html. @param {string} out
 * @param {string} model   the storyteller's file, '' for none */
function addStoryteller(out, model) {
  if (!model) return;
  copyFileSync(model, join(out, 'storyteller.gguf'));
  const content = readFileSync(model);
  const tag = storytellerTag('storyteller.gguf', content.length, createHash('sha256').update(content).digest('hex'));
  addToHead(out, `  ${tag}\n`);
}

if (isMain(import.meta.url))
  await cli(async () => {
    const defaults = { out: at('build', 'page'), 'no-minify': false, storyteller: ownStoryteller() };
    const { values } = parseOptions(defaults);
    const fresh = `${values.out}.new`;
    const old = `${values.out}.old`;
    for (const folder of [fresh, old]) rmSync(folder, { recursive: true, force: true });
    mkdirSync(fresh, { recursive: true });
    copy(fresh, await bundle(fresh, !values['no-minify']));
    addStoryteller(fresh, values.storyteller);
    // Replaces the old folder by a complete new one, because a server may be reading from the old folder.
    if (existsSync(values.out)) renameSync(values.out, old);
    renameSync(fresh, values.out);
    rmSync(old, { recursive: true, force: true });
  });
