/* heartbeat: failure detection. Asks a worker for a sign of life at intervals, more often while calls wait, and reports
 * a worker that stays silent for too long. */
/** @import { Port } from '../platform/env.js' */
/** @import { ToWorker } from '../protocol.js' */
import { ModelError } from '../errors.js';

/** Interval while calls wait. */
const BEAT_MS = 250;
/** Interval while no call waits. Cheap, and detects a dead worker before the next call. */
const IDLE_MS = 750;
const IDLE_BEATS = 4;
/** Tolerated beats without a sign: 4.25 s; 30 s while the model loads, because pipes and disks can be slow. Beats are
 * counted, not time: a tab that was frozen, or a laptop that slept, has missed none. */
const SILENT_BEATS = 16;
const LOADING_BEATS = 120;
/** Tolerated silence, as a multiple of the longest gap seen so far. A gap while loading, often the first sign of a slow
 * machine, gets a larger multiple, up to a limit because it can be the disk's. */
const GAP_FACTOR = 3;
const LOADING_GAP_FACTOR = 6;
const MAX_AFTER_LOADING = 3 * SILENT_BEATS;
/** Beats that a late timer counts for at most: in a hidden tab timers fire once a second. */
const MAX_LATE = 4;

/** Watches one worker. */
export class Heartbeat {
  #port;
  #onSilent;
  #loading;
  #calls = 0;
  /** Additional tolerated beats: the sum of `extra` of the waiting calls. */
  #extra = 0;
  /** Beats since the last sign. */
  #missed = 0;
  #tolerated = SILENT_BEATS;
  /** Time of the last beat. */
  #beatAt = 0;
  /** @type {any} */
  #timer;

  /** loading: tolerate the longer silence of a load until loaded().
   * @param {Pick<Port<ToWorker, any>, 'post' | 'keepAlive'>} port @param {(error: ModelError) => void} onSilent
   * @param {boolean} loading */
  constructor(port, onSilent, loading) {
    this.#port = port;
    this.#onSilent = onSilent;
    this.#loading = loading;
  }

  /** Counts a waiting call. @param {number} extra beats for which its text may keep the worker from answering */
  begin(extra) {
    this.#extra += extra;
    if (++this.#calls === 1) this.#start();
  }

  /** Counts a reply. @param {number} extra as passed to begin() */
  end(extra) {
    this.#extra -= extra;
    if (--this.#calls === 0) this.#start();
  }

  /** Resets the count of missed beats. Any message is a sign of life. */
  heard() {
    const gap = this.#loading
      ? Math.min(LOADING_GAP_FACTOR * this.#missed, MAX_AFTER_LOADING)
      : GAP_FACTOR * this.#missed;
    if (!this.#extra) this.#tolerated = Math.max(this.#tolerated, gap);
    this.#missed = 0;
  }

  /** Ends the longer tolerance of a load. */
  loaded() {
    this.#loading = false;
  }

  /** Stops watching. */
  stop() {
    clearInterval(this.#timer);
  }

  /** Beats now if a beat is due. For a hidden page, whose timers are slow. */
  tick() {
    if (this.#calls && performance.now() - this.#beatAt >= BEAT_MS) this.#beat();
  }

  get #interval() {
    return this.#calls ? BEAT_MS : IDLE_MS;
  }

  #start() {
    this.stop();
    this.#port.keepAlive(this.#calls > 0);
    this.#missed = 0;
    this.#beatAt = performance.now();
    this.#timer = setInterval(() => this.#beat(), this.#interval);
    this.#timer.unref?.(); // does not keep a Node process alive
  }

  #beat() {
    const interval = this.#interval;
    const tolerated = this.#calls ? this.#tolerated + this.#extra : (IDLE_BEATS * this.#tolerated) / SILENT_BEATS;
    const limit = this.#loading ? LOADING_BEATS : tolerated;
    const now = performance.now();
    const late = Math.round((now - this.#beatAt) / interval);
    this.#beatAt = now;
    // If this thread was busy, a sign can be queued behind this beat, but not behind the next ones.
    if (this.#missed >= limit + (late > 1 ? MAX_LATE : 0)) {
      return this.#onSilent(
        new ModelError(
          'worker-failed',
          `The worker gave no sign of life for ${(limit * interval) / 1000} s. Call restart(), or load the model again.`,
        ),
      );
    }
    this.#missed += Math.min(Math.max(late, 1), MAX_LATE);
    this.#port.post({ kind: 'beat' });
  }
}
