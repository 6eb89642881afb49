/** reads-thread: one reading thread. Fills its part of the memory, waits for the start signal, reads the part several
 * times, and reports when it began and ended. */
import { BYTES_PER_ROUND, STREAMS, readModule } from './reads-wasm.js';

const PAGE = 65536;
/** Number of bytes by which streams are closer together than equal parts of the memory, because streams that start a
 * multiple of 32 KB apart would compete for the same cache sets. */
const SKEW = 64 * 129;

/** @param {{ memory: WebAssembly.Memory | null, start: number, bytes: number, passes: number,
 *   flag: Int32Array<SharedArrayBuffer> | null }} order */
async function read({ memory: given, start, bytes, passes, flag }) {
  const pages = (given?.buffer.byteLength ?? bytes) / PAGE;
  const memory = given ?? new WebAssembly.Memory({ initial: pages, maximum: pages });
  new Uint8Array(memory.buffer, start, bytes).fill(1);
  const { instance } = await WebAssembly.instantiate(readModule(pages, given !== null), { env: { memory } });
  const run = /** @type {(p: number, stride: number, rounds: number) => number} */ (instance.exports.read);
  const stride = bytes / STREAMS - SKEW;
  const rounds = Math.floor(stride / 64);
  run(start, stride, rounds); // warm-up: the timed passes then run optimised code
  if (flag) {
    Atomics.add(flag, 1, 1);
    Atomics.notify(flag, 1);
    Atomics.wait(flag, 0, 0);
  }
  const begun = performance.timeOrigin + performance.now();
  for (let i = 0; i < passes; i++) run(start, stride, rounds);
  const ended = performance.timeOrigin + performance.now();
  postMessage({ begun, ended, bytes: passes * rounds * BYTES_PER_ROUND });
}

addEventListener('message', (event) => {
  read(event.data);
});
