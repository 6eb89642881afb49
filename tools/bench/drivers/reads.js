/** reads: measures how fast `threads` threads read this machine's memory, or each processor's cache, with plain wasm
 * loads. */

const BYTES = 256 * 2 ** 20;
const CACHED_BYTES = 2 ** 19; // size of each thread's buffer when processor caches are measured
const TOTAL = 8 * BYTES;
const PAGE = 65536;

/** @typedef {{ begun: number, ended: number, bytes: number }} Report */

/** @param {Worker} worker @returns {Promise<Report>} */
const report = (worker) =>
  new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = ({ message }) => reject(new Error(message));
  });

/** Resolves when all threads wait for the start signal. @param {Int32Array} flag @param {number} threads */
async function allReady(flag, threads) {
  while (Atomics.load(flag, 1) < threads)
    await new Promise((done) => {
      setTimeout(done, 5);
    });
  await new Promise((done) => {
    setTimeout(done, 5);
  });
}

/** Returns the bytes per second that all threads read together, from the first start to the last end.
 * @param {{ threads: number, cached: boolean }} job */
export async function answer({ threads, cached }) {
  const bytes = cached ? CACHED_BYTES : BYTES;
  const passes = TOTAL / bytes;
  const pages = (threads * bytes) / PAGE;
  const memory = threads > 1 ? new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true }) : null;
  const flag = threads > 1 ? new Int32Array(new SharedArrayBuffer(8)) : null;
  const workers = Array.from({ length: threads }, () => {
    return new Worker(new URL('./reads-thread.js', import.meta.url), { type: 'module' });
  });
  const reports = workers.map(report);
  workers.forEach((worker, i) => worker.postMessage({ memory, flag, start: i * bytes, bytes, passes }));
  if (flag) {
    await allReady(flag, threads);
    Atomics.store(flag, 0, 1);
    Atomics.notify(flag, 0);
  }
  const all = await Promise.all(reports);
  workers.forEach((worker) => worker.terminate());
  const ms = Math.max(...all.map(({ ended }) => ended)) - Math.min(...all.map(({ begun }) => begun));
  return (all.reduce((sum, report) => sum + report.bytes, 0) / ms) * 1000;
}
