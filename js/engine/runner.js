/* runner: evaluates in slices so short that the worker hears its messages and can abort. The client's
 * thread does not see the flag: a thread that sees a shared heap keeps it alive after dispose(). */
/** @import { Engine, Platform } from './engine.js' */
import { abortError } from '../errors.js';
import { RUN } from './engine.js';

const SLICE_MS = 20;
const BREATH_MS = 15;
const MAX_LAYERS = 1 << 20;

export class Runner {
  #platform;
  #lastBreath = 0;
  /** Layers in a slice. */
  #layers = { batch: 1, single: 1 };

  /** @param {Engine} native @param {Platform} platform */
  constructor(native, platform) {
    this.native = native;
    this.#platform = platform;
  }

  /** Evaluate until nothing is pending; throws `aborted` when the job is. onRows: of logits.
   * @param {{ aborted: boolean }} job
   * @param {{ onSlice?: () => void, onRows?: (rows: number, first: number) => void,
   *   onLook?: () => Promise<void> }} [hooks] */
  async settle(job, { onSlice, onRows, onLook } = {}) {
    // Batches differ in size: what fitted last time may be too much now.
    this.#layers.batch = 1;
    for (;;) {
      if (job.aborted) this.native.setAbort();
      const state = this.#slice();
      if (state === RUN.LOGITS) {
        onRows?.(this.native.call('logit_rows'), this.native.call('logit_first'));
      }
      if (state === RUN.LOOK) await onLook?.();
      onSlice?.();
      if (state === RUN.DONE) return;
      await this.pause();
    }
  }

  /** How long a slice took steers the length of the next. */
  #slice() {
    const kind = this.native.call('pending') > 1 ? 'batch' : 'single';
    const layers = this.#layers[kind];
    const before = performance.now();
    const state = this.native.call('run', layers);
    const fit = Math.floor(layers * Math.min(SLICE_MS / (performance.now() - before), 2));
    this.#layers[kind] = Math.min(Math.max(fit, 1), MAX_LAYERS);
    return state;
  }

  async pause() {
    if (performance.now() - this.#lastBreath > BREATH_MS) await this.breathe();
  }

  /** For pieces of a job's work: throws when it is aborted. @param {{ aborted: boolean }} job */
  pauses(job) {
    return async () => {
      await this.pause();
      if (job.aborted) throw abortError();
    };
  }

  async breathe() {
    await this.#platform.breathe();
    this.#lastBreath = performance.now();
  }
}
