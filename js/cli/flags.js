/* flags: parses command-line arguments, and converts flags into options of the package. */
import { readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { reading } from '../errors.js';
import { FLAGS } from '../generated.js';
import { GENERATE_OPTIONS, LOAD_OPTIONS } from '../options.js';
import { thinkingOnAndOff, wrongFlags, wrongValue } from './errors.js';
/** @import { Rule } from '../options.js' */

/** The values of the flags, and the positional arguments `source` and `text`. @typedef {Record<string, any>} Values */

/** Names of flags for options of generate(). */
export const ANSWER = `${Object.keys(FLAGS.answer).join(' ')} system thinking no-thinking thinking-budget`;
/** Names of flags for options of loadModel(). */
export const LOAD = `${Object.keys(FLAGS.load).join(' ')} no-cache`;
/** Names of flags for options of the server. */
export const SERVE = Object.keys(FLAGS.serve).join(' ');
const SWITCHES = [
  'json',
  'bos',
  'chat',
  'all',
  'help',
  'no-cache',
  'truncate',
  'norms',
  'quiet',
  'thinking',
  'no-thinking',
];
const REPEATED = ['stop', 'name', 'cors', 'allow-host'];

/** Parses arguments. Throws UsageError. @param {string[]} args @param {string} flags names of the accepted flags,
 * separated by spaces */
export function parse(args, flags) {
  const options = Object.fromEntries(
    flags
      .trim()
      .split(' ')
      .map((flag) => {
        const type = /** @type {'boolean' | 'string'} */ (SWITCHES.includes(flag) ? 'boolean' : 'string');
        return [flag, { type, multiple: REPEATED.includes(flag), ...(flag === 'help' && { short: 'h' }) }];
      }),
  );
  // Joins flags and values as --flag=value, because a value may begin with a dash.
  /** @type {string[]} */
  const joined = [];
  for (let i = 0; i < args.length; i++) {
    const takes = args[i].startsWith('--') && options[args[i].slice(2)]?.type === 'string';
    joined.push(takes && i + 1 < args.length ? `${args[i]}=${args[++i]}` : args[i]);
    if (args[i] === '--') joined.push(...args.splice(i + 1));
  }
  try {
    const parsed = parseArgs({ args: joined, options, allowPositionals: true });
    return { positionals: parsed.positionals, values: /** @type {Values} */ (parsed.values) };
  } catch (error) {
    throw wrongFlags(error);
  }
}

/** Returns the value of a flag as a number. Throws UsageError. @param {Values} values @param {string} name
 * @returns {number | undefined} */
export function number(values, name) {
  const text = values[name];
  if (text === undefined) return undefined;
  const value = text.trim() === '' ? NaN : Number(text);
  if (!Number.isNaN(value)) return value;
  throw wrongValue(name, 'a number', text);
}

/** Reads a text file. Throws `read-error`. @param {string} path */
export const readText = (path) => reading(path, () => readFile(path, 'utf8'));

/** Parses token ids separated by commas. Throws UsageError. @param {string} text */
export function idList(text) {
  const ids = text.split(',').map((id) => id.trim());
  if (ids.every((id) => /^\d+$/.test(id))) return ids.map(Number);
  throw wrongValue('ids', 'numbers separated by commas', text);
}

/** Returns the options that the flags set. @param {Values} values
 * @param {Record<string, string>} flags names of options by flag
 * @param {Record<string, Rule>} rules */
function optionsOf(values, flags, rules) {
  const given = Object.entries(flags).map(([flag, name]) => {
    const rule = rules[name];
    if ('min' in rule) return [name, number(values, flag)];
    const text = values[flag];
    return [name, /^(true|false)$/.test(text) && rule.fits(true) ? text === 'true' : text];
  });
  return Object.fromEntries(given);
}

/** Returns the options of loadModel() that the flags set. @param {Values} values */
export function loadOptions(values) {
  const urls = [values.source, values['draft-model']].filter((source) => /^https?:/i.test(source));
  const isForHub = urls.length > 0 && urls.every((url) => /^https:\/\/huggingface\.co\//.test(url));
  return {
    ...optionsOf(values, FLAGS.load, LOAD_OPTIONS),
    cache: !values['no-cache'],
    token: isForHub ? process.env.HF_TOKEN || undefined : undefined,
  };
}

/** Returns the options of generate() that the flags set. @param {Values} values */
export const answerOptions = (values) => ({
  ...optionsOf(values, FLAGS.answer, GENERATE_OPTIONS),
  thinking: thinkingOf(values),
});

/** @param {Values} values */
function thinkingOf(values) {
  const budget = number(values, 'thinking-budget');
  if (values['no-thinking'] && (values.thinking || budget !== undefined)) {
    throw thinkingOnAndOff();
  }
  if (values['no-thinking']) return false;
  return budget === undefined ? values.thinking : { budget };
}
