/* line: the connection that a model has at the moment. Where it broke, because the worker or one of its threads died,
 * another one can take its place, and what had given nothing yet is asked again there, once. */
/** @import { Connection } from './connection.js' */
import { GemmaError, abortError } from '../errors.js';

export class ReconnectingConnection {
  /** The newest, be it broken. @type {Connection} */
  connection;
  #reopen;
  #auto;
  /** @type {Promise<void> | null} */
  #restarting = null;
  /** @type {GemmaError | null} */
  #end = null;
  #closing = new AbortController();
  /** @type {(error: GemmaError) => void} */
  #lose = () => {};
  /** Why the connection broke; after a restart, and where that comes by itself from then on, of the next one.
   * @type {Promise<GemmaError>} */
  lost = this.#next();

  /** reopen: another worker with the same model; undefined: its bytes came once. auto: that happens by itself.
   * @param {Connection} connection @param {((signal: AbortSignal) => Promise<Connection>) | undefined} reopen
   * @param {boolean} auto */
  constructor(connection, reopen, auto) {
    this.connection = connection;
    this.#reopen = reopen;
    this.#auto = auto;
    this.#heed();
  }

  /** What f gets from the connection, or, where that broke and `again` allows it, from the next one.
   * @template T @param {(connection: Connection) => Promise<T>} f @param {AbortSignal} [signal] ends waiting for it
   * @param {() => boolean} [again] @returns {Promise<T>} */
  async ask(f, signal, again = () => true) {
    if (this.#restarting) await unlessAborted(this.#restarting, signal);
    if (this.#end) throw this.#end;
    const { connection } = this;
    try {
      return await f(connection);
    } catch (error) {
      const broke = error instanceof GemmaError && error.code === 'worker-failed' && connection.broken;
      if (!broke || !this.#auto || this.#end || !again()) throw error;
      if (connection === this.connection) await unlessAborted(this.restart(), signal);
      return f(this.connection);
    }
  }

  /** Ends the worker, if it lives, and has another one load the model. @returns {Promise<void>} */
  restart() {
    return (this.#restarting ??= this.#restart().finally(() => {
      this.#restarting = null;
    }));
  }

  async #restart() {
    if (this.#end) throw this.#end;
    if (!this.#reopen) {
      throw new GemmaError('unsupported-source', 'the model cannot be loaded again', {
        expected: 'a URL, a path or a Blob, or the option `restart` with bytes',
        got: 'what can be read once',
      });
    }
    this.connection.broken = true;
    this.connection.kill(new GemmaError('worker-failed', 'the worker is started again'));
    this.connection = await this.#reopen(this.#closing.signal).catch((error) => {
      throw this.#end ?? error;
    });
    this.#heed();
  }

  #heed() {
    const { lost } = this.connection;
    if (!this.#auto) {
      this.lost = lost;
      return;
    }
    void lost.then((error) => {
      this.#lose(error);
      this.lost = this.#next();
      this.restart().catch(() => {});
    });
  }

  /** @returns {Promise<GemmaError>} */
  #next() {
    return new Promise((resolve) => {
      this.#lose = resolve;
    });
  }

  /** @param {GemmaError} reason */
  async close(reason) {
    this.#end = reason;
    this.#closing.abort();
    await this.#restarting?.catch(() => {});
    await this.connection.close(reason);
  }
}

/** @param {Promise<void>} promise @param {AbortSignal} [signal] @returns {Promise<void>} */
async function unlessAborted(promise, signal) {
  let onAbort = () => {};
  const aborted = new Promise((_, reject) => {
    onAbort = () => reject(abortError(/** @type {any} */ (signal)));
  });
  signal?.addEventListener('abort', onAbort);
  if (signal?.aborted) onAbort();
  try {
    await (signal ? Promise.race([promise, aborted]) : promise);
  } finally {
    signal?.removeEventListener('abort', onAbort);
  }
}
