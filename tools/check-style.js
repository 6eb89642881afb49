/**
 * check-style: functions and files stay small. Over src/, js/, web/ and tools/, C and JavaScript
 * each on their own: median function <= 20 lines, nine in ten <= 60, none above 140; files <= 700
 * lines; lines aim at 100 columns and end at 120. The one exception, counted in the output: a line whose
 * excess is one long text for people (a message is easier to find when it is not cut).
 *
 *   node tools/check-style.js [--list]    --list: the longest functions
 */
import { readFileSync, readdirSync } from 'node:fs';
import { at } from './proc.js';
import ts from 'typescript';

const LIMITS = { median: 20, most: 60, share: 0.9, longest: 140, file: 700, columns: 120 };
const FOLDERS = ['src', 'js', 'web', 'tools'];

/** @typedef {{ file: string, name: string, line: number, lines: number }} Func */

/** A string of 60 characters or more. */
const LONG_TEXT = /'[^']{60,}'|"[^"]{60,}"|`[^`]{60,}`/;

/** @type {string[]} */
const problems = [];
let longTexts = 0;

/** A definition's first line: text at column 0 with a bracket, no type, macro, prototype or one-line end. */
const opensC = (/** @type {string} */ line) =>
  /^[A-Za-z_].*\(/.test(line) && !/^(typedef|struct|enum|union)\b/.test(line) && !/;\s*(\/\*.*)?$/.test(line);

/**
 * C functions: the project's style puts a definition's first line at column 0 and its closing brace
 * alone at column 0; one that fits a line is closed on it.
 * @param {string} file @param {string[]} lines
 */
function cFunctions(file, lines) {
  /** @type {Func[]} */
  const found = [];
  let start = -1;
  lines.forEach((line, i) => {
    if (start < 0 && opensC(line)) start = i;
    if (start < 0) return;
    const head = lines.slice(start, i + 1).join(' ');
    const closed = /^\}/.test(line) || (i === start && /\}\s*(\/\*.*)?$/.test(line));
    const prototype = !head.includes('{') && /;\s*(\/\*.*)?$/.test(line);
    const table = /=\s*\{/.test(head.split('{')[0] + '{');
    if (closed && !table) found.push({ file, name: cName(head), line: start + 1, lines: i - start + 1 });
    if (closed || prototype) start = -1;
  });
  return found;
}

/** @param {string} head */
const cName = (head) => head.match(/(\w+)\s*\(/)?.[1] ?? '?';

/**
 * JavaScript functions: every one with a name, and those without one from 10 lines on (short call-backs
 * would only flatter the median).
 * @param {string} file @param {string} text @returns {Func[]}
 */
function jsFunctions(file, text) {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true, ts.ScriptKind.JS);
  /** @type {Func[]} */
  const found = [];
  /** @param {import('typescript').Node} node */
  const visit = (node) => {
    if (ts.isFunctionLike(node) && 'body' in node && node.body) {
      const first = source.getLineAndCharacterOfPosition(node.getStart(source)).line;
      const last = source.getLineAndCharacterOfPosition(node.end).line;
      const own = /** @type {import('typescript').FunctionDeclaration} */ (node).name;
      const variable = ts.isVariableDeclaration(node.parent) ? node.parent.name : undefined;
      const name = (own ?? variable)?.getText(source);
      const lines = last - first + 1;
      if (name || lines >= 10) found.push({ file, name: name || '(no name)', line: first + 1, lines });
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

/** @param {string} file @param {string[]} lines */
function checkLines(file, lines) {
  if (lines.length > LIMITS.file) problems.push(`${file}: ${lines.length} lines (limit ${LIMITS.file})`);
  lines.forEach((line, i) => {
    const columns = [...line].length;
    if (columns <= LIMITS.columns) return;
    if (LONG_TEXT.test(line)) longTexts++;
    else problems.push(`${file}:${i + 1}: ${columns} columns (limit ${LIMITS.columns})`);
  });
}

/** @param {string} language @param {Func[]} functions */
function checkFunctions(language, functions) {
  if (!functions.length) return void problems.push(`${language}: found no functions`);
  const sorted = functions.map((f) => f.lines).sort((a, b) => a - b);
  const median = sorted[sorted.length >> 1];
  const most = sorted[Math.ceil(sorted.length * LIMITS.share) - 1];
  const facts = `median ${median} lines, nine in ten <= ${most}, longest ${sorted.at(-1)}`;
  console.log(`${language}: ${sorted.length} functions, ${facts}`);
  if (median > LIMITS.median) problems.push(`${language}: median above ${LIMITS.median} lines`);
  if (most > LIMITS.most) problems.push(`${language}: nine in ten above ${LIMITS.most} lines`);
  for (const { file, name, line, lines } of functions) {
    if (lines > LIMITS.longest) problems.push(`${file}:${line}: ${name} has ${lines} lines (limit ${LIMITS.longest})`);
  }
}

/** Every source file of the folders. @returns {string[]} */
function files() {
  return FOLDERS.flatMap((folder) =>
    readdirSync(at(folder), { recursive: true })
      .map((name) => `${folder}/${name}`)
      .filter((name) => /\.(c|h|js)$/.test(name))
      .sort(),
  );
}

/** @type {Record<string, Func[]>} */
const byLanguage = { C: [], JavaScript: [] };
for (const file of files()) {
  const text = readFileSync(at(file), 'utf8');
  const lines = text.replace(/\n$/, '').split('\n');
  checkLines(file, lines);
  if (file.endsWith('.js')) byLanguage.JavaScript.push(...jsFunctions(file, text));
  else byLanguage.C.push(...cFunctions(file, lines));
}
for (const [language, functions] of Object.entries(byLanguage)) checkFunctions(language, functions);
if (process.argv.includes('--list')) {
  const longest = Object.values(byLanguage)
    .flat()
    .sort((a, b) => b.lines - a.lines)
    .slice(0, 25);
  for (const f of longest) console.log(`  ${f.lines}\t${f.file}:${f.line} ${f.name}`);
}
if (longTexts) console.log(`${longTexts} lines above ${LIMITS.columns} columns hold one long text`);
for (const problem of problems) console.log(problem);
process.exitCode = problems.length ? 1 : 0;
