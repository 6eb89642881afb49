/* worker: entry of the engine worker in browsers. */
import { Host } from './engine/host.js';
import { MODULES } from './modules.js';
import { badStatus, notFound, wasmForbidden } from './platform/errors.js';
import { Files } from './platform/files.js';
import { channelPort } from './platform/port-browser.js';
import { openStore } from './download/store-browser.js';

// The name `self` is avoided, because Vite up to 7 declares it in bundled workers.
const scope = /** @type {any} */ (globalThis);
const files = new Files(MODULES);
const { port1, port2 } = new MessageChannel();

/** Resolve functions of pending yieldToMessages() calls. A generation and short calls can yield at the same time.
 * @type {((_: unknown) => void)[]} */
const waiting = [];
port1.onmessage = () => waiting.shift()?.(null);

/** Resolves after the worker has received queued messages. Uses a message channel, because browsers throttle timers. */
const yieldToMessages = () =>
  new Promise((resolve) => {
    waiting.push(resolve);
    port2.postMessage(null);
  });

/** @param {string} name */
async function compile(name) {
  const address = files.address(name);
  try {
    const response = await fetch(address);
    if (!response.ok) throw badStatus(response.status);
    return await WebAssembly.compile(await response.arrayBuffer());
  } catch (cause) {
    const why = /** @type {Error} */ (cause).message;
    // Only the message of an error shows that a content security policy forbade WebAssembly.
    const forbidden = /security policy|unsafe-eval|\bCSP\b/i.test(why);
    throw forbidden ? wasmForbidden(cause) : notFound(cause, ` (${address})`);
  }
}

const host = new Host((message, transfer = []) => scope.postMessage(message, transfer), {
  compile,
  load: (part) => files.load(part),
  parallelism: () => navigator.hardwareConcurrency || 1,
  createThread: () => {
    const channel = new MessageChannel();
    const port = channel.port2;
    scope.postMessage({ kind: 'thread', port }, [port]);
    return channelPort(channel.port1, () => channel.port1.close());
  },
  yield: yieldToMessages,
  openStore,
});
scope.onmessage = (/** @type {MessageEvent} */ { data }) => {
  if (data.kind === 'open') files.settle(data.options.place);
  host.receive(data);
};
