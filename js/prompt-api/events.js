/* events: implements event handler attributes, and the monitor of create(). */

/** Replaces ProgressEvent, which Node lacks. */
class OwnProgressEvent extends Event {
  /** @param {string} type @param {{ loaded: number, total: number, lengthComputable: boolean }} amounts */
  constructor(type, { loaded, total, lengthComputable }) {
    super(type);
    this.loaded = loaded;
    this.total = total;
    this.lengthComputable = lengthComputable;
  }
}

/** The event handler attributes of a target, for example `oncontextoverflow`. */
export class Handlers {
  #target;
  /** @type {Map<string, Function | null>} */
  #own = new Map();

  /** @param {EventTarget} target */
  constructor(target) {
    this.#target = target;
  }

  /** Returns the handler of an event type, or null if there is none. @param {string} type @returns {any} */
  get(type) {
    return this.#own.get(type) ?? null;
  }

  /** Sets the handler of an event type. A new handler keeps the place of the type's first handler in the order of
   * listeners. @param {string} type @param {unknown} handler null, or anything that is not a function, removes it */
  set(type, handler) {
    if (!this.#own.has(type)) this.#target.addEventListener(type, (event) => this.get(type)?.call(this.#target, event));
    this.#own.set(type, typeof handler === 'function' ? handler : null);
  }
}

/** Smallest step of the reported download fraction, as in the specification of the Prompt API. */
const STEP = 1 / 0x10000;
/** Shortest time between two progress events, in milliseconds. */
const EVERY_MS = 50;

/** Receives the `downloadprogress` events of one create(). Their `loaded` goes from 0 to 1, and their `total` is 1. */
export class CreateMonitor extends EventTarget {
  #handlers = new Handlers(this);
  #last = -1;
  #time = 0;
  #stopped = false;

  /** Listener of `downloadprogress`. @returns {((event: ProgressEvent) => any) | null} */
  get ondownloadprogress() {
    return this.#handlers.get('downloadprogress');
  }

  /** Sets the listener of `downloadprogress`. */
  set ondownloadprogress(handler) {
    this.#handlers.set('downloadprogress', handler);
  }

  /** Name of the interface, as Web IDL requires. @internal */
  get [Symbol.toStringTag]() {
    return 'CreateMonitor';
  }

  /** Fires `downloadprogress`, unless the fraction was reported already or the last event is too recent. @internal
   * @param {number} fraction */
  report(fraction) {
    const loaded = Math.floor(Math.min(fraction, 1) / STEP) * STEP;
    const now = performance.now();
    const isEnd = loaded === 0 || loaded === 1;
    if (this.#stopped || loaded <= this.#last || !(isEnd || now - this.#time > EVERY_MS)) return;
    this.#last = loaded;
    this.#time = now;
    const Progress = /** @type {typeof ProgressEvent} */ (globalThis.ProgressEvent ?? OwnProgressEvent);
    this.dispatchEvent(new Progress('downloadprogress', { loaded, total: 1, lengthComputable: true }));
  }

  /** Stops firing `downloadprogress`. @internal */
  stop() {
    this.#stopped = true;
  }
}
