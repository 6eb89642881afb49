/* table: what the laboratory found, for the documents: between the marks of its name in docs/reports/faults.md. */
import { readFile, writeFile } from 'node:fs/promises';

/** @typedef {import('./laboratory.js').Row} Row */

/** @param {Record<string, Row>} rows @param {{ runs: number, seed: number, where?: string }} run */
export function tableOf(rows, { runs, seed, where = `Node ${process.versions.node.split('.')[0]}` }) {
  const all = Object.entries(rows);
  const broken = all.flatMap(([name, row]) => row.broken.map((words) => `- ${name}: ${words}`));
  const sum = (/** @type {'right' | 'coded'} */ key) => all.reduce((total, [, row]) => total + row[key], 0);
  return `${where}, ${all.length} kinds, ${runs} runs (seed ${seed}): ${sum('right')} right models, ${sum('coded')} coded errors, ${broken.length} broken rules${broken.length ? ':' : '.'}
${broken.length ? `\n${broken.join('\n')}\n` : ''}
| what was broken | runs | right model | coded error | rule broken |
|---|---|---|---|---|
${all.map(([name, row]) => `| ${name} | ${row.tried} | ${row.right} | ${row.coded} | ${row.broken.length} |`).join('\n')}
`;
}

/** By what was broken: the server, the store, a copy at rest, or what the caller did.
 * @param {Record<string, Row>} rows @param {string} side */
export function linesOf(rows, side) {
  const lines = [
    '| side | what was broken | kinds | runs | right model | coded error | rule broken |',
    '|---|---|---:|---:|---:|---:|---:|',
  ];
  for (const group of new Set(Object.keys(rows).map((name) => name.split(':')[0]))) {
    const all = Object.entries(rows).flatMap(([name, row]) => (name.startsWith(`${group}:`) ? [row] : []));
    const sum = (/** @type {(row: Row) => number} */ f) => all.reduce((total, row) => total + f(row), 0);
    const cells = [
      sum((row) => row.tried),
      sum((row) => row.right),
      sum((row) => row.coded),
      sum((row) => row.broken.length),
    ];
    lines.push(`| ${[side, group, all.length, ...cells].join(' | ')} |`);
  }
  return lines;
}

/** How long callers waited, in seconds. @param {Record<string, Row>} rows */
export function waitsOf(rows) {
  const seconds = (/** @type {number} */ ms = 0) => (ms / 1000).toFixed(1);
  return [
    '| what was broken | runs | right model | coded error | rule broken | longest call, s | longest without a word, s |',
    '|---|---:|---:|---:|---:|---:|---:|',
    ...Object.entries(rows).map(
      ([name, { tried, right, coded, broken, waited }]) =>
        `| ${[name, tried, right, coded, broken.length, seconds(waited?.all), seconds(waited?.untold)].join(' | ')} |`,
    ),
  ];
}

/** @param {string} file of the documents @param {string} table */
export async function keepTable(file, table) {
  const marks = /(<!-- kept: laboratory -->\n)[^]*(<!-- end of laboratory -->)/;
  const text = await readFile(file, 'utf8');
  if (!marks.test(text)) throw new Error(`${file} has no marks for the laboratory`);
  await writeFile(
    file,
    text.replace(marks, (_, begin, end) => `${begin}${table}${end}`),
  );
}
