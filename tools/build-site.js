/**
 * build-site: the page for hosts, in site/, from build/page/: any web server can serve that folder, from any path.
 *
 *   index.html, sw.js, manifest.webmanifest   the way in: asked for at every visit
 *   assets/NAME-HASH.ext                      all else, named by what is in it: kept for ever
 *
 * A file is renamed where others name it, as "./NAME" in scripts and as NAME in the rest; so its hash covers those that
 * it names. The service worker (web/sw.js) gets the list of them. Beside each file that becomes smaller lie compressed
 * copies (.br, .gz) for hosts that send such; _headers is for those that read it.
 *
 *   node tools/build-site.js [--from DIR] [--out DIR] [--no-compress]
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { Trouble, at, cli, isMain } from './proc.js';
import { FOR_EVER, pageHeaders } from './serve.js';

const ASSETS = 'assets';
const INDEX = 'index.html';
const MANIFEST = 'manifest.webmanifest';
const TEXTS = new Set(['.html', '.js', '.css', '.svg', '.webmanifest']);
/** Kept by a visit that uses them: those that not every visitor does, and the icons, which are for installing. */
const ON_USE = /\.(gguf|wasm|png)$/;

/** @param {string | Buffer} content */
const hashOf = (content) => createHash('sha256').update(content).digest('hex').slice(0, 10);

/** The files of a page under the names that they get. */
class Renaming {
  /** By their old ones. @type {Map<string, { name: string, content: string | Buffer }>} */
  done = new Map();
  /** Being renamed: those that name each other have no order. */
  #open = new Set();
  #folder;
  #names;

  /** @param {string} folder */
  constructor(folder) {
    this.#folder = folder;
    this.#names = readdirSync(folder).filter((name) => !name.startsWith('.'));
    for (const name of this.#names) if (![INDEX, MANIFEST].includes(name)) this.#asset(name);
  }

  /** @param {string} name @returns {{ name: string, content: string | Buffer }} */
  #asset(name) {
    const known = this.done.get(name);
    if (known) return known;
    if (this.#open.has(name)) throw new Trouble(`${name} names a file that names it: neither can have a hash`);
    this.#open.add(name);
    const content = this.content(name, './');
    const ending = extname(name);
    const one = { name: `${name.slice(0, -ending.length)}-${hashOf(content)}${ending}`, content };
    this.done.set(name, one);
    return one;
  }

  /** With the new names of the files that it names. @param {string} name @param {string} where they are from there
   * @returns {string | Buffer} */
  content(name, where) {
    const content = readFileSync(join(this.#folder, name));
    if (!TEXTS.has(extname(name))) return content;
    const others = this.#names.filter((other) => ![name, INDEX, MANIFEST].includes(other));
    const start = extname(name) === '.js' ? '\\./' : '(?:\\./)?';
    const pattern = new RegExp(`(["'(\`])${start}(${others.map(escaped).join('|')})(?=["')\`])`, 'g');
    return content.toString().replace(pattern, (_, quote, other) => quote + where + this.#asset(other).name);
  }
}

/** @param {string} text */
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** Without the list of its files. */
async function serviceWorker() {
  const esbuild = await import('esbuild');
  const { outputFiles: [{ text }] } = await esbuild.build({
    entryPoints: [at('web', 'sw.js')], bundle: true, write: false, format: 'iife', platform: 'browser',
    target: ['es2022'], minify: true, legalComments: 'none', logLevel: 'warning',
  });
  return text;
}

/** What hosts that read a `_headers` file are told (Netlify, Cloudflare Pages). */
export function headersFile() {
  const lines = Object.entries(pageHeaders).map(([name, value]) => `  ${name}: ${value}`);
  return ['/*', ...lines, `/${ASSETS}/*`, `  Cache-Control: ${FOR_EVER}`, ''].join('\n');
}

/** Copies that are worth it. @param {string} path @param {string | Buffer} content */
async function compress(path, content) {
  const bytes = Buffer.from(content);
  const quality = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY };
  const copies = {
    '.br': await promisify(brotliCompress)(bytes, { params: quality }),
    '.gz': await promisify(gzip)(bytes, { level: constants.Z_BEST_COMPRESSION }),
  };
  for (const [ending, copy] of Object.entries(copies)) {
    if (copy.length < bytes.length * 0.95) writeFileSync(path + ending, copy);
  }
}

/** @param {{ from?: string, out?: string, compressed?: boolean }} options */
export async function buildSite({ from = at('build', 'page'), out = at('site'), compressed = true }) {
  const renaming = new Renaming(from), names = [...renaming.done.values()].map(({ name }) => `${ASSETS}/${name}`);
  const html = renaming.content(INDEX, `${ASSETS}/`), manifest = renaming.content(MANIFEST, `${ASSETS}/`);
  const site = {
    files: [MANIFEST, ...names.filter((name) => !ON_USE.test(name))], onUse: names.filter((name) => ON_USE.test(name)),
  };
  const worker = await serviceWorker();
  const version = hashOf([html, manifest, JSON.stringify(site), worker].join('\n'));
  const tag = `<meta name="offline" content="sw.js" data-version="${version}">`;
  const files = new Map([...renaming.done.values()].map(({ name, content }) => [`${ASSETS}/${name}`, content]));
  files.set(INDEX, String(html).replace('</head>', `  ${tag}\n</head>`));
  files.set(MANIFEST, manifest);
  files.set('sw.js', `self.site=${JSON.stringify({ version, ...site })};\n${worker}`);
  rmSync(out, { recursive: true, force: true });
  mkdirSync(join(out, ASSETS), { recursive: true });
  for (const [name, content] of files) writeFileSync(join(out, name), content);
  const small = [...files].filter(([name]) => !/\.(gguf|png)$/.test(name));
  if (compressed) await Promise.all(small.map(([name, content]) => compress(join(out, name), content)));
  writeFileSync(join(out, '_headers'), headersFile());
  writeFileSync(join(out, '.nojekyll'), '');   // GitHub Pages: files as they are
  return version;
}

if (isMain(import.meta.url)) await cli(async () => {
  const { values } = parseArgs({ options: {
    from: { type: 'string' }, out: { type: 'string' }, 'no-compress': { type: 'boolean', default: false },
  } });
  await buildSite({ from: values.from, out: values.out, compressed: !values['no-compress'] });
});
