/** visit: measures one runtime of the benchmark once, in a new browser or Node process, so that it inherits no memory
 * or caches from another measurement. */
import { fork } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { withPage } from '../support/browser.js';
import { at } from '../support/proc.js';
import { ask, askBrowser, contentPeak, withServer } from './browser.js';

/** @typedef {import('./measure.js').Sample} Sample */
/** @typedef {Omit<import('./measure.js').Job, 'driver' | 'model' | 'peers' | 'variant'>} Settings */

/**
 * Measures a runtime, with the model's file in the operating system's page cache. In a browser, the sample's `memory`
 * is the largest peak of a content process.
 * @param {import('./sides.js').Side} side
 * @param {string} model path
 * @param {Settings} settings
 * @returns {Promise<Sample>}
 */
export function visit(side, model, settings) {
  const { driver, variant, where } = side;
  // One thread is measured without cross-origin isolation, because pages without it have only one thread.
  return withServer(model, settings.threads > 1, async (url, address) => {
    const job = { ...settings, driver, variant, model: side.path ? model : address, peers: '/peers/' };
    await readOnce(model);
    if (where === 'node') return askNode(side.node?.(), job);
    return withPage(where, async (page) => {
      const sample = /** @type {Sample} */ (await ask(page, url, job));
      return { ...sample, memory: contentPeak(page.browser()) };
    });
  });
}

/** Reads a file once, so that it is in the operating system's page cache. @param {string} path */
async function readOnce(path) {
  for await (const _ of createReadStream(path, { highWaterMark: 2 ** 20 }));
}

/** Returns the bandwidth of plain wasm loads in Chromium, in bytes per second. @param {string} model
 * @param {number} threads @param {boolean} cached   whether they read a processor cache instead of memory
 * @returns {Promise<number>} */
export const readBandwidth = (model, threads, cached) =>
  askBrowser('chromium', model, { driver: 'reads', threads, cached }, threads > 1);

/** Runs a job in a new Node process (node.js). @param {string | undefined} execPath path of Node @param {object} job
 * @param {Record<string, string>} [env] @returns {Promise<any>} */
export function askNode(execPath, job, env) {
  if (!execPath) throw new Error('This version of Node is not installed.');
  const child = fork(at('tools', 'bench', 'node.js'), [JSON.stringify(job)], {
    execPath,
    execArgv: [],
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  return new Promise((resolve, reject) => {
    child.on('message', (/** @type {any} */ answer) => {
      if (answer.error) reject(new Error(answer.error));
      else resolve(answer);
    });
    child.on('error', reject);
    child.on('exit', (status, signal) =>
      reject(new Error(`The measuring process exited before it sent a result (${signal ?? status}).`)),
    );
  });
}
