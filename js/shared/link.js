/* link: another tab's end of the lane to the owner of the engine: a connection as to a worker, over a channel. */
/** @import { Port } from '../platform/env.js' */
/** @import { FromWorker, Progress, ToWorker } from '../protocol.js' */
/** @import { Hall } from './hall.js' */
/** @import { FromTab } from './relay.js' */
import { Connection } from '../link/connection.js';

export class Link {
  /** @readonly */
  epoch;
  /** @readonly */
  connection;
  /** The owner said that the engine is lost; itself, and not its tab alone. */
  told = false;
  died = false;
  #lane;

  /** @param {Hall} hall @param {string} epoch @param {string} id */
  constructor(hall, epoch, id) {
    this.epoch = epoch;
    this.#lane = hall.lane(epoch, id);
    this.connection = new Connection(this.#port(), { loads: false });
    hall.post({ kind: 'join', epoch, id });
  }

  /** What the model is, when it is loaded. @param {(value: Progress) => void} onProgress */
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

  restart() {
    this.#lane.postMessage(/** @type {FromTab} */ ({ kind: 'restart' }));
  }

  /** What is said before the owner hears is kept until then. @returns {Port<ToWorker, FromWorker>} */
  #port() {
    /** @type {ToWorker[] | null} */
    let early = [];
    const lane = this.#lane;
    return {
      post(message) {
        if (!early) lane.postMessage(message);
        else if (message.kind !== 'beat') early.push(message);
      },
      onMessage: (handler) => {
        lane.onmessage = ({ data }) => {
          if (!data?.kind) return;
          if (data.kind !== 'admitted') {
            this.told ||= data.kind === 'fatal';
            this.died ||= data.how === 'died';
            handler(data);
            return;
          }
          for (const message of early ?? []) lane.postMessage(message);
          early = null;
        };
      },
      onFailure() {},
      terminate: () => lane.close(),
      keepAlive() {},
    };
  }
}
