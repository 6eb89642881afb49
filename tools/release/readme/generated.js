/**
 * generated: returns the text of js/generated.js, made from the sampler's table of options (src/run/sampler.c) and the
 * JSDoc of the options that have a command line flag.
 */
import { readFileSync } from 'node:fs';
import { Trouble, at } from '../../support/proc.js';
import { valueOf } from './limits.js';
import { properties } from './typedefs.js';

/** Options that have a command line flag, besides the sampling options. */
const FLAGS = {
  answer: ['maxTokens', 'seed', 'stop', 'logprobs'],
  load: [
    'threads',
    'contextLength',
    'variant',
    'quantizeFloats',
    'kvType',
    'sequences',
    'kvTokens',
    'draftModel',
    'rowsOnDisk',
    'rowsLater',
  ],
  serve: properties('js/serve/options.js', 'ServeOptions').map(({ name }) => name),
};
const ROW = /X\(\w+,\s*"(\w+)",\s*([^,]+),\s*([^,]+),\s*([^,]+),\s*(true|false),\s*((?:"[^"]*"\s*)+)\)/g;
/** Width of the help text and of comments in columns. */
const COLUMNS = 120;
const INDENT = 27;

/** @typedef {{ name: string, sampler: string, min: number, max: number, standard: number, whole: boolean,
 *   meaning: string }} SamplingOption */

/** Returns the options of the sampler's table, except `seed`, which js/options.js limits to 32 bits.
 * @returns {SamplingOption[]} */
export function samplingOptions() {
  const table = readFileSync(at('src', 'run', 'sampler.c'), 'utf8').replace(/\\\n/g, '\n');
  const number = (/** @type {string} */ text) =>
    /^GW_/.test(text) ? valueOf('src/base/base.h', text) : Number(Function(`return ${text}`)());
  const found = [...table.matchAll(ROW)].map(([, sampler, min, max, standard, whole, meaning]) => ({
    name: sampler.replace(/_./g, ([, letter]) => letter.toUpperCase()),
    sampler,
    min: number(min),
    max: number(max),
    standard: number(standard),
    whole: whole === 'true',
    meaning: [...meaning.matchAll(/"([^"]*)"/g)].map(([, part]) => part).join(''),
  }));
  if (!found.length) throw new Trouble('src/run/sampler.c: the table of options was not found');
  return found.filter(({ name }) => name !== 'seed');
}

/** @param {string} text @param {number} columns */
function wrapped(text, columns) {
  const lines = [''];
  for (const word of text.split(' ')) {
    const last = lines[lines.length - 1];
    if (last && last.length + 1 + word.length > columns) lines.push(word);
    else lines[lines.length - 1] = last ? `${last} ${word}` : word;
  }
  return lines;
}

/** @param {SamplingOption} option */
const described = ({ min, max, standard, meaning }) => `${meaning} Range: ${min} to ${max}. Default: ${standard}.`;

/** Returns an option's description for the command line: without links and without remarks in parentheses that name
 * parts of the API, and with flags instead of options.
 * @param {string} text */
function forCommandLine(text) {
  const names = Object.values(FLAGS).flat();
  return text
    .replace(/ ?\(?\[[^\]]*\]\([^)]*\)\)?/g, '')
    .replace(/ \(`([\w.]+)`[^)]*\)/g, (all, name) => (names.includes(name) ? all : ''))
    .replace(/`(\w+)`/g, (all, name) => (names.includes(name) ? `--${flagOf(name)}` : all))
    .replaceAll('`', '');
}

/** @param {string} flag @param {string} value its placeholder @param {string} text */
function help(flag, value, text) {
  const [first, ...more] = wrapped(forCommandLine(text), COLUMNS - INDENT);
  const head = `  --${flag} ${value}`.trimEnd();
  const lines = head.length < INDENT ? [head.padEnd(INDENT) + first] : [head, ' '.repeat(INDENT) + first];
  return [...lines, ...more.map((line) => ' '.repeat(INDENT) + line)].join('\n');
}

/** Returns an option's flag without its dashes: `max-tokens` for `maxTokens`, but `context` for `contextLength`.
 * @param {string} name of an option */
export const flagOf = (name) =>
  name === 'contextLength' ? 'context' : name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

/** @param {string} typedef @param {string[]} names @param {string} [file] */
function helpOf(typedef, names, file = 'js/options.js') {
  const all = properties(file, typedef);
  return names.map((name) => {
    const { type, text } = all.find((one) => one.name === name) ?? {};
    if (!type || !text) throw new Trouble(`${file}: ${typedef} does not describe ${name}`);
    return help(flagOf(name), placeholder(type, text), text);
  });
}

/** @param {string} type @param {string} text what the option means */
function placeholder(type, text) {
  if (type === 'boolean') return text.includes('Default: false') ? '' : 'true|false';
  return type.includes("'")
    ? type.replace(/[' ]/g, '').replace('boolean', 'true|false')
    : /number/.test(type)
      ? 'N'
      : 'TEXT';
}

/** @param {string} kind @param {string[]} names */
const flagsOf = (kind, names) => [
  `  ${kind}: {`,
  ...names.map((name) => {
    const flag = flagOf(name);
    return `    ${flag.includes('-') ? `'${flag}'` : flag}: '${name}',`;
  }),
  '  },',
];

/** Throws a Trouble if an option that has a flag has no JSDoc. */
export function generated() {
  const options = samplingOptions();
  const comment = options.flatMap((option) => {
    const lines = wrapped(`@property {number} [${option.name}] ${described(option)}`, COLUMNS - 5);
    return lines.map((line, i) => ` * ${i ? '  ' : ''}${line}`);
  });
  const table = options.map(({ name, min, max, standard, whole }) => {
    return `  ${name}: { min: ${min}, max: ${max}, standard: ${standard}, whole: ${whole} },`;
  });
  const sampling = options.map((option) => help(flagOf(option.name), option.whole ? 'N' : 'X', described(option)));
  const answer = [...sampling, ...helpOf('DecodingOptions', FLAGS.answer)];
  return [
    '/* generated: made by tools/release/readme.js from the options in src/run/sampler.c and the JSDoc of',
    ' * js/options.js. Edit these two files instead. */',
    '',
    '/**',
    ' * Sampling options of an answer. Defaults are those of Gemma; `model.info.defaults` has those of the model.',
    ' * @typedef {object} SamplingOptions',
    ...comment,
    ' */',
    '',
    '/** Sampling options as data. standard: default, unless the model has its own; whole: whether only',
    ' * integers are accepted. */',
    'export const SAMPLING = {',
    ...table,
    '};',
    '',
    '/** Flags of the command line, each with the option that it sets. */',
    'export const FLAGS = {',
    ...flagsOf('answer', [...options.map(({ name }) => name), ...FLAGS.answer]),
    ...flagsOf('load', FLAGS.load),
    ...flagsOf('serve', FLAGS.serve),
    '};',
    '',
    '/** Help text of the command line flags. */',
    'export const HELP = {',
    `  answer: \`${answer.join('\n')}\`,`,
    `  load: \`${helpOf('LoadOptions', FLAGS.load).join('\n')}\`,`,
    `  serve: \`${helpOf('ServeOptions', FLAGS.serve, 'js/serve/options.js').join('\n')}\`,`,
    '};',
    '',
  ].join('\n');
}
