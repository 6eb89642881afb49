/* probe: what would run here, without loading anything. */
import { environment } from './platform/env.js';
import { features } from './platform/features.js';

const MAX_THREADS = 64;

/** variant: the build that `auto` takes, null if none can run (no SIMD); threads: that `loadModel` would use; reason:
 * why only one; memory: bytes that the device has, as far as it tells: browsers round, and stop at 8 GB; isolated:
 * whether memory can be shared.
 * @typedef {{ variant: 'relaxed' | 'simd128' | null, simd: boolean, relaxed: boolean, isolated: boolean,
 *   threads: number, reason: string, memory: number | undefined }} Capabilities */

/** What would run here. @returns {Capabilities} */
export function probe() {
  const { simd, relaxed, isolated, reason } = features();
  const threads = isolated ? Math.min(environment.parallelism(), MAX_THREADS) : 1;
  return {
    variant: simd ? (relaxed ? 'relaxed' : 'simd128') : null,
    simd,
    relaxed,
    isolated,
    threads,
    reason: reason || (threads > 1 ? '' : 'there is one core'),
    memory: environment.memory(),
  };
}
