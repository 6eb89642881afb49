/* thread: entry of a helper thread in browsers. The first message that it receives is the port to the engine worker. */
import { receive } from './engine/helper.js';

globalThis.onmessage = (/** @type {MessageEvent<MessagePort>} */ { data: port }) => {
  port.onmessage = ({ data }) => void receive(data, (message) => port.postMessage(message));
};
globalThis.postMessage(null);
