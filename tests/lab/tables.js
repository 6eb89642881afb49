/* tables: writes the rows of a long run into a document, between the marks of a table. Rows of other runs stay. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Replaces the rows whose leading cells equal those of a new row, and appends the others. Throws if the table is
 * missing. @param {string} page path in docs/ @param {string} name of the table @param {string[]} rows
 * @param {number} keys number of leading cells that identify a row */
export function keep(page, name, rows, keys) {
  const file = fileURLToPath(new URL(`../../docs/${page}`, import.meta.url));
  const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
  const marks = new RegExp(`(?<=<!-- kept: ${name} -->\n)[^]*(?=\n<!-- end of ${name} -->)`);
  const [old] = marks.exec(text) ?? [];
  if (old === undefined) throw new Error(`docs/${page} has no table named ${name}.`);
  const [head, line, ...before] = old.split('\n');
  const key = (/** @type {string} */ row) => row.split('|', 1 + keys).join('|');
  const all = new Map([...before, ...rows].map((row) => [key(row), row]));
  writeFileSync(
    file,
    text.replace(marks, () => [head, line, ...all.values()].join('\n')),
  );
}
