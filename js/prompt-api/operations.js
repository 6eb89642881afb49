/* operations: runs the calls of a session one after the other, each with its own signal. */
import { domErrorOf } from './errors.js';

/** Queues the calls of one session. */
export class Operations {
  /** Settles when the last call in the queue has ended. @type {Promise<unknown>} */
  #last = Promise.resolve();
  /** Functions that abort the pending calls. @type {Set<(reason: unknown) => void>} */
  #pending = new Set();
  #end = new AbortController();
  /** Signal that aborts when the session ends. */
  ended = this.#end.signal;

  /** Throws the session's reason if the session has ended, or the signal's reason if the signal is aborted.
   * @param {AbortSignal} [signal] */
  check(signal) {
    this.ended.throwIfAborted();
    signal?.throwIfAborted();
  }

  /** Runs a task after the earlier tasks. Throws immediately if check() does. Rejects as soon as the signal aborts or
   * the session ends, but the next task waits until this task has ended.
   * @template T @param {AbortSignal | undefined} given @param {(signal: AbortSignal) => Promise<T>} task
   * @param {boolean} [queued] false to run the task immediately @returns {Promise<T>} */
  run(given, task, queued = true) {
    this.check(given);
    const controller = new AbortController();
    const { signal } = controller;
    const before = queued ? this.#last : Promise.resolve();
    const result = before.then(() => (signal.aborted ? Promise.reject(signal.reason) : task(signal)));
    if (queued) this.#last = result.catch(() => {});
    return new Promise((resolve, reject) => {
      const stop = (/** @type {unknown} */ reason) => {
        controller.abort(reason);
        reject(reason);
      };
      const onAbort = () => stop(given?.reason);
      this.#pending.add(stop);
      given?.addEventListener('abort', onAbort);
      const done = () => {
        this.#pending.delete(stop);
        given?.removeEventListener('abort', onAbort);
      };
      result.then(resolve, (error) => reject(domErrorOf(error, 'prompt'))).finally(done);
    });
  }

  /** Ends the session: aborts pending calls, and rejects later ones. @param {unknown} reason */
  end(reason) {
    this.#end.abort(reason);
    for (const stop of [...this.#pending]) stop(reason);
  }
}
