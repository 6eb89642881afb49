/* store-node: stores models in a folder, by default in the user's cache folder. */
import { closeSync, fdatasync, openSync, readSync, writeSync } from 'node:fs';
import { mkdir, readdir, rm, stat, statfs } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { lockFile, takeAway } from '../platform/lock-node.js';
import { isName } from './entries.js';
import { badFileName, diskFull } from './errors.js';

/** Maximum size in bytes of a read after which the file is closed again. */
const SMALL = 1 << 14;

/** Returns a function for catch() that returns `instead` if the error is that of a missing file, and rethrows other
 * errors.
 * @template T @param {T} instead @returns {(error: any) => T} */
const absent = (instead) => (error) => {
  if (['ENOENT', 'ENOTDIR'].includes(error.code)) return instead;
  throw error;
};

/** Returns the absolute path of the cache. Default: $XDG_CACHE_HOME/gemma-wasm or ~/.cache/gemma-wasm.
 * @param {string} [where] a path */
export function folderOf(where) {
  const { XDG_CACHE_HOME } = process.env;
  return resolve(where ?? join(XDG_CACHE_HOME || join(homedir(), '.cache'), 'gemma-wasm'));
}

/** Opens the store in a folder. The first write creates the folder.
 * @param {string} [where] a path @param {(lock: { path: string, owner: string }) => void} [told] called with each lock,
 *   which the client frees if this thread dies
 * @returns {import('../protocol.js').Store} */
export function openStore(where, told = () => {}) {
  const folder = folderOf(where);
  const path = (/** @type {string} */ name) => {
    if (isName(name)) return join(folder, name);
    throw badFileName(name);
  };
  const lockOf = (/** @type {string} */ name) => path(`${name}.gguf`).replace(/gguf$/, 'lock');
  /** @type {Map<string, { file: number, writable: boolean }>} */
  const open = new Map();
  /** @param {string} name @param {string} flags @param {boolean} writable */
  const opened = (name, flags, writable) => {
    const known = open.get(name);
    if (known && (known.writable || !writable)) return known.file;
    const file = openSync(path(name), flags);
    if (known) closeSync(known.file);
    open.set(name, { file, writable });
    return file;
  };
  const size = (/** @type {string} */ name) => stat(path(name)).then((facts) => facts.size, absent(0));
  return {
    size,
    list: () =>
      readdir(folder, { withFileTypes: true }).then((entries) => {
        return entries.filter((entry) => !entry.isDirectory() && isName(entry.name)).map(({ name }) => name);
      }, absent([])),
    async read(name, at, into) {
      if (open.has(name) || into.length > SMALL) return readSync(opened(name, 'r', false), into, 0, into.length, at);
      const file = openSync(path(name), 'r');
      try {
        return readSync(file, into, 0, into.length, at);
      } finally {
        closeSync(file);
      }
    },
    async write(name, at, bytes) {
      if (!open.get(name)?.writable) await mkdir(folder, { recursive: true });
      const file = opened(name, (await size(name)) ? 'r+' : 'w+', true);
      // Writes the rest after a short write: a full disk first accepts a part of the bytes, and then fails.
      for (let done = 0; done < bytes.length; ) {
        const count = writeSync(file, bytes, done, bytes.length - done, at + done);
        if (!count) throw diskFull();
        done += count;
      }
    },
    async flush(name) {
      const known = open.get(name);
      if (known?.writable) await promisify(fdatasync)(known.file);
    },
    async close(name) {
      const known = open.get(name);
      open.delete(name);
      if (known) closeSync(known.file);
    },
    async lock(name) {
      await mkdir(folder, { recursive: true });
      return lockFile(lockOf(name), told);
    },
    tidy: (name) => void takeAway(lockOf(name)),
    async remove(name) {
      await this.close?.(name);
      await rm(path(name));
    },
    async estimate() {
      const sizes = await Promise.all((await this.list()).map(size));
      const usage = sizes.reduce((a, b) => a + b, 0);
      const free = await statfs(folder).then(
        ({ bavail, bsize }) => bavail * bsize,
        () => Infinity,
      );
      return { usage, quota: usage + free, persisted: true };
    },
  };
}
