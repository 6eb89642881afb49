/* context: the type of a request's context, and the time of response objects. */
/** @import { ModelRegistry } from './models.js' */
/** @import { ResponseStore } from './response-store.js' */

/** The context of a request. params: parts of the path that the route's pattern captures; body: the body of a POST;
 * signal: aborts when the request is aborted or the response is cancelled; abort: to call when the response fails or is
 * cancelled. `request` is kept because Node stops forwarding aborts to the signal of a Request that is
 * garbage-collected.
 * @typedef {{ request: Request, params: string[], body: Record<string, any>, models: ModelRegistry,
 *   responses: ResponseStore, signal: AbortSignal, abort: () => void }} Context */

/** Returns the seconds since 1970. */
export const unixTime = () => Math.floor(Date.now() / 1000);
