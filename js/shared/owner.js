/* owner: what the tab has that runs the engine: one engine, and a relay for each other tab. */
/** @import { Progress } from '../protocol.js' */
/** @import { Hall } from './hall.js' */
/** @import { End, Engine } from './relay.js' */
import { Relay } from './relay.js';

/** Loads the model. @typedef {(signal: AbortSignal, onProgress: (value: Progress) => void) => Promise<Engine>} Load */

export class Owner {
  /** Of this engine, among all that there were; the later one is the larger text. @readonly */
  epoch = `${Date.now()} ${crypto.randomUUID()}`;
  #hall;
  #onRestart;
  /** @type {Map<string, Relay>} */
  #relays = new Map();
  /** @type {Engine | null} */
  #engine = null;
  #ended = new AbortController();

  /** @param {Hall} hall @param {() => void} onRestart */
  constructor(hall, onRestart) {
    this.#hall = hall;
    this.#onRestart = onRestart;
    this.announce();
  }

  announce() {
    this.#hall.post({ kind: 'owner', epoch: this.epoch });
  }

  /** @param {Load} load @param {AbortSignal} signal @param {(value: Progress) => void} onProgress */
  async load(load, signal, onProgress) {
    const engine = (this.#engine = await load(signal, (value) => {
      onProgress(value);
      for (const relay of this.#relays.values()) relay.tell(value);
    }));
    for (const relay of this.#relays.values()) relay.serve(engine);
    return engine;
  }

  /** A tab asks for a lane, perhaps once more: it believed this one to hang. @param {string} id */
  admit(id) {
    const known = this.#relays.get(id);
    known?.close();
    const relay = new Relay(this.#hall.lane(this.epoch, id), this.#onRestart);
    this.#relays.set(id, relay);
    if (this.#engine) relay.serve(this.#engine);
    if (known) return;
    this.#hall.whenGone(id, this.#ended.signal, () => {
      this.#relays.get(id)?.close();
      this.#relays.delete(id);
    });
  }

  /** @param {unknown} error @param {End} how */
  end(error, how) {
    this.#ended.abort();
    for (const relay of this.#relays.values()) relay.end(error, how);
    this.#relays.clear();
  }
}
