/* rpc: remote procedure calls over a port (protocol.js). Numbers the calls, assigns replies and events to them, and
 * handles requests of the worker. */
/** @import { Answering } from './answers.js' */
/** @import { ModelError } from '../errors.js' */
/** @import { Port } from '../platform/env.js' */
/** @import { Heartbeat } from './heartbeat.js' */
/** @import { Event, FromWorker, Question, ToWorker } from '../protocol.js' */
import { packError, unpackError } from '../protocol.js';
import { callbackFailed, notPosted } from './errors.js';
import { deferred, onAbort } from './signals.js';

/** A call in progress. abort: asks the worker for an early reply; ack: reports the number of steps that the consumer
 * has read.
 * @typedef {{ answer: Promise<any>, abort: () => void, ack: (count: number) => void }} CallHandle */
/** Options of a call. onEvent: called with progress and steps; transfer: buffers that are transferred with the
 * arguments.
 * @typedef {{ signal?: AbortSignal, onEvent?: (event: Event) => void, transfer?: ArrayBufferLike[] }} CallOptions */
/** A message without its id. @template M @typedef {M extends { id: number } ? Omit<M, 'id'> : never} Numbered */
/** @typedef {{ beats: number, resolve: (value: any) => void, reject: (error: ModelError) => void,
 *   onEvent?: (event: Event) => void }} Pending */

/** Returns the handle of a call that fails without being sent. @param {ModelError} error @returns {CallHandle} */
export const refused = (error) => ({ answer: Promise.reject(error), abort() {}, ack() {} });

/** The calls to one worker. */
export class Rpc {
  #port;
  #heartbeat;
  /** @type {Map<number, Pending>} */
  #pending = new Map();
  #lastId = 0;
  /** Why no more calls are possible; null while calls are possible. @type {ModelError | null} */
  ended = null;
  /** @type {Answering | undefined} */
  answering;
  /** Called with the progress of embedding tables that are downloaded after the load.
   * @type {((event: any) => void) | undefined} */
  onRest;

  /** @param {Pick<Port<ToWorker, any>, 'post'>} port
   * @param {Pick<Heartbeat, 'begin' | 'end'>} heartbeat counts the pending calls and their `beats`: heartbeats that
   * the worker may miss because of a call */
  constructor(port, heartbeat) {
    this.#port = port;
    this.#heartbeat = heartbeat;
  }

  /** Sends a call. @param {Numbered<ToWorker>} message @param {CallOptions} [options]
   * @param {number} [beats] additional number of heartbeats that the worker may miss
   * @returns {CallHandle} */
  send(message, { signal, onEvent, transfer } = {}, beats = 0) {
    if (this.ended) return refused(this.ended);
    const id = ++this.#lastId;
    const { promise: answer, resolve, reject } = deferred();
    this.#pending.set(id, { beats, resolve, reject, onEvent });
    this.#heartbeat.begin(beats);
    this.#attempt(id, notPosted, () => this.#port.post(/** @type {ToWorker} */ ({ ...message, id }), transfer));
    const unsubscribe = onAbort(signal, () => this.#abort(id));
    answer.then(unsubscribe, unsubscribe);
    return {
      answer,
      abort: () => this.#abort(id),
      ack: (count) => this.#pending.has(id) && this.#port.post({ kind: 'ack', id, count }),
    };
  }

  /** Handles a message of the worker. If an event handler throws, aborts its call and rejects it with `bad-option`.
   * @param {FromWorker} message */
  receive(message) {
    switch (message.kind) {
      case 'done':
        return this.#take(message.id)?.resolve(message.value);
      case 'failed':
        return this.#take(message.id)?.reject(unpackError(message.error));
      case 'rest':
        try {
          return this.onRest?.(message);
        } catch {
          return; // the load has ended, so there is no call to reject
        }
      case 'ask':
        return void this.#answer(message);
      case 'progress':
      case 'steps':
        return this.#attempt(message.id, callbackFailed, () => this.#pending.get(message.id)?.onEvent?.(message));
    }
  }

  /** Asks the worker for an early reply to all pending calls. */
  abortAll() {
    for (const id of this.#pending.keys()) this.#abort(id);
  }

  /** Rejects all pending and later calls. @param {ModelError} reason */
  end(reason) {
    this.ended = reason;
    for (const { reject } of this.#pending.values()) reject(reason);
    this.#pending.clear();
  }

  /** @param {number} id */
  #abort(id) {
    if (this.#pending.has(id)) this.#port.post({ kind: 'abort', id });
  }

  /** @param {number} id @param {(cause: unknown) => ModelError} errorOf @param {() => void} f */
  #attempt(id, errorOf, f) {
    try {
      f();
    } catch (cause) {
      this.#abort(id);
      this.#take(id)?.reject(errorOf(cause));
    }
  }

  /** @param {number} id */
  #take(id) {
    const pending = this.#pending.get(id);
    if (pending) this.#heartbeat.end(pending.beats);
    this.#pending.delete(id);
    return pending;
  }

  /** @param {Question} asked */
  async #answer({ question, method, args }) {
    /** @param {any} error */
    const packed = (error) => ({ error: { ...packError(error), name: error.name, message: error.message } });
    /** @type {{ value?: any, error?: any }} */
    const answer = await Promise.resolve(this.answering?.(method, args)).then((value) => ({ value }), packed);
    // Transfers the bytes of a stream, because they are copies. Does not transfer a store's buffers, because the store
    // may keep them.
    const transfer = method === 'pull' && answer.value ? [answer.value.buffer] : [];
    try {
      this.#port.post({ kind: 'answer', question, ...answer }, transfer);
    } catch (error) {
      // The caller's store may return a value that cannot be posted.
      this.#port.post({ kind: 'answer', question, ...packed(error) });
    }
  }
}
