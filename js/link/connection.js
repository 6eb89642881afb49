/* connection: the client's end of protocol.js: matches answers to calls. What the worker asks meanwhile is
 * answered by whoever opened it (answers.js). */
/** @import { ModelInfo } from '../engine/info.js' */
/** @import { OpenOptions } from '../engine/loading.js' */
/** @import { GemmaError } from '../errors.js' */
/** @import { Port } from '../platform/env.js' */
/** @import { Answering } from './answers.js' */
/** @import { Calls, Event, FromWorker, Question, SourceDescriptor, ToWorker } from './protocol.js' */
import { failure } from '../errors.js';
import { packError, unpackError } from './protocol.js';

const GOODBYE_MS = 300;

/** onEvent hears of progress and pieces.
 * @typedef {{ resolve: (value: any) => void, reject: (error: GemmaError) => void,
 *   onEvent?: (event: Event) => void }} Pending */

export class Connection {
  #port;
  /** @type {Map<number, Pending>} */
  #pending = new Map();
  #lastId = 0;
  /** @type {GemmaError | null} why no more calls are possible */
  #end = null;
  /** @type {Answering | undefined} */
  #answering;
  #onDisposed = () => {};
  /** @type {Promise<void> | null} */
  #closing = null;

  /** @param {Port<ToWorker, FromWorker>} port */
  constructor(port) {
    this.#port = port;
    port.onMessage((message) => this.#receive(message));
    port.onFailure((cause) => this.kill(failure('worker-failed', 'the worker died', cause)));
    port.keepAlive(false);
  }

  /** The first call. @param {SourceDescriptor[]} source @param {OpenOptions} options @param {Answering} answering
   * @param {(event: Event) => void} onEvent @returns {Promise<ModelInfo>} */
  open(source, options, answering, onEvent) {
    this.#answering = answering;
    return this.#send((id) => ({ kind: 'open', id, source, options }), onEvent).answer;
  }

  /** @template {keyof Calls} M @param {M} method @param {Calls[M]['args']} args @param {AbortSignal} [signal]
   * @param {(event: Event) => void} [onEvent] @returns {{ id: number, answer: Promise<Calls[M]['value']> }} */
  call(method, args, signal, onEvent) {
    const { id, answer } = this.#send((id) => /** @type {ToWorker} */ ({ kind: 'call', id, method, args }), onEvent);
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
    for (const { reject } of this.#pending.values()) reject(reason);
    this.#pending.clear();
  }

  /** @param {(id: number) => ToWorker} message @param {(event: Event) => void} [onEvent]
   * @returns {{ id: number, answer: Promise<any> }} */
  #send(message, onEvent) {
    const id = ++this.#lastId;
    if (this.#end) return { id, answer: Promise.reject(this.#end) };
    const answer = new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject, onEvent });
    });
    this.#port.keepAlive(true);
    this.#attempt(id, 'the worker cannot be given this', () => this.#port.post(message(id)));
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

  /** @param {FromWorker} message */
  #receive(message) {
    switch (message.kind) {
      case 'done': return this.#take(message.id)?.resolve(message.value);
      case 'failed': return this.#take(message.id)?.reject(unpackError(message.error));
      case 'fatal': return this.kill(unpackError(message.error));
      case 'ask': return void this.#answer(message);
      case 'disposed': return this.#onDisposed();
      case 'thread': return;   // the platform's (env-browser.js)
      default: return this.#attempt(message.id, 'a progress callback failed',
        () => this.#pending.get(message.id)?.onEvent?.(message));
    }
  }

  /** @param {Question} asked */
  async #answer({ question, method, args }) {
    /** @type {{ value?: any, error?: any }} */
    const answer = await Promise.resolve(this.#answering?.(method, args)).then(
      (value) => ({ value }),
      (error) => ({ error: { ...packError(error), name: error.name, message: error.message } }));
    if (this.#end) return;
    // Of a stream, bytes are ours to give away; what a store gives may be its own.
    const transfer = method === 'pull' && answer.value ? [answer.value.buffer] : [];
    this.#port.post({ kind: 'answer', question, ...answer }, transfer);
  }

  /** @param {number} id */
  #take(id) {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (!this.#pending.size && !this.#end) this.#port.keepAlive(false);
    return pending;
  }
}
