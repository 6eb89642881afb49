/** parts: what README.md and docs/*.md have generated, by name: each gives Markdown. */
import { readFileSync } from 'node:fs';
import { CODES } from '../../js/errors.js';
import { GENERATE_OPTIONS, LOAD_OPTIONS } from '../../js/options.js';
import { Trouble, at, output } from '../proc.js';
import { contentSecurityPolicy, isolationHeaders } from '../serve.js';
import { sourceTable } from './sources.js';
import { properties } from './typedefs.js';
import { FIELDS, OPTIONS } from './words.js';

/** @typedef {import('./take.js').Measured} Measured */
/** @typedef {import('./take.js').Speed} Speed */
/** @typedef {import('./take.js').SpeedOf} SpeedOf */

const NOT_YET = '*not measured yet*';

/** @param {string} language @param {string} text */
const fence = (language, text) => `\`\`\`${language}\n${text.trim()}\n\`\`\``;
/** @param {string} text */
const cell = (text) => text.replace(/\|/g, '\\|').replace(/</g, '&lt;');
/** @param {string} text */
const code = (text) => `\`${text.replace(/\|/g, '\\|')}\``;

/** @param {string[]} heads @param {string[][]} rows @param {number} [numbers] the last so many columns are numbers */
function table(heads, rows, numbers = 0) {
  const line = (/** @type {string[]} */ cells) => `| ${cells.join(' | ')} |`;
  const rule = heads.map((_, i) => (i >= heads.length - numbers ? '---:' : '---'));
  return [line(heads), `|${rule.join('|')}|`, ...rows.map(line)].join('\n');
}

// From the code

/** Defaults of the sampler, by the engine's names: its own table. */
function samplerDefaults() {
  const text = readFileSync(at('src', 'run', 'sampler.c'), 'utf8');
  const rows = text.matchAll(/^ {4}X\(\w+, "(\w+)", [^,]+, [^,]+, ([\d.]+), (?:true|false)\)/gm);
  return new Map([...rows].map(([, name, standard]) => [name, standard]));
}

/** @param {string} typedef of js/model.js @param {Record<string, import('../../js/options.js').Rule>} rules */
function optionTable(typedef, rules) {
  const types = new Map(properties('js/model.js', typedef).map(({ name, type }) => [name, type]));
  const defaults = samplerDefaults();
  const rows = Object.entries(rules).map(([name, { expected, sampler }]) => {
    const words = OPTIONS[typedef][name], type = types.get(name);
    const standard = sampler ? defaults.get(sampler) : words?.standard ?? 'none';
    if (!words) throw new Trouble(`tools/readme/words.js does not say what ${name} of ${typedef} is`);
    if (!type) throw new Trouble(`js/model.js: ${typedef} has no ${name}`);
    if (!standard) throw new Trouble(`src/run/sampler.c has no default of ${sampler}`);
    return [code(name), code(type), cell(standard), cell(expected), words.unit ?? '', cell(words.meaning)];
  });
  const known = Object.keys(OPTIONS[typedef]).find((name) => !Object.hasOwn(rules, name));
  if (known) throw new Trouble(`tools/readme/words.js: there is no option ${known} any more`);
  return table(['option', 'type', 'default', 'range', 'unit', 'meaning'], rows);
}

/** @param {string} file @param {string} typedef */
function fieldTable(file, typedef) {
  const rows = properties(file, typedef).map(({ name, type, optional }) => {
    const meaning = FIELDS[typedef][name];
    if (!meaning) throw new Trouble(`tools/readme/words.js does not say what ${name} of ${typedef} is`);
    return [code(name + (optional ? '?' : '')), code(type), cell(meaning)];
  });
  return table(['field', 'type', 'meaning'], rows);
}

function usage() {
  const text = output(process.execPath, [at('js', 'cli.js'), '--help']);
  if (!text) throw new Trouble('js/cli.js --help fails');
  return fence('', text);
}

/** Headers of the page's server, name by name. @param {(name: string, value: string) => string} line */
function headers(line) {
  const all = { ...isolationHeaders, 'Content-Security-Policy': contentSecurityPolicy };
  return Object.entries(all).map(([name, value]) => line(name, value)).join('\n');
}

// From docs/measured.json

/** Three digits that count. @param {number | undefined} value */
function figure(value) {
  if (value === undefined) return '-';
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

/** What a column of the benchmark is, for people. @param {string} column */
const columnTitle = (column) => column
  .replace(/^load s$/, 'load, s')
  .replace(/^prefill (\d+)$/, 'prefill of $1, tokens/s')
  .replace(/^decode @0$/, 'decode, tokens/s')
  .replace(/^decode @(\d+)$/, 'decode at $1, tokens/s').replace(/^turn ms$/, 'new turn, ms')
  .replace(/^memory MB$/, 'peak memory, MB');

/** @param {Measured} measured */
function speedTable({ speed }) {
  if (!speed) return NOT_YET;
  const tables = speed.models.map((part) => `${describeModel(part)}\n\n${sideTable(part)}\n\n${limits(part)}`);
  return [...tables, conditions(speed)].join('\n\n');
}

/** @param {SpeedOf} part */
function sideTable({ results }) {
  const columns = [...new Set(results.flatMap(({ medians }) => Object.keys(medians)))].sort(byColumn);
  const rows = results.map(({ title, threads, medians, error }) => [
    error && !Object.keys(medians).length ? `${title} (failed)` : title, String(threads),
    ...columns.map((column) => figure(medians[column])),
  ]);
  return table(['', 'threads', ...columns.map(columnTitle)], rows, columns.length + 1);
}

const COLUMNS = ['load', 'prefill', 'decode', 'turn', 'memory'];
const rank = (/** @type {string} */ column) => COLUMNS.indexOf(column.split(' ')[0]);
const byColumn = (/** @type {string} */ a, /** @type {string} */ b) => {
  return rank(a) - rank(b) || a.localeCompare(b, 'en', { numeric: true });
};

/** @param {SpeedOf} part */
function describeModel({ model, modelBytes }) {
  const shape = model.startsWith('oneb-') ? ', the exact shape of Gemma 3 1B with random weights' : '';
  return `${model.replace(/-[0-9a-f]{12}(?=\.gguf$)/, '')}, ${(modelBytes / 1e6).toFixed(0)} MB${shape}:`;
}

/** What the machine's memory allows, and what went wrong. @param {SpeedOf} part */
function limits({ decodeShare, results }) {
  const shares = decodeShare.map(({ threads, bytesPerSecond, share }) => `With ${count(threads)} plain reads of memory `
    + `reach ${(bytesPerSecond / 1e9).toFixed(1)} GB/s here; decoding in Chromium goes through the file's weights at `
    + `${percent(share)} of that rate.`);
  const failed = results.filter(({ error }) => error)
    .map(({ title, threads, error }) => `${title}, ${count(threads)}, failed: ${cell(error ?? '')}.`);
  return [...shares, ...failed].join(' ');
}

/** Share of the machine that others may use before a remark is due, as in tools/bench.js. */
const CALM = 0.1;

/** Names what was visited less often, because it is slow. @param {Speed['models']} models @param {number} runs */
function fewer(models, runs) {
  const slow = models.flatMap(({ results }) => results.filter(({ samples }) => samples > 0 && samples < runs));
  const names = [...new Set(slow.map(({ title, samples }) => `${title} ${samples}`))];
  const deep = models.some(({ results }) => results.some(({ deep: visits = 0 }) => visits > 0 && visits < runs));
  const text = [...names, ...(deep ? ['long contexts 1'] : [])].join(', ');
  return text && ` (${text})`;
}

/** Under which the numbers hold. @param {Speed} speed */
function conditions({ date, machine: about, runs, models }) {
  const sorted = models.flatMap(({ busy }) => busy).sort((a, b) => a - b);
  const [usual, most] = [sorted[sorted.length >> 1] ?? 0, sorted.at(-1) ?? 0].map(percent);
  const calm = (sorted.at(-1) ?? 0) > CALM ? ': not a calm machine, so take the numbers with care' : '';
  const browsers = [about.chromium, about.firefox].filter(Boolean).join(', ').replace(/ built on [^,]*/, '');
  return [
    `${date.slice(0, 10)}; ${about.processor}, ${about.cores} cores; ${browsers}, Node ${about.node}.`,
    `Medians of ${runs} run${runs > 1 ? 's' : ''}, in turns with the other sides${fewer(models, runs)}.`,
    `Other programs used ${usual} of the machine before a visit, ${most} at most${calm}.`,
  ].join(' ');
}

const count = (/** @type {number} */ threads) => `${threads} thread${threads > 1 ? 's' : ''}`;
const percent = (/** @type {number} */ share) => `${(share * 100).toFixed(0)} %`;

/** @param {Measured} measured */
function sizeTable({ sizes }) {
  if (!sizes) return NOT_YET;
  const rows = sizes.map(({ what, kilobytes, compressed }) => {
    return [code(what), kilobytes.toFixed(1), compressed?.toFixed(1) ?? ''];
  });
  return table(['', 'KB', 'KB compressed'], rows, 2);
}

/** @param {Measured} measured */
function accuracyTable({ accuracy }) {
  if (!accuracy) return NOT_YET;
  const show = (/** @type {{ largest: number, mean: number } | undefined} */ errors) => (errors
    ? `${errors.largest.toExponential(1)} / ${errors.mean.toExponential(1)}` : '-');
  const rows = accuracy.map(({ model, truth, ways }) => {
    return [model, truth, ...['prefill', 'step by step', 'llama.cpp'].map((way) => show(ways[way]))];
  });
  return table(['test model', 'truth', 'prefill', 'step by step', 'llama.cpp'], rows, 3);
}

/** @param {string} folder @param {boolean} [ordered] */
const sources = (folder, ordered) => () => sourceTable(folder, ordered);

/** @type {Record<string, (measured: Measured) => string | Promise<string>>} */
export const PARTS = {
  'example': () => fence('js', readFileSync(at('docs', 'example.mjs'), 'utf8')),
  'speed': speedTable,
  'speed-figure': () => '![Bars: decode and prefill, tokens per second, two threads](docs/speed.svg)',
  'sizes': sizeTable,
  'accuracy': accuracyTable,
  'usage': usage,
  'headers': () => fence('', headers((name, value) => `${name}: ${value}`)),
  'policy': () => fence('', `Content-Security-Policy: ${contentSecurityPolicy}`),
  'headers-nginx': () => fence('nginx', headers((name, value) => `add_header ${name} "${value}" always;`)),
  'headers-apache': () => fence('apache', headers((name, value) => `Header always set ${name} "${value}"`)),
  'headers-file': () => fence('', `/*\n${headers((name, value) => `  ${name}: ${value}`)}`),
  'load-options': () => optionTable('LoadOptions', LOAD_OPTIONS),
  'generate-options': () => optionTable('GenerateOptions', GENERATE_OPTIONS),
  'codes': () => table(['code', 'meaning'], Object.entries(CODES).map(([name, text]) => [code(name), cell(text)])),
  'progress': () => fieldTable('js/engine/meter.js', 'Progress'),
  'result': () => fieldTable('js/generation.js', 'GenerateResult'),
  'message': () => fieldTable('js/chat.js', 'ChatMessage'),
  'info': () => fieldTable('js/engine/info.js', 'ModelInfo'),
  'inspection': () => fieldTable('js/model.js', 'Inspection'),
  'sources-src': sources('src', true),
  'sources-js': sources('js', true),
  'sources-web': sources('web'),
  'sources-tests-c': sources('tests/c'),
  'sources-tests-js': sources('tests/js'),
  'sources-tests-e2e': sources('tests/e2e'),
  'sources-tests-fuzz': sources('tests/fuzz'),
  'sources-tools': sources('tools'),
  'sources-tools-bench': sources('tools/bench'),
  'sources-tools-vectors': sources('tools/vectors'),
  'sources-tools-readme': sources('tools/readme'),
};
