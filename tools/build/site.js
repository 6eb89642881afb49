/**
 * build/site: builds the site in site/ from build/page/. Any web server can host that folder, at any path.
 *
 *   index.html, sw.js, manifest.webmanifest   entry files, requested at every visit
 *   404.html                                  the response for missing files
 *   assets/NAME-HASH.ext                      all other files, named by their content: cached forever
 *
 * References to renamed files ("./NAME" in scripts, NAME elsewhere) are updated. The service worker (web/offline/sw.js)
 * gets the new names and SHA-256 digests. Compressed copies (.br, .gz) are beside each file that they make smaller.
 * Some hosts read _headers.
 *
 *   node tools/build/site.js [--from DIR] [--out DIR] [--no-compress]
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { extname, join, parse } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { Trouble, at, cli, isMain, parseOptions } from '../support/proc.js';
import { FOR_EVER, pageHeaders, types } from '../serve.js';
import { reached } from './package.js';

const ASSETS = 'assets';
const INDEX = 'index.html';
const MANIFEST = 'manifest.webmanifest';
/** Static hosts send this page with status 404 for a missing file. Without this page, some send index.html with status
 * 200. */
const NOT_FOUND = '404.html';
const TEXTS = new Set(['.html', '.js', '.css', '.svg', '.webmanifest']);
/** Files that the page needs to generate an answer, besides the engine and a model. */
const NEEDED = ['app.js', 'style.css', 'worker.js', 'thread.js', 'template.js'];
/** Files that the service worker caches on first use, because not every visitor needs them. */
const ON_USE = /\.(gguf|wasm|png)$/;

/** @param {string | Buffer} content */
const hashOf = (content) => createHash('sha256').update(content).digest('hex').slice(0, 10);

/** Returns the digest that the service worker checks. @param {string | Buffer} content */
const digestOf = (content) => createHash('sha256').update(content).digest('base64');

/** The files of a page and their new names. A new name has a hash of the file's content and of all files that it
 * references, because their new names change its content. */
class Renaming {
  /** @type {Map<string, Buffer>} */
  #contents = new Map();
  /** Files that each file references, by its name. @type {Map<string, string[]>} */
  #named = new Map();
  /** All files except the entry files. @type {string[]} */
  assets;

  /** @param {string} folder */
  constructor(folder) {
    for (const name of readdirSync(folder).filter((one) => !one.startsWith('.'))) {
      this.#contents.set(name, readFileSync(join(folder, name)));
    }
    this.assets = [...this.#contents.keys()].filter((name) => ![INDEX, MANIFEST, NOT_FOUND].includes(name));
    for (const name of this.#contents.keys()) {
      const text = TEXTS.has(extname(name)) ? this.#content(name).toString() : '';
      this.#named.set(
        name,
        [...text.matchAll(this.#pattern(name))].map(([, , other]) => other),
      );
    }
  }

  /** @param {string} name */
  #content(name) {
    const content = this.#contents.get(name);
    if (!content) throw new Trouble(`build/page/ has no ${name}. Run npm run build.`);
    return content;
  }

  /** @param {string} name */
  #pattern(name) {
    const start = extname(name) === '.js' ? '\\./' : '(?:\\./)?';
    const others = this.assets.filter((other) => other !== name);
    return new RegExp(`(["'(\`])${start}(${others.map(escaped).join('|')})(?=["')\`])`, 'g');
  }

  /** Files that a visitor needs before the first answer. */
  get needed() {
    const imports = (/** @type {string} */ name) => {
      const found = this.#content(name)
        .toString()
        .matchAll(/\b(?:from|import)\s*"\.\/([^"]+)"/g);
      return [...found].map(([, other]) => other);
    };
    return NEEDED.flatMap((name) => reached(name, imports));
  }

  /** @param {string} name */
  renamed(name) {
    const references = reached(name, (file) => this.#named.get(file) ?? []);
    const all = references.sort().map((one) => `${one} ${hashOf(this.#content(one))}`);
    const { name: stem, ext } = parse(name);
    return `${stem}-${hashOf(all.join('\n'))}${ext}`;
  }

  /** Returns a file's content with renamed references.
   * @param {string} name @param {string} where path from the file to the assets */
  content(name, where) {
    const content = this.#content(name);
    if (!TEXTS.has(extname(name))) return content;
    const rename = (/** @type {string} */ _, /** @type {string} */ quote, /** @type {string} */ other) =>
      quote + where + this.renamed(other);
    return content.toString().replace(this.#pattern(name), rename);
  }
}

/** @param {string} text */
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

async function serviceWorker() {
  const esbuild = await import('esbuild');
  const {
    outputFiles: [{ text }],
  } = await esbuild.build({
    entryPoints: [at('web', 'offline', 'sw.js')],
    bundle: true,
    write: false,
    format: 'iife',
    platform: 'browser',
    target: ['es2022'],
    minify: true,
    legalComments: 'none',
    logLevel: 'warning',
  });
  return text;
}

/** Returns a `_headers` file, which Netlify and Cloudflare Pages read. */
function headersFile() {
  const lines = Object.entries(pageHeaders).map(([name, value]) => `  ${name}: ${value}`);
  return ['/*', ...lines, `/${ASSETS}/*`, `  Cache-Control: ${FOR_EVER}`, ''].join('\n');
}

/** Writes compressed copies that save at least 5 %. @param {string} path @param {string | Buffer} content */
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

/** Builds the site in the folder `out`, which it empties. Returns the site's version, a hash of its content.
 * @param {{ from: string, out: string, compressed: boolean }} options */
export async function buildSite({ from, out, compressed }) {
  const renaming = new Renaming(from);
  /** @type {Map<string, string | Buffer>} */
  const files = new Map(
    renaming.assets.map((name) => [`${ASSETS}/${renaming.renamed(name)}`, renaming.content(name, './')]),
  );
  const needed = renaming.needed.map((name) => `${ASSETS}/${renaming.renamed(name)}`);
  const others = [...files.keys()].filter((name) => !needed.includes(name));
  /** @param {string[]} names */
  const digests = (names) => Object.fromEntries(names.map((name) => [name, digestOf(files.get(name) ?? '')]));
  const html = renaming.content(INDEX, `${ASSETS}/`);
  const manifest = renaming.content(MANIFEST, `${ASSETS}/`);
  const site = {
    needed: digests(needed),
    later: digests(others.filter((name) => !ON_USE.test(name))),
    onUse: digests(others.filter((name) => ON_USE.test(name))),
    types: Object.fromEntries([INDEX, ...files.keys()].map((name) => [extname(name), types[extname(name)]])),
  };
  const worker = await serviceWorker();
  const version = hashOf([html, manifest, JSON.stringify(site), worker].join('\n'));
  const tag = `<meta name="offline" content="sw.js" data-version="${version}">`;
  const page = String(html).replace('</head>', `  ${tag}\n</head>`);
  files.set(INDEX, page);
  files.set(NOT_FOUND, renaming.content(NOT_FOUND, `${ASSETS}/`));
  files.set(MANIFEST, manifest);
  files.set('sw.js', `self.site=${JSON.stringify({ version, page: digestOf(page), ...site })};\n${worker}`);
  rmSync(out, { recursive: true, force: true });
  mkdirSync(join(out, ASSETS), { recursive: true });
  for (const [name, content] of files) writeFileSync(join(out, name), content);
  const small = [...files].filter(([name]) => !/\.(gguf|png)$/.test(name));
  if (compressed) await Promise.all(small.map(([name, content]) => compress(join(out, name), content)));
  writeFileSync(join(out, '_headers'), headersFile());
  writeFileSync(join(out, '.nojekyll'), ''); // disables Jekyll on GitHub Pages, which would omit files
  return version;
}

if (isMain(import.meta.url))
  await cli(async () => {
    const { values } = parseOptions({ from: at('build', 'page'), out: at('site'), 'no-compress': false });
    await buildSite({ ...values, compressed: !values['no-compress'] });
  });
