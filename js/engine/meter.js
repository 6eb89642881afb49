/* meter: measures the progress and speed of a load. */
/** @import { Notice, Progress } from '../protocol.js' */
/** @import { Source } from '../download/source.js' */

const REPORT_EVERY_MS = 50;
const RATE_OVER_MS = 3000;

/** Reports progress at most every REPORT_EVERY_MS. The first and last reports, and all notices, are sent
 * immediately. */
export class Meter {
  #report;
  /** The phase of the last report; undefined until the first file is open. @type {Progress['phase'] | undefined} */
  #phase;
  #loaded = 0;
  #fromCache = 0;
  /** @type {{ time: number, loaded: number }[]} */
  #watched = [];
  #marks = [{ time: performance.now(), loaded: 0 }];
  /** @type {number | undefined} */
  total;
  /** The first notice with each code. @type {Notice[]} */
  notices = [];

  /** @param {(progress: Progress) => void} report */
  constructor(report) {
    this.#report = report;
  }

  /** Reports the phase of reading a file of the model, if it differs from the last one. @param {Source} source */
  reads({ download }) {
    const phase = download?.network ? 'fetch' : 'load';
    if (phase === this.#phase) return;
    this.#phase = phase;
    this.#send();
  }

  /** Counts bytes that were read. @param {number} bytes @param {boolean} [cached] whether they came from the cache */
  add(bytes, cached) {
    this.#loaded += bytes;
    if (cached) this.#fromCache += bytes;
    const now = performance.now();
    const marks = this.#marks;
    if (marks.length > 1 && now - marks[marks.length - 1].time < REPORT_EVERY_MS) return;
    marks.push({ time: now, loaded: this.#loaded });
    while (marks.length > 2 && now - marks[0].time > RATE_OVER_MS) marks.shift();
    this.#send();
  }

  /** Reports the progress of another tab or process that downloads the file. @param {number} have bytes so far
   * @param {number} total */
  watch(have, total) {
    const now = performance.now();
    const marks = this.#watched;
    marks.push({ time: now, loaded: have });
    while (marks.length > 2 && now - marks[0].time > RATE_OVER_MS) marks.shift();
    const [{ time, loaded }] = marks;
    const bytesPerSecond = ((have - loaded) / Math.max(now - time, 1)) * 1000;
    this.#report({ phase: 'fetch', loaded: have, total, fromCache: 0, bytesPerSecond });
  }

  /** Reports a notice. Keeps it if it is the first with its code. @param {string} code @param {string} message */
  notice(code, message) {
    const notice = { code, message };
    if (!this.notices.some((known) => known.code === code)) this.notices.push(notice);
    this.#send(notice);
  }

  /** Sends the last report of progress. Rows of weights that are read later are not included.
   * @param {(notice: Notice) => void} later receives later notices */
  finish(later) {
    this.#phase = 'ready';
    this.#loaded = this.total ?? this.#loaded;
    this.#send();
    this.#report = (/** @type {Progress} */ { notice }) => void (notice && later(notice));
  }

  /** @param {Notice} [notice] */
  #send(notice) {
    const [{ time, loaded: before }] = this.#marks;
    const seconds = Math.max(performance.now() - time, 1) / 1000;
    const loaded = Math.min(this.#loaded, this.total ?? Infinity);
    this.#report({
      phase: this.#phase ?? 'fetch',
      loaded,
      total: this.total,
      fromCache: Math.min(this.#fromCache, loaded),
      bytesPerSecond: (this.#loaded - before) / seconds,
      ...(notice && { notice }),
    });
  }
}
