/* runner: evaluates what is pending in slices short enough that the worker hears its messages, and
 * ends evaluation when its job was aborted. Knows jobs only by their abort mark. */
import { GemmaError } from './errors.js';
import { RUN } from './engine.js';

const SLICE_MS = 30;
const BREATH_MS = 15;

export class Runner {
  #platform;
  #lastBreath = 0;
  /** Layers that fit into a slice, for batches and for single tokens. */
  #layers = { batch: 1, single: 1 };

  /**
   * @param {import('./engine.js').NativeModel} native
   * @param {import('./engine.js').Platform} platform
   */
  constructor(native, platform) {
    this.native = native;
    this.#platform = platform;
  }

  /** Evaluate until nothing is pending.
   * @param {{ aborted: boolean }} job
   * @param {object} hooks
   * @param {() => void} hooks.resync puts the context back after an abort that was not meant for job
   * @param {() => void} [hooks.onSlice]
   * @param {(rows: number, first: number) => void} [hooks.onRows] after wantAll()
   */
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
        const { rows, first } = this.native.logitRows();
        onRows?.(rows, first);
      }
      onSlice?.();
      if (state === RUN.DONE) return;
      await this.pause();
    }
  }

  /** One slice; its length is steered by how long it took. null: aborted. */
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
      const took = performance.now() - before;
      if (took > SLICE_MS) this.#layers[kind] = Math.max(1, Math.floor(layers * SLICE_MS / took));
      else if (took < SLICE_MS / 2) this.#layers[kind] = Math.min(layers * 2, 1 << 20);
    }
  }

  /** Hear messages, if it has been a while. @returns {Promise<void> | undefined} */
  pause() {
    return performance.now() - this.#lastBreath > BREATH_MS ? this.breathe() : undefined;
  }

  async breathe() {
    await this.#platform.breathe();
    this.#lastBreath = performance.now();
  }
}
