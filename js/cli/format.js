/* format: the flags that hold answers to a shape, and the option of the package that they mean. */
/** @import { Values } from './flags.js' */
/** @import { Format } from '../model.js' */
import { readFile } from 'node:fs/promises';
import { UsageError } from './flags.js';

/** What each flag's text means. @type {Record<string, (text: string) => Promise<Format> | Format>} */
const SHAPES = {
  schema: async (path) => ({ schema: jsonOf(await readFile(path, 'utf8'), path) }),
  regex: (text) => ({ regex: text }),
  grammar: async (path) => ({ grammar: await readFile(path, 'utf8') }),
  choices: (text) => ({ choices: text.split(',') }),
};
export const FORMAT = Object.keys(SHAPES).join(' ');

/** @param {Values} values @returns {Promise<Format | undefined>} */
export async function formatOf(values) {
  const [name, ...more] = Object.keys(SHAPES).filter((flag) => values[flag] !== undefined);
  if (more.length) throw new UsageError(`--${name} and --${more[0]}: an answer has one shape`);
  return name === undefined ? undefined : SHAPES[name](values[name]);
}

/** @param {string} text @param {string} path */
function jsonOf(text, path) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UsageError(`${path}: ${error instanceof Error ? error.message : error}`);
  }
}
