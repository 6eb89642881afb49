/* connection: the client's side of protocol.js. Combines calls (rpc.js) and failure detection (heartbeat.js) on the
 * port of one worker. */
/** @import { Port } from '../platform/env.js' */
/** @import { Answering } from './answers.js' */
/** @import { ModelError } from '../errors.js' */
/** @import { CallHandle, CallOptions } from './rpc.js' */
/** @import { Calls, Event, FromWorker, ModelInfo } from '../protocol.js' */
/** @import { OpenOptions, SourceDescriptor, ToWorker } from '../protocol.js' */
import { unpackError } from '../protocol.js';
import { tooMuchText, workerDied } from './errors.js';
import { Heartbeat } from './heartbeat.js';
import { Rpc, refused } from './rpc.js';
import { deferred } from './signals.js';

/** Time in ms that a worker has to end by itself before it is terminated. */
const GOODBYE_MS = 1000;
/** Number of characters for which one more missed heartbeat is tolerated. A worker that encodes or renders text
 * receives no messages, but it processes at least this many characters per heartbeat on every platform. */
const BEAT_CHARACTERS = 50_000;
/** Maximum number of characters in the arguments of one call. The token ids of more characters would not fit into an
 * array of V8, which makes Node 20 abort. */
const MAX_CHARACTERS = 1 << 26;

/** Returns the number of characters in a value. @param {any} value @returns {number} */
export function charactersIn(value) {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || !value || ArrayBuffer.isView(value)) return 0;
  let sum = 0;
  for (const part of Array.isArray(value) ? value : Object.entries(value).flat()) sum += charactersIn(part);
  return sum;
}

/** The connection to one worker, until it is closed or breaks. A broken connection cannot be used again. */
export class Connection {
  #port;
  #heartbeat;
  #rpc;
  #onDisposed = () => {};
  /** @type {Promise<void> | null} */
  #closing = null;
  #lost = deferred();
  /** Resolves with the reason when the worker dies or freezes. @type {Promise<ModelError>} */
  lost = this.#lost.promise;
  broken = false;

  /** Connects to a worker. loads: whether the worker first loads a model, during which longer silence is tolerated.
   * @param {Port<ToWorker, FromWorker>} port
   * @param {{ loads: boolean }} [kind] */
  constructor(port, { loads } = { loads: true }) {
    this.#port = port;
    this.#heartbeat = new Heartbeat(port, (error) => this.#break(error), loads);
    this.#rpc = new Rpc(port, this.#heartbeat);
    port.onMessage((message) => this.#receive(message));
    port.onFailure((cause) => this.#break(workerDied(cause)));
    port.keepAlive(false);
  }

  /** Loads the model. Must be the first call. @param {SourceDescriptor[]} source @param {OpenOptions} options
   * @param {Answering | undefined} answering
   * @param {(event: Event) => void} onEvent @returns {Promise<ModelInfo>} */
  open(source, options, answering, onEvent) {
    this.#rpc.answering = answering;
    this.#rpc.onRest = onEvent;
    return this.#rpc.send({ kind: 'open', source, options }, { onEvent }).answer;
  }

  /** Sends a call. Its answer rejects with `bad-option` if the arguments have more than MAX_CHARACTERS characters.
   * @template {keyof Calls} M @param {M} method @param {Calls[M]['args']} args @param {CallOptions} [options]
   * @returns {CallHandle} */
  call(method, args, options) {
    const length = charactersIn(args);
    if (length > MAX_CHARACTERS) return refused(tooMuchText(MAX_CHARACTERS, length));
    const message = /** @type {any} */ ({ kind: 'call', method, args });
    return this.#rpc.send(message, options, Math.floor(length / BEAT_CHARACTERS));
  }

  /** Sends a heartbeat if one is due (Heartbeat.tick()). */
  tick() {
    this.#heartbeat.tick();
  }

  /** Ends the worker after its current work. @param {ModelError} reason the error of all pending and later calls */
  close(reason) {
    return (this.#closing ??= this.#close(reason));
  }

  /** @param {ModelError} reason */
  async #close(reason) {
    if (this.#rpc.ended) return;
    this.#port.keepAlive(true);
    this.#rpc.abortAll(); // aborts first, because a busy worker receives `dispose` only after its current call
    this.#end(reason);
    const heard = await new Promise((resolve) => {
      const timer = setTimeout(resolve, GOODBYE_MS, false);
      this.#onDisposed = () => {
        clearTimeout(timer);
        resolve(true);
      };
      this.#port.post({ kind: 'dispose' });
    });
    // Waits for the worker's exit, because Node 20 aborts the process if a worker is terminated while V8 compiles its
    // code (node_platform.cc, ForIsolate).
    if (heard) await this.#port.leave?.();
    await this.#port.terminate();
  }

  /** Terminates the worker immediately. @param {ModelError} reason error of all pending and later calls */
  kill(reason) {
    if (this.#rpc.ended) return;
    this.#end(reason);
    void this.#port.terminate();
  }

  /** @param {ModelError} reason */
  #break(reason) {
    if (this.#rpc.ended) return;
    this.broken = true;
    this.kill(reason);
    this.#lost.resolve(reason);
  }

  /** @param {ModelError} reason */
  #end(reason) {
    this.#heartbeat.stop();
    this.#rpc.end(reason);
  }

  /** @param {FromWorker} message */
  #receive(message) {
    this.#heartbeat.heard();
    if (message.kind === 'done') this.#heartbeat.loaded();
    if (message.kind === 'fatal') this.#break(unpackError(message.error));
    else if (message.kind === 'disposed') this.#onDisposed();
    else this.#rpc.receive(message);
  }
}
