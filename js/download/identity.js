/* identity: which file it is, said without asking anybody: whether two answers are of one version, and what a URL
 * names. */

/** Parts of a query that say who may read, not what is read. */
const SECRET = /sig|token|key|auth|cred|secret|pass|expire|policy|x-amz|x-goog/i;

/** What tells one version of a file from another.
 * @typedef {{ etag: string, modified: string, total: number | undefined }} Version */

/** @param {Version} a @param {Version} b @returns {'same' | 'changed' | 'unknown'} */
export function compare(a, b) {
  if (a.total && b.total && a.total !== b.total) return 'changed';
  const [x, y] = a.etag && b.etag ? [a.etag, b.etag] : [a.modified, b.modified];
  if (!x || !y) return 'unknown';
  return x === y ? 'same' : 'changed';
}

/** Without what says only how it was sent: "v1", W/"v1" and "v1-gzip" name one file, though not one stream of bytes.
 * @template {Version} V @param {V} version */
export const loosely = (version) => {
  return { ...version, etag: version.etag.replace(/^W\//, '').replace(/-(gzip|br|zstd)"$/, '"') };
};

/** @param {Version} version */
export const nameOf = ({ etag, modified, total }) => `${etag || modified || 'no version'}, ${total ?? 'some'} bytes`;

/** One file, of which the version that was seen first counts. */
export class Identity {
  /** @type {Version | undefined} */
  version;
  /** @type {number | undefined} */
  total;

  /** @param {Version} version */
  pin(version) {
    this.total ??= version.total;
    if (this.version) return compare(this.version, version);
    this.version = version;
    return 'same';
  }

  unpin() {
    this.version = undefined;
  }

  /** Whether a later answer can be compared with it. */
  get named() {
    return Boolean(this.version?.etag || this.version?.modified);
  }
}

/** @param {string} url */
export const plainUrl = (url) => url.split(/[?#]/)[0];

/** Which file a URL names, without what is secret in it. @param {string} url @param {(text: string) => string} hash */
export function keyOf(url, hash) {
  const { searchParams } = new URL(url);
  const query = [...searchParams].filter(([name]) => !SECRET.test(name));
  return hash(JSON.stringify([plainUrl(url), query])).slice(0, 24);
}
