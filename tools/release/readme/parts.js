/** parts: the generated parts of the documents, by name. Each function returns Markdown. */
import { readFileSync } from 'node:fs';
import { CODES } from '../../../js/errors.js';
import { GENERATE_OPTIONS, LOAD_OPTIONS } from '../../../js/options.js';
import { Trouble, at, output } from '../../support/proc.js';
import { threadCount } from '../../bench/table.js';
import { pageHeaders } from '../../serve.js';
import { flagOf } from './generated.js';
import { limits } from './limits.js';
import { NOT_YET, cell, code, fence, table } from './markdown.js';
import { holdsTable, shortTable, speedTable } from './speed.js';
import { APPS } from '../../../tests/apps/apps.js';
import { properties } from './typedefs.js';
import { MEANINGS } from './words.js';

/** @import { ErrorCode } from '../../../js/errors.js' */
/** @typedef {import('./take.js').Measured} Measured */

// Parts of documents that are made from the code

/** Splits the JSDoc of an option into its meaning and its default, without the range. @param {string} text */
function described(text) {
  const [, meaning, standard = 'none'] = /^([^]*?)(?: Range: .*?)?(?: Default: ([^]*)\.)?$/.exec(text) ?? [];
  return { meaning, standard };
}

/** @param {import('./typedefs.js').Property[]} properties
 * @param {Record<string, import('../../../js/options.js').Rule>} rules */
function optionTable(properties, rules) {
  const rows = Object.entries(rules).map(([name, { expected }]) => {
    const { type, text } = properties.find((one) => one.name === name) ?? {};
    if (!type || !text) throw new Trouble(`js/options.js does not describe the option ${name}`);
    const { meaning, standard } = described(text);
    return [code(name), code(type), cell(standard), cell(expected), cell(meaning)];
  });
  const known = properties.find(({ name }) => !Object.hasOwn(rules, name));
  if (known) throw new Trouble(`js/options.js describes ${known.name}, but there is no such option`);
  return table(['option', 'type', 'default', 'allowed', 'meaning'], rows);
}

/** @param {string} file @param {string} typedef */
function fieldTable(file, typedef) {
  const rows = properties(file, typedef).map(({ name, type, optional, text }) => {
    if (!text) throw new Trouble(`${file} does not describe ${name} of ${typedef}`);
    return [code(name + (optional ? '?' : '')), code(type), cell(text)];
  });
  return table(['field', 'type', 'meaning'], rows);
}

function serveTable() {
  const rows = properties('js/serve/options.js', 'ServeOptions').map(({ name, text }) => {
    const { meaning, standard } = described(text);
    return [code(`--${flagOf(name)}`), cell(standard), cell(meaning)];
  });
  return table(['flag', 'default', 'meaning'], rows);
}

function usage() {
  const text = output(process.execPath, [at('js', 'cli.js'), '--help']);
  if (!text) throw new Trouble('js/cli.js --help failed.');
  return fence('', text);
}

/** @param {(name: string, value: string) => string} line */
function headers(line) {
  return Object.entries(pageHeaders)
    .map(([name, value]) => line(name, value))
    .join('\n');
}

// Parts of documents that are made from docs/measured.json

/** @param {Measured} measured */
function sizeTable({ sizes }) {
  if (!sizes) return NOT_YET;
  const smaller = sizes.find(({ what }) => what === 'the same, compressed');
  const rows = sizes.flatMap(({ what, kilobytes, compressed }, i) => {
    const size = kilobytes.toFixed(1);
    if (sizes[i + 1] === smaller) return [[code(what), size, smaller?.kilobytes.toFixed(1) ?? '-']];
    if (what.endsWith(', compressed')) return smaller?.what === what ? [] : [[code(what.slice(0, -12)), '-', size]];
    return [[code(what), size, compressed?.toFixed(1) ?? '-']];
  });
  return table(['download', 'KB', 'KB compressed'], rows, 2);
}

/** @param {Measured} measured */
function accuracyTable({ accuracy }) {
  if (!accuracy) return NOT_YET;
  const show = (/** @type {{ largest: number, mean: number } | undefined} */ errors) =>
    errors ? `${errors.largest.toExponential(1)} / ${errors.mean.toExponential(1)}` : '-';
  const rows = accuracy.map(({ model, truth, ways }) => {
    return [model, truth, ...['prefill', 'step by step', 'llama.cpp'].map((way) => show(ways[way]))];
  });
  return table(['test model', 'compared with', 'prefill', 'step by step', 'llama.cpp'], rows, 3);
}

function ecosystemTable() {
  const results = JSON.parse(readFileSync(at('docs', 'reports', 'ecosystem.json'), 'utf8'));
  const rows = APPS.map(({ name, title, recipe = '' }) => {
    const { ok, threads, error = '' } = results[name] ?? {};
    const passed = threads ? `ok, ${threadCount(threads)}` : 'ok';
    const found = ok === undefined ? 'not run' : ok ? passed : `**fails**: ${cell(error)}`;
    return [title, found, recipe];
  });
  return table(['app', 'result', 'needs besides headers'], rows);
}

/** @type {Record<string, (measured: Measured) => string | Promise<string>>} */
export const PARTS = {
  limits,
  'one-file': () => fence('html', readFileSync(at('docs', 'one-file.html'), 'utf8').trimEnd()),
  example: () => fence('js', readFileSync(at('docs', 'example.mjs'), 'utf8')),
  speed: speedTable,
  'speed-other': ({ other }) => speedTable({ speed: other }),
  'speed-short': shortTable,
  'speed-holds': holdsTable,
  'speed-figure': () => '![Bars: decode and prefill, tokens per second, two threads](speed.svg)',
  sizes: sizeTable,
  accuracy: accuracyTable,
  usage,
  'serve-flags': serveTable,
  ecosystem: ecosystemTable,
  headers: () =>
    fence(
      '',
      headers((name, value) => `${name}: ${value}`),
    ),
  'headers-nginx': () =>
    fence(
      'nginx',
      headers((name, value) => `add_header ${name} "${value}" always;`),
    ),
  'headers-apache': () =>
    fence(
      'apache',
      headers((name, value) => `Header always set ${name} "${value}"`),
    ),
  'load-options': () => optionTable(properties('js/options.js', 'LoadOptions'), LOAD_OPTIONS),
  'generate-options': () => {
    const all = [properties('js/generated.js', 'SamplingOptions'), properties('js/options.js', 'DecodingOptions')];
    return optionTable(all.flat(), GENERATE_OPTIONS);
  },
  codes: () =>
    table(
      ['code', 'kind', 'meaning'],
      Object.entries(MEANINGS).map(([name, text]) => [
        code(name),
        code(CODES[/** @type {ErrorCode} */ (name)]),
        cell(text),
      ]),
    ),
  progress: () => fieldTable('js/protocol.js', 'Progress'),
  result: () => fieldTable('js/protocol.js', 'AnswerFields'),
  message: () => fieldTable('js/protocol.js', 'MessageFields'),
  info: () => fieldTable('js/protocol.js', 'ModelInfo'),
  capabilities: () => fieldTable('js/probe.js', 'Capabilities'),
  inspection: () => fieldTable('js/protocol.js', 'Inspection'),
};
