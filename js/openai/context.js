/* context: what the answer to a request needs, and what its objects are labelled with. */
/** @import { ModelRegistry } from './models.js' */
/** @import { ResponseStore } from './response-store.js' */

/** A request while it is answered. params: groups of the route's path; body: of a POST; signal: aborts when the request
 * is aborted or the response is cancelled; abort: does the latter. `request` is held because Node stops forwarding
 * aborts to the signal of a Request that is collected.
 * @typedef {{ request: Request, params: string[], body: Record<string, any>, models: ModelRegistry,
 *   responses: ResponseStore, signal: AbortSignal, abort: () => void }} Context */

/** Returns an id of 24 random hexadecimal digits. @param {string} prefix */
export function newId(prefix) {
  const bytes = [...crypto.getRandomValues(new Uint8Array(12))];
  return prefix + bytes.map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Returns the seconds since 1970. */
export const unixTime = () => Math.floor(Date.now() / 1000);
