/* router: sends this tab's calls to the current engine, in whichever tab it runs, and queues them while there is no
 * engine. */
/** @import { Connection } from '../rpc/connection.js' */
/** @import { CallHandle, CallOptions } from '../rpc/rpc.js' */
/** @import { Calls } from '../protocol.js' */
/** @import { ModelError } from '../errors.js' */
import { abortError } from '../errors.js';
import { refused } from '../rpc/rpc.js';
import { deferred, onAbort } from '../rpc/signals.js';
import { PendingCall } from './pending-call.js';

/** The calls of this tab to the shared engine. */
export class Router {
  /** @type {Set<PendingCall>} */
  #calls = new Set();
  /** @type {Connection | null} */
  #connection = null;
  /** The error of all further calls, once the router is closed. @type {ModelError | null} */
  #end = null;
  #onNeed;
  #lost = deferred();

  /** @param {() => void} onNeed called when there is a call but no engine */
  constructor(onNeed) {
    this.#onNeed = onNeed;
  }

  /** Resolves with the reason when the current engine is lost. Without an engine, refers to the next engine.
   * @returns {Promise<ModelError>} */
  get lost() {
    return this.#lost.promise;
  }

  /** Calls the shared engine. Without an engine, the call waits for one. @template {keyof Calls} M @param {M} method
   * @param {Calls[M]['args']} args @param {CallOptions} [options] @returns {Pick<CallHandle, 'answer' | 'ack'>} */
  call(method, args, { signal, onEvent } = {}) {
    if (signal?.aborted) return refused(abortError(signal));
    if (this.#end) return refused(this.#end);
    const call = new PendingCall({ method, args, onEvent });
    const unsubscribe = onAbort(signal, () => call.abort());
    const settled = () => {
      unsubscribe();
      this.#calls.delete(call);
    };
    this.#calls.add(call);
    call.answer.then(settled, settled);
    if (this.#connection) call.send(this.#connection);
    else this.#onNeed();
    return { answer: call.answer, ack: (count) => call.ack(count) };
  }

  /** Sends the waiting calls to an engine, in order. @param {Connection} connection */
  connect(connection) {
    this.#connection = connection;
    for (const call of this.#calls) call.send(connection);
  }

  /** Makes pending calls wait for the next engine.
   * @param {ModelError} error @param {boolean} died whether the engine crashed or froze */
  disconnect(error, died) {
    if (this.#connection) {
      this.#lost.resolve(error);
      this.#lost = deferred();
    }
    this.#connection = null;
    for (const call of this.#calls) call.lose(error, died);
  }

  /** Rejects all pending calls. The next call asks for an engine again. @param {unknown} error */
  fail(error) {
    this.#connection = null;
    for (const call of this.#calls) call.fail(error);
  }

  /** Rejects all pending and later calls. @param {ModelError} reason */
  close(reason) {
    this.#end = reason;
    this.fail(reason);
  }
}
