/**
 * build/docs: builds a static site with search in site/docs/, beside the page, from the documents in docs/. Eleventy
 * renders the Markdown, Pagefind indexes the result. The sidebar shows the list in docs/index.md.
 *
 * Links are relative, so the site works from any path. The content security policy forbids inline scripts and styles,
 * so there are none. Links to files outside docs/ become plain text, because only the repository has these files.
 *
 *   node tools/build/docs.js [--out DIR]     (after site.js, which empties site/)
 */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { Trouble, at, cli, isMain, parseOptions } from '../support/proc.js';
import { anchor } from '../release/readme/markdown.js';

const LINK = /(href|src)="(?!https?:|#|data:)([^"#]*)(#[^"]*)?"/g;

/** @param {string} name @returns {Promise<any>} */
const untyped = (name) => import(name);

/** Files of Pagefind's user interfaces, which are omitted because they set inline styles. */
const INTERFACE = /pagefind-(?:.*ui|highlight)\b/;

/** @param {{ body: string, title: string, nav: string, root: string }} parts */
const frame = ({ body, title, nav, root }) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="icon" href="${root}icon.svg">
<link rel="stylesheet" href="${root}docs.css">
<script type="module" src="${root}docs.js"></script>
</head>
<body>
<nav aria-label="Documents"><input id="search" type="search" placeholder="Search" aria-label="Search the documents">
<ul id="results" aria-live="polite"></ul>
<details open><summary>Contents</summary>
${nav}</details></nav>
<main data-pagefind-body>
${body}</main>
</body>
</html>
`;

/** @param {any} markdown */
function headingIds(markdown) {
  markdown.core.ruler.push('heading-ids', (/** @type {any} */ { tokens }) => {
    for (const [i, token] of tokens.entries()) {
      if (token.type === 'heading_open') token.attrSet('id', anchor(tokens[i + 1].content));
    }
  });
}

/** Makes links to Markdown files point to the built pages, and replaces links out of docs/ by their text.
 * @param {string} html @param {string} page   its path in the site */
function linked(html, page) {
  const outside = (/** @type {string} */ path) => join(dirname(page), path).startsWith('..');
  return html
    .replace(/<a href="(?!https?:|#)([^"]*)">([^]*?)<\/a>/g, (link, path, text) => (outside(path) ? text : link))
    .replace(/(<a href="(?!https?:)[^"#]*)\.md(?=[#"])/g, '$1.html')
    .replaceAll(' style="text-align:right"', ' class="number"');
}

/** Returns the table of contents for a page, with links relative to it. @param {string} index  docs/index.md as HTML
 * @param {string} root  relative path from the page to the documents' folder @param {string} page */
function sidebar(index, root, page) {
  const list = index.slice(index.indexOf('<h2')).replace(/ id="[^"]*"/g, '');
  return `<p><a href="${root}index.html">gemma-wasm</a> · <a href="${root}../">the page</a></p>\n${list}`
    .replace(/<a href="(?!\.\.)([^"]*)"/g, (_, path) => `<a href="${root}${path.replace(root, '')}"`)
    .replace(`<a href="${root}${page}"`, `<a aria-current="page" href="${root}${page}"`);
}

/** @param {string} out @param {Map<string, string>} pages */
function deadLinks(out, pages) {
  return [...pages].flatMap(([page, html]) =>
    [...html.matchAll(LINK)]
      .filter(([, , path, hash]) => {
        const target = join(dirname(page), path);
        if (target.startsWith('..')) return false; // links to the project's page lead out of the documents
        const text = pages.get(target);
        return text && hash
          ? !text.includes(` id="${decodeURIComponent(hash.slice(1))}"`)
          : !existsSync(join(out, target));
      })
      .map(([, , path, hash = '']) => `${page}: ${path}${hash}`),
  );
}

/** Builds the site in the folder `out`, which it empties. Throws a Trouble if a link is broken, or if the index lacks a
 * page. @param {string} out */
export async function buildDocs(out) {
  const { default: Eleventy } = await untyped('@11ty/eleventy');
  const { default: highlighter } = await import('highlight.js');
  const pagefind = await import('pagefind');
  const highlight = (/** @type {string} */ code, /** @type {string} */ language) =>
    highlighter.getLanguage(language) ? highlighter.highlight(code, { language }).value : '';
  const eleventy = new Eleventy(at('docs'), out, {
    quietMode: true,
    config: (/** @type {any} */ config) => {
      config.amendLibrary('md', (/** @type {any} */ markdown) => markdown.set({ highlight }).use(headingIds));
      config.setTemplateFormats('md');
      return { markdownTemplateEngine: false };
    },
  });
  rmSync(out, { recursive: true, force: true });
  /** @type {{ inputPath: string, content: string }[]} */
  const rendered = await eleventy.toJSON();
  const bodies = new Map(
    rendered.map(({ inputPath, content }) => [relative(at('docs'), inputPath).replace(/\.md$/, '.html'), content]),
  );
  /** @type {Map<string, string>} */
  const pages = new Map();
  const index = linked(bodies.get('index.html') ?? '', 'index.html');
  for (const [page, html] of bodies) {
    const root = '../'.repeat(page.split('/').length - 1);
    const body = linked(html, page);
    const title = body.match(/<h1[^>]*>(.*?)<\/h1>/)?.[1].replace(/<[^>]*>/g, '') ?? page;
    pages.set(page, frame({ body, title, nav: sidebar(index, root, page), root }));
  }
  const write = (/** @type {string} */ name, /** @type {string | Buffer} */ content) => {
    mkdirSync(dirname(join(out, name)), { recursive: true });
    writeFileSync(join(out, name), content);
  };
  for (const name of ['docs.css', 'docs.js']) write(name, readFileSync(at('tools', 'build', 'docs', name)));
  write('icon.svg', readFileSync(at('web', 'static', 'icon.svg')));
  for (const [page, html] of pages) {
    write(page, html);
    for (const [, , path] of html.matchAll(LINK)) {
      const file = join(dirname(page), path);
      if (/\.\w+$/.test(file) && existsSync(at('docs', file))) write(file, readFileSync(at('docs', file)));
    }
  }
  const { index: search, errors } = await pagefind.createIndex({});
  if (!search) throw new Trouble(`Pagefind cannot index the documents: ${errors.join('; ')}.`);
  await search.addDirectory({ path: out });
  for (const { path, content } of (await search.getFiles()).files) {
    if (!INTERFACE.test(path)) write(join('pagefind', path), Buffer.from(content));
  }
  await pagefind.close();
  const unlisted = [...bodies.keys()].filter((page) => page !== 'index.html' && !index.includes(`href="${page}"`));
  if (unlisted.length)
    throw new Trouble(`docs/index.md does not list ${unlisted.join(', ').replaceAll('.html', '.md')}.`);
  const dead = deadLinks(out, pages);
  if (dead.length) throw new Trouble(`The built documents have broken links:\n${dead.join('\n')}`);
}

if (isMain(import.meta.url)) await cli(() => buildDocs(parseOptions({ out: at('site', 'docs') }).values.out));
