/** table: samples to medians, medians to the lines that are printed. Pure. */

/** @typedef {import('./measure.js').Sample} Sample */
/** @typedef {{ side: string, title: string, threads: number, samples: Sample[], error?: string }} Result */
/** @typedef {Record<string, number | undefined>} Figures  by column */

/** @param {(number | undefined)[]} values */
export function median(values) {
  const sorted = values.filter((value) => value !== undefined).sort((a, b) => a - b);
  if (!sorted.length) return undefined;
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Seconds and bytes are better when fewer. @param {string} column */
const fewerIsBetter = (column) => /^(load|memory)/.test(column);

/** @param {Sample} sample @returns {Figures} */
function figures({ loadMs, prefill, decode, memory }) {
  /** @type {Figures} */
  const all = { 'load s': loadMs / 1000 };
  for (const [length, rate] of Object.entries(prefill)) all[`prefill ${length}`] = rate;
  for (const [context, rate] of Object.entries(decode)) all[`decode @${context}`] = rate;
  all['memory MB'] = memory === undefined ? undefined : memory / 1e6;
  return all;
}

/** @param {Sample[]} samples @returns {Figures} */
export function medians(samples) {
  const all = samples.map(figures);
  const columns = new Set(all.flatMap((one) => Object.keys(one)));
  return Object.fromEntries([...columns].map((column) => [column, median(all.map((one) => one[column]))]));
}

/** How many times better `ours` is than `theirs`, column by column.
 * @param {Figures} ours @param {Figures} theirs @returns {Figures} */
export function ratios(ours, theirs) {
  /** @type {Figures} */
  const all = {};
  for (const [column, value] of Object.entries(ours)) {
    const other = theirs[column];
    if (value && other) all[column] = fewerIsBetter(column) ? other / value : value / other;
  }
  return all;
}

/** Lines of equal columns, the first to the left, the others to the right. @param {string[][]} rows */
function align(rows) {
  const widths = rows[0].map((_, i) => Math.max(...rows.map((row) => (row[i] ?? '').length)));
  return rows.map((row) => row.map((cell, i) => (i ? cell.padStart(widths[i]) : cell.padEnd(widths[i]))).join('  ')
    .trimEnd());
}

/** @param {number | undefined} value @param {string} column */
function show(value, column) {
  if (value === undefined) return '-';
  return value.toFixed(column === 'memory MB' || value >= 100 ? 0 : value >= 10 ? 1 : 2);
}

/** @param {{ result: Result, figures: Figures }[]} entries */
const columnsOf = (entries) => [...new Set(entries.flatMap((entry) => Object.keys(entry.figures)))]
  .sort((a, b) => rank(a) - rank(b) || a.localeCompare(b, 'en', { numeric: true }));
const rank = (/** @type {string} */ column) => ['load', 'prefill', 'decode', 'memory'].indexOf(column.split(' ')[0]);

/** The table: medians of each side, then how many times better `reference` is, at the same threads.
 * @param {Result[]} results @param {string} reference */
export function render(results, reference) {
  const entries = results.map((result) => ({ result, figures: medians(result.samples) }));
  const columns = columnsOf(entries);
  const label = (/** @type {Result} */ { title, threads }) => `${title}, ${threads} thread${threads > 1 ? 's' : ''}`;
  const head = ['', ...columns];
  const rows = entries.map(({ result, figures: own }) => result.samples.length
    ? [label(result), ...columns.map((column) => show(own[column], column))]
    : [`${label(result)}: ${result.error ?? 'not measured'}`]);
  const compared = entries.flatMap((entry) => {
    const ours = entries.find(({ result }) => result.side === reference && result.threads === entry.result.threads);
    if (!ours || ours === entry || !entry.result.samples.length) return [];
    const own = ratios(ours.figures, entry.figures);
    const cells = columns.map((column) => (own[column] === undefined ? '-' : `${show(own[column], '')} x`));
    return [[`${label(ours.result)} : ${entry.result.title}`, ...cells]];
  });
  const [first, ...lines] = align([head, ...rows.filter((row) => row.length > 1), ...compared]);
  const failed = rows.filter((row) => row.length === 1).map(([text]) => text);
  const measured = rows.length - failed.length;
  return [first, ...lines.slice(0, measured), ...failed, '', ...lines.slice(measured)].join('\n').trimEnd();
}
