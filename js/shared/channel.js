/* channel: connects the tabs that share a model: a BroadcastChannel of all tabs, a direct channel between the owner of
 * the engine and each other tab, and locks that show which tabs are alive. The browser releases a tab's locks when the
 * tab ends, even in a crash. Tabs can have different versions of the package, so the names of locks and channels and
 * the messages must stay compatible.
 *
 * Why not a SharedWorker: in Chromium 156 and Firefox 153, it is not isolated even if the page is, so it has no
 * SharedArrayBuffer and no threads. It cannot store models, because createSyncAccessHandle is for dedicated workers
 * only, and in Chromium it cannot start a dedicated worker. Chromium on Android had no SharedWorker for years. So the
 * engine runs in a dedicated worker of one tab, the owner.
 *
 * Why not MessageChannel: a port reaches another tab only through a SharedWorker or a service worker. A
 * BroadcastChannel copies data instead of transferring it, which costs little compared with the computation. */

/** Messages on the channel of all tabs. who: asks the owner to announce itself; owner: announces this tab's engine;
 * join: requests a direct channel to the owner. epoch: name of the owner's engine; id: name of the requesting tab.
 * @typedef {{ kind: 'who' } | { kind: 'owner', epoch: string }
 *   | { kind: 'join', epoch: string, id: string }} ChannelMessage */

/** The channel and the locks of one model, as this tab uses them. */
export class Channel {
  #name;
  #channel;
  #leave = () => {};
  #closed = false;

  /** @param {string} key of the model @param {(message: ChannelMessage) => void} hear */
  constructor(key, hear) {
    this.#name = `gemma-wasm shared ${key}`;
    this.#channel = new BroadcastChannel(this.#name);
    // Checks `kind`, because other code of the origin can post to the channel.
    this.#channel.onmessage = ({ data }) => data?.kind && hear(data);
  }

  /** Posts a message to all other tabs. @param {ChannelMessage} message */
  post(message) {
    this.#channel.postMessage(message);
  }

  /** Returns the channel between the owner of an engine and a tab. @param {string} epoch @param {string} id */
  direct(epoch, id) {
    return new BroadcastChannel(`${this.#name} ${epoch} ${id}`);
  }

  /** Holds the lock that shows that this tab is alive, until the tab leaves or ends. @param {string} id
   * @returns {Promise<void>} */
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

  /** Calls f when another tab has left the channel or ended. @param {string} id @param {AbortSignal} signal
   * @param {() => void} f */
  whenGone(id, signal, f) {
    navigator.locks.request(`${this.#name} ${id}`, { signal }, f).catch(() => {});
  }

  /** Waits for the owner's lock and holds the lock while f runs. Rejects if the signal aborts first, or when another
   * tab takes the lock over. @param {() => Promise<void>} f
   * @param {AbortSignal} [signal] default: take over the lock immediately */
  own(f, signal) {
    return navigator.locks.request(this.#name, signal ? { signal } : { steal: true }, f);
  }

  /** Calls f, unless another tab is already taking over the owner's lock. That tab will announce itself.
   * @param {() => Promise<void>} f */
  takeOver(f) {
    return navigator.locks.request(`${this.#name} thief`, { ifAvailable: true }, (lock) => lock && f());
  }

  /** Leaves the channel and releases this tab's lock. */
  close() {
    this.#closed = true;
    this.#leave();
    this.#channel.close();
  }
}

/** Returns the reason why tabs cannot share a model here, or '' if they can. */
export function whyNotShared() {
  const { Worker: workers, document: page, isSecureContext: secure, navigator: here } = globalThis;
  if (!workers || (!page && !('WorkerGlobalScope' in globalThis))) return 'this is not a browser';
  if (secure && here?.locks && 'BroadcastChannel' in globalThis) return '';
  return secure ? 'the browser has no Web Locks or no BroadcastChannel' : 'the page is not served over https';
}
