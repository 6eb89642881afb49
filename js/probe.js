/* probe: what would run here, without loading anything. */
import { environment } from './platform/env.js';
import { features } from './platform/features.js';
import { MAX_THREADS } from './protocol.js';

/**
 * What would run here.
 * @typedef {object} Capabilities
 * @property {'relaxed' | 'simd128' | null} variant    the build that `auto` takes; null if none can run: no SIMD, or no
 *   workers (service workers, shared workers)
 * @property {boolean} simd
 * @property {boolean} relaxed
 * @property {boolean} isolated      memory can be shared between threads
 * @property {number} threads        that `loadModel` would use
 * @property {string} reason         why there is one thread only, or why no model can be loaded; '' otherwise
 * @property {number | undefined} memory    bytes of the device, if known: browsers round, and stop at 8 GB
 */

/** Returns what would run here, without loading anything. @returns {Capabilities} */
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
