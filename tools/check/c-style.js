/**
 * c-style: limits for the C sources: lines of 120 columns, functions of 140 lines, files of 700 lines. JavaScript has
 * Biome (biome.jsonc).
 *
 *   node tools/check/c-style.js
 */
import { readFileSync, readdirSync } from 'node:fs';
import { at } from '../support/proc.js';

const COLUMNS = 120;
const FUNCTION_LINES = 140;
const FILE_LINES = 700;

/** @type {string[]} */
const problems = [];
/** classes_table.h is generated. */
const files = readdirSync(at('src'), { recursive: true })
  .map(String)
  .filter((name) => /\.[ch]$/.test(name) && !name.endsWith('classes_table.h'));
for (const file of files.sort()) {
  const lines = readFileSync(at('src', file), 'utf8').split('\n');
  if (lines.length > FILE_LINES) problems.push(`src/${file}: ${lines.length} lines (limit ${FILE_LINES})`);
  let start = 0;
  for (const [i, line] of lines.entries()) {
    const place = `src/${file}:${i + 1}`;
    // A message is easier to find when it is not cut.
    if ([...line].length > COLUMNS && !/"[^"]{60,}"/.test(line))
      problems.push(`${place}: more than ${COLUMNS} columns`);
    // A definition begins behind an empty line and ends with a brace in the first column.
    if (!line) start = i + 1;
    if (/^\}/.test(line) && i - start > FUNCTION_LINES) problems.push(`${place}: a function of ${i - start} lines`);
  }
}
for (const problem of problems) console.log(problem);
console.log(`${files.length} files: ${problems.length || 'no'} problems`);
process.exitCode = problems.length ? 1 : 0;
