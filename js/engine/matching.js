/* matching: implements model.debug.matches(). Matches texts against a format, token by token, using the automaton that
 * constrains answers. Needs only the header of a model file. */
import { Unsupported, toBytes } from '../grammar/index.js';
import { Matcher } from './grammar.js';

/** @import { Matches, PostedFormat as Format, Verdict } from '../protocol.js' */
/** @import { Engine } from './engine.js' */
/** @import { Context } from './jobs.js' */

/** Compiles a format for matching texts. The result accepts everything that JSON Schema's specification allows. If that
 * is too complex, the result accepts only what the constraint on answers allows, so that every format of an answer can
 * be matched. The two compilations have the same limits; the worker answers other calls between them.
 * @param {Format} format
 * @param {import('../grammar/index.js').Options} options @param {() => Promise<unknown>} pause */
async function compileToMatch(format, options, pause) {
  try {
    return toBytes(format, options);
  } catch (error) {
    const isSchema = typeof format === 'object' && 'schema' in format;
    if (!isSchema || !(error instanceof Unsupported) || error.code !== 'format-too-complex') throw error;
    await pause();
    try {
      return toBytes({ ...format, whitespace: 'any' }, { ...options, matching: false, spelling: 'any' });
    } catch {
      throw error;
    }
  }
}

/** Matches texts against a format. With `masks`, computes and times the token mask before each token; otherwise only
 * tests whether the token is allowed.
 * @param {Context} context
 * @param {{ format: Format, texts: string[], draft?: number, masks?: boolean, formats?: boolean }} args
 * @param {{ aborted: boolean }} job @returns {Promise<Matches>} */
export async function match({ runner, encoder }, { format, texts, draft, formats, masks = true }, job) {
  const { native } = runner;
  const pause = runner.pauses(job);
  const start = performance.now();
  let matcher;
  try {
    const tokenOf = (/** @type {string} */ name) => encoder.idOf(name);
    const how = { matching: true, draft, formats, tokenOf, alive: encoder.alive };
    matcher = new Matcher(native, await compileToMatch(format, how, pause));
  } catch (error) {
    const { code, message } = /** @type {{ code?: string, message: string }} */ (error);
    if (!(error instanceof Unsupported) && code !== 'bad-format') throw error;
    return { compiled: false, reason: message, verdicts: [], times: [], first: 0 };
  }
  try {
    if (masks) matcher.touch();
    const first = performance.now() - start;
    const times = masks ? /** @type {number[]} */ ([]) : null;
    const verdicts = [];
    for (const text of texts) {
      const ids = await encoder.encodeAll(text, { exact: true }, pause);
      verdicts.push(await matchText(native, ids, { text, matcher, times, pause }));
    }
    return { compiled: true, verdicts, times: times ?? [], first };
  } finally {
    matcher.dispose();
  }
}

/** @param {Engine} native @param {number[]} ids
 * @param {{ text: string, matcher: Matcher, times: number[] | null, pause: () => Promise<unknown> }} around
 * @returns {Promise<Verdict>} */
async function matchText(native, ids, { text, matcher, times, pause }) {
  matcher.reset();
  let bytes = 0;
  for (let i = 0; i < ids.length; i++) {
    const before = performance.now();
    if (times) matcher.touch();
    times?.push(performance.now() - before);
    const piece = native.decode(ids[i], false, i ? ids[i - 1] : -1);
    // Removes the space that some tokenizers insert before a text, because it is not part of the text.
    const blank = i === 0 && piece.length < native.decode(ids[i], false, ids[i]).length;
    const taken = blank ? matcher.acceptBytes(piece) : matcher.allows(ids[i]) && matcher.accept(ids[i]);
    if (!taken) return { accepted: false, refusedAt: offsetOf(text, bytes) };
    bytes += piece.length;
    await pause();
  }
  return matcher.complete ? { accepted: true } : { accepted: false, refusedAt: text.length };
}

/** Converts an offset in the UTF-8 form of a text to the offset of the same character in the string.
 * @param {string} text @param {number} bytes */
function offsetOf(text, bytes) {
  let at = 0;
  for (const letter of text) {
    const code = /** @type {number} */ (letter.codePointAt(0));
    bytes -= code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (bytes < 0) break;
    at += letter.length;
  }
  return at;
}
