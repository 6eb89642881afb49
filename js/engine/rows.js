/* rows: reads rows of embedding tables that stay on disk, when the engine requests them (gw_rows_wanted in
 * src/api.h). From a cached copy, reads whole pieces and compares their checksums at each read; a corrupt piece is
 * downloaded again. */
/** @import { Source } from '../download/source.js' */
/** @import { Notice, OpenOptions, Progress, TensorInfo } from '../protocol.js' */
/** @import { Engine, Hash, Platform } from './engine.js' */
/** @import { Meter } from './meter.js' */
import { abortError, reading } from '../errors.js';
import { sleep } from '../download/http.js';
import { digestDiffers, endsBefore, fileChanged } from './errors.js';
import { spill } from './spill.js';

/** Number of words in the list of requested rows (rowcache.h): tensor index, number of rows, at most 128 rows. */
const WANTED = 2 + 128;
/** Interval of checks for an abort while rows are being read, in milliseconds. */
const POLL_MS = 50;
/** Maximum size in bytes of a span of a table that is read at once. */
const MOST = 1 << 20;
/** Number of bytes per request, and number of parallel requests, for tables whose download was postponed. */
const LANE = 4 << 20;
const PARALLEL = 3;
/** Number of parallel requests for rows that are not downloaded yet. With HTTP/1.1, browsers queue some of them. */
const PARALLEL_ROWS = 16;
const DRAIN_BYTES = 1 << 20;
/** Maximum gap between two rows that are read at once, in bytes. */
const SLACK = 1 << 12;

/** A reader of one file. grain: alignment of reads, in bytes; parallel: number of reads that may be
 * pending; read: returns the result of `take`, which gets bytes that are valid only during the call.
 * @typedef {{ grain: number, total: number, parallel: number,
 *   read: <T>(start: number, end: number, take: (bytes: Uint8Array) => T) => Promise<T> }} Reader */
/** @typedef {{ rowsOf: typeof rowsOf, skip: typeof skip }} TablesPart */
/** @typedef {{ start: number, end: number }} Span */
/** A range of bytes of a table, with the offsets of the rows in it. @typedef {Span & { rows: number[] }} RowSpan */

/** Moves a source to the next byte that the engine needs. Hashes the bytes before it if the file's SHA-256 must be
 * computed, otherwise skips them if possible. @param {Engine} native @param {Source} source
 * @param {Hash | undefined} hash @param {Meter} meter */
async function skip(native, source, hash, meter) {
  const to = native.call('load_offset');
  if (to <= source.at) return;
  const scratch = new Uint8Array(DRAIN_BYTES);
  for (let n; source.at < to; hash?.update(scratch.subarray(0, n))) {
    n = hash ? 0 : source.skip(source.at, to) - source.at;
    if (n) {
      if (source.download?.late) meter.total = Number(meter.total) - n;
      else meter.add(n, Boolean(source.download));
      source.at += n;
      continue;
    }
    n = await source.read(scratch.subarray(0, to - source.at));
    if (!n) return; // the file is truncated, which the next read reports
    source.at += n;
    if (!source.download) meter.add(n);
  }
}

/** Prepares embedding tables to stay on disk: copies a table to a temporary file if its source cannot be read again,
 * and postpones its download if the source is being cached. Returns functions that read tables, or undefined if these
 * must be in memory. @param {Source[]} sources @param {OpenOptions} options
 * @param {{ native: Engine, platform: Platform, meter: Meter }} deps @returns {Promise<TablesPart | undefined>} */
export async function plan(sources, options, deps) {
  if (!(await spill(sources, options, deps))) return undefined;
  if (!options.headerOnly && (options.rowsLater ?? true)) postpone(sources, deps);
  return { rowsOf, skip };
}

/** @param {Source[]} sources @param {{ native: Engine, meter: Meter }} deps */
function postpone(sources, { native, meter }) {
  const tables = native.list('tensor').filter(({ onDisk }) => onDisk);
  for (const [i, { download }] of sources.entries()) {
    const holes = tables
      .filter(({ part = 0 }) => part === i)
      .map(({ offset, bytes }) => holeOf(download, offset, bytes));
    if (!holes.length || !download?.postpone(holes.sort(([a], [b]) => a - b))) continue;
    meter.notice('rows-later', 'The model can be used while the rest of it is downloaded.');
  }
}

/** Returns the file offsets of the whole pieces of the cached copy that lie within a tensor.
 * @param {Source['download']} download @param {number} offset @param {number} bytes @returns {[number, number]} */
function holeOf(download, offset, bytes) {
  const grain = download?.grain ?? 1;
  return [Math.ceil(offset / grain) * grain, Math.floor((offset + bytes) / grain) * grain];
}

/** Returns the reader of all tensors that stay on disk. Keeps the sources open.
 * @param {Engine} native @param {Source[]} sources @param {{ reportRest: (progress: Progress) => void }} deps */
async function rowsOf(native, sources, { reportRest }) {
  for (const { download, spill } of sources) await (spill ? spill.finish() : download?.serve());
  return new Rows(native, sources, reportRest);
}

/** Runs asynchronous functions one after the other. @typedef {<T>(f: () => Promise<T>) => Promise<T>} Queue */

/** Calls f for each item, with at most `parallel` calls pending. Returns the results in order. After an error, calls f
 * no more, and rejects with the first error once no call is pending.
 * @template I, O @param {I[]} items @param {number} parallel @param {(item: I) => Promise<O>} f */
async function mapParallel(items, parallel, f) {
  /** @type {O[]} */
  const results = [];
  /** @type {unknown[]} */
  const errors = [];
  const queue = items.entries();
  const work = async () => {
    for (const [i, item] of queue) {
      if (errors.length) return;
      await f(item).then(
        (result) => (results[i] = result),
        (error) => errors.push(error),
      );
    }
  };
  await Promise.all(Array.from({ length: Math.min(parallel, items.length) }, work));
  if (errors.length) throw errors[0];
  return results;
}

/** @param {Source} source @returns {Reader} */
function readerOf({ download, spill, blob, file, name = '', total = Infinity }) {
  if (spill) {
    const { grain, total } = spill;
    return { grain, total, parallel: 1, read: async (start, end, take) => take(spill.read(start, end)) };
  }
  if (download) return readerOfDownload(download);
  const slice = async (/** @type {Span} */ { start, end }) => {
    if (blob) return new Uint8Array(await blob.slice(start, end).arrayBuffer());
    if (!file?.unchanged?.()) throw fileChanged(name);
    const bytes = new Uint8Array(end - start);
    return bytes.subarray(0, file.read(bytes, start));
  };
  return {
    grain: 1,
    total,
    parallel: blob ? Infinity : 1,
    read: async (start, end, take) => take(await whole(name, { start, end }, slice)),
  };
}

/** Reads a span. Fails with `read-error` or `truncated`.
 * @param {string} name @param {Span} span @param {(span: Span) => Promise<Uint8Array>} read */
async function whole(name, span, read) {
  const bytes = await reading(name, () => read(span));
  if (bytes.length === span.end - span.start) return bytes;
  throw endsBefore(name, span.end);
}

/** @param {NonNullable<Source['download']>} download @returns {Reader} */
function readerOfDownload(download) {
  let spare = new Uint8Array();
  return {
    // A getter, because the value changes if the cached copy fails: bytes from the network need no alignment.
    get grain() {
      return download.grain;
    },
    get total() {
      return Number(download.total);
    },
    get parallel() {
      return download.late || !download.seekable ? PARALLEL_ROWS : 1; // see Download.at()
    },
    async read(start, end, take) {
      // Reuses the buffer, because the system clears the pages of a new one. Drops the buffer if the read or the
      // store fails, because the store may still use it.
      const buffer = spare.length < end - start ? new Uint8Array(end - start) : spare;
      spare = new Uint8Array();
      const into = buffer.subarray(0, end - start);
      await download.at(start, into);
      if (download.seekable) spare = buffer;
      return take(into);
    },
  };
}

/** Returns the spans that contain all rows, in order. Rows that are close together share a span.
 * @param {number[]} starts offsets of the rows, ascending @param {number} size size of a row in bytes
 * @param {Reader} reader */
function spansOf(starts, size, { grain, total }) {
  /** @type {RowSpan[]} */
  const spans = [];
  for (const at of starts) {
    const start = at - (at % grain);
    const end = Math.min(Math.ceil((at + size) / grain) * grain, Math.max(total, at + size));
    const last = spans.at(-1);
    if (last && start - last.end <= Math.max(SLACK, grain - 1) && end - last.start <= MOST) {
      last.end = end;
      last.rows.push(at);
    } else spans.push({ start, end, rows: [at] });
  }
  return spans;
}

/** Reads rows of the tensors that stay on disk, and downloads postponed tables. */
export class Rows {
  #native;
  #sources;
  /** @type {Map<number, Reader>} */
  #readers = new Map();
  /** @type {TensorInfo[]} */
  #tensors;

  #report;
  #closed = false;
  /** @type {Promise<unknown>} */
  #last = Promise.resolve();
  /** The error of all later calls, if the file's SHA-256 is wrong. @type {unknown} */
  #failure;
  /** @type {Progress} */
  #progress = { phase: 'rest', loaded: 0, total: 0, fromCache: 0, bytesPerSecond: 0 };

  /** @param {Engine} native @param {Source[]} sources @param {(progress: Progress) => void} report */
  constructor(native, sources, report) {
    this.#native = native;
    this.#sources = sources;
    this.#tensors = native.list('tensor').map((tensor) => {
      const { spill } = sources[tensor.part ?? 0];
      return spill && tensor.onDisk ? { ...tensor, offset: spill.place(tensor) } : tensor;
    });
    this.#report = report;
  }

  /** Queues an operation that may close the cached copy's file, or that must not run while it is being closed.
   * @type {Queue} */
  #inTurn = (f) => {
    const done = this.#last.then(() => {
      if (this.#closed) throw abortError();
      return f();
    });
    this.#last = done.catch(() => {});
    return done;
  };

  /** Reports a notice while postponed tables are downloaded. @param {Notice} notice */
  notice(notice) {
    if (this.#progress.total) this.#report({ ...this.#progress, notice });
  }

  /** Downloads the postponed tables while the model is in use. If that fails, rows are still requested one by one, and
   * the next load continues the download. */
  async fetchRest() {
    for (const { download } of this.#sources) {
      if (!download?.late || this.#closed) continue;
      try {
        if (download.seekable) await this.#fetch(download);
        if (download.seekable && !this.#closed) await this.#complete(download);
      } catch (error) {
        const message = `The download of the rest of the model stopped. ${/** @type {Error} */ (error).message}`;
        if (!this.#closed) this.notice({ code: 'rows-stopped', message });
      }
      // Stops the download, so that another tab can continue the cached copy.
      if (download.late) await this.#inTurn(() => download.stop()).catch(() => {});
    }
  }

  /** @param {NonNullable<Source['download']>} download */
  async #fetch(download) {
    const total = Number(download.total);
    /** @type {{ at: number, end: number }[]} */
    const lanes = [];
    for (let at = 0; at < total; at += LANE) {
      const end = Math.min(at + LANE, total);
      if (download.held(at) < end) lanes.push({ at, end });
    }
    const began = performance.now();
    const progress = this.#progress;
    Object.assign(progress, { loaded: 0, total: lanes.reduce((bytes, { at, end }) => bytes + end - at, 0) });
    const report = () => {
      progress.bytesPerSecond = (progress.loaded / Math.max(performance.now() - began, 1)) * 1000;
      this.#report({ ...progress });
    };
    /** @type {Uint8Array[]} */
    const buffers = [];
    report();
    await mapParallel(lanes, PARALLEL, async ({ at, end }) => {
      if (this.#closed || !download.seekable) return;
      const buffer = buffers.pop() ?? new Uint8Array(LANE);
      await download.at(at, buffer.subarray(0, end - at));
      buffers.push(buffer);
      progress.loaded += end - at;
      report();
    });
  }

  /** Compares the SHA-256 of the whole file, if one is known, and completes the cached copy. If the hash differs,
   * removes the copy, and later calls fail with `sha256-mismatch`.
   * @param {NonNullable<Source['download']>} download */
  async #complete(download) {
    const { digest: expected } = download;
    if (!expected) return this.#inTurn(() => download.keep());
    const hash = this.#native.hasher();
    const buffer = new Uint8Array(DRAIN_BYTES);
    for (let at = 0; at < Number(download.total); at += DRAIN_BYTES) {
      const bytes = buffer.subarray(0, Number(download.total) - at);
      await download.at(at, bytes);
      hash.update(bytes);
      await sleep(0); // lets the worker generate answers between the reads
      if (this.#closed) break;
    }
    const got = hash.hex();
    if (this.#closed) return undefined;
    if (got === expected) return this.#inTurn(() => download.keep());
    const error = digestDiffers(expected, got);
    this.#failure = error;
    return download.close(error);
  }

  /** Gives the engine the rows that it requested. If they cannot be read, drops the evaluation and fails with an error
   * of the kinds `file`, `network` or `cache`; with `aborted` if the job was aborted.
   * @param {{ aborted: boolean }} job */
  async give(job) {
    try {
      await this.fill(job);
    } catch (error) {
      this.#native.setAbort();
      try {
        this.#native.call('run', 1);
      } catch {
        /* The error of gw_run only says that the evaluation was aborted. */
      }
      throw error;
    }
  }

  /** Gives the engine the rows that it requested. After an error, the evaluation still waits for them.
   * @param {{ aborted: boolean }} job */
  async fill(job) {
    try {
      await this.#fill(job);
    } catch (error) {
      throw this.#failure ?? error;
    }
  }

  /** @param {{ aborted: boolean }} job */
  async #fill(job) {
    if (this.#failure) throw this.#failure;
    const [tensor, count, ...list] = this.#native.words('rows_wanted', 0, WANTED);
    const read = this.#read(tensor, list.slice(0, count), job);
    read.catch(() => {});
    /** @type {Uint8Array[] | unknown} */
    let rows;
    while (!Array.isArray(rows)) {
      rows = await Promise.race([read, sleep(POLL_MS)]);
      // After an abort, the engine must not get these rows: a later evaluation may have requested others.
      if (job.aborted) throw abortError();
    }
    rows.forEach((row, i) => this.#native.put('rows_room', i, row));
    this.#native.call('rows_commit');
  }

  /** @param {number} tensor @param {number[]} list row indices, ascending @param {{ aborted: boolean }} job */
  async #read(tensor, list, job) {
    const { offset, bytes, shape, part = 0 } = this.#tensors[tensor];
    const size = bytes / shape[1];
    const reader = this.#readers.get(part) ?? readerOf(this.#sources[part]);
    this.#readers.set(part, reader);
    const starts = list.map((row) => offset + row * size);
    const spans = spansOf(starts, size, reader);
    const rowsIn = async (/** @type {RowSpan} */ { start, end, rows }) => {
      if (job.aborted || this.#closed) throw abortError();
      return reader.read(start, end, (bytes) => rows.map((at) => bytes.slice(at - start, at - start + size)));
    };
    return this.#inTurn(async () => (await mapParallel(spans, reader.parallel, rowsIn)).flat());
  }

  /** Ends downloads, and closes the files once nothing is written to them any more. */
  async close() {
    this.#closed = true;
    for (const { download, close } of this.#sources) await close(download?.late ? abortError() : undefined);
  }
}
