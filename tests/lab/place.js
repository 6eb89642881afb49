/* place: where members (member.js) run: Node processes, or tabs of one browser profile (place-browser.js). */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { faultyServer } from '../js/faulty-server.js';
import { nodeMember } from './member-node.js';

/** @typedef {'node' | 'chromium' | 'firefox' | 'webkit'} Side */
/** @typedef {import('./place-browser.js').Member} Member */
/** @typedef {import('./place-browser.js').Place} Place */
/** @import { LabOptions, Source } from './place-browser.js' */
/** @typedef {{ source: Source, tuning: object, size: number, pages: () => Promise<{ url: string, close: () => Promise<void> }>,
 *   close: () => Promise<void> }} Lab */

export const TUNING = {
  segment: 1 << 18,
  alone: Number.MAX_VALUE,
  journal: 1 << 14,
  backoffMs: 1,
  longestMs: 500,
  stallMs: 5000,
};
/** Tuning that fetches even small files in several concurrent ranges. */
export const RANGES = { ...TUNING, alone: 20_000, least: 1 << 16, longestMs: 1500 };

/** Starts a server that fails on command. The server also sends pages, which are built when a browser first needs them.
 * @param {Uint8Array} bytes @param {LabOptions} [options] @returns {Promise<Lab>} */
export async function openLab(bytes, { usual, tuning = {}, ...options } = {}) {
  /** @type {(() => unknown)[]} */
  const ends = [];
  const source = await faultyServer(
    { after: (/** @type {() => unknown} */ f) => ends.push(f) },
    bytes,
    undefined,
    usual,
  );
  /** @type {Promise<{ url: string, close: () => Promise<void> }> | undefined} */
  let built;
  return {
    source,
    tuning,
    size: bytes.length,
    pages: () =>
      (built ??= import('./place-browser.js').then(({ buildPages }) => buildPages(source, { ...options, tuning }))),
    async close() {
      await (await built)?.close();
      for (const end of ends) await end();
    },
  };
}

/** @param {string} address @param {object} tuning @param {string} folder @returns {Promise<Member>} */
async function child(address, tuning, folder) {
  const one = fork(fileURLToPath(new URL('member-node.js', import.meta.url)), [
    address,
    JSON.stringify(tuning),
    folder,
  ]);
  const ended = once(one, 'exit');
  await once(one, 'message');
  return {
    pid: Number(one.pid),
    call: (...asked) =>
      new Promise((resolve, reject) => {
        one.once('message', (/** @type {any} */ { value, error }) =>
          error ? reject(new Error(error)) : resolve(value),
        );
        one.send(asked);
      }),
    run: () => Promise.reject(new Error('run() needs a page, but this member is a Node process.')),
    reload: async () => {},
    kill() {
      one.kill('SIGKILL');
      return ended;
    },
  };
}

/** @param {string} address @param {string} folder @returns {Member} a member in this process */
function inside(address, folder) {
  const member = /** @type {any} */ (nodeMember(address, folder));
  const none = async () => {};
  return {
    pid: process.pid,
    call: async (name, ...args) => member[name](...args),
    run: none,
    reload: none,
    kill: none,
  };
}

/** Prepares Node or a browser for members. With `within`, members of Node run in this process; with `onDisk`, the
 * browser profile is in a folder, so that its files can be changed.
 * @param {Side} side @param {Lab} lab
 * @param {{ shared?: import('puppeteer-core').Browser, within?: boolean, onDisk?: boolean }} [options]
 * @returns {Promise<Place>} */
export async function openPlace(side, lab, { shared, within = false, onDisk = false } = {}) {
  const newFolder = () => mkdtempSync(join(tmpdir(), 'gemma-wasm-lab-'));
  if (side !== 'node') {
    const { openBrowser } = await import('./place-browser.js');
    return openBrowser(side, (await lab.pages()).url, { shared, folder: onDisk ? newFolder() : undefined });
  }
  const folder = newFolder();
  const { url } = lab.source;
  /** @type {Member[]} */
  const members = [];
  return {
    name: `Node ${process.versions.node.split('.')[0]}`,
    storing: true,
    folder,
    async member() {
      const one = within ? inside(url, folder) : await child(url, lab.tuning, folder);
      members.push(one);
      return one;
    },
    names: () => readdirSync(folder),
    async close() {
      for (const one of members) await one.kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
