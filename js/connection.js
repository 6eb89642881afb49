/* connection: the client's end of protocol.js: numbers calls, matches answers, and knows when the
 * worker is gone. */
import { GemmaError } from './errors.js';
import { FROM_WORKER, TO_WORKER, packError, unpackError } from './protocol.js';
import { ChunkFeeder } from './source.js';

const GOODBYE_MS = 300;

/**
 * A call that waits for its answer.
 * @typedef {object} Pending
 * @property {(value: any) => void} resolve
 * @property {(error: GemmaError) => void} reject
 * @property {(message: any) => void} [onEvent] progress and pieces
 */

export class Connection {
  #port;
  /** @type {Map<number, Pending>} */
  #pending = new Map();
  #lastId = 0;
  #running = 0;
  /** @type {Int32Array | null} the abort flag in a shared heap */
  #flag = null;
  /** @type {GemmaError | null} why no more calls are possible */
  #end = null;
  /** @type {ChunkFeeder | null} */
  #feeder = null;
  #onDisposed = () => {};

  /** @param {import('./env.js').Port} port */
  constructor(port) {
    this.#port = port;
    port.onMessage((message) => this.#receive(message));
    port.onFailure((reason) => {
      const why = reason instanceof Error ? reason.message : String(reason);
      this.#finish(new GemmaError('worker-failed', `the engine's worker died: ${why}`, { cause: reason }));
    });
    port.keepAlive(false);
  }

  /** Load a model; the first call. @param {import('./protocol.js').SourceDescriptor} source
   * @param {import('./source.js').ByteIterator | undefined} bytes
   * @param {import('./host.js').OpenOptions} options @param {(message: any) => void} onEvent
   * @returns {Promise<import('./host.js').ModelInfo>} */
  open(source, bytes, options, onEvent) {
    if (bytes) this.#feeder = new ChunkFeeder(bytes);
    return this.#send({ kind: TO_WORKER.open, source, options }, onEvent).answer;
  }

  /** @param {string} method @param {object} args @param {(message: any) => void} [onEvent] */
  call(method, args, onEvent) {
    return this.#send({ kind: TO_WORKER.call, method, args }, onEvent);
  }

  /** Ask for an early end of a call; it is answered soon. @param {number} id */
  abort(id) {
    if (!this.#pending.has(id)) return;
    if (this.#flag && this.#running === id) Atomics.store(this.#flag, 0, 1);
    this.#port.post({ kind: TO_WORKER.abort, id });
  }

  /** The consumer has taken pieces. @param {number} id @param {number} count */
  ack(id, count) {
    if (this.#pending.has(id)) this.#port.post({ kind: TO_WORKER.ack, id, count });
  }

  /** End the worker; waiting and later calls fail with `reason`. @param {GemmaError} reason */
  async close(reason) {
    if (this.#end) return;
    this.#rejectAll(reason);
    this.#port.keepAlive(true);
    if (this.#flag && this.#running) Atomics.store(this.#flag, 0, 1);
    await new Promise((resolve) => {
      this.#onDisposed = () => resolve(undefined);
      setTimeout(resolve, GOODBYE_MS);
      this.#port.post({ kind: TO_WORKER.dispose });
    });
    this.#flag = null;
    await this.#port.terminate();
  }

  /** End the worker at once. @param {GemmaError} reason */
  kill(reason) {
    if (this.#end) return;
    this.#finish(reason);
  }

  /** @param {object} message @param {((message: any) => void) | undefined} onEvent
   * @returns {{ id: number, answer: Promise<any> }} */
  #send(message, onEvent) {
    const id = ++this.#lastId;
    if (this.#end) return { id, answer: Promise.reject(this.#end) };
    const answer = new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject, onEvent });
    });
    this.#port.keepAlive(true);
    try {
      this.#port.post({ ...message, id });
    } catch (cause) {
      this.#take(id)?.reject(new GemmaError('unsupported-source',
        'this object cannot be passed to the worker', { cause }));
    }
    return { id, answer };
  }

  /** @param {any} message */
  #receive(message) {
    switch (message.kind) {
      case FROM_WORKER.done: return this.#take(message.id)?.resolve(message.value);
      case FROM_WORKER.failed: return this.#take(message.id)?.reject(unpackError(message.error));
      case FROM_WORKER.fatal: return this.#finish(unpackError(message.error));
      case FROM_WORKER.pull: return void this.#feed();
      case FROM_WORKER.started: this.#running = message.id; return;
      case FROM_WORKER.shared:
        this.#flag = new Int32Array(message.buffer, message.address, 1);
        return;
      case FROM_WORKER.disposed: return this.#onDisposed();
      default: return this.#pending.get(message.id)?.onEvent?.(message);
    }
  }

  async #feed() {
    try {
      const bytes = await /** @type {ChunkFeeder} */ (this.#feeder).next();
      if (this.#end) return;
      this.#port.post({ kind: TO_WORKER.chunk, bytes }, bytes ? [bytes.buffer] : []);
    } catch (cause) {
      const error = cause instanceof GemmaError ? cause : new GemmaError('read-error',
        `the model stream failed: ${cause instanceof Error ? cause.message : cause}`, { cause });
      if (!this.#end) this.#port.post({ kind: TO_WORKER.chunk, bytes: null, error: packError(error) });
    }
  }

  /** @param {number} id */
  #take(id) {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (this.#running === id) this.#running = 0;
    if (!this.#pending.size && !this.#end) this.#port.keepAlive(false);
    if (id === 1) this.#stopFeeding();
    return pending;
  }

  #stopFeeding() {
    void this.#feeder?.close();
    this.#feeder = null;
  }

  /** @param {GemmaError} reason */
  #finish(reason) {
    if (this.#end) return;
    this.#rejectAll(reason);
    this.#flag = null;
    void this.#port.terminate();
  }

  /** @param {GemmaError} reason */
  #rejectAll(reason) {
    this.#end = reason;
    this.#stopFeeding();
    const waiting = [...this.#pending.values()];
    this.#pending.clear();
    for (const { reject } of waiting) reject(reason);
  }
}
