/* identity: decides whether two responses are of the same version of a file, and which file a URL identifies. */

/** Words in the names of query parameters that may be secret, and that shownUrl() removes. */
const SECRET = new RegExp(
  '^(sig|signature|token|key|auth|authorization|credentials?|secret|pass|passwd|password|pwd' +
    '|session|sid|code|jwt|policy|expires?|expiry|amz|goog)$|(token|key|secret|password|signature)$',
  'i',
);
/** Maximum length of the values of query parameters that shownUrl() keeps. Longer values may be secret, too. */
const LONGEST_SHOWN = 20;
/** Maximum length of a URL that shownUrl() returns. */
const MAX_URL = 1000;
/** Groups of query parameters that sign a URL and do not identify the file. Group i is ignored only if the URL has
 * the first NEEDED[i] parameters of the group. */
const SIGNATURES = [
  ['Signature', 'Key-Pair-Id', 'Expires', 'Policy'],
  ['sig', 'se', 'sv', 'st', 'spr', 'sp'],
];
const NEEDED = [2, 3];

/** A version of a file, as a server's response describes it.
 * @typedef {{ etag: string, modified: string, total: number | undefined }} Version */

/** Compares sizes, then ETags, or dates if an ETag is missing. Returns `unknown` if there is nothing to compare.
 * @param {Version} a @param {Version} b @returns {'same' | 'changed' | 'unknown'} */
export function compare(a, b) {
  if (a.total && b.total && a.total !== b.total) return 'changed';
  const [x, y] = a.etag && b.etag ? [a.etag, b.etag] : [a.modified, b.modified];
  if (!x || !y) return 'unknown';
  return x === y ? 'same' : 'changed';
}

/** Removes from an ETag what depends on the transfer: "v1", W/"v1" and "v1-gzip" identify the same file.
 * @template {Version} V @param {V} version */
export const loosely = (version) => {
  return { ...version, etag: version.etag.replace(/^W\//, '').replace(/-(gzip|br|zstd)"$/, '"') };
};

/** Describes a version, for messages and keys. @param {Version} version */
export const nameOf = ({ etag, modified, total }) => `${etag || modified || 'no version'}, ${total ?? 'some'} bytes`;

/** The version of one file: the first response determines it. */
export class Identity {
  /** @type {Version | undefined} */
  version;
  /** @type {number | undefined} */
  total;

  /** Stores the version of the first response. Compares the version of each later response with it. Returns the result
   * of compare().
   * @param {Version} version */
  pin(version) {
    this.total ??= version.total;
    if (this.version) return compare(this.version, version);
    this.version = version;
    return 'same';
  }

  /** Whether later responses can be compared with the first one, because it has an ETag or a date. */
  get named() {
    return Boolean(this.version?.etag || this.version?.modified);
  }
}

/** @param {string} url */
const plainUrl = (url) => url.split(/[?#]/)[0];

/** Returns a URL without query parameters that may be secret, for messages and for the journal. @param {string} url */
export function shownUrl(url) {
  const query = [...new URL(url).searchParams].filter(
    ([name, value]) =>
      value.length <= LONGEST_SHOWN &&
      !name.split(/[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])/).some((word) => SECRET.test(word)),
  );
  const text = String(new URLSearchParams(query));
  return (plainUrl(url) + (text && `?${text}`)).slice(0, MAX_URL);
}

/** Returns the cache key of a URL: a hash of the URL without the parameters of its signature. @param {string} url
 * @param {(text: string) => string} hash */
export function keyOf(url, hash) {
  const { searchParams } = new URL(url);
  const has = (/** @type {string} */ name) => searchParams.has(name);
  const signed = SIGNATURES.filter((names, i) => names.slice(0, NEEDED[i]).every(has)).flat();
  const query = [...searchParams].filter(([name]) => !/^x-(amz|goog)-/i.test(name) && !signed.includes(name));
  return hash(JSON.stringify([plainUrl(url), query])).slice(0, 24);
}
