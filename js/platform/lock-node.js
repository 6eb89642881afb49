/* lock-node: a file that says who has something, for threads and processes. Its owner shows every second that it lives;
 * one whose process ended, or that was silent for long, has lost it. It says who it is by a text of its own, so that
 * nobody takes or frees what is another's by now. */
import { linkSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { randomUUID } from 'node:crypto';

const ALIVE_MS = 1000;
const SILENT_MS = 15_000;

/** Nothing if another has it. told: of the lock, for whoever outlives this thread.
 * @param {string} path @param {(lock: { path: string, owner: string }) => void} told
 * @returns {import('../protocol.js').Lock | undefined} */
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

/** Gives it back, if it is still this one's. @param {{ path: string, owner: string }} lock */
export function freeLock({ path, owner }) {
  unlessFailing(() => {
    if (readFileSync(path, 'utf8') === owner) rmSync(path);
  });
}

/** Ignores a failure: the process may be out of file descriptors, or another one may hold the file. The next look at the
 * lock shows the outcome. @param {() => void} f */
function unlessFailing(f) {
  try {
    f();
  } catch {
    /* see above */
  }
}

/** What f gives; nothing where the file is not there. @template T @param {() => T} f */
function present(f) {
  try {
    return f();
  } catch (error) {
    if (/** @type {any} */ (error).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Takes the lock of a process that is no more. Whether the way is free now. @param {string} path */
export function takeAway(path) {
  const before = present(() => readFileSync(path, 'utf8'));
  const facts = present(() => statSync(path));
  if (before === undefined || !facts) return true;
  if (lives(before) && Date.now() - facts.mtimeMs < SILENT_MS) return false;
  const aside = `${path}-${randomUUID()}`;
  if (present(() => (renameSync(path, aside), true)) === undefined) return true;
  const same = readFileSync(aside, 'utf8') === before;
  // Somebody was faster, and has it rightly.
  if (!same)
    present(() => {
      try {
        linkSync(aside, path);
      } catch {
        /* a third one has it */
      }
    });
  rmSync(aside);
  return same;
}

/** Of another machine nobody knows. @param {string} owner */
function lives(owner) {
  try {
    const { pid, host } = JSON.parse(owner);
    if (host === hostname()) process.kill(pid, 0);
    return true;
  } catch (error) {
    return /** @type {any} */ (error).code !== 'ESRCH';
  }
}
