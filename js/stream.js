/* stream: drives one source through the engine's loader: window, read, commit; makes the memory
 * plan when the header is complete; reports progress; checks the digest. */
import { GemmaError } from './errors.js';
import { LOAD } from './engine.js';

const REPORT_EVERY_MS = 50;
const RATE_OVER_MS = 3000;
const DRAIN_BYTES = 1 << 20;

/**
 * @typedef {object} Progress
 * @property {'fetch' | 'load' | 'ready'} phase fetch: from the network; load: from elsewhere;
 *   ready: the model can be used (sent once, last)
 * @property {number} loaded bytes so far
 * @property {number | undefined} total bytes in all, once known
 * @property {number} bytesPerSecond over the last three seconds
 */

/**
 * @param {import('./engine.js').NativeModel} native
 * @param {import('./source.js').Source} source
 * @param {object} options
 * @param {() => void} options.plan the header is complete: reserve memory or throw
 * @param {boolean} options.headerOnly stop there
 * @param {(progress: Progress) => void} options.report
 * @param {{ hash: import('./engine.js').Hash, expected: string }} [options.digest] SHA-256 to check
 */
export async function loadInto(native, source, { plan, headerOnly, report, digest }) {
  const meter = new Meter(source, report);
  let state = native.call('load_commit', 0);
  while (state !== LOAD.READY) {
    if (state === LOAD.PLAN) {
      if (headerOnly) return;
      meter.total = wholeFile(source, native.number('file_bytes'));
      plan();
      state = native.call('load_commit', 0);
      continue;
    }
    const window = native.window();
    const n = await source.read(window);
    if (n === 0) native.call('load_end');
    digest?.hash.update(window.subarray(0, n));
    meter.add(n);
    state = native.call('load_commit', n);
  }
  if (digest) await checkDigest(source, digest);
  meter.finish();
}

/** A source that is known to be too short is refused before its weights are read.
 * @param {import('./source.js').Source} source @param {number} fileBytes */
function wholeFile({ total }, fileBytes) {
  if (total !== undefined && total < fileBytes) {
    throw new GemmaError('truncated', 'the file is not complete',
      { expected: `${fileBytes} bytes`, got: `${total} bytes` });
  }
  return fileBytes;
}

/** The digest is of the whole source, which may be longer than its last tensor.
 * @param {import('./source.js').Source} source
 * @param {{ hash: import('./engine.js').Hash, expected: string }} digest */
async function checkDigest(source, { hash, expected }) {
  const scratch = new Uint8Array(DRAIN_BYTES);
  for (let n; (n = await source.read(scratch)) > 0;) hash.update(scratch.subarray(0, n));
  const got = hash.hex();
  if (got !== expected.toLowerCase()) {
    throw new GemmaError('sha256-mismatch', 'SHA-256 of the model', { expected, got });
  }
}

/** Progress, at most every REPORT_EVERY_MS, but always the first and the last. */
class Meter {
  #phase;
  #report;
  #last = 0;
  /** @type {{ time: number, loaded: number }[]} */
  #marks;
  loaded = 0;
  total;

  /** @param {import('./source.js').Source} source @param {(progress: Progress) => void} report */
  constructor(source, report) {
    this.#phase = /** @type {Progress['phase']} */ (source.network ? 'fetch' : 'load');
    this.#report = report;
    this.total = source.total;
    this.#marks = [{ time: performance.now(), loaded: 0 }];
    this.#send(this.#phase);
  }

  /** @param {number} bytes */
  add(bytes) {
    this.loaded += bytes;
    const now = performance.now();
    if (now - this.#last < REPORT_EVERY_MS) return;
    this.#last = now;
    this.#marks.push({ time: now, loaded: this.loaded });
    while (this.#marks.length > 2 && now - this.#marks[0].time > RATE_OVER_MS) this.#marks.shift();
    this.#send(this.#phase);
  }

  finish() {
    this.loaded = Math.min(this.loaded, this.total ?? this.loaded);
    this.total = this.loaded;
    this.#send('ready');
  }

  /** @param {Progress['phase']} phase */
  #send(phase) {
    const [first] = this.#marks;
    const seconds = (performance.now() - first.time) / 1000;
    const bytesPerSecond = seconds > 0 ? (this.loaded - first.loaded) / seconds : 0;
    this.#report({ phase, loaded: this.loaded, total: this.total, bytesPerSecond });
  }
}
