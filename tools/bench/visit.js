/** visit: measures one side once, in a new browser or Node process, so that no side inherits memory or caches. */
import { fork } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { basename } from 'node:path';
import { at } from '../support/proc.js';
import { ask, contentPeak, launch, servePage } from './browser.js';

/** @typedef {import('./measure.js').Sample} Sample */
/** @typedef {'chromium' | 'firefox'} BrowserName */
/** @typedef {Omit<import('./measure.js').Job, 'driver' | 'model' | 'peers' | 'variant'>} Settings */

/**
 * @param {import('./sides.js').Side} side
 * @param {string} model path
 * @param {Settings} settings
 * @returns {Promise<Sample>}
 */
export async function visit(side, model, settings) {
  // One thread is measured without cross-origin isolation, because pages without it have only one thread.
  const server = await servePage(model, settings.threads > 1);
  const { driver, variant } = side;
  const address = side.path ? model : `${server.url}models/${basename(model)}`;
  const job = { ...settings, driver, variant, model: address, peers: '/peers/' };
  try {
    await readOnce(model);
    if (side.where === 'node') return await inNode(side, job);
    return await inBrowser(side.where, server.url, job);
  } finally {
    await server.close();
  }
}

/** Reads a model file once, so that each side finds it in the operating system's page cache. @param {string} path */
async function readOnce(path) {
  for await (const _ of createReadStream(path, { highWaterMark: 2 ** 20 }));
}

/** @param {BrowserName} name @param {string} url @param {object} job @returns {Promise<Sample>} */
async function inBrowser(name, url, job) {
  const browser = await launch(name);
  try {
    const sample = /** @type {Sample} */ (await ask(await browser.newPage(), url, job));
    return { ...sample, memory: contentPeak(browser) };
  } finally {
    await browser.close();
  }
}

/** Returns the bandwidth of plain wasm loads in Chromium, in bytes per second. @param {string} model
 * @param {number} threads @param {boolean} cached   whether they read a processor cache instead of memory */
export async function readBandwidth(model, threads, cached) {
  const job = { driver: 'reads', threads, cached };
  const server = await servePage(model, threads > 1);
  const browser = await launch('chromium');
  try {
    return /** @type {number} */ (await ask(await browser.newPage(), server.url, job));
  } finally {
    await browser.close();
    await server.close();
  }
}

/** @param {import('./sides.js').Side} side @param {object} job @returns {Promise<Sample>} */
function inNode(side, job) {
  const execPath = side.node?.();
  if (!execPath) throw new Error('This version of Node is not installed.');
  const child = fork(at('tools', 'bench', 'node.js'), [JSON.stringify(job)], {
    execPath,
    execArgv: [],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  return new Promise((resolve, reject) => {
    child.on('message', (/** @type {any} */ answer) => {
      if (answer.error) reject(new Error(answer.error));
      else resolve(answer);
    });
    child.on('error', reject);
    child.on('exit', (status, signal) => reject(new Error(`The side's process exited: ${signal ?? status}`)));
  });
}
