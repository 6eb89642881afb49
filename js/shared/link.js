/* link: connects this tab to the engine of another tab (the owner), over a direct channel to the owner's relay
 * (relay.js). */
/** @import { Port } from '../platform/env.js' */
/** @import { FromWorker, Progress, ToWorker } from '../protocol.js' */
/** @import { Channel } from './channel.js' */
/** @import { FromTab } from './relay.js' */
import { Connection } from '../rpc/connection.js';

/** This tab's connection to one engine of another tab. */
export class Link {
  /** @readonly */
  epoch;
  /** @readonly */
  connection;
  /** Whether the owner has reported that its engine is lost. */
  told = false;
  /** Whether the engine crashed or froze; false if only its tab ended. */
  died = false;
  #direct;

  /** @param {Channel} channel @param {string} epoch @param {string} id */
  constructor(channel, epoch, id) {
    this.epoch = epoch;
    this.#direct = channel.direct(epoch, id);
    this.connection = new Connection(this.#port(), { loads: false });
    channel.post({ kind: 'join', epoch, id });
  }

  /** Resolves with the model's properties when the owner has loaded the model.
   * @param {(value: Progress) => void} onProgress */
  open(onProgress) {
    return this.connection.open(
      [],
      /** @type {any} */ ({}),
      () => {},
      (event) => {
        if (event.kind === 'progress') onProgress(/** @type {Progress} */ (event.value));
      },
    );
  }

  /** Asks the owner to restart the shared engine. */
  restart() {
    this.#direct.postMessage(/** @type {FromTab} */ ({ kind: 'restart' }));
  }

  /** Returns a port to the owner that queues messages until the owner listens. @returns {Port<ToWorker, FromWorker>} */
  #port() {
    /** @type {ToWorker[] | null} */
    let early = [];
    const direct = this.#direct;
    return {
      post(message) {
        if (!early) direct.postMessage(message);
        else if (message.kind !== 'beat') early.push(message);
      },
      onMessage: (handler) => {
        direct.onmessage = ({ data }) => {
          if (!data?.kind) return;
          if (data.kind !== 'admitted') {
            this.told ||= data.kind === 'fatal';
            this.died ||= data.how === 'died';
            handler(data);
            return;
          }
          for (const message of early ?? []) direct.postMessage(message);
          early = null;
        };
      },
      onFailure() {},
      terminate: () => direct.close(),
      keepAlive() {},
    };
  }
}
