/* connection: the client's end of protocol.js: matches answers to calls. What the worker asks meanwhile is
 * answered by whoever opened it (answers.js). */
/** @import { Port } from '../platform/env.js' */
/** @import { Answering } from './answers.js' */
/** @import { Calls, Event, FromWorker, ModelInfo } from '../protocol.js' */
/** @import { OpenOptions, Question, SourceDescriptor, ToWorker } from '../protocol.js' */
import { GemmaError, failure } from '../errors.js';
import { packError, unpackError } from '../protocol.js';
import { onAbort } from './signals.js';

/** A busy machine needs more than a moment for it. */
const GOODBYE_MS = 1000;
/** While somebody waits, the worker is asked for a sign this often. */
const BEAT_MS = 250;
/** While nobody waits; it costs next to nothing, and whoever asks next need not wait for what died before. */
const IDLE_MS = 750;
const IDLE_BEATS = 4;
/** Beats without a sign: 4.25 s; while the model loads 30 s, for pipes and disks may take their time. Beats are
 * counted, not time: a tab that was frozen, or a laptop that slept, has missed none. */
const SILENT_BEATS = 16;
const LOADING_BEATS = 120;
/** How much longer than the longest silence that it lived through a worker may be silent; than one while it loaded,
 * which is the first that a slow or busy machine shows of itself, and may be a disk's: up to a limit. */
const AGAIN = 3;
const AFTER_LOADING = 6;
const MOST_AFTER_LOADING = 3 * SILENT_BEATS;
/** As many count at once, at most: in a hidden tab timers come once a second. */
const SLOW = 4;
/** Characters of text that become tokens, or a prompt, within a beat, on any platform: that is done in one go. */
const BEAT_CHARACTERS = 50_000;

/** In the arguments of one call: the ids of more would not fit into an array of V8, which aborts Node 20. */
const MOST_CHARACTERS = 1 << 26;

/** Counts the characters in a value. @param {any} value @returns {number} */
export function charactersIn(value) {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || !value || ArrayBuffer.isView(value)) return 0;
  let sum = 0;
  for (const part of Array.isArray(value) ? value : Object.entries(value).flat()) sum += charactersIn(part);
  return sum;
}

/** onEvent hears of progress and steps.
 * @typedef {{ beats: number, resolve: (value: any) => void, reject: (error: GemmaError) => void,
 *   onEvent?: (event: Event) => void }} Pending */

export class Connection {
  #port;
  /** @type {Map<number, Pending>} */
  #pending = new Map();
  #lastId = 0;
  /** @type {GemmaError | null} why no more calls are possible */
  #end = null;
  /** @type {Answering | undefined} */
  #answering;
  #onDisposed = () => {};
  /** @type {Promise<void> | null} */
  #closing = null;
  /** @type {any} */
  #heart;
  /** Beats since the last sign, and those that are waited for one. */
  #silent = 0;
  #enough = SILENT_BEATS;
  #loading;
  /** When the last beat was. */
  #beaten = 0;
  /** @type {(error: GemmaError) => void} */
  #lose = () => {};
  /** The worker died or froze; why. @type {Promise<GemmaError>} */
  lost = new Promise((resolve) => {
    this.#lose = resolve;
  });
  broken = false;

  /** loads: a worker, which may be silent for long while it does. @param {Port<ToWorker, FromWorker>} port
   * @param {{ loads: boolean }} [kind] */
  constructor(port, { loads } = { loads: true }) {
    this.#port = port;
    this.#loading = loads;
    port.onMessage((message) => this.#receive(message));
    port.onFailure((cause) => this.#break(failure('worker-failed', 'the worker died', cause)));
    port.keepAlive(false);
  }

  /** The first call. @param {SourceDescriptor[]} source @param {OpenOptions} options @param {Answering} answering
   * @param {(event: Event) => void} onEvent @returns {Promise<ModelInfo>} */
  open(source, options, answering, onEvent) {
    this.#answering = answering;
    return this.#send((id) => ({ kind: 'open', id, source, options }), onEvent).answer;
  }

  /** @template {keyof Calls} M @param {M} method @param {Calls[M]['args']} args @param {AbortSignal} [signal]
   * @param {(event: Event) => void} [onEvent] @param {ArrayBufferLike[]} [transfer] given away with it
   * @returns {{ id: number, answer: Promise<Calls[M]['value']> }} */
  call(method, args, signal, onEvent, transfer) {
    const message = (/** @type {number} */ id) => /** @type {ToWorker} */ ({ kind: 'call', id, method, args });
    const length = charactersIn(args);
    if (length > MOST_CHARACTERS) {
      throw new GemmaError(
        'bad-option',
        `Cannot take ${length} characters of text in one call; at most ${MOST_CHARACTERS}` +
          ' are possible. Pass less text at once.',
      );
    }
    const { id, answer } = this.#send(message, onEvent, transfer, Math.floor(length / BEAT_CHARACTERS));
    const settled = onAbort(signal, () => this.abort(id));
    answer.then(settled, settled);
    return { id, answer };
  }

  /** Ask for an early answer. @param {number} id */
  abort(id) {
    if (this.#pending.has(id)) this.#port.post({ kind: 'abort', id });
  }

  /** @param {number} id @param {number} count steps that were taken */
  ack(id, count) {
    if (this.#pending.has(id)) this.#port.post({ kind: 'ack', id, count });
  }

  /** End the worker in good order. @param {GemmaError} reason of all calls to fail */
  close(reason) {
    return (this.#closing ??= this.#close(reason));
  }

  /** @param {GemmaError} reason */
  async #close(reason) {
    if (this.#end) return;
    this.#port.keepAlive(true);
    // A worker thread ends when its work does.
    for (const id of this.#pending.keys()) this.abort(id);
    this.#fail(reason);
    const heard = await new Promise((resolve) => {
      const timer = setTimeout(resolve, GOODBYE_MS, false);
      this.#onDisposed = () => {
        clearTimeout(timer);
        resolve(true);
      };
      this.#port.post({ kind: 'dispose' });
    });
    // Node 20 aborts the process when a worker is terminated while V8 compiles for it (node_platform.cc, ForIsolate).
    if (heard) await this.#port.leave?.();
    await this.#port.terminate();
  }

  /** @param {GemmaError} reason */
  kill(reason) {
    if (this.#end) return;
    this.#fail(reason);
    void this.#port.terminate();
  }

  /** @param {GemmaError} reason */
  #break(reason) {
    if (this.#end) return;
    this.broken = true;
    this.kill(reason);
    this.#lose(reason);
  }

  /** Watches the worker, closely while somebody waits for it; in Node that holds no process open. */
  #watch() {
    clearInterval(this.#heart);
    this.#silent = 0;
    this.#beaten = performance.now();
    if (this.#end) return;
    this.#heart = setInterval(() => this.#beat(), this.#pending.size ? BEAT_MS : IDLE_MS);
    this.#heart.unref?.();
  }

  /** Beats, from a silence that ends. */
  #learned() {
    return this.#loading ? Math.min(AFTER_LOADING * this.#silent, MOST_AFTER_LOADING) : AGAIN * this.#silent;
  }

  #slack() {
    return [...this.#pending.values()].reduce((sum, { beats }) => sum + beats, 0);
  }

  /** A beat, if it is time for one: of those who wait for a hidden page, whose timers are slow. */
  tick() {
    if (this.#pending.size && performance.now() - this.#beaten >= BEAT_MS) this.#beat();
  }

  #beat() {
    const idle = !this.#pending.size;
    const enough = idle ? (IDLE_BEATS * this.#enough) / SILENT_BEATS : this.#enough;
    const most = this.#loading ? LOADING_BEATS : enough + this.#slack();
    const before = this.#beaten;
    this.#beaten = performance.now();
    const late = Math.round((this.#beaten - before) / (idle ? IDLE_MS : BEAT_MS));
    // Where this thread was busy a sign may wait behind this beat; behind the next one it does not.
    if (this.#silent >= most + (late > 1 ? SLOW : 0)) {
      return this.#break(
        new GemmaError('worker-failed', 'the worker gives no sign of life', {
          expected: `one within ${(most * (idle ? IDLE_MS : BEAT_MS)) / 1000} s`,
          got: 'none',
        }),
      );
    }
    this.#silent += Math.min(Math.max(late, 1), SLOW);
    this.#port.post({ kind: 'beat' });
  }

  /** @param {GemmaError} reason */
  #fail(reason) {
    this.#end = reason;
    this.#watch();
    for (const { reject } of this.#pending.values()) reject(reason);
    this.#pending.clear();
  }

  /** @param {(id: number) => ToWorker} message @param {(event: Event) => void} [onEvent]
   * @param {ArrayBufferLike[]} [transfer] @param {number} [beats] @returns {{ id: number, answer: Promise<any> }} */
  #send(message, onEvent, transfer, beats = 0) {
    const id = ++this.#lastId;
    if (this.#end) return { id, answer: Promise.reject(this.#end) };
    const answer = new Promise((resolve, reject) => {
      this.#pending.set(id, { beats, resolve, reject, onEvent });
    });
    this.#port.keepAlive(true);
    if (this.#pending.size === 1) this.#watch();
    this.#attempt(id, 'the worker cannot be given this', () => this.#port.post(message(id), transfer));
    return { id, answer };
  }

  /** A failure of f is one of the call. @param {number} id @param {string} what @param {() => void} f */
  #attempt(id, what, f) {
    try {
      f();
    } catch (cause) {
      this.abort(id);
      this.#take(id)?.reject(failure('bad-option', what, cause));
    }
  }

  /** @param {FromWorker} message */
  #receive(message) {
    if (!this.#slack()) this.#enough = Math.max(this.#enough, this.#learned());
    if (message.kind === 'done') this.#loading = false;
    this.#silent = 0;
    switch (message.kind) {
      case 'beat':
        return;
      case 'done':
        return this.#take(message.id)?.resolve(message.value);
      case 'failed':
        return this.#take(message.id)?.reject(unpackError(message.error));
      case 'fatal':
        return this.#break(unpackError(message.error));
      case 'ask':
        return void this.#answer(message);
      case 'disposed':
        return this.#onDisposed();
      case 'locked':
      case 'thread':
        return; // the platform's (env-browser.js)
      default:
        return this.#attempt(message.id, 'a progress callback failed', () =>
          this.#pending.get(message.id)?.onEvent?.(message),
        );
    }
  }

  /** @param {Question} asked */
  async #answer({ question, method, args }) {
    /** @type {{ value?: any, error?: any }} */
    const answer = await Promise.resolve(this.#answering?.(method, args)).then(
      (value) => ({ value }),
      (error) => ({ error: { ...packError(error), name: error.name, message: error.message } }),
    );
    if (this.#end) return;
    // Of a stream, bytes are ours to give away; what a store gives may be its own.
    const transfer = method === 'pull' && answer.value ? [answer.value.buffer] : [];
    try {
      this.#port.post({ kind: 'answer', question, ...answer }, transfer);
    } catch (error) {
      // What a store gave may be nothing that can be posted.
      const { name, message } = /** @type {Error} */ (error);
      this.#port.post({ kind: 'answer', question, error: { ...packError(error), name, message } });
    }
  }

  /** @param {number} id */
  #take(id) {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (!this.#pending.size) this.#watch();
    if (!this.#pending.size && !this.#end) this.#port.keepAlive(false);
    return pending;
  }
}
