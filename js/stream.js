/* stream: drives one source through the engine's loader: window, read, commit; has the memory
 * reserved when the header is complete; reports progress; checks the digest. */
/** @import { Hash, Engine } from './engine.js' */
/** @import { Source } from './source.js' */
import { LOAD } from './engine.js';
import { GemmaError } from './errors.js';

const REPORT_EVERY_MS = 50;
const RATE_OVER_MS = 3000;
const DRAIN_BYTES = 1 << 20;

/** Something that people should know and that does not stop a load. code: `not-cached`, `retry`, `offline`
 * or `changed`. @typedef {{ code: string, message: string }} Notice */
/** fetch: from the network; load: from elsewhere; ready: once, last. total: once known. fromCache: the
 * bytes of `loaded` that were not fetched. notice: in the report of the moment when it came up.
 * @typedef {{ phase: 'fetch' | 'load' | 'ready', loaded: number, total: number | undefined,
 *   bytesPerSecond: number, fromCache: number, notice?: Notice }} Progress */
/** @typedef {{ hash: Hash, expected: string }} Digest */

/** plan: the header is complete: reserve memory or throw; headerOnly: stop there.
 * @param {Engine} native @param {Source} source
 * @param {{ plan: () => void, headerOnly: boolean, report: (progress: Progress) => void,
 *   digest?: Digest }} options */
export async function loadInto(native, source, { plan, headerOnly, report, digest }) {
  const meter = new Meter(source, report);
  let state = native.call('load_commit', 0);
  while (state !== LOAD.READY) {
    let n = 0;
    if (state === LOAD.PLAN) {
      if (headerOnly) return;
      meter.total = wholeFile(source, native.number('file_bytes'));
      plan();
    } else {
      const window = native.window();
      n = await source.read(window);
      if (n === 0) native.call('load_end');
      digest?.hash.update(window.subarray(0, n));
      meter.add(n);
    }
    state = native.call('load_commit', n);
  }
  if (digest) await checkDigest(source, digest);
  meter.finish();
}

/** Refuses a source that is too short before its weights are read.
 * @param {Source} source @param {number} fileBytes */
function wholeFile({ total }, fileBytes) {
  if (!(Number(total) < fileBytes)) return fileBytes;
  throw new GemmaError('truncated', 'the file is not complete',
    { expected: `${fileBytes} bytes`, got: `${total} bytes` });
}

/** The digest is of all bytes, also those behind the last tensor.
 * @param {Source} source @param {Digest} digest */
async function checkDigest(source, { hash, expected }) {
  const scratch = new Uint8Array(DRAIN_BYTES);
  for (let n; (n = await source.read(scratch)) > 0;) hash.update(scratch.subarray(0, n));
  const got = hash.hex();
  if (got === expected.toLowerCase()) return;
  throw new GemmaError('sha256-mismatch', 'SHA-256 of the model', { expected, got });
}

/** Reports at most every REPORT_EVERY_MS, but always the first and the last. */
class Meter {
  #report;
  #phase;
  #loaded = 0;
  #marks = [{ time: performance.now(), loaded: 0 }];

  /** @param {Source} source @param {(progress: Progress) => void} report */
  constructor({ network, total }, report) {
    this.#report = report;
    this.#phase = /** @type {Progress['phase']} */ (network ? 'fetch' : 'load');
    this.total = total;
    this.#send();
  }

  /** @param {number} bytes */
  add(bytes) {
    this.#loaded += bytes;
    const now = performance.now();
    const marks = this.#marks;
    if (marks.length > 1 && now - marks[marks.length - 1].time < REPORT_EVERY_MS) return;
    marks.push({ time: now, loaded: this.#loaded });
    while (marks.length > 2 && now - marks[0].time > RATE_OVER_MS) marks.shift();
    this.#send();
  }

  finish() {
    this.#phase = 'ready';
    this.#loaded = this.total ?? this.#loaded;
    this.#send();
  }

  #send() {
    const [{ time, loaded }] = this.#marks;
    const seconds = Math.max(performance.now() - time, 1) / 1000;
    const bytesPerSecond = (this.#loaded - loaded) / seconds;
    this.#report({ phase: this.#phase, loaded: this.#loaded, total: this.total, bytesPerSecond,
      fromCache: 0 });
  }
}
