/**
 * c-style: checks the C sources: their format (.clang-format), and that functions have at most 7 parameters. In src,
 * also checks that comments have at most 120 columns, functions 140 lines and files 700 lines, and that all messages of
 * gw_fail() are in the errors.h of a folder. Biome (biome.jsonc) checks JavaScript.
 *
 *   node tools/check/c-style.js [--write]
 *
 * --write: formats the files instead.
 */
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { ClangFormat } from '@wasm-fmt/clang-format';
import { at } from '../support/proc.js';

const COLUMNS = 120;
const FUNCTION_LINES = 140;
const FILE_LINES = 700;
const PARAMETERS = 7;

const write = process.argv.includes('--write');
const clang = new ClangFormat().with_style(readFileSync(at('.clang-format'), 'utf8'));
/** @type {string[]} */
const problems = [];
/** All C files except classes_table.h, which is generated. */
const files = ['src', 'tests/c', 'tests/families', 'tests/fuzz'].flatMap((folder) =>
  readdirSync(at(folder), { recursive: true })
    .map((name) => `${folder}/${name}`)
    .filter((name) => /\.[ch]$/.test(name) && !name.endsWith('classes_table.h')),
);
for (const file of files.sort()) {
  const text = readFileSync(at(file), 'utf8');
  const formatted = clang.format(text, file);
  const lines = formatted.split('\n');
  if (formatted !== text) {
    if (write) writeFileSync(at(file), formatted);
    else {
      const line = text.split('\n').findIndex((was, i) => was !== lines[i]);
      problems.push(`${file}:${line + 1}: not formatted (run \`npm run format\`)`);
    }
  }
  for (const { 0: head, index } of formatted.matchAll(/^\w+ [^;{}=]*[;{]/gm)) {
    // A declaration begins in the first column. Parameters of callbacks are not counted.
    let flat = head;
    while (flat !== (flat = flat.replace(/(\([^()]*)\([^()]*\)/g, '$1')));
    if (flat.match(/\([^()]*\)/g)?.some((list) => list.split(',').length > PARAMETERS))
      problems.push(`${file}:${formatted.slice(0, index).split('\n').length}: more than ${PARAMETERS} parameters`);
  }
  if (!file.startsWith('src/')) continue;
  for (const { index } of formatted.matchAll(/(?<!^int )\bgw_fail\([^,()]*,(?!\s+MSG_)/gm))
    problems.push(`${file}:${formatted.slice(0, index).split('\n').length}: gw_fail() without a message of errors.h`);
  if (lines.length > FILE_LINES) problems.push(`${file}: ${lines.length} lines (limit ${FILE_LINES})`);
  let start = 0;
  for (const [i, line] of lines.entries()) {
    const place = `${file}:${i + 1}`;
    // Lines with long messages may exceed the limit, so that the messages can be searched for.
    if ([...line].length > COLUMNS && !/"[^"]{60,}"/.test(line))
      problems.push(`${place}: more than ${COLUMNS} columns`);
    // A function definition begins after an empty line and ends with a brace in the first column.
    if (!line) start = i + 1;
    if (line === '}' && i - start > FUNCTION_LINES)
      problems.push(`${place}: function of ${i - start} lines (limit ${FUNCTION_LINES})`);
  }
}
for (const problem of problems) console.log(problem);
console.log(`${files.length} files: ${problems.length || 'no'} problems`);
process.exitCode = problems.length ? 1 : 0;
