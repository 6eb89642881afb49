/* queue: a bounded queue of requests. Each model answers PARALLEL requests at a time, in the order in which they came. */

/** Requests of one model at the engine. It evaluates one at a time; the second is there when the first one ends. */
const PARALLEL = 2;
/** Weight of the newest answer in the average duration. */
const WEIGHT = 0.2;
const MAX_RETRY_AFTER = 120;

/** Requests of one model. @typedef {{ running: number, waiting: (() => void)[] }} Line */

/** A request in the queue. */
class Ticket {
  #queue;
  /** Set from the request's turn on. @type {Line | null} */
  #line = null;
  #began = 0;

  /** @param {Queue} queue */
  constructor(queue) {
    this.#queue = queue;
  }

  /** Resolves when it is this request's turn. Rejects if the signal aborts. @param {string} model id
   * @param {AbortSignal} signal */
  async turn(model, signal) {
    this.#line = await this.#queue.start(model, signal);
    this.#began = performance.now();
  }

  /** Leaves the queue. Must be called once. */
  leave() {
    this.#queue.end(this.#line, (performance.now() - this.#began) / 1000);
  }
}

export class Queue {
  #capacity;
  #inside = 0;
  #seconds = 0;
  /** @type {Map<string, Line>} */
  #lines = new Map();

  /** @param {number} capacity maximum of requests */
  constructor(capacity) {
    this.#capacity = capacity;
  }

  /** Number of requests that are being answered. */
  get running() {
    return [...this.#lines.values()].reduce((sum, { running }) => sum + running, 0);
  }

  /** Number of requests that wait. */
  get waiting() {
    return this.#inside - this.running;
  }

  /** Seconds after which a refused client should ask again: the time in which the queue gets empty, at least 1. */
  get retryAfter() {
    return Math.min(MAX_RETRY_AFTER, Math.max(1, Math.ceil((this.#seconds * this.#inside) / PARALLEL)));
  }

  /** Returns a ticket, or null if the queue is full. */
  enter() {
    if (this.#inside >= this.#capacity) return null;
    this.#inside++;
    return new Ticket(this);
  }

  /** @param {string} model @param {AbortSignal} signal @returns {Promise<Line>} */
  async start(model, signal) {
    signal.throwIfAborted();
    const line = this.#lines.get(model) ?? { running: 0, waiting: [] };
    this.#lines.set(model, line);
    if (line.running < PARALLEL) {
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

  /** @param {Line | null} line null if its turn did not come @param {number} seconds that it was running */
  end(line, seconds) {
    this.#inside--;
    if (!line) return;
    this.#seconds += WEIGHT * (seconds - this.#seconds);
    line.running--;
    line.waiting.shift()?.();
  }
}
