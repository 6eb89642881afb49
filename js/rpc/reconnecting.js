/* reconnecting: the current connection of a model. If the worker or one of its threads dies, another worker can replace
 * it. Calls that have not returned anything yet are repeated once with the new worker. */
/** @import { ModelError } from '../errors.js' */
/** @import { Calls } from '../protocol.js' */
/** @import { Connection } from './connection.js' */
/** @import { CallHandle, CallOptions } from './rpc.js' */
import { abortError } from '../errors.js';
import { readOnce, workerReplaced } from './errors.js';
import { deferred, unlessAborted } from './signals.js';

/** The methods of a connection that a model uses.
 * @typedef {Pick<ReconnectingConnection, 'call' | 'lost' | 'restart' | 'close'>} ModelConnection */

/** The connection of one model. It continues with another worker after a restart. */
export class ReconnectingConnection {
  /** @type {Connection} */
  #connection;
  #reopen;
  #auto;
  /** @type {Promise<void> | null} */
  #restarting = null;
  /** @type {ModelError | null} */
  #end = null;
  #closing = new AbortController();
  #lost = deferred();

  /** Wraps the first connection of a model. reopen: starts another worker with the same model; undefined if the source
   * can be read only once. auto: whether to restart automatically when the worker dies.
   * @param {Connection} connection @param {((signal: AbortSignal) => Promise<Connection>) | undefined} reopen
   * @param {boolean} auto */
  constructor(connection, reopen, auto) {
    this.#connection = connection;
    this.#reopen = reopen;
    this.#auto = auto;
    if (this.#auto) void this.#watch();
  }

  /** Resolves with the reason when the worker is lost. A restart replaces the promise. An automatic restart does so
   * as soon as the worker is lost. @returns {Promise<ModelError>} */
  get lost() {
    return this.#auto ? this.#lost.promise : this.#connection.lost;
  }

  /** Calls the worker, once no restart is in progress. If the worker dies, repeats the call once with the next worker,
   * provided that restarts are automatic and retry() returns true. @template {keyof Calls} M @param {M} method
   * @param {Calls[M]['args']} args @param {CallOptions & { retry?: () => boolean }} [options]
   * @returns {Pick<CallHandle, 'answer' | 'ack'>} */
  call(method, args, { retry = () => true, ...options } = {}) {
    const { signal } = options;
    /** @type {CallHandle | undefined} */
    let sent;
    const send = () => {
      if (signal?.aborted) throw abortError(signal);
      sent = this.#connection.call(method, args, options);
      return sent.answer;
    };
    const answer = async () => {
      if (this.#restarting) await unlessAborted(this.#restarting, signal);
      if (this.#end) throw this.#end;
      const connection = this.#connection;
      try {
        return await send();
      } catch (error) {
        const broke = connection.broken && /** @type {ModelError} */ (error).code === 'worker-failed';
        if (!broke || !this.#auto || this.#end || !retry()) throw error;
        if (connection === this.#connection) await unlessAborted(this.restart(), signal);
        return send();
      }
    };
    return { answer: answer(), ack: (count) => sent?.ack(count) };
  }

  /** Ends the worker and loads the model in another worker. Fails with `unsupported-source` if the source can be read
   * only once. @returns {Promise<void>} */
  restart() {
    return (this.#restarting ??= this.#restart().finally(() => {
      this.#restarting = null;
    }));
  }

  async #restart() {
    if (this.#end) throw this.#end;
    if (!this.#reopen) throw readOnce();
    this.#connection.broken = true;
    // If the restart fails, later calls get this message, too.
    this.#connection.kill(workerReplaced());
    this.#connection = await this.#reopen(this.#closing.signal).catch((error) => {
      throw this.#end ?? error;
    });
    if (this.#auto) void this.#watch();
  }

  async #watch() {
    const error = await this.#connection.lost;
    this.#lost.resolve(error);
    this.#lost = deferred();
    this.restart().catch(() => {});
  }

  /** Ends the worker. @param {ModelError} reason error of all pending and later calls */
  async close(reason) {
    this.#end = reason;
    this.#closing.abort();
    await this.#restarting?.catch(() => {});
    await this.#connection.close(reason);
  }
}
