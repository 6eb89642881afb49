/* context: the type of a request's context, and functions for the ids and times of response objects. */
/** @import { ModelRegistry } from './models.js' */
/** @import { ResponseStore } from './response-store.js' */

/** The context of a request. params: groups of the route's pattern; body: the body of a POST; signal: aborts when the
 * request is aborted or the response is cancelled; abort: called when the response is cancelled. `request` is kept
 * because Node stops forwarding aborts to the signal of a Request that is garbage-collected.
 * @typedef {{ request: Request, params: string[], body: Record<string, any>, models: ModelRegistry,
 *   responses: ResponseStore, signal: AbortSignal, abort: () => void }} Context */

/** Returns an id of 24 random hexadecimal digits. @param {string} prefix */
export function newId(prefix) {
  const bytes = [...crypto.getRandomValues(new Uint8Array(12))];
  return prefix + bytes.map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Returns the seconds since 1970. */
export const unixTime = () => Math.floor(Date.now() / 1000);
