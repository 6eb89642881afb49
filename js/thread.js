/* thread: entry of a helper thread in browsers. */
import { receive } from './helper.js';

globalThis.onmessage = (/** @type {MessageEvent} */ { data }) => {
  receive(data, (message) => globalThis.postMessage(message));
};
