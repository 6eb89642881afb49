/* runner: evaluates in short slices, so that the worker can receive messages and abort between them. The client does
 * not set the abort flag in the heap itself: a thread that references a shared heap keeps it alive after dispose(). */
/** @import { Engine, Platform } from './engine.js' */
/** @import { Rows } from './rows.js' */
import { abortError } from '../errors.js';
import { RUN } from './engine.js';

const SLICE_MS = 20;
const YIELD_MS = 15;
const MAX_LAYERS = 1 << 20;

/** Runs evaluations and yields to messages between their slices. */
export class Runner {
  #platform;
  #lastYield = 0;
  /** Layers in a slice. */
  #layers = { batch: 1, single: 1 };

  /** @param {Engine} native @param {Platform} platform @param {Rows} [rows] reads rows of weights that stay on disk */
  constructor(native, platform, rows) {
    this.native = native;
    this.#platform = platform;
    this.rows = rows;
  }

  /** Evaluates until no ids are pending. Throws `aborted` if the job was aborted. onSlice: called after each slice;
   * onRows: when rows of logits are ready; onLook: at each stage of an inspection.
   * @param {{ aborted: boolean }} job
   * @param {{ onSlice?: () => void, onRows?: (rows: number, first: number) => void,
   *   onLook?: () => Promise<void> }} [hooks] */
  async settle(job, { onSlice, onRows, onLook } = {}) {
    // The next batch can be larger than the last one.
    this.#layers.batch = 1;
    for (;;) {
      if (job.aborted) this.native.setAbort();
      const state = this.#slice();
      if (state === RUN.LOGITS) {
        onRows?.(this.native.call('logit_rows'), this.native.call('logit_first'));
      }
      if (state === RUN.LOOK) await onLook?.();
      if (state === RUN.ROWS) await this.rows?.give(job);
      onSlice?.();
      if (state === RUN.DONE) return;
      await this.pause();
    }
  }

  /** Evaluates one slice, and adjusts the number of layers to its duration. */
  #slice() {
    const kind = this.native.call('pending') > 1 ? 'batch' : 'single';
    const layers = this.#layers[kind];
    const before = performance.now();
    const state = this.native.call('run', layers);
    if (state === RUN.ROWS) return state; // it evaluated nothing
    const fit = Math.floor(layers * Math.min(SLICE_MS / (performance.now() - before), 2));
    this.#layers[kind] = Math.min(Math.max(fit, 1), MAX_LAYERS);
    return state;
  }

  /** Yields to messages if the last yield was more than YIELD_MS ago. */
  async pause() {
    if (performance.now() - this.#lastYield > YIELD_MS) await this.yield();
  }

  /** Returns a function that pauses, and throws `aborted` if the job was aborted. @param {{ aborted: boolean }} job */
  pauses(job) {
    return async () => {
      await this.pause();
      if (job.aborted) throw abortError();
    };
  }

  /** Yields to messages. */
  async yield() {
    await this.#platform.yield();
    this.#lastYield = performance.now();
  }
}
