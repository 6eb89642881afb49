/* debug: implements the methods of model.debug that run outside the worker. Loaded on first use. */
/** @import { Callable, PostedPrompt } from './protocol.js' */
/** @import { InsideOptions } from './inside.js' */
/** @import { LogitsOptions, PerplexityOptions } from './options.js' */
import { checkGenerative } from './errors.js';
import { insideArgs } from './inside.js';
import { boolean, checkOptions, checkThat, checkValue, integer, signal, string } from './options.js';

export { matches } from './matches.js';

/** @typedef {Callable & { checkIds: (ids: any, least: number) => number[], describePrompt: (prompt: any) => PostedPrompt }} Debugged */

/** Implements model.debug.logits(). @param {Debugged} model @param {ArrayLike<number>} ids
 * @param {LogitsOptions} options */
export async function logits(model, ids, options) {
  checkGenerative(model.info);
  checkOptions(options, { all: boolean, signal });
  return model.call('logits', { ids: model.checkIds(ids, 1), all: options.all }, options.signal);
}

/** Implements model.debug.perplexity(). @param {Debugged} model @param {string} text
 * @param {PerplexityOptions} options */
export async function perplexity(model, text, options) {
  checkGenerative(model.info);
  checkValue('text', text, string);
  const { contextLength } = model.info;
  checkThat('contextLength', contextLength, 'at least 2 to score a token', contextLength > 1);
  checkOptions(options, { window: integer(2, contextLength), signal });
  return model.call('perplexity', { text, window: options.window }, options.signal);
}

/** Implements model.debug.inside(). @param {Debugged} model @param {any} prompt @param {InsideOptions} options */
export async function inside(model, prompt, options) {
  const args = { prompt: model.describePrompt(prompt), ...insideArgs(model.info, options) };
  return model.call('inside', args, options.signal);
}
