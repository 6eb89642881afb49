/* runner: evaluates in slices short enough that the worker hears its messages and can abort. */
/** @import { Engine, Platform } from './engine.js' */
import { RUN } from './engine.js';
import { GemmaError } from './errors.js';

const SLICE_MS = 30;
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

  /** Evaluate until nothing is pending.
   * resync: puts the context back after an abort that was not for this job; onRows: of logits.
   * @param {{ aborted: boolean }} job @param {{ resync: () => void, onSlice?: () => void,
   *   onRows?: (rows: number, first: number) => void }} hooks */
  async settle(job, { resync, onSlice, onRows }) {
    for (;;) {
      if (job.aborted) this.native.setAbort();
      const state = this.#slice();
      if (state === null) {
        await this.breathe();
        if (job.aborted) throw new GemmaError('aborted', 'the call was aborted');
        resync();
        continue;
      }
      if (state === RUN.LOGITS) {
        onRows?.(this.native.call('logit_rows'), this.native.call('logit_first'));
      }
      onSlice?.();
      if (state === RUN.DONE) return;
      await this.pause();
    }
  }

  /** How long a slice took steers the length of the next. null: aborted. */
  #slice() {
    const kind = this.native.call('pending') > 1 ? 'batch' : 'single';
    const layers = this.#layers[kind];
    const before = performance.now();
    try {
      return this.native.call('run', layers);
    } catch (error) {
      if (error instanceof GemmaError && error.code === 'aborted') return null;
      throw error;
    } finally {
      const fit = Math.floor(layers * Math.min(SLICE_MS / (performance.now() - before), 2));
      this.#layers[kind] = Math.min(Math.max(fit, 1), MAX_LAYERS);
    }
  }

  async pause() {
    if (performance.now() - this.#lastBreath > BREATH_MS) await this.breathe();
  }

  async breathe() {
    await this.#platform.breathe();
    this.#lastBreath = performance.now();
  }
}
