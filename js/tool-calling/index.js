/* tool-calling: the entry of this folder, and the only file that others import. Finds the dialect of a model, prepares
 * messages for it and reads its calls. Loaded with the first conversation that has tools. */
/** @import { Dialect, Facts } from './dialects.js' */
import { DIALECTS } from './dialects.js';

export { withInstructions } from './messages.js';
export { CallReader } from './reading.js';

/** Returns the first dialect that fits a model. The last dialect fits every model. @param {Facts} facts */
export const dialectOf = (facts) => /** @type {Dialect} */ (DIALECTS.find(({ fits }) => fits(facts)));
