/* runner: evaluates in short slices, so that the worker can receive messages and abort between them. The client does
 * not set the abort flag in the heap, because a thread that references a shared heap keeps it alive after dispose(). */
/** @import { Engine, Platform } from './engine.js' */
/** @import { Rows } from './rows.js' */
import { abortError } from '../errors.js';
import { RUN } from './engine.js';

/** The parts of a runner that a call uses. claim: gives the call a sequence (sequences.js) for a prompt, once the KV
 * cache has room; resolves with true if the job was aborted before; makeRoom: empties a KV cache that no call uses,
 * returns false if there is none; isShared: returns whether other answers are evaluated at the same time.
 * @typedef {Pick<Runner, 'native' | 'rows' | 'settle' | 'pause' | 'pauses' | 'yield'> & { isShared?: () => boolean,
 *   makeRoom?: () => boolean, claim?: (job: { aborted: boolean, stalled: () => Promise<unknown> }, ids: number[],
 *     args: { owner?: string, maxTokens: number }) => Promise<boolean> }} CallRunner */

const SLICE_MS = 20;
const YIELD_MS = 15;
const MAX_LAYERS = 1 << 20;

/** Evaluates the pending token ids of one engine in slices of about SLICE_MS. */
export class Runner {
  #platform;
  #lastYield = 0;
  /** Number of layers that a slice evaluates, for batches and for single tokens. */
  layers = { batch: 1, single: 1 };

  /** @param {Engine} native @param {Platform} platform @param {Rows} [rows] reads rows of weights that stay on disk */
  constructor(native, platform, rows) {
    this.native = native;
    this.#platform = platform;
    this.rows = rows;
  }

  /** Evaluates until no token ids are pending. Throws `aborted` if the job was aborted. onSlice: called after each
   * slice; onRows: called when rows of logits are ready; onLook: called at each stage of an inspection.
   * @param {{ aborted: boolean }} job
   * @param {{ onSlice?: () => void, onRows?: (rows: number, first: number) => void,
   *   onLook?: () => Promise<void> }} [hooks] */
  async settle(job, { onSlice, onRows, onLook } = {}) {
    // Begins with a single layer, because durations are known only for the previous batch, and this batch may be
    // larger.
    this.layers.batch = 1;
    for (;;) {
      if (job.aborted) this.native.setAbort();
      const kind = this.native.call('pending') > 1 ? 'batch' : 'single';
      const state = this.slice(kind, (layers) => this.native.call('run', layers));
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

  /** Evaluates one slice. Adjusts the number of layers of the next slice to the duration.
   * @param {'batch' | 'single'} kind @param {(layers: number) => number} run */
  slice(kind, run) {
    const layers = this.layers[kind];
    const before = performance.now();
    const state = run(layers);
    if (state === RUN.ROWS) return state; // rows of weights are missing, so nothing was evaluated
    const fit = Math.floor(layers * Math.min(SLICE_MS / (performance.now() - before), 2));
    this.layers[kind] = Math.min(Math.max(fit, 1), MAX_LAYERS);
    return state;
  }

  /** Lets the worker receive messages, if the last time was more than YIELD_MS ago. */
  async pause() {
    if (performance.now() - this.#lastYield > YIELD_MS) await this.yield();
  }

  /** Returns a function that calls pause(), and throws `aborted` if the job was aborted.
   * @param {{ aborted: boolean }} job */
  pauses(job) {
    return async () => {
      await this.pause();
      if (job.aborted) throw abortError();
    };
  }

  /** Lets the worker receive messages. */
  async yield() {
    await this.#platform.yield();
    this.#lastYield = performance.now();
  }
}
