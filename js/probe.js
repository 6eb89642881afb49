/* probe: reports what the platform supports, without loading anything. */
import { environment } from './platform/env.js';
import { features } from './platform/features.js';
import { MAX_THREADS } from './protocol.js';

/**
 * What this platform supports.
 * @typedef {object} Capabilities
 * @property {'relaxed' | 'simd128' | null} variant Build that the option `variant: 'auto'` selects; null if no build
 *   can run, because there is no SIMD or no Worker (as in service workers and shared workers).
 * @property {boolean} simd Whether the platform has WebAssembly SIMD, which every build needs.
 * @property {boolean} relaxed Whether the platform has relaxed SIMD.
 * @property {boolean} isolated Whether threads can share memory.
 * @property {number} threads Number of threads that `loadModel` starts by default. If there are more than two,
 *   `loadModel` measures whether fewer are faster.
 * @property {string} reason Why there is only one thread, or why no model can be loaded. Empty otherwise.
 * @property {number | undefined} memory Memory of the device in bytes, if known. Browsers round it and report at most 8
 *   GB.
 */

/** Returns what this platform supports, without loading anything. @returns {Capabilities} */
export function probe() {
  const { simd, relaxed, isolated, reason } = features();
  const obstacle = environment.obstacle();
  const threads = isolated ? Math.min(environment.parallelism(), MAX_THREADS) : 1;
  const variant = relaxed ? 'relaxed' : 'simd128';
  return {
    variant: simd && !obstacle ? variant : null,
    simd,
    relaxed,
    isolated,
    threads,
    reason: obstacle || reason || (threads > 1 ? '' : 'there is one core'),
    memory: environment.memory(),
  };
}
