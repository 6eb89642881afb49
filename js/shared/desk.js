/* desk: the calls of this tab. To a model it is its connection, to whichever engine answers at the moment. */
/** @import { Connection } from '../link/connection.js' */
/** @import { Calls, Event } from '../protocol.js' */
import { GemmaError } from '../errors.js';
import { onAbort } from '../link/signals.js';
import { Wanted } from './wanted.js';

export class Desk {
  /** @type {Map<number, Wanted>} */
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
    const wanted = new Wanted({ method, args, onEvent });
    const deaf = onAbort(signal, () => wanted.abort());
    const settled = () => {
      deaf();
      this.#calls.delete(id);
    };
    this.#calls.set(id, wanted);
    wanted.answer.then(settled, settled);
    if (this.#connection) wanted.send(this.#connection);
    else this.#onNeed();
    return { id, answer: wanted.answer };
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
    for (const wanted of this.#calls.values()) wanted.send(connection);
  }

  /** What was asked waits for the next engine. @param {GemmaError} error @param {boolean} died the engine itself */
  disconnect(error, died) {
    if (this.#connection) {
      this.#lose(error);
      this.lost = this.#next();
    }
    this.#connection = null;
    for (const wanted of this.#calls.values()) wanted.lose(error, died);
  }

  /** @param {unknown} error */
  fail(error) {
    this.#connection = null;
    for (const wanted of this.#calls.values()) wanted.fail(error);
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
