/* owner: runs the shared engine in this tab, with a relay for each other tab. */
/** @import { Progress } from '../protocol.js' */
/** @import { Channel } from './channel.js' */
/** @import { End, Engine } from './relay.js' */
import { Relay } from './relay.js';

/** @typedef {(signal: AbortSignal, onProgress: (value: Progress) => void) => Promise<Engine>} Load */

/** The engine of this tab, while this tab is the owner, and the relays of the other tabs. */
export class Owner {
  /** Name of this engine. A later engine has a greater name. @readonly */
  epoch = `${Date.now()} ${crypto.randomUUID()}`;
  #channel;
  #onRestart;
  /** @type {Map<string, Relay>} */
  #relays = new Map();
  /** @type {Engine | null} */
  #engine = null;
  #ended = new AbortController();

  /** @param {Channel} channel @param {() => void} onRestart */
  constructor(channel, onRestart) {
    this.#channel = channel;
    this.#onRestart = onRestart;
    this.announce();
  }

  /** Posts the name of this engine to all tabs, so that those without an engine join. */
  announce() {
    this.#channel.post({ kind: 'owner', epoch: this.epoch });
  }

  /** Loads the model and serves it to the other tabs. @param {Load} load @param {AbortSignal} signal
   * @param {(value: Progress) => void} onProgress */
  async load(load, signal, onProgress) {
    const engine = (this.#engine = await load(signal, (value) => {
      onProgress(value);
      for (const relay of this.#relays.values()) relay.tell(value);
    }));
    for (const relay of this.#relays.values()) relay.serve(engine);
    return engine;
  }

  /** Opens a direct channel to another tab. Replaces an earlier channel: a tab that found this owner unresponsive
   * requests a new one.
   * @param {string} id of that tab */
  admit(id) {
    const known = this.#relays.get(id);
    known?.close();
    const relay = new Relay(this.#channel.direct(this.epoch, id), this.#onRestart);
    this.#relays.set(id, relay);
    if (this.#engine) relay.serve(this.#engine);
    if (known) return;
    this.#channel.whenGone(id, this.#ended.signal, () => {
      this.#relays.get(id)?.close();
      this.#relays.delete(id);
    });
  }

  /** Stops serving the other tabs. @param {unknown} error the error of their calls @param {End} how how the engine
   * ended */
  end(error, how) {
    this.#ended.abort();
    for (const relay of this.#relays.values()) relay.end(error, how);
    this.#relays.clear();
  }
}
