/* relay: the owner's side of the direct channel to another tab. Forwards that tab's calls to the engine, and the
 * engine's replies and events to the tab (protocol.js). */
/** @import { Connection } from '../rpc/connection.js' */
/** @import { CallHandle } from '../rpc/rpc.js' */
/** @import { FromWorker, ModelInfo, Progress, ToWorker } from '../protocol.js' */
import { packError } from '../protocol.js';
import { stillLoading } from './errors.js';

/** How an engine ended. died: it crashed or froze; left: its tab ended or started another engine; refused: loading
 * failed.
 * @typedef {'died' | 'left' | 'refused'} End */
/** Messages between tabs, besides those of protocol.js. how: how the owner's engine ended; admitted: the channel is
 * open; restart: requests a restart of the engine.
 * @typedef {FromWorker & { how?: End } | { kind: 'admitted' }} ToTab
 * @typedef {ToWorker | { kind: 'restart' }} FromTab */
/** @typedef {{ connection: Connection, info: ModelInfo }} Engine */

/** The calls of one other tab to the engine of this tab. */
export class Relay {
  #direct;
  /** @type {Engine | null} */
  #engine = null;
  /** @type {Map<number, CallHandle>} */
  #calls = new Map();
  /** Id of the other tab's pending `open` message, 0 if there is none. */
  #opening = 0;
  #onRestart;
  #closed = false;

  /** @param {BroadcastChannel} direct @param {() => void} onRestart */
  constructor(direct, onRestart) {
    this.#direct = direct;
    this.#onRestart = onRestart;
    direct.onmessage = ({ data }) => data?.kind && this.#receive(data);
    this.#post({ kind: 'admitted' });
  }

  /** Sets the loaded engine, and replies to the other tab's `open` message. @param {Engine} engine */
  serve(engine) {
    this.#engine = engine;
    if (this.#opening) this.#post({ kind: 'done', id: this.#opening, value: engine.info });
  }

  /** Forwards the progress of the load, if the other tab waits for it. @param {Progress} value */
  tell(value) {
    if (this.#opening) this.#post({ kind: 'progress', id: this.#opening, value });
  }

  /** Tells the other tab that the engine has ended, and closes the channel. @param {unknown} error @param {End} how */
  end(error, how) {
    this.#post({ kind: how === 'refused' ? 'failed' : 'fatal', id: this.#opening, error: packError(error), how });
    this.close();
  }

  /** Aborts the other tab's calls and closes the channel. */
  close() {
    this.#closed = true;
    for (const call of this.#calls.values()) call.abort();
    this.#direct.close();
  }

  /** @param {ToTab} message */
  #post(message) {
    if (!this.#closed) this.#direct.postMessage(message);
  }

  /** @param {FromTab} message */
  #receive(message) {
    switch (message.kind) {
      case 'open':
        this.#opening = message.id;
        return this.#engine ? this.serve(this.#engine) : undefined;
      case 'call':
        return void this.#call(message);
      case 'abort':
        return this.#calls.get(message.id)?.abort();
      case 'ack':
        return this.#calls.get(message.id)?.ack(message.count);
      case 'beat':
        this.#engine?.connection.tick();
        return this.#post(message);
      case 'restart':
        return this.#onRestart();
      case 'dispose':
        this.#post({ kind: 'disposed' });
        return this.close();
    }
  }

  /** @param {Extract<ToWorker, { kind: 'call' }>} message */
  async #call({ id, method, args }) {
    if (!this.#engine) {
      // A tab calls only after the reply to its `open` message, unless it runs another version of this package.
      return this.#post({ kind: 'failed', id, error: packError(stillLoading(method)) });
    }
    const { connection } = this.#engine;
    const call = connection.call(method, args, { onEvent: (event) => this.#post({ ...event, id }) });
    this.#calls.set(id, call);
    try {
      this.#post({ kind: 'done', id, value: await call.answer });
    } catch (error) {
      // If the connection to the engine broke, end() tells the other tab.
      if (!connection.broken) this.#post({ kind: 'failed', id, error: packError(error) });
    } finally {
      this.#calls.delete(id);
    }
  }
}
