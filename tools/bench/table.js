/** table: computes medians of samples and formats the printed lines. Pure functions. */

/** @typedef {import('./measure.js').Sample} Sample */
/**
 * @typedef {object} Result
 * @property {string} side
 * @property {string} title
 * @property {number} threads
 * @property {Sample[]} samples
 * @property {Sample[]} deep     samples with long contexts
 * @property {string} [error]
 */
/** Values by column of the printed table. @typedef {Record<string, number | undefined>} Figures */

/** Returns the median of the defined values, or undefined if there are none. @param {(number | undefined)[]} values */
export function median(values) {
  const sorted = values.filter((value) => value !== undefined).sort((a, b) => a - b);
  if (!sorted.length) return undefined;
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** @param {string} column */
const fewerIsBetter = (column) => /^(load|turn|memory)/.test(column);

/** @param {Sample} sample @returns {Figures} */
function figures({ loadMs, prefill, decode, sampled, turnMs, memory }) {
  /** @type {Figures} */
  const all = { 'load s': loadMs / 1000 };
  for (const [length, rate] of Object.entries(prefill)) all[`prefill ${length}`] = rate;
  for (const [context, rate] of Object.entries(decode)) all[`decode @${context}`] = rate;
  if (sampled !== undefined) all['decode sampled'] = sampled;
  if (turnMs !== undefined) all['turn ms'] = turnMs;
  all['memory MB'] = memory === undefined ? undefined : memory / 1e6;
  return all;
}

/** Returns the median of each column, over the samples that have the column. @param {Sample[]} samples
 * @returns {Figures} */
export function medians(samples) {
  const all = samples.map(figures);
  const columns = new Set(all.flatMap((one) => Object.keys(one)));
  return Object.fromEntries([...columns].map((column) => [column, median(all.map((one) => one[column]))]));
}

/** @param {Sample[]} deep @returns {Figures} */
function decodes(deep) {
  return Object.fromEntries(Object.entries(medians(deep)).filter(([column]) => /^decode @[1-9]/.test(column)));
}

/** Returns the medians of a side's samples, with the decode speeds of `deep` at contexts above 0.
 * @param {Result} result @returns {Figures} */
export const summary = ({ samples, deep }) => ({ ...medians(samples), ...decodes(deep) });

/** Share of the machine's time that other programs may use before a measurement. A larger share is reported. */
export const CALM = 0.1;

/** Formats a share (0 to 1) as a whole percentage, or as '-' if it is undefined. @param {number | undefined} share */
export const percent = (share) => (share === undefined ? '-' : `${(share * 100).toFixed(0)} %`);

/** @param {Result} result */
function depths(result) {
  const contexts = Object.keys(decodes(result.deep));
  if (!contexts.length) return [];
  const texts = contexts.map((column) => {
    const context = column.slice('decode @'.length);
    return `${context}: ${percent(median(result.deep.map(({ decode }) => decode[context] / decode[0])))}`;
  });
  return [`${label(result)}: speed of decode at long contexts, relative to that at 0: ${texts.join(', ')}`];
}

/** @param {Result} one @param {Result[]} results */
function scaling(one, results) {
  const two = results.find(({ side, threads }) => side === one.side && threads === 2);
  if (one.threads !== 1 || !two) return [];
  const ratio = ratios(summary(two), summary(one));
  const texts = Object.entries(ratio)
    .filter(([column]) => /^(prefill|decode)/.test(column))
    .map(([column, value]) => `${column} ${show(value, '')} x`);
  return texts.length ? [`${one.title}: 2 threads over 1: ${texts.join(', ')}`] : [];
}

/** Returns lines about decode speed at long contexts, and about the speedup of 2 threads over 1.
 * @param {Result[]} results */
export const remarks = (results) => results.flatMap((result) => [...depths(result), ...scaling(result, results)]);

/** Returns how many times better `ours` is than `theirs`, by column.
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

/** Returns median speedups of several threads over one, on an idle machine and beside a busy program.
 * @param {import('./drivers/neighbour.js').Turn[]} turns */
export function overOne(turns) {
  const over = (/** @type {'two' | 'beside'} */ key) => (/** @type {'prefill' | 'decode'} */ what) => {
    return median(turns.map((turn) => turn[key][what] / turn.one[what])) ?? NaN;
  };
  const both = (/** @type {ReturnType<typeof over>} */ of) => ({ prefill: of('prefill'), decode: of('decode') });
  return { turns: turns.length, beside: both(over('beside')), scaling: both(over('two')) };
}

/** @param {string[][]} rows */
function align(rows) {
  const widths = rows[0].map((_, i) => Math.max(...rows.map((row) => (row[i] ?? '').length)));
  return rows.map((row) =>
    row
      .map((cell, i) => (i ? cell.padStart(widths[i]) : cell.padEnd(widths[i])))
      .join('  ')
      .trimEnd(),
  );
}

/** @param {number | undefined} value @param {string} column */
function show(value, column) {
  if (value === undefined) return '-';
  return value.toFixed(/^(memory|turn)/.test(column) || value >= 100 ? 0 : value >= 10 ? 1 : 2);
}

const ORDER = ['load', 'prefill', 'decode', 'turn', 'memory'];
const rank = (/** @type {string} */ column) => ORDER.indexOf(column.split(' ')[0]);

/** Returns the columns of rows of figures, in the order of the tables. @param {Figures[]} rows */
export const columnsOf = (rows) =>
  [...new Set(rows.flatMap(Object.keys))].sort(
    (a, b) => rank(a) - rank(b) || a.localeCompare(b, 'en', { numeric: true }),
  );

/** Formats a number of threads: '1 thread', '2 threads'. @param {number} threads */
export const threadCount = (threads) => `${threads} thread${threads > 1 ? 's' : ''}`;

/** @param {{ result: Result, figures: Figures }[]} entries @param {string} reference @param {string[]} columns */
function comparisons(entries, reference, columns) {
  return entries
    .filter(({ result }) => result.side === reference)
    .flatMap((ours) => {
      const others = entries.filter(
        ({ result }) => result.side !== reference && result.threads === ours.result.threads && result.samples.length,
      );
      return others.map((other) => {
        const own = ratios(ours.figures, other.figures);
        const cells = columns.map((column) => (own[column] === undefined ? '-' : `${show(own[column], '')} x`));
        return [`better than ${label(other.result)}`, ...cells];
      });
    });
}

/** @param {Result} result */
const label = ({ title, threads }) => `${title}, ${threadCount(threads)}`;

/** Returns the table: medians of each side, then how many times better `reference` is.
 * @param {Result[]} results @param {string} reference */
export function render(results, reference) {
  const entries = results
    .filter(({ samples }) => samples.length)
    .map((result) => ({ result, figures: summary(result) }));
  const columns = columnsOf(entries.map((entry) => entry.figures));
  const rows = entries.map(({ result, figures: own }) => {
    return [label(result), ...columns.map((column) => show(own[column], column)), String(result.samples.length)];
  });
  const compared = comparisons(entries, reference, columns);
  const lines = align([['', ...columns, 'visits'], ...rows, ...compared]);
  const ours = entries.find(({ result }) => result.side === reference)?.result.title;
  const title = compared.length ? [`\n${ours} is`] : [];
  const failed = results.filter(({ error }) => error).map((result) => `${label(result)} failed: ${result.error}`);
  return [...lines.slice(0, rows.length + 1), ...failed, ...title, ...lines.slice(rows.length + 1)].join('\n');
}
