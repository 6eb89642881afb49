/* format: converts the flags that constrain answers into the option `format`. */
/** @import { Values } from './flags.js' */
/** @import { Format } from '../options.js' */
import { cannotCombine, schemaNotJson } from './errors.js';
import { readText } from './flags.js';

/** @typedef {(text: string, path: string) => any} Parse */

/** @type {Record<string, (text: string, parse: Parse) => Promise<Format> | Format>} */
const CONSTRAINTS = {
  schema: async (path, parse) => ({ schema: parse(await readText(path), path) }),
  regex: (text) => ({ regex: text }),
  grammar: async (path) => ({ grammar: await readText(path) }),
  choices: (text) => ({ choices: text.split(',') }),
};
/** Names of the flags that constrain answers. */
export const FORMAT = Object.keys(CONSTRAINTS).join(' ');

/** Returns the format that the flags set. Throws UsageError. @param {Values} values @param {Parse} [parse] parses a
 * schema
 * @returns {Promise<Format | undefined>} */
export async function formatOf(values, parse = jsonOf) {
  const [name, ...more] = Object.keys(CONSTRAINTS).filter((flag) => values[flag] !== undefined);
  if (more.length) throw cannotCombine(name, more[0]);
  return name === undefined ? undefined : CONSTRAINTS[name](values[name], parse);
}

/** @param {string} text @param {string} path */
function jsonOf(text, path) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw schemaNotJson(path, error);
  }
}
