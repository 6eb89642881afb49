/* channel: where tabs that share a model meet: a channel that all of them hear, a direct between the owner of the engine and
 * each other tab, and locks that say who is there. The browser frees a tab's locks when it ends, however it ends.
 *
 * Why not a SharedWorker: looked at in Chromium 156 and Firefox 153, from a page that is cross-origin isolated. A
 * SharedWorker is isolated in neither, so it has no SharedArrayBuffer and no threads; it has no createSyncAccessHandle,
 * by which models are stored, for that is for dedicated workers only; Chromium's cannot start one of those. Chromium on
 * Android had no SharedWorker at all for years. So the engine stays where it is for a lone model: in a dedicated worker
 * of one tab, the owner.
 *
 * Why not MessageChannel: to reach another tab, a port needs a SharedWorker or a service worker on its way. What goes
 * over a BroadcastChannel is copied and not given away, which is little beside what it takes to compute. */

/** In the channel. who: is there an owner? owner: I am, of this engine; join: a tab that asks for a direct.
 * @typedef {{ kind: 'who' } | { kind: 'owner', epoch: string }
 *   | { kind: 'join', epoch: string, id: string }} ChannelMessage */

export class Channel {
  #name;
  #channel;
  #leave = () => {};
  #closed = false;

  /** @param {string} key of the model @param {(message: ChannelMessage) => void} hear */
  constructor(key, hear) {
    this.#name = `gemma-wasm shared ${key}`;
    this.#channel = new BroadcastChannel(this.#name);
    this.#channel.onmessage = ({ data }) => data?.kind && hear(data); // other code of the origin may post here
  }

  /** @param {ChannelMessage} message */
  post(message) {
    this.#channel.postMessage(message);
  }

  /** Between the owner of an engine and a tab. @param {string} epoch @param {string} id */
  direct(epoch, id) {
    return new BroadcastChannel(`${this.#name} ${epoch} ${id}`);
  }

  /** This tab is there, until it leaves or ends. @param {string} id @returns {Promise<void>} */
  enter(id) {
    return new Promise((resolve, reject) => {
      const stay = () =>
        new Promise((leave) => {
          this.#leave = () => leave(null);
          if (this.#closed) this.#leave();
          resolve();
        });
      navigator.locks.request(`${this.#name} ${id}`, stay).catch(reject);
    });
  }

  /** Calls f when a tab has left. @param {string} id @param {AbortSignal} signal @param {() => void} f */
  whenGone(id, signal, f) {
    navigator.locks.request(`${this.#name} ${id}`, { signal }, f).catch(() => {});
  }

  /** Be the owner while f lasts. Rejects when the signal comes before that, or another one stole it.
   * @param {() => Promise<void>} f @param {AbortSignal} [signal] none: steal it */
  own(f, signal) {
    return navigator.locks.request(this.#name, signal ? { signal } : { steal: true }, f);
  }

  /** One tab steals at a time; another one learns meanwhile that there is an owner. @param {() => Promise<void>} f */
  takeOver(f) {
    return navigator.locks.request(`${this.#name} thief`, { ifAvailable: true }, (lock) => lock && f());
  }

  close() {
    this.#closed = true;
    this.#leave();
    this.#channel.close();
  }
}

/** Why tabs cannot share here, '' if they can. */
export function whyNotShared() {
  const { Worker: workers, document: page, isSecureContext: secure, navigator: here } = globalThis;
  if (!workers || (!page && !('WorkerGlobalScope' in globalThis))) return 'no browser';
  if (secure && here?.locks && 'BroadcastChannel' in globalThis) return '';
  return secure ? 'a browser without Web Locks or BroadcastChannel' : 'a page that does not come over https';
}
