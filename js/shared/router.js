/* router: the calls of this tab. To a model it is its connection, to whichever engine answers at the moment. */
/** @import { Connection } from '../rpc/connection.js' */
/** @import { Calls, Event } from '../protocol.js' */
import { GemmaError } from '../errors.js';
import { onAbort } from '../rpc/signals.js';
import { PendingCall } from './pending-call.js';

export class Router {
  /** @type {Map<number, PendingCall>} */
  #calls = new Map();
  #lastId = 0;
  /** @type {Connection | null} */
  #connection = null;
  /** @type {GemmaError | null} why no more calls are possible */
  #end = null;
  #onNeed;
  /** @type {(error: GemmaError) => void} */
  #lose = () => {};
  /** The engine in use, or else the next one, was lost; why. */
  lost = this.#next();

  /** onNeed: a call waits, and there is nobody to ask. @param {() => void} onNeed */
  constructor(onNeed) {
    this.#onNeed = onNeed;
  }

  /** @template {keyof Calls} M @param {M} method @param {Calls[M]['args']} args @param {AbortSignal} [signal]
   * @param {(event: Event) => void} [onEvent] @returns {{ id: number, answer: Promise<Calls[M]['value']> }} */
  call(method, args, signal, onEvent) {
    const id = ++this.#lastId;
    if (this.#end) return { id, answer: Promise.reject(this.#end) };
    const pending = new PendingCall({ method, args, onEvent });
    const unsubscribe = onAbort(signal, () => pending.abort());
    const settled = () => {
      unsubscribe();
      this.#calls.delete(id);
    };
    this.#calls.set(id, pending);
    pending.answer.then(settled, settled);
    if (this.#connection) pending.send(this.#connection);
    else this.#onNeed();
    return { id, answer: pending.answer };
  }

  /** @param {number} id */
  abort(id) {
    this.#calls.get(id)?.abort();
  }

  /** @param {number} id @param {number} count */
  ack(id, count) {
    this.#calls.get(id)?.ack(count);
  }

  /** What waits is asked there, in its order. @param {Connection} connection */
  connect(connection) {
    this.#connection = connection;
    for (const pending of this.#calls.values()) pending.send(connection);
  }

  /** What was asked waits for the next engine. @param {GemmaError} error @param {boolean} died the engine itself */
  disconnect(error, died) {
    if (this.#connection) {
      this.#lose(error);
      this.lost = this.#next();
    }
    this.#connection = null;
    for (const pending of this.#calls.values()) pending.lose(error, died);
  }

  /** @param {unknown} error */
  fail(error) {
    this.#connection = null;
    for (const pending of this.#calls.values()) pending.fail(error);
  }

  /** @param {GemmaError} reason */
  close(reason) {
    this.#end = reason;
    this.fail(reason);
  }

  /** @returns {Promise<GemmaError>} */
  #next() {
    return new Promise((resolve) => {
      this.#lose = resolve;
    });
  }
}
