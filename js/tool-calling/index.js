/* index: the one way into the tools' room, loaded when a conversation has tools first. */
/** @import { Facts } from './dialects.js' */
import { DIALECTS, GENERIC } from './dialects.js';

export { preceded } from './messages.js';
export { CallReader } from './reading.js';

/** How a file's model calls tools. @param {Facts} facts */
export function dialectOf(facts) {
  return DIALECTS.find(({ fits }) => fits(facts)) ?? GENERIC;
}
