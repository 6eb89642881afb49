/* connection: the client's end of protocol.js: matches answers to calls. */
/** @import { Port } from '../platform/env.js' */
/** @import { GemmaError } from '../errors.js' */
/** @import { ModelInfo, OpenOptions } from '../engine/host.js' */
/** @import { ModelCache } from '../download/cache.js' */
/** @import { FromWorker, ToWorker } from './protocol.js' */
/** @import { Part } from '../download/describe.js' */
import { failure } from '../errors.js';
import { packError, unpackError } from './protocol.js';
import { ChunkFeeder } from '../download/feeder.js';

const GOODBYE_MS = 300;

/** onEvent hears of progress and pieces.
 * @typedef {{ resolve: (value: any) => void, reject: (error: GemmaError) => void,
 *   onEvent?: (message: any) => void }} Pending */

export class Connection {
  #port;
  /** @type {Map<number, Pending>} */
  #pending = new Map();
  #lastId = 0;
  /** @type {GemmaError | null} why no more calls are possible */
  #end = null;
  /** @type {(ChunkFeeder | undefined)[]} */
  #feeders = [];
  /** @type {ModelCache | undefined} */
  #cache;
  #onDisposed = () => {};
  /** @type {Promise<void> | null} */
  #closing = null;

  /** @param {Port} port */
  constructor(port) {
    this.#port = port;
    port.onMessage((message) => this.#receive(message));
    port.onFailure((cause) => this.kill(failure('worker-failed', 'the worker died', cause)));
    port.keepAlive(false);
  }

  /** The first call. @param {Part[]} parts @param {ModelCache} cache @param {OpenOptions} options
   * @param {(message: any) => void} onEvent @returns {Promise<ModelInfo>} */
  open(parts, cache, options, onEvent) {
    this.#cache = cache;
    this.#feeders = parts.map(({ bytes }) => bytes && new ChunkFeeder(bytes));
    const source = parts.map(({ descriptor }) => descriptor);
    return this.#send({ kind: 'open', source, options }, onEvent).answer;
  }

  /** @param {string} method @param {object} args @param {AbortSignal} [signal]
   * @param {(message: any) => void} [onEvent] */
  call(method, args, signal, onEvent) {
    const { id, answer } = this.#send({ kind: 'call', method, args }, onEvent);
    const onAbort = () => this.abort(id);
    const settled = () => signal?.removeEventListener('abort', onAbort);
    signal?.addEventListener('abort', onAbort);
    answer.then(settled, settled);
    return { id, answer };
  }

  /** Ask for an early answer. @param {number} id */
  abort(id) {
    if (this.#pending.has(id)) this.#port.post({ kind: 'abort', id });
  }

  /** @param {number} id @param {number} count pieces that were taken */
  ack(id, count) {
    if (this.#pending.has(id)) this.#port.post({ kind: 'ack', id, count });
  }

  /** End the worker in good order. @param {GemmaError} reason of all calls to fail */
  close(reason) {
    return this.#closing ??= this.#close(reason);
  }

  /** @param {GemmaError} reason */
  async #close(reason) {
    if (this.#end) return;
    this.#port.keepAlive(true);
    this.#fail(reason);
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, GOODBYE_MS);
      this.#onDisposed = () => {
        clearTimeout(timer);
        resolve(null);
      };
      this.#port.post({ kind: 'dispose' });
    });
    await this.#port.terminate();
  }

  /** @param {GemmaError} reason */
  kill(reason) {
    if (this.#end) return;
    this.#fail(reason);
    void this.#port.terminate();
  }

  /** @param {GemmaError} reason */
  #fail(reason) {
    this.#end = reason;
    this.#stopFeeding();
    for (const { reject } of this.#pending.values()) reject(reason);
    this.#pending.clear();
  }

  /** @param {object} message @param {(message: any) => void} [onEvent]
   * @returns {{ id: number, answer: Promise<any> }} */
  #send(message, onEvent) {
    const id = ++this.#lastId;
    if (this.#end) return { id, answer: Promise.reject(this.#end) };
    const answer = new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject, onEvent });
    });
    this.#port.keepAlive(true);
    this.#attempt(id, 'the worker cannot be given this', () => this.#port.post({ ...message, id }));
    return { id, answer };
  }

  /** A failure of f is one of the call. @param {number} id @param {string} what @param {() => void} f */
  #attempt(id, what, f) {
    try {
      f();
    } catch (cause) {
      this.abort(id);
      this.#take(id)?.reject(failure('bad-option', what, cause));
    }
  }

  /** @param {any} message */
  #receive(message) {
    switch (message.kind) {
      case 'done': return this.#take(message.id)?.resolve(message.value);
      case 'failed': return this.#take(message.id)?.reject(unpackError(message.error));
      case 'fatal': return this.kill(unpackError(message.error));
      case 'ask': return void this.#serve(message);
      case 'disposed': return this.#onDisposed();
      default: return this.#attempt(message.id, 'a progress callback failed',
        () => this.#pending.get(message.id)?.onEvent?.(message));
    }
  }

  /** @param {{ question: number, method: string, args: any[] }} message */
  async #serve({ question, method, args }) {
    const pull = method === 'pull' && (this.#feeders[args[0]]?.next() ?? Promise.resolve(null));
    /** @type {{ value?: any, error?: object }} */
    const answer = await Promise.resolve(pull || this.#cache?.serve(method, args)).then(
      (value) => ({ value }),
      (error) => ({ error: { ...packError(error), name: error.name, message: error.message } }));
    if (this.#end) return;
    const transfer = pull && answer.value ? [answer.value.buffer] : [];
    this.#port.post({ kind: 'answer', question, ...answer }, transfer);
  }

  /** @param {number} id */
  #take(id) {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (!this.#pending.size && !this.#end) this.#port.keepAlive(false);
    this.#stopFeeding();
    return pending;
  }

  #stopFeeding() {
    for (const feeder of this.#feeders) void feeder?.close();
    this.#feeders = [];
  }
}
