/* peer: one tab's part in sharing a model. The tab owns the engine, is linked to the owner, or is looking for an owner.
 *
 * Every tab requests the owner's lock. When the owner ends, for whatever reason, the browser grants the lock to the
 * next tab. If the owner is alive but silent (its page hangs, or is stopped in a debugger), another tab takes over the
 * lock; the old owner joins that tab when it responds again. Unanswered calls are repeated with the new engine
 * (pending-call.js). */
/** @import { ModelError } from '../errors.js' */
/** @import { ModelInfo, Progress } from '../protocol.js' */
/** @import { ChannelMessage } from './channel.js' */
/** @import { Load } from './owner.js' */
/** @import { Engine } from './relay.js' */
import { sleep } from '../download/http.js';
import { deferred, onAbort } from '../rpc/signals.js';
import { Router } from './router.js';
import { Channel } from './channel.js';
import { engineMoved, ownerGone } from './errors.js';
import { Link } from './link.js';
import { Owner } from './owner.js';

/** Interval of messages that ask for the owner, in ms. After ATTEMPTS messages without an answer (4.5 s), the owner
 * counts as hung. */
const SEARCH_MS = 250;
const ATTEMPTS = 18;
/** Pause in ms after a takeover of the owner's lock. No tab may take over in this time, so that all tabs first hear of
 * the new owner. */
const NEWS_MS = 1000;

/** The part of this tab in sharing one model, from enter() to leave(). */
export class Peer {
  #id = crypto.randomUUID();
  #channel;
  #load;
  #onProgress;
  /** @readonly */
  router = new Router(() => this.#elect());
  /** @type {Owner | null} */
  #owner = null;
  /** @type {Link | null} */
  #link = null;
  /** Controller whose abort ends the engine that runs in this tab. */
  #term = new AbortController();
  #steppedDown = false;
  #termEnded = Promise.resolve();
  /** Aborts the request for the owner's lock; null if none is pending. @type {AbortController | null} */
  #queue = null;
  /** @type {any} */
  #search;
  /** Why this tab left the other tabs; null while it takes part. @type {ModelError | null} */
  #left = null;
  /** @type {{ resolve: (info: ModelInfo) => void, reject: (error: unknown) => void }[]} */
  #waiting = [];

  /** @param {string} key of the model @param {Load} load @param {(value: Progress) => void} onProgress */
  constructor(key, load, onProgress) {
    this.#channel = new Channel(key, (message) => this.#hear(message));
    this.#load = load;
    this.#onProgress = onProgress;
  }

  /** Whether the engine runs in this tab. */
  get owns() {
    return this.#owner !== null;
  }

  /** Joins the other tabs. Resolves with the model's properties when an engine has loaded it.
   * @returns {Promise<ModelInfo>} */
  async enter() {
    await this.#channel.enter(this.#id);
    return this.#engine();
  }

  /** Restarts the engine, in whichever tab it runs. */
  async restart() {
    const again = this.#engine();
    if (this.#owner) this.#term.abort();
    else this.#link?.restart();
    await again;
  }

  /** Leaves the other tabs, and ends an engine that runs in this tab. @param {ModelError} reason the error of pending
   * calls */
  async leave(reason) {
    if (this.#left) return;
    this.#left = reason;
    this.router.close(reason);
    for (const { reject } of this.#waiting.splice(0)) reject(reason);
    this.#stopLooking();
    this.#term.abort();
    await Promise.all([this.#link?.connection.close(reason), this.#termEnded]);
    this.#channel.close();
  }

  /** @returns {Promise<ModelInfo>} */
  #engine() {
    if (this.#left) throw this.#left;
    const next = deferred();
    this.#waiting.push(next);
    this.#elect();
    return next.promise;
  }

  /** @param {ModelInfo} info */
  #ready(info) {
    for (const { resolve } of this.#waiting.splice(0)) resolve(info);
  }

  /** Rejects all pending calls. The next call looks for an engine again. @param {unknown} error */
  #fail(error) {
    this.#stopLooking();
    this.router.fail(error);
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }

  /** Requests the owner's lock, and until it is granted looks for an owner to join. */
  #elect() {
    if (this.#left || this.#queue || this.#owner) return;
    this.#queue = new AbortController();
    this.#channel.own(() => this.#own(), this.#queue.signal).catch(() => this.#stepDown());
    this.#findOwner();
  }

  /** Asks all tabs for the owner until one answers. After ATTEMPTS messages without an answer, tries to take over the
   * owner's lock. */
  #findOwner() {
    let attempts = 0;
    clearInterval(this.#search);
    const ask = () => {
      if (attempts++ % ATTEMPTS === ATTEMPTS - 1) void this.#takeOver();
      else this.#channel.post({ kind: 'who' });
    };
    this.#search = setInterval(ask, SEARCH_MS);
    ask();
  }

  #stopLooking() {
    clearInterval(this.#search);
    this.#queue?.abort();
    this.#queue = null;
  }

  /** @param {ChannelMessage} message */
  #hear(message) {
    if (this.#left) return;
    if (message.kind === 'who') return this.#owner?.announce();
    if (message.kind === 'join') {
      if (this.#owner?.epoch === message.epoch) this.#owner.admit(message.id);
    } else if (this.#queue && !this.#owner && (this.#link?.epoch ?? '') < message.epoch) {
      void this.#join(message.epoch);
    }
  }

  /** @param {string} epoch */
  async #join(epoch) {
    clearInterval(this.#search);
    this.#unlink(ownerGone(), false);
    const link = (this.#link = new Link(this.#channel, epoch, this.#id));
    void link.connection.lost.then((error) => this.#lost(link, error));
    try {
      const info = await link.open(this.#onProgress);
      if (link !== this.#link) return;
      this.router.connect(link.connection);
      this.#ready(info);
    } catch (error) {
      // If the connection to the owner broke, #lost() handles the error. Otherwise the owner could not load the model,
      // and this tab could not either.
      if (link !== this.#link || link.connection.broken) return;
      this.#unlink(ownerGone(), false);
      this.#fail(error);
    }
  }

  /** Drops the connection to the owner. Pending calls wait for the next engine. @param {ModelError} error
   * @param {boolean} died whether the engine crashed or froze */
  #unlink(error, died) {
    const link = this.#link;
    if (!link) return;
    this.#link = null;
    this.router.disconnect(error, died);
    link.connection.kill(error);
  }

  /** Looks for an owner again after the engine was lost. Takes over the lock, unless the owner reported the loss and
   * therefore starts another engine itself. @param {Link} link @param {ModelError} error */
  #lost(link, error) {
    if (link !== this.#link) return;
    this.#unlink(error, link.died);
    this.#findOwner();
    if (!link.told) void this.#takeOver();
  }

  #takeOver() {
    return this.#channel.takeOver(async () => {
      if (this.#left || this.#owner || this.#link) return;
      this.#stopLooking();
      this.#channel.own(() => this.#own()).catch(() => this.#stepDown());
      await sleep(NEWS_MS);
    });
  }

  /** Ends this tab's engine after another tab took over the lock. */
  #stepDown() {
    if (!this.#owner) return;
    this.#steppedDown = true;
    this.#term.abort();
  }

  /** Runs engines in this tab, one after the other, until the tab leaves or loses the owner's lock. */
  async #own() {
    clearInterval(this.#search);
    this.#queue = null;
    this.#unlink(ownerGone(), false);
    this.#steppedDown = false;
    this.#termEnded = this.#serveTerm();
    await this.#termEnded;
    if (this.#steppedDown) this.#elect();
  }

  async #serveTerm() {
    while (!this.#left && !this.#steppedDown) {
      this.#term = new AbortController();
      const owner = (this.#owner = new Owner(this.#channel, () => this.#term.abort()));
      const engine = await this.#loaded(owner);
      if (engine) await this.#serve(owner, engine);
      else if (!this.#term.signal.aborted) return;
    }
  }

  /** @param {Owner} owner */
  async #loaded(owner) {
    try {
      return await owner.load(this.#load, this.#term.signal, this.#onProgress);
    } catch (error) {
      this.#owner = null;
      const { aborted } = this.#term.signal;
      owner.end(aborted ? ownerGone() : error, aborted ? 'left' : 'refused');
      if (!aborted) this.#fail(error);
      return null;
    }
  }

  /** @param {Owner} owner @param {Engine} engine */
  async #serve(owner, { connection, info }) {
    const { signal } = this.#term;
    this.router.connect(connection);
    this.#ready(info);
    const over = new Promise((resolve) => {
      onAbort(signal, () => resolve(undefined));
    });
    const died = signal.aborted ? undefined : await Promise.race([connection.lost, over]);
    this.#owner = null;
    const error = died ?? engineMoved();
    this.router.disconnect(error, died !== undefined);
    owner.end(error, died ? 'died' : 'left');
    if (this.#left) await connection.close(this.#left);
    else connection.kill(error);
  }
}
