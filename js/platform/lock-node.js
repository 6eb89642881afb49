/* lock-node: a lock file between threads and processes. The owner updates the file's modification time every
 * second. It loses the lock if its process ends, or if the last update is older than SILENT_MS. The file contains a
 * unique text, so that no other owner's lock is taken or freed by mistake. */
import { linkSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { randomUUID } from 'node:crypto';

const ALIVE_MS = 1000;
const SILENT_MS = 15_000;

/** Takes a lock. Returns undefined if another owner has it. @param {string} path
 * @param {(lock: { path: string, owner: string }) => void} told called with the lock, so that the client can free it
 * if this thread dies @returns {import('../protocol.js').Lock | undefined} */
export function lockFile(path, told) {
  const owner = JSON.stringify({ pid: process.pid, host: hostname(), id: randomUUID() });
  for (let tries = 0; tries < 3; tries++) {
    try {
      writeFileSync(path, owner, { flag: 'wx' });
      told({ path, owner });
      return held(path, owner);
    } catch (error) {
      if (/** @type {any} */ (error).code !== 'EEXIST') throw error;
    }
    if (!takeAway(path)) return undefined;
  }
  return undefined;
}

/** @param {string} path @param {string} owner */
function held(path, owner) {
  const lock = { lost: false, free };
  const timer = setInterval(
    () =>
      unlessFailing(() => {
        const now = new Date();
        const ours = present(() => readFileSync(path, 'utf8') === owner);
        lock.lost ||= !ours;
        if (ours) present(() => utimesSync(path, now, now));
      }),
    ALIVE_MS,
  );
  timer.unref();
  function free() {
    clearInterval(timer);
    freeLock({ path, owner });
  }
  return lock;
}

/** Removes a lock file if it still belongs to the owner. @param {{ path: string, owner: string }} lock */
export function freeLock({ path, owner }) {
  unlessFailing(() => {
    if (readFileSync(path, 'utf8') === owner) rmSync(path);
  });
}

/** Calls f and ignores errors, because the process may be out of file descriptors, or another process may have
 * the file open. The next check of the lock reads its actual state. @param {() => void} f */
function unlessFailing(f) {
  try {
    f();
  } catch {
    /* The next check of the lock reads its actual state. */
  }
}

/** Returns the result of f(), or undefined if the file does not exist. @template T @param {() => T} f */
function present(f) {
  try {
    return f();
  } catch (error) {
    if (/** @type {any} */ (error).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Removes the lock file of a process that has ended or was silent for too long. Returns whether no lock is left.
 * @param {string} path */
export function takeAway(path) {
  const before = present(() => readFileSync(path, 'utf8'));
  const facts = present(() => statSync(path));
  if (before === undefined || !facts) return true;
  if (lives(before) && Date.now() - facts.mtimeMs < SILENT_MS) return false;
  const aside = `${path}-${randomUUID()}`;
  if (present(() => (renameSync(path, aside), true)) === undefined) return true;
  const same = readFileSync(aside, 'utf8') === before;
  // If another owner took the lock after the file was read, the renamed file is that owner's, and is put back. This
  // fails if another process has taken the lock meanwhile.
  if (!same) unlessFailing(() => linkSync(aside, path));
  rmSync(aside);
  return same;
}

/** Returns whether the process that took a lock still runs; true if it is on another machine. @param {string} owner */
function lives(owner) {
  try {
    const { pid, host } = JSON.parse(owner);
    if (host === hostname()) process.kill(pid, 0);
    return true;
  } catch (error) {
    return /** @type {any} */ (error).code !== 'ESRCH';
  }
}
