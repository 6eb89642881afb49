/**
 * sources: one line for each source file, taken from its head comment. A C file whose head only
 * points to its header shares the header's line.
 */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { basename, extname } from 'node:path';
import { Trouble, at } from '../proc.js';

/** In the order in which they build on each other; what is not named here comes last. */
const ORDER = ('base sha256 threads quant gguf kernels kernels_ref kernels_simd128 kernels_relaxed pack kv ops attention tokenizer '
  + 'tokenizer_impl tokenizer_build sampler model load describe forward session api '
  + 'index public model cache chat generation options errors cli cli-chat env connection protocol host runner jobs stream source '
  + 'download http entries store '
  + 'vocabulary template text engine heap helper features worker thread port').split(' ');
const KINDS = /\.(c|h|m?js|py|css|html|cmake)$/;
/** Without a comment of their own. */
const PLAIN = /** @type {Record<string, string>} */ ({
  'index.html': 'The page itself: every element it ever needs.',
  'page.html': 'The page that a visit of the benchmark opens.',
});

/** The first comment of a file, as one text without decoration; '' if there is none. @param {string} file */
function head(file) {
  const text = readFileSync(at(file), 'utf8').replace(/^#!.*\n/, '');
  const block = text.match(/^\s*(?:\/\*+|""")([^]*?)(?:\*\/|""")/)?.[1]
    ?? text.match(/^(?:#.*\n)+/)?.[0].replace(/^#/gm, '') ?? '';
  const paragraph = block.replace(/^[ \t]*\*?[ \t]*/gm, '').trim().split('\n\n')[0];
  return paragraph.replace(/\s*@(module|typedef|type|param|import)\b[^]*$/, '').replace(/\s+/g, ' ').trim();
}

/** What a file is for: its head's first sentence (two if that is short) without its own name. @param {string} file */
function sentence(file) {
  const words = PLAIN[basename(file)] ?? head(file);
  const label = words.match(/^([\w-]+): /);
  const own = label && basename(file).includes(label[1]) ? words.slice(label[0].length) : words;
  const text = own.match(/^.{25,}?[.](?= [A-Z]|$)/)?.[0] ?? own;
  if (!text) throw new Trouble(`${file} has no head comment`);
  const named = /^[^ ]*[.()/]/.test(text) || text.startsWith('gemma-wasm');
  return (named ? text : text[0].toUpperCase() + text.slice(1)) + (/[.]$/.test(text) ? '' : '.');
}

/** @param {string} file */
function rank(file) {
  const name = basename(file).replace(/\..*$/, '').replace(/-(node|browser)$/, '');
  return ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length;
}

/** @param {string} file whose head only points to its header */
const isBehindHeader = (file) => file.endsWith('.c') && existsSync(at(file.replace(/c$/, 'h')))
  && /^[\w.]+: see [\w.]+\.h/.test(head(file));

/** A Markdown table of a folder's files. @param {string} folder @param {boolean} [ordered] by ORDER */
export function sourceTable(folder, ordered = false) {
  const files = readdirSync(at(folder)).filter((name) => KINDS.test(name)).map((name) => `${folder}/${name}`);
  const alone = files.filter((file) => !isBehindHeader(file))
    .sort((a, b) => (ordered ? rank(a) - rank(b) : 0) || a.localeCompare(b, 'en'));
  const rows = alone.map((file) => {
    const behind = file.replace(/h$/, 'c');
    const names = file.endsWith('.h') && files.includes(behind) && isBehindHeader(behind) ? [file, behind] : [file];
    return `| ${names.map((name) => `[${basename(name)}](../${name})`).join(', ')} | ${escaped(sentence(file))} |`;
  });
  return ['| file | what it is for |', '|---|---|', ...rows].join('\n');
}

/** @param {string} text */
const escaped = (text) => text.replace(/\|/g, '\\|').replace(/<(?=(?:[^`]*`[^`]*`)*[^`]*$)/g, '&lt;');
