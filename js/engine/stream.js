/* stream: passes the files of a model to the engine's loader: gets a buffer in the heap (gw_load_window), fills it, and
 * calls gw_load_commit(). Checks lengths and SHA-256. */
/** @import { Hash, Engine } from './engine.js' */
/** @import { Source } from '../download/source.js' */
/** @import { Meter } from './meter.js' */
import { LOAD } from './engine.js';
import { digestDiffers, fileTruncated } from './errors.js';

const DRAIN_BYTES = 1 << 20;

/** Reads the files of a model into the engine. open: opens the i-th file; plan: called when the headers are complete,
 * reserves the memory or throws; headerOnly: stop after the headers. Fails with `truncated` or `sha256-mismatch`, among
 * others.
 * @param {Engine} native @param {Source[]} sources filled with the sources as they are opened
 * @param {{ count: number, open: (i: number) => Promise<Source>, digests: string[],
 *   plan: () => Promise<import('./rows.js').TablesPart | undefined>, headerOnly: boolean, meter: Meter }} options */
export async function loadInto(native, sources, { count, open, digests, plan, headerOnly, meter }) {
  /** @type {(Hash | undefined)[]} */
  const hashes = [];
  if (count > 1) native.call('load_parts', count);
  const expected = (/** @type {number} */ i) => sources[i].download?.digest ?? digests[i] ?? '';
  let state = native.call('load_commit', 0);
  /** @type {import('./rows.js').TablesPart['skip'] | undefined} */
  let skip;
  while (state !== LOAD.READY) {
    const i = count > 1 ? native.call('load_part') : 0;
    let n = 0;
    if (state === LOAD.PLAN) {
      if (!headerOnly) planned(native, sources, meter);
      skip = (await plan())?.skip;
      // If parts of a file are downloaded later, the SHA-256 of the file is also computed later (rows.js).
      for (const j of sources.keys()) if (sources[j].download?.late) delete hashes[j];
      if (headerOnly) return;
    } else {
      if (!sources[i]) {
        sources[i] = await open(i);
        if (expected(i) && !headerOnly) hashes[i] = native.hasher();
        if (count === 1) meter.total = sources[i].total;
      }
      meter.reads(sources[i]);
      await skip?.(native, sources[i], hashes[i], meter);
      const window = native.window();
      n = await sources[i].read(window);
      sources[i].at += n;
      if (!state && !sources[i].seekable()) sources[i].head = window.slice(0, n);
      if (n === 0) native.call('load_end');
      hashes[i]?.update(window.subarray(0, n));
      if (!sources[i].download) meter.add(n);
    }
    state = native.call('load_commit', n);
  }
  for (const [i, source] of sources.entries()) {
    const hash = hashes[i];
    if (hash) await checkDigest(source, hash, expected(i));
  }
}

/** Sets the total size of the load. Throws `truncated` if a file is too short.
 * @param {Engine} native @param {Source[]} sources @param {Meter} meter */
function planned(native, sources, meter) {
  meter.total = native.number('file_bytes');
  sources.forEach(({ total, download }, i) => {
    const need = sources.length > 1 ? native.call('part_bytes', i) : native.number('file_bytes');
    download?.planned(need);
    if (Number(total) < need) throw fileTruncated(need, total);
  });
}

/** Reads the bytes after the last tensor, which the SHA-256 of the file covers too. Throws `sha256-mismatch` if the
 * hash differs.
 * @param {Source} source @param {Hash} hash @param {string} expected */
async function checkDigest(source, hash, expected) {
  const scratch = new Uint8Array(DRAIN_BYTES);
  for (let n; (n = await source.read(scratch)) > 0; ) hash.update(scratch.subarray(0, n));
  const got = hash.hex();
  if (got !== expected.toLowerCase()) throw digestDiffers(expected, got);
}
