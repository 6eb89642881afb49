/* worker: entry of the engine worker in browsers. */
import { Host } from './engine/host.js';
import { MODULES } from './modules.js';
import { channelPort } from './platform/port-browser.js';
import { openStore } from './download/store-browser.js';

const self = /** @type {any} */ (globalThis);
const { port1, port2 } = new MessageChannel();

/** A task of its own; timers would be slowed down. */
const breathe = () => new Promise((resolve) => {
  port1.onmessage = resolve;
  port2.postMessage(null);
});

/** @param {URL} url */
async function compile(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${response.status} for ${url.pathname}`);
  return WebAssembly.compile(await response.arrayBuffer());
}

const host = new Host((message, transfer = []) => self.postMessage(message, transfer), {
  modules: MODULES,
  compile,
  parallelism: () => navigator.hardwareConcurrency || 1,
  createThread: () => {
    const channel = new MessageChannel();
    const port = channel.port2;
    self.postMessage({ kind: 'thread', port }, [port]);
    return channelPort(channel.port1, () => channel.port1.close());
  },
  breathe,
  openStore,
});
self.onmessage = (/** @type {MessageEvent} */ event) => host.receive(event.data);
