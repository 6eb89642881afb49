/* channel: how tabs that share a model find each other: a BroadcastChannel that all of them hear, a direct channel
 * between the owner of the engine and each other tab, and locks that say which tabs are alive. The browser frees a
 * tab's locks when it ends, however it ends. The names of locks and channels, and the messages, are read by tabs of
 * other versions.
 *
 * Why not a SharedWorker: checked in Chromium 156 and Firefox 153, from a cross-origin isolated page. A SharedWorker is
 * isolated in neither, so it has no SharedArrayBuffer and no threads; it has no createSyncAccessHandle, which stores
 * models, because that is for dedicated workers only; Chromium's cannot start one of those. Chromium on Android had no
 * SharedWorker for years. So the engine runs in a dedicated worker of one tab, the owner, as for a model that is not
 * shared.
 *
 * Why not MessageChannel: a port reaches another tab only through a SharedWorker or a service worker. A
 * BroadcastChannel copies instead of transferring, which costs little compared with the computation. */

/** On the channel of all tabs. who: asks for the owner; owner: announces this tab's engine; join: asks the owner for a
 * direct channel.
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
    this.#channel.onmessage = ({ data }) => data?.kind && hear(data); // other code of the origin can post here
  }

  /** @param {ChannelMessage} message */
  post(message) {
    this.#channel.postMessage(message);
  }

  /** Returns the channel between the owner of an engine and a tab. @param {string} epoch @param {string} id */
  direct(epoch, id) {
    return new BroadcastChannel(`${this.#name} ${epoch} ${id}`);
  }

  /** Holds this tab's lock until it leaves or ends. @param {string} id @returns {Promise<void>} */
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

  /** Holds the owner's lock while f runs. Rejects if the signal aborts first, or when another tab takes the lock over.
   * @param {() => Promise<void>} f @param {AbortSignal} [signal] none: take the lock over now */
  own(f, signal) {
    return navigator.locks.request(this.#name, signal ? { signal } : { steal: true }, f);
  }

  /** Runs f unless another tab is taking over: that one will announce itself. @param {() => Promise<void>} f */
  takeOver(f) {
    return navigator.locks.request(`${this.#name} thief`, { ifAvailable: true }, (lock) => lock && f());
  }

  close() {
    this.#closed = true;
    this.#leave();
    this.#channel.close();
  }
}

/** Returns why tabs cannot share here, '' if they can. */
export function whyNotShared() {
  const { Worker: workers, document: page, isSecureContext: secure, navigator: here } = globalThis;
  if (!workers || (!page && !('WorkerGlobalScope' in globalThis))) return 'this is no browser';
  if (secure && here?.locks && 'BroadcastChannel' in globalThis) return '';
  return secure ? 'the browser has no Web Locks or no BroadcastChannel' : 'the page does not come over https';
}
