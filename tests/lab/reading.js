/* reading: reads a file through the cache as a load does, but without an engine, which is about 100 times as fast. */
import { createHash } from 'node:crypto';
import { checksum } from '../../js/download/checksum.js';
import { Download } from '../../js/download/download.js';
import { openStore } from '../../js/download/store-node.js';
import { ModelError } from '../../js/index.node.js';
import { environment } from '../../js/platform/env.js';

/** Number of bytes per read. Not a multiple of the size of a piece (the unit of checksums), because the engine's reads
 * do not end with pieces either. */
const READ = 100_000;
const sha256Of = (/** @type {string | Buffer} */ bytes) => createHash('sha256').update(bytes).digest('hex');

function hasher() {
  const hash = createHash('sha256');
  return { update: (/** @type {Uint8Array} */ bytes) => void hash.update(bytes), hex: () => hash.copy().digest('hex') };
}

/** Reads a file through the cache and returns its bytes. `proves` returns whether the bytes are a valid model.
 * @param {string} url
 * @param {{ cache: ModelCache, sha256?: string,
 *   proves?: (bytes: Buffer) => boolean }} options */
export async function readThrough(url, { cache, sha256, proves = () => true }) {
  const store = cache.own ?? openStore(cache.descriptor.folder);
  const download = new Download(
    { url, tuning: environment.tuning },
    {
      store,
      readOnly: false,
      expected: sha256,
      hasher,
      sum: checksum,
      room: () => undefined,
      counted() {},
      watched() {},
      notice() {},
      hash: sha256Of,
    },
  );
  try {
    await download.open();
    const { digest } = download;
    const bytes = await allOf(download);
    if (digest && sha256Of(bytes) !== digest) throw new ModelError('sha256-mismatch', 'The bytes have another digest.');
    if (!proves(bytes)) throw new ModelError('bad-magic', 'The bytes are not a model.');
    await download.close();
    return bytes;
  } catch (error) {
    await download.close(/** @type {any} */ (error));
    throw error;
  }
}

/** @param {Download} download */
async function allOf(download) {
  /** @type {Buffer[]} */
  const pieces = [];
  const window = new Uint8Array(READ);
  for (let count; (count = await download.read(window)); ) pieces.push(Buffer.from(window.subarray(0, count)));
  for (let piece; (piece = await download.next()); ) pieces.push(Buffer.from(piece));
  return Buffer.concat(pieces);
}
