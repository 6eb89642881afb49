/**
 * build/page: builds the static page in build/page/, without subfolders. Tests and `npm start` serve it, and
 * build/site.js turns it into the site for hosts.
 *
 * The page needs a bundler because a strict content security policy forbids the inline import map that bare imports
 * (marked, dompurify, @huggingface/jinja) would need. The workers are separate entries beside app.js, where
 * `new URL('./worker.js', import.meta.url)` finds them.
 *
 * The page includes the storyteller of models/storyteller/, if it exists, so that visitors can chat without a download; a
 * <meta> in index.html names it.
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
import { parseArgs } from 'node:util';
import { join } from 'node:path';
import { PAGE_SCRIPTS, PARTS, copyModules, noNodeModules } from './package.js';
import { at, cli, isMain } from '../support/proc.js';

const ENTRIES = [
  'web/app.js',
  ...PAGE_SCRIPTS.slice(1)
    .concat(PARTS)
    .map((name) => `js/${name}`),
];

/** @param {string} out @param {boolean} minify */
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
  // The page loads some parts later; each worker is one file, so that it never waits for another.
  await esbuild.build({ ...common, entryPoints: [app], splitting: true, chunkNames: '[name]-[hash]' });
  await esbuild.build({ ...common, entryPoints: workers });
}

/** Copies the page's static files, and the wasm modules beside the worker. @param {string} out */
function copy(out) {
  cpSync(at('web', 'static'), out, { recursive: true });
  copyModules(out);
}

/** Returns the path of the project's model, '' if it is missing. */
function ownStoryteller() {
  const folder = at('models', 'storyteller');
  const name = existsSync(folder) && readdirSync(folder).find((file) => file.endsWith('.gguf'));
  return name ? join(folder, name) : '';
}

/** Returns the tag that tells the page about its storyteller.
 * @param {string} address @param {number} bytes @param {string} [sha256]   hexadecimal; the page checks it if given */
export function storytellerTag(address, bytes, sha256) {
  const digest = sha256 ? ` data-sha256="${sha256}"` : '';
  return `<meta name="storyteller" content="${address}" data-bytes="${bytes}"${digest}>`;
}

/** Copies the storyteller and names it in index.html. @param {string} out @param {string} model   its file, '' for none */
function addStoryteller(out, model) {
  if (!model) return;
  copyFileSync(model, join(out, 'storyteller.gguf'));
  const index = join(out, 'index.html');
  const content = readFileSync(model);
  const tag = storytellerTag('storyteller.gguf', content.length, createHash('sha256').update(content).digest('hex'));
  writeFileSync(index, readFileSync(index, 'utf8').replace('</head>', `  ${tag}\n</head>`));
}

if (isMain(import.meta.url))
  await cli(async () => {
    const { values } = parseArgs({
      options: {
        out: { type: 'string', default: at('build', 'page') },
        'no-minify': { type: 'boolean', default: false },
        storyteller: { type: 'string', default: ownStoryteller() },
      },
    });
    const fresh = `${values.out}.new`;
    const old = `${values.out}.old`;
    for (const folder of [fresh, old]) rmSync(folder, { recursive: true, force: true });
    mkdirSync(fresh, { recursive: true });
    await bundle(fresh, !values['no-minify']);
    copy(fresh);
    addStoryteller(fresh, values.storyteller);
    // Renames the folder, because a server may be reading from it.
    if (existsSync(values.out)) renameSync(values.out, old);
    renameSync(fresh, values.out);
    rmSync(old, { recursive: true, force: true });
  });
