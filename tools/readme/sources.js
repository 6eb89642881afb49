/**
 * sources: one line for each source file, taken from its head comment. A C file whose head only
 * points to its header shares the header's line.
 */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { basename, extname } from 'node:path';
import { Trouble, at } from '../proc.js';

/** Rooms (`.`: the folder itself) and names in the order in which they are told; what is not named here comes last. */
const ORDER = /** @type {Record<string, string[]>} */ ({
  src: (
    'base file text kernels model run . half checksum sha256 threads formats types gguf simd relaxed codes planes pack ref kv ops ' +
    'attention top alphabet vocabulary verbatim classes classes_table split joins spm bpe tokenizer load describe forward sampler session api'
  ).split(' '),
  js: (
    '. cli link engine download platform index public model chat generation options errors worker thread modules main ' +
    'connection answers asking protocol host loading stream meter info jobs runner vocabulary template text engine checker heap helper features ' +
    'describe feeder source download lanes shelf requests http identity entry entries checks checksum cache store pump env port lock'
  ).split(' '),
});
const KINDS = /\.(c|h|m?js|py|css|html|cmake)$/;
/** Without a comment of their own. */
const PLAIN = /** @type {Record<string, string>} */ ({
  'index.html': 'The page itself: every element it ever needs.',
  'page.html': 'The page that a visit of the benchmark opens.',
});

/** The first comment of a file, as one text without decoration; '' if there is none. @param {string} file */
function head(file) {
  const text = readFileSync(at(file), 'utf8').replace(/^#!.*\n/, '');
  const block =
    text.match(/^\s*(?:\/\*+|""")([^]*?)(?:\*\/|""")/)?.[1] ?? text.match(/^(?:#.*\n)+/)?.[0].replace(/^#/gm, '') ?? '';
  const paragraph = block
    .replace(/^[ \t]*\*?[ \t]*/gm, '')
    .trim()
    .split('\n\n')[0];
  return paragraph
    .replace(/\s*@(module|typedef|type|param|import)\b[^]*$/, '')
    .replace(/\s+/g, ' ')
    .trim();
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

/** Files by rooms, then by ORDER, then by name. @param {string} a @param {string} b */
function inOrder(a, b) {
  const order = ORDER[a.split('/')[0]];
  const placeOf = (/** @type {string} */ name) => (order.includes(name) ? order.indexOf(name) : order.length);
  const places = [a, b].map((file) => {
    const stem = basename(file)
      .replace(/\..*$/, '')
      .replace(/-(node|browser)$/, '');
    return { room: placeOf(file.split('/').slice(1, -1).join('/') || '.'), file: placeOf(stem) };
  });
  return places[0].room - places[1].room || places[0].file - places[1].file;
}

/** @param {string} file whose head only points to its header */
const isBehindHeader = (file) =>
  file.endsWith('.c') && existsSync(at(file.replace(/c$/, 'h'))) && /^[\w.]+: see [\w.]+\.h/.test(head(file));

/** A Markdown table of a folder's files. @param {string} folder @param {boolean} [ordered] with its rooms, by ORDER */
export function sourceTable(folder, ordered = false) {
  const names = readdirSync(at(folder), { recursive: ordered }).map(String);
  const files = names.filter((name) => KINDS.test(name)).map((name) => `${folder}/${name}`);
  const alone = files
    .filter((file) => !isBehindHeader(file))
    .sort((a, b) => (ordered ? inOrder(a, b) : 0) || a.localeCompare(b, 'en'));
  const rows = alone.map((file) => {
    const behind = file.replace(/h$/, 'c');
    const names = file.endsWith('.h') && files.includes(behind) && isBehindHeader(behind) ? [file, behind] : [file];
    const links = names.map((name) => `[${name.slice(folder.length + 1)}](../${name})`).join(', ');
    return `| ${links} | ${escaped(sentence(file))} |`;
  });
  return ['| file | what it is for |', '|---|---|', ...rows].join('\n');
}

/** @param {string} text */
const escaped = (text) => text.replace(/\|/g, '\\|').replace(/<(?=(?:[^`]*`[^`]*`)*[^`]*$)/g, '&lt;');
