/* heartbeat: failure detection. Sends heartbeats, which the worker sends back. The interval is shorter while calls are
 * pending. Reports a worker that stays silent for too long. */
/** @import { Port } from '../platform/env.js' */
/** @import { ModelError } from '../errors.js' */
/** @import { ToWorker } from '../protocol.js' */
import { workerSilent } from './errors.js';

const BEAT_MS = 250;
/** Interval of heartbeats in ms while no call is pending. They detect a dead worker before the next call. */
const IDLE_MS = 750;
const IDLE_BEATS = 4;
/** Tolerated number of heartbeats without a message from the worker, unless its port sets `silentBeats`: 4.25 s, or 30 s
 * during a load, because pipes and disks can be slow. Counts heartbeats instead of time, because none are sent while a
 * tab is frozen or a laptop sleeps. */
const SILENT_BEATS = 16;
const LOADING_BEATS = 120;
/** Tolerated silence, as a multiple of the longest gap between messages so far. The multiple is larger for gaps during
 * a load, which are often the first sign of a slow machine. Such gaps can also be due to a slow disk, so they raise the
 * tolerated number of heartbeats to at most MAX_AFTER_LOADING. */
const GAP_FACTOR = 3;
const LOADING_GAP_FACTOR = 6;
const MAX_AFTER_LOADING = 3 * SILENT_BEATS;
/** A late timer event counts as several missed heartbeats, at most this many. In a hidden tab, timers fire once a
 * second. */
const MAX_LATE = 4;

/** Watches one worker. */
export class Heartbeat {
  #port;
  #onSilent;
  #loading;
  #calls = 0;
  #extra = 0;
  #missed = 0;
  #tolerated;
  #beatAt = 0;
  /** @type {any} */
  #timer;

  /** Watches a worker. loading: whether to tolerate the longer silence of a load, until loaded() is called.
   * @param {Pick<Port<ToWorker, any>, 'post' | 'keepAlive' | 'silentBeats'>} port @param {(error: ModelError) => void} onSilent
   * @param {boolean} loading */
  constructor(port, onSilent, loading) {
    this.#port = port;
    this.#tolerated = port.silentBeats ?? SILENT_BEATS;
    this.#onSilent = onSilent;
    this.#loading = loading;
  }

  /** Registers a call. @param {number} extra number of heartbeats that the worker may miss because of the call's long
   * text */
  begin(extra) {
    this.#extra += extra;
    if (++this.#calls === 1) this.#start();
  }

  /** Unregisters a call after its reply. @param {number} extra the value that was passed to begin() */
  end(extra) {
    this.#extra -= extra;
    if (--this.#calls === 0) this.#start();
  }

  /** Resets the count of missed heartbeats. Called for every message of the worker. */
  heard() {
    const gap = this.#loading
      ? Math.min(LOADING_GAP_FACTOR * this.#missed, MAX_AFTER_LOADING)
      : GAP_FACTOR * this.#missed;
    if (!this.#extra) this.#tolerated = Math.max(this.#tolerated, gap);
    this.#missed = 0;
  }

  /** Ends the longer tolerance that applies during a load. */
  loaded() {
    this.#loading = false;
  }

  /** Stops the heartbeats until the next begin() or end(). */
  stop() {
    clearInterval(this.#timer);
  }

  /** Sends a heartbeat now if one is due. Used in hidden pages, whose timers are slow. */
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
    this.#timer.unref?.(); // the timer does not keep a Node process alive
  }

  #beat() {
    const interval = this.#interval;
    const tolerated = this.#calls ? this.#tolerated + this.#extra : (IDLE_BEATS * this.#tolerated) / SILENT_BEATS;
    const limit = this.#loading ? LOADING_BEATS : tolerated;
    const now = performance.now();
    const late = Math.round((now - this.#beatAt) / interval);
    this.#beatAt = now;
    // If this thread was busy, messages of the worker may be queued behind this timer event, so allow a few more
    // heartbeats.
    if (this.#missed >= limit + (late > 1 ? MAX_LATE : 0)) {
      return this.#onSilent(workerSilent((limit * interval) / 1000));
    }
    this.#missed += Math.min(Math.max(late, 1), MAX_LATE);
    this.#port.post({ kind: 'beat' });
  }
}
