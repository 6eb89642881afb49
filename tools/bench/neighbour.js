/** neighbour: starts busy processes during a measurement, and compares gemma-wasm's speed with and without one. */
import { spawn } from 'node:child_process';
import { setTimeout as wait } from 'node:timers/promises';
import { withPage } from '../support/browser.js';
import { ask, withServer } from './browser.js';
import { overOne } from './table.js';

/** Milliseconds until a new process is really busy. */
const START_MS = 120;

/** Starts `count` processes that each occupy a core. Returns a function that kills them. @param {number} count */
export function keepBusy(count) {
  const loop = () => spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' });
  const children = Array.from({ length: count }, loop);
  return () => children.forEach((child) => child.kill('SIGKILL'));
}

/** Returns the speedups of `threads` threads over one thread on an idle machine (`scaling`), and beside a busy process
 * over one thread without it (`beside`). Measures alternately in one Chromium page for `seconds` seconds.
 * @param {string} model path @param {number} threads @param {number} seconds */
export async function besideNeighbour(model, threads, seconds) {
  let stop = () => {};
  const switchBusy = async (/** @type {boolean} */ on) => {
    stop();
    stop = on ? keepBusy(1) : () => {};
    await wait(START_MS);
  };
  const measure = (/** @type {string} */ url, /** @type {string} */ address) =>
    withPage('chromium', async (page) => {
      await page.exposeFunction('keepBusy', switchBusy);
      const job = { driver: 'neighbour', model: address, threads, seconds, contextLength: 512, seed: 1 };
      return overOne(await ask(page, url, job));
    });
  try {
    return await withServer(model, true, measure);
  } finally {
    stop();
  }
}
