/* store-node: models in a folder, by default that of the user's caches. */
import { closeSync, fdatasync, openSync, readSync, writeSync } from 'node:fs';
import { mkdir, readdir, rm, stat, statfs } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

const OURS = /^[0-9a-f-]+\.gguf$/;

/** What stands for a thing that is not there; other failures do not mean that.
 * @template T @param {T} instead @returns {(error: any) => T} */
const absent = (instead) => (error) => {
  if (['ENOENT', 'ENOTDIR'].includes(error.code)) return instead;
  throw error;
};

/** @type {import('../platform/env.js').OpenStore} */
export function openStore(where) {
  const { XDG_CACHE_HOME } = process.env;
  const folder = resolve(where ?? join(XDG_CACHE_HOME || join(homedir(), '.cache'), 'gemma-wasm'));
  const path = (/** @type {string} */ name) => join(folder, name);
  /** Files that are open. @type {Map<string, number>} */
  const open = new Map();
  /** @param {string} name @param {string} flags */
  const file = (name, flags) => {
    const known = open.get(name);
    if (known !== undefined) return known;
    const opened = openSync(path(name), flags);
    open.set(name, opened);
    return opened;
  };
  const size = (/** @type {string} */ name) => stat(path(name)).then((facts) => facts.size, absent(0));
  return {
    size,
    list: () => readdir(folder).then((names) => names.filter((name) => OURS.test(name)), absent([])),
    read: async (name, at, into) => readSync(file(name, 'r+'), into, 0, into.length, at),
    async write(name, at, bytes) {
      if (!open.has(name)) await mkdir(folder, { recursive: true });
      writeSync(file(name, await size(name) ? 'r+' : 'w+'), bytes, 0, bytes.length, at);
    },
    async flush(name) {
      const known = open.get(name);
      if (known !== undefined) await promisify(fdatasync)(known);
    },
    async close(name) {
      if (open.has(name)) closeSync(file(name, 'r+'));
      open.delete(name);
    },
    async remove(name) {
      await this.close?.(name);
      await rm(path(name));
    },
    async estimate() {
      const sizes = await Promise.all((await this.list()).map(size));
      const usage = sizes.reduce((a, b) => a + b, 0);
      const free = await statfs(folder).then(({ bavail, bsize }) => bavail * bsize, () => Infinity);
      return { usage, quota: usage + free, persisted: true };
    },
  };
}
