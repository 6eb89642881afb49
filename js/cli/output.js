/* output: opens the model of a command, and writes the command's result as text or JSON. */
import { loadOptions } from './flags.js';
/** @import { Progress } from '../protocol.js' */
/** @import { Values } from './flags.js' */

/** Opens a model, calls f with it, and disposes of the model. @template {{ dispose: () => Promise<void> }} M
 * @template T
 * @param {(source: string, options: any) => Promise<M>} open @param {Values} values
 * @param {(model: M) => Promise<T>} f */
export async function using(open, values, f) {
  const model = await opened(open, values);
  try {
    return await f(model);
  } finally {
    await model.dispose();
  }
}

/** Opens a model. Prints notices to standard error, and the progress if that is a terminal. @template M
 * @param {(source: string, options: any) => Promise<M>} open @param {Values} values @param {object} [more] options */
export async function opened(open, values, more) {
  try {
    return await open(values.source, { ...loadOptions(values), onProgress: showProgress, ...more });
  } finally {
    if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
  }
}

/** @param {Progress} progress */
function showProgress({ phase, loaded, total, bytesPerSecond, notice }) {
  const { isTTY } = process.stderr;
  const isResult = phase === 'rest'; // the command already writes its result to the terminal
  if (notice) process.stderr.write(`${!isTTY ? '' : isResult ? '\n' : '\r\x1b[K'}${notice.message}\n`);
  if (!isTTY || isResult) return;
  const [done, all, rate] = [loaded, total ?? 0, bytesPerSecond].map((x) => (x / 1e6).toFixed(0));
  process.stderr.write(`\r\x1b[K${done}${total ? ` of ${all}` : ''} MB, ${rate} MB/s`);
}

/** Prints a result as text, or with --json as JSON. @param {Values} values @param {object} result
 * @param {string} [text] */
export function print({ json }, result, text = linesOf(result)) {
  process.stdout.write(`${json ? JSON.stringify(result) : text}\n`);
}

/** Returns an object as text, one property per line. Leaves out undefined values, as JSON does.
 * @param {object} facts */
export function linesOf(facts) {
  return Object.entries(facts)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key}: ${JSON.stringify(value)}`)
    .join('\n');
}
