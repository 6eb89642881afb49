/* queue: a bounded queue of requests. Several requests per model run at a time, in the order of arrival. */

import { queueFull } from './errors.js';

/** Number of requests per model that are prepared while the engine evaluates others, so that they start as soon as one
 * ends. */
const AHEAD = 1;
/** Weight of the latest request in the moving average of durations. */
const WEIGHT = 0.2;
const MAX_RETRY_AFTER = 120;

/** The queue of one model. most: maximum number of requests that run at a time.
 * @typedef {{ most: number, running: number, waiting: (() => void)[] }} Line */

/** The requests of one server that wait or run. */
export class Queue {
  #capacity;
  #sequences;
  #inside = 0;
  #seconds = 0;
  /** @type {Map<string, Line>} */
  #lines = new Map();

  /** @param {number} capacity maximum number of requests
   * @param {(model: string) => number} [sequences] returns the number of answers that a model generates at a time */
  constructor(capacity, sequences = () => 1) {
    this.#capacity = capacity;
    this.#sequences = sequences;
  }

  /** Number of requests that run, for all models. */
  get running() {
    return [...this.#lines.values()].reduce((sum, { running }) => sum + running, 0);
  }

  /** Number of requests that have entered the queue and do not run yet. */
  get waiting() {
    return this.#inside - this.running;
  }

  /** Value of Retry-After for rejected requests, in seconds: about the time until the queue is empty, at least 1. */
  get retryAfter() {
    const most = Math.max(1 + AHEAD, ...[...this.#lines.values()].map((line) => line.most));
    return Math.min(MAX_RETRY_AFTER, Math.max(1, Math.ceil((this.#seconds * this.#inside) / most)));
  }

  /** Throws a RequestError if the queue is full. */
  check() {
    if (this.#inside >= this.#capacity) throw queueFull();
  }

  /** Adds a request and returns its ticket. Throws a RequestError if the queue is full. */
  enter() {
    this.check();
    this.#inside++;
    /** Queue of the request's model; null until the request runs. @type {Line | null} */
    let line = null;
    let began = 0;
    return {
      /** Resolves when the request may run. Rejects if the signal aborts.
       * @param {string} model id @param {AbortSignal} signal */
      turn: async (model, signal) => {
        line = await this.#start(model, signal);
        began = performance.now();
      },
      /** Removes the request from the queue. Must be called once. */
      leave: () => this.#end(line, (performance.now() - began) / 1000),
    };
  }

  /** @param {string} model @param {AbortSignal} signal @returns {Promise<Line>} */
  async #start(model, signal) {
    signal.throwIfAborted();
    const line = this.#lines.get(model) ?? { most: this.#sequences(model) + AHEAD, running: 0, waiting: [] };
    this.#lines.set(model, line);
    if (line.running < line.most) {
      line.running++;
      return line;
    }
    await new Promise((resolve, reject) => {
      const begin = () => {
        signal.removeEventListener('abort', abort);
        line.running++;
        resolve(null);
      };
      const abort = () => {
        line.waiting.splice(line.waiting.indexOf(begin), 1);
        reject(signal.reason);
      };
      signal.addEventListener('abort', abort, { once: true });
      line.waiting.push(begin);
    });
    return line;
  }

  /** Removes a request, and starts the next one of its model. @param {Line | null} line null if the request did not run
   * @param {number} seconds how long the request ran */
  #end(line, seconds) {
    this.#inside--;
    if (!line) return;
    this.#seconds += WEIGHT * (seconds - this.#seconds);
    line.running--;
    line.waiting.shift()?.();
  }
}
