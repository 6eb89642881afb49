/* relay: the owner's end of the direct to another tab: hands that tab's calls to the engine, and what it says back, as
 * protocol.js has it. */
/** @import { Connection } from '../rpc/connection.js' */
/** @import { FromWorker, ModelInfo, Progress, ToWorker } from '../protocol.js' */
import { packError } from '../protocol.js';

/** What becomes of an engine: it is lost; its tab goes, or starts another one; it cannot be loaded.
 * @typedef {'died' | 'left' | 'refused'} End */
/** Besides: how it ended; the direct is open; start the engine again, please.
 * @typedef {FromWorker & { how?: End } | { kind: 'admitted' }} ToTab
 * @typedef {ToWorker | { kind: 'restart' }} FromTab */
/** @typedef {{ connection: Connection, info: ModelInfo }} Engine */

export class Relay {
  #direct;
  /** @type {Engine | null} */
  #engine = null;
  /** The tab's numbers of calls, and the engine's. @type {Map<number, number>} */
  #ids = new Map();
  /** The call that waits for the engine. */
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

  /** @param {Engine} engine */
  serve(engine) {
    this.#engine = engine;
    if (this.#opening) this.#post({ kind: 'done', id: this.#opening, value: engine.info });
  }

  /** Of loading. @param {Progress} value */
  tell(value) {
    if (this.#opening) this.#post({ kind: 'progress', id: this.#opening, value });
  }

  /** @param {unknown} error @param {End} how */
  end(error, how) {
    this.#post({ kind: how === 'refused' ? 'failed' : 'fatal', id: this.#opening, error: packError(error), how });
    this.close();
  }

  /** The tab has left. */
  close() {
    this.#closed = true;
    for (const id of this.#ids.values()) this.#engine?.connection.abort(id);
    this.#direct.close();
  }

  /** @param {ToTab} message */
  #post(message) {
    if (!this.#closed) this.#direct.postMessage(message);
  }

  /** @param {FromTab} message */
  #receive(message) {
    const connection = this.#engine?.connection;
    switch (message.kind) {
      case 'open':
        this.#opening = message.id;
        return this.#engine ? this.serve(this.#engine) : undefined;
      case 'call':
        return void this.#call(message);
      case 'abort':
        return connection?.abort(this.#ids.get(message.id) ?? 0);
      case 'ack':
        return connection?.ack(this.#ids.get(message.id) ?? 0, message.count);
      case 'beat':
        connection?.tick();
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
    const { connection } = /** @type {Engine} */ (this.#engine);
    const asked = connection.call(method, args, undefined, (event) => this.#post({ ...event, id }));
    this.#ids.set(id, asked.id);
    try {
      this.#post({ kind: 'done', id, value: await asked.answer });
    } catch (error) {
      // What broke is told once, to all calls.
      if (!connection.broken) this.#post({ kind: 'failed', id, error: packError(error) });
    } finally {
      this.#ids.delete(id);
    }
  }
}
