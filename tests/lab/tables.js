/* tables: puts what a long run found into the documents, between the marks of its name. Rows of what was not run this
 * time stay. */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../e2e/helpers.js';

/** @param {string} page of docs/reports/ @param {string} name @param {string[]} lines two of a head, and rows
 * @param {number} keys cells that say what a row is about */
export function keep(page, name, lines, keys) {
  const file = path.join(root, 'docs', 'reports', page);
  const text = readFileSync(file, 'utf8');
  const marks = new RegExp(`(<!-- kept: ${name} -->\n)([^]*)(<!-- end of ${name} -->)`);
  const [, , old = ''] = marks.exec(text) ?? [];
  if (!marks.test(text)) throw new Error(`docs/reports/${page} has no marks for ${name}`);
  const key = (/** @type {string} */ row) =>
    row
      .split('|')
      .slice(1, 1 + keys)
      .join('|');
  const rows = new Map([...old.trim().split('\n').slice(2), ...lines.slice(2)].map((row) => [key(row), row]));
  const table = [...lines.slice(0, 2), ...rows.values()].join('\n');
  writeFileSync(
    file,
    text.replace(marks, (_, begin, was, end) => `${begin}${table}\n${end}`),
  );
}
