/**
 * prose: reports the phrases and names of prose.yml in Markdown, pages, comments, messages and identifiers.
 *
 *   node tools/check/prose.js [FOLDER|FILE …]
 *
 * Strings count as prose if they contain two consecutive words. In tests, only test titles and error messages count;
 * other strings are data. build/prose.json has the hashes of files without hits, which are not checked again until
 * they, the rules, this tool or a package change.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { extname } from 'node:path';
import { TextlintKernel } from '@textlint/kernel';
import markdown from '@textlint/textlint-plugin-markdown';
import ts from 'typescript';
import { at, output } from '../support/proc.js';

/** Files that are not checked: data, generated files and quoted licences. */
const EXCLUDED =
  /^(tests\/(vectors|fuzz\/corpus)|tests\/js\/(texts|tool-templates)|NOTICES|tools\/check\/prose|tools\/models\/train\/(NOTICE|chats\.py|corpus\.py)|.*classes_table\.h)/;
/** Loaded with require(), because textlint-rule-prh has no types. */
const prh = createRequire(import.meta.url)('textlint-rule-prh').default;
const TITLES = /^(describe|it|test\w*|suite|inEach)$/;

/** @typedef {{ at: number, text: string }} Piece  prose and its offset in the file */
/** @typedef {(file: string, text: string) => Piece[]} Reader */

const isProse = (/** @type {string} */ text) => /\p{L}{2,} \p{L}{2,}/u.test(text);
/** @param {string} text @param {RegExp} pattern @returns {Piece[]} */
const pieces = (text, pattern) => [...text.matchAll(pattern)].map((match) => ({ at: match.index, text: match[0] }));

/** @param {ts.Node} node */
function isTitle({ parent }) {
  if (ts.isNewExpression(parent)) return true;
  if (!ts.isCallExpression(parent)) return false;
  return TITLES.test(parent.expression.getText().split('.')[0]);
}

/** @param {string} file @param {string} text */
function javascript(file, text) {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true, ts.ScriptKind.JS);
  /** @type {Piece[]} */
  const found = [];
  const comments = new Set();
  /** @type {Set<string>} */
  const names = new Set();
  const visit = (/** @type {ts.Node} */ node) => {
    if (ts.isJSDoc(node)) return;
    const around = [ts.getLeadingCommentRanges(text, node.pos), ts.getTrailingCommentRanges(text, node.end)];
    for (const { pos, end } of around.flatMap((ranges) => ranges ?? [])) {
      if (!comments.has(pos)) found.push({ at: pos, text: text.slice(pos, end) });
      comments.add(pos);
    }
    if (ts.isIdentifier(node)) {
      if (!names.has(node.text)) found.push({ at: node.getStart(), text: node.text });
      names.add(node.text);
    } else if (ts.isStringLiteral(node) || ts.isTemplateLiteral(node)) {
      const string = text.slice(node.getStart() + 1, node.end - 1).replace(/\$\{[^}]*\}/g, '…');
      const counts = file.startsWith('tests/') ? isTitle(node) : isProse(string) || /^\w+-\w+$/.test(string);
      if (counts) found.push({ at: node.getStart(), text: string });
    }
    node.getChildren(source).forEach(visit);
  };
  visit(source);
  return found;
}

/** @param {RegExp} pattern @returns {Reader} */
const withPattern = (pattern) => (file, text) =>
  pieces(text, pattern).filter(
    (piece) => !/^["']/.test(piece.text) || (!file.startsWith('tests/') && isProse(piece.text)),
  );

/** @param {string} _file @param {string} text */
const html = (_file, text) =>
  pieces(text, /<(script|style)\b[^]*?<\/\1>|<!--[^]*?-->|(?<=>)[^<]+|"[^"<>]*"/g).filter(
    (piece) => isProse(piece.text) && !/^<s/.test(piece.text),
  );

const c = withPattern(/\/\*[^]*?\*\/|\/\/.*|"(?:\\.|[^"\\\n])*"|\b[a-zA-Z]\w*_\w+/g);
/** Readers of prose by file extension. Markdown has no reader: it is checked as a whole. */
const READERS = /** @type {Record<string, Reader | undefined>} */ ({
  '.js': javascript,
  '.ts': javascript,
  '.c': c,
  '.h': c,
  '.css': withPattern(/\/\*[^]*?\*\//g),
  '.py': withPattern(/#.*|"""[^]*?"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'/g),
  '.html': html,
});

const kernel = new TextlintKernel();
/** Returns the phrases found in a text as lines `FILE:LINE: FOUND => INSTEAD`.
 * @param {string} file @param {string} text */
async function hits(file, text) {
  const reader = READERS[extname(file)];
  // Each piece of prose becomes a paragraph without comment marks. `places` has the file's line number of each line.
  // Identifiers form one paragraph, because thousands of paragraphs are slow.
  const lines = [''];
  const places = [0];
  const isName = (/** @type {Piece} */ piece) => /^\w+$/.test(piece.text);
  const all = reader?.(file, text) ?? [];
  for (const piece of [...all.filter((one) => !isName(one)), ...all.filter(isName)]) {
    const first = text.slice(0, piece.at).split('\n').length;
    for (const [i, line] of piece.text.split('\n').entries()) {
      lines.push(line.replace(/^\s*(\/\*+|\*+\/|\*|\/\/+|#|["'`]+)?\s*/, '').replace(/\s*\*\/$/, ''));
      places.push(first + i);
    }
    if (isName(piece)) continue;
    lines.push('');
    places.push(0);
  }
  const result = await kernel.lintText(reader ? lines.join('\n') : text, {
    ext: '.md',
    plugins: [{ pluginId: 'markdown', plugin: markdown.default }],
    rules: [
      {
        ruleId: 'prh',
        rule: prh,
        options: {
          rulePaths: [at('tools/check/prose.yml')],
          checkLink: true,
          checkEmphasis: true,
          checkBlockQuote: true,
        },
      },
    ],
  });
  return result.messages.map(
    ({ line, message }) => `${file}:${reader ? places[line - 1] : line}: ${message.replaceAll('\n', ' ')}`,
  );
}

/** @type {string[]} */
const found = [];
const wanted = process.argv.slice(2);
// In a container, the checkout may belong to another user, whose repositories git reads only if told that they are
// safe.
const listed = output('git', ['-c', 'safe.directory=*', 'ls-files', '-co', '--exclude-standard', ...wanted]);
const files = listed
  .split('\n')
  .filter((file) => /\.(md|js|ts|c|h|css|py|html)$/.test(file) && !EXCLUDED.test(file) && existsSync(at(file)));
if (!files.length) found.push('no files to check');

const RECORD = at('build', 'prose.json');
const tool = createHash('sha256').update(process.version);
for (const name of ['tools/check/prose.js', 'tools/check/prose.yml', 'package-lock.json'])
  tool.update(readFileSync(at(name)));
const keyOf = (/** @type {string[]} */ ...parts) => tool.copy().update(JSON.stringify(parts)).digest('base64');
const known = new Set(existsSync(RECORD) ? JSON.parse(readFileSync(RECORD, 'utf8')) : []);
/** @type {string[]} */
const clean = [];
for (const file of files) {
  const text = readFileSync(at(file), 'utf8');
  const key = keyOf(file, text);
  const more = known.has(key) ? [] : await hits(file, text);
  if (!more.length) clean.push(key);
  found.push(...more);
}
if (!wanted.length) {
  mkdirSync(at('build'), { recursive: true });
  writeFileSync(`${RECORD}.tmp`, JSON.stringify(clean));
  renameSync(`${RECORD}.tmp`, RECORD);
}

for (const hit of found) console.log(hit);
console.log(`${files.length} files: ${found.length || 'no'} hits`);
process.exitCode = found.length ? 1 : 0;
