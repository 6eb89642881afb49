/* asking: sends requests of the worker to the client (protocol.js), and wraps the client's store as a Store for the
 * worker. */
/** @import { Answer, FromWorker, Questions, Store } from '../protocol.js' */
import { unpackError } from '../protocol.js';

/** The requests of one worker to its client. */
export class Asking {
  #post;
  /** @type {Map<number, (answer: Answer) => void>} */
  #asked = new Map();
  #questions = 0;

  /** @param {(message: FromWorker) => void} post */
  constructor(post) {
    this.#post = post;
  }

  /** Settles a request of the worker with the client's answer. @param {Answer} answer */
  receive(answer) {
    this.#asked.get(answer.question)?.(answer);
  }

  /** Sends a request to the client. Rejects with the client's error. @template {keyof Questions} M @param {M} method
   * @param {Questions[M]['args']} args
   * @returns {Promise<Questions[M]['value']>} */
  ask(method, ...args) {
    return new Promise((resolve, reject) => {
      const question = ++this.#questions;
      this.#asked.set(question, ({ value, error }) => {
        this.#asked.delete(question);
        if (error) reject(error);
        else resolve(/** @type {Questions[M]['value']} */ (value));
      });
      this.#post(/** @type {FromWorker} */ ({ kind: 'ask', question, method, args }));
    });
  }

  /** Resolves with the next bytes of a file that the client reads, null at the end. @param {number} part index of the
   * file */
  pull(part) {
    return this.ask('pull', part).catch((error) => {
      throw unpackError(error);
    });
  }

  /** Returns a store that uses the client's. It has no locks. Its methods reject with a copy of the client's error.
   * @returns {Store} */
  store() {
    return {
      list: () => this.ask('list'),
      size: (name) => this.ask('size', name),
      remove: (name) => this.ask('remove', name),
      flush: (name) => this.ask('flush', name),
      close: (name) => this.ask('close', name),
      estimate: async () => (await this.ask('estimate')) ?? {},
      write: (name, at, bytes) => this.ask('write', name, at, bytes.slice()),
      read: async (name, at, into, wanted = () => true) => {
        const bytes = await this.ask('read', name, at, into.length);
        if (!wanted()) return 0;
        into.set(bytes);
        return bytes.length;
      },
    };
  }
}
