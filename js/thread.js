/* thread: entry of a helper thread in browsers. */
import { helper } from './helper.js';

const self = /** @type {any} */ (globalThis);
const receive = helper((message) => self.postMessage(message));
self.onmessage = (/** @type {MessageEvent} */ event) => receive(event.data);
