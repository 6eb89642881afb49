/* http: requests ranges of one file from a server. Determines the version of each response, and whether a retry may fix
 * a failure. */
/** @import { Tuning, UrlSource } from '../protocol.js' */
/** @import { Version } from './identity.js' */
import { TransientError, endedEarly, noData, refused, unreachable } from './errors.js';
import { cutter, pumpOf } from './pump.js';

/** @type {Tuning} */
export const TUNING = {
  segment: 4 << 20,
  parallel: 3,
  alone: 20_000,
  share: 1 / 192,
  least: 1 << 20,
  most: 64 << 20,
  spare: 1.5,
  journal: 3 << 20,
  attempts: 7,
  backoffMs: 500,
  longestMs: 60_000,
  stallMs: 20_000,
  glanceMs: 5000,
  toldMs: 1000,
};
const REDIRECTS = [301, 302, 303, 307, 308];
const MAX_REDIRECTS = 10;

/** Limits the total stall time of the connections for one file, because a server could let each connection deliver a
 * little and then stall. Allows `attempts` stalls, and one more for every four segments (Tuning.segment) that arrived.
 * Simultaneous stalls count once. */
export class StallBudget {
  #stallMs;
  #left;
  #perByte;
  #until = -Infinity;

  /** @param {Pick<Tuning, 'attempts' | 'stallMs' | 'segment'>} tuning */
  constructor({ attempts, stallMs, segment }) {
    this.#stallMs = stallMs;
    this.#left = attempts * stallMs;
    this.#perByte = stallMs / segment / 4;
  }

  /** Extends the stall budget after bytes arrived. @param {number} bytes */
  came(bytes) {
    this.#left += bytes * this.#perByte;
  }

  /** Counts a stall. Returns whether the stall budget is exceeded. @param {number} since start of the stall, in ms */
  over(since) {
    const until = since + this.#stallMs;
    this.#left -= Math.max(until - Math.max(since, this.#until), 0);
    this.#until = Math.max(until, this.#until);
    return this.#left <= 0;
  }
}

/** Resolves after `ms`. unref: whether Node may exit meanwhile.
 * @param {number} ms @param {boolean} [unref] */
export const sleep = (ms, unref = false) =>
  new Promise((resolve) => {
    const timer = /** @type {any} */ (setTimeout(resolve, ms));
    if (unref) timer.unref?.();
  });

/** Calls f until it succeeds, at most `attempts` times in a row without progress. Only transient errors are retried.
 * After a stall, less than a quarter of a segment does not count as progress. The stall budget limits the total time.
 * @template T @param {Tuning} tuning @param {number} attempts @param {() => Promise<T>} f
 * @param {{ onRetry: () => void, stallBudget: StallBudget }} file @param {() => number} [progress] */
export async function withRetry(tuning, attempts, f, { onRetry, stallBudget }, progress = () => 0) {
  const { backoffMs, longestMs, segment } = tuning;
  for (let attempt = 1; ; attempt++) {
    const before = progress();
    try {
      return await f();
    } catch (error) {
      const passes = error instanceof TransientError;
      const least = passes && error.stalled ? segment / 4 : 1;
      if (progress() - before >= least) attempt = 1;
      if (!passes || attempt >= attempts || error.after > longestMs) throw error;
      if (error.stalled && stallBudget.over(error.stalled)) throw error;
      onRetry();
      const wait = Math.min(backoffMs * 2 ** (attempt - 1), longestMs / 4) * (0.5 + Math.random());
      await sleep(Math.max(wait, error.after), true);
    }
  }
}

/** The server of one file. Follows redirects, and limits the time without data. */
export class Remote {
  #url;
  /** URL to which the server redirected a request. Later requests try this URL first. */
  #at;
  #headers;
  /** Controllers of the requests whose responses are not closed yet. @type {Set<AbortController>} */
  #open = new Set();
  /** Time without data after which a request fails, in ms. */
  patience;
  /** The page's origin, in a browser. @type {string | undefined} */
  #home = globalThis.location?.origin;
  /** SHA-256 of the file, if the server sends it. */
  digest = '';
  /** Shortest time to a successful response, in ms. Errors arrive sooner and are not counted. */
  latency = Infinity;

  /** @param {UrlSource} source @param {Tuning} tuning */
  constructor({ url, headers = [] }, { stallMs }) {
    this.#url = this.#at = url;
    this.#headers = headers;
    this.patience = stallMs;
    // The file's URL for messages, without its query, which may contain secrets.
    this.shown = url.split(/[?#]/)[0].slice(0, 200);
  }

  /** Requests the bytes from `start` to before `end`, or the whole file. The response may contain another range.
   * @param {number} [start] @param {number} [end] @param {Version} [version] expected
   * @returns {Promise<Answer>} */
  async ask(start, end, version) {
    const abort = new AbortController();
    const close = () => {
      abort.abort();
      this.#open.delete(abort);
    };
    this.#open.add(abort);
    /** @type {[string, string][]} */
    const headers =
      start === undefined || !/^http/i.test(this.#url) ? [] : [['range', `bytes=${start}-${Number(end) - 1}`]];
    // In a browser, the header If-Range needs a CORS preflight for other hosts, so only the page's own host gets it.
    // The caller compares versions in any case.
    const condition = version?.etag.startsWith('"') ? version.etag : version?.modified;
    if (headers.length && condition && [undefined, new URL(this.#url).origin].includes(this.#home)) {
      headers.push(['if-range', condition]);
    }
    const began = performance.now();
    const moved = this.#at !== this.#url;
    try {
      const response = await this.#timely(abort, this.#follow(headers, abort.signal), (why, cause) => {
        return unreachable(this.shown, why, cause);
      });
      const { status, body } = response;
      if (!body || (status !== 200 && status !== 206)) throw this.#refusal(response, moved);
      this.latency = Math.min(this.latency, performance.now() - began);
      return new Answer(
        response,
        body,
        end,
        (piece, at, total) => this.#timely(abort, piece, (why, cause) => endedEarly(this.shown, at, total, why, cause)),
        close,
      );
    } catch (error) {
      close();
      throw error;
    }
  }

  /** Aborts all requests, and closes their responses. */
  close() {
    for (const abort of this.#open) abort.abort();
  }

  /** Follows redirects. Sends the caller's headers only to the origin of the original URL; browsers do that with the
   * header Authorization.
   * @param {[string, string][]} headers @param {AbortSignal} signal */
  async #follow(headers, signal) {
    let url = this.#at;
    for (let hops = 0; ; hops++) {
      const own = new URL(url).origin === new URL(this.#url).origin;
      const response = await fetch(url, {
        headers: own ? [...this.#headers, ...headers] : headers,
        signal,
        cache: 'no-store',
        redirect: this.#home ? 'follow' : 'manual',
      });
      const linked = /^"?([0-9a-f]{64})"?$/.exec(response.headers.get('x-linked-etag') ?? '');
      if (linked) [, this.digest] = linked;
      const to = REDIRECTS.includes(response.status) && response.headers.get('location');
      if (!to || hops === MAX_REDIRECTS) {
        if (response.ok) this.#at = response.url || url;
        return response;
      }
      await response.body?.cancel();
      url = new URL(to, url).href;
    }
  }

  /** Settles like `promise`, but fails after `patience` ms without data; rejects immediately on abort, because Node 20
   * never settles some reads of an aborted body.
   * @template T @param {AbortController} abort @param {Promise<T>} promise
   * @param {(why: string, cause: unknown) => TransientError} failed returns the error @returns {Promise<T>} */
  async #timely(abort, promise, failed) {
    let stalled = 0;
    const since = performance.now();
    const { patience } = this;
    const { signal } = abort;
    let ended = () => {};
    const timer = setTimeout(() => {
      stalled = since;
      abort.abort(noData(patience));
    }, patience);
    try {
      return await new Promise((resolve, reject) => {
        ended = () => reject(signal.reason);
        promise.then(resolve, reject);
        if (signal.aborted) ended();
        signal.addEventListener('abort', ended);
      });
    } catch (error) {
      // In Node, the reason of a network error is its `cause`.
      const cause = /** @type {any} */ (error).cause ?? signal.reason ?? error;
      const secrets = [this.#url, this.#at, this.#url.split(/[?#]/)[1]];
      const tells = secrets.some((secret) => secret && String(cause).includes(secret));
      const why = tells ? '' : cause.message || cause.code || String(cause);
      const problem = failed(why, tells ? undefined : cause);
      if (problem.code === 'network-error') this.#at = this.#url; // the retry asks the original host, not the redirect's
      throw Object.assign(problem, { stalled });
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', ended);
    }
  }

  /** Returns the error for a response without the file.
   * @param {Response} response @param {boolean} moved whether the request went directly to the target of an earlier
   * redirect */
  #refusal(response, moved) {
    const { status, headers } = response;
    const passes = [408, 425, 429].includes(status) || status >= 500 || moved;
    const later = headers.get('retry-after') ?? '';
    const after = Number(later) * 1000 || Date.parse(later) - Date.now() || 0;
    // The target of a redirect can expire, so the next attempt begins at the original URL.
    this.#at = this.#url;
    return Object.assign(refused(this.shown, response, after, passes), { after, status });
  }
}

/** A response: the file's bytes from offset `at`, as they arrive. */
export class Answer {
  #take;
  /** Time at which the response arrived, in ms (performance.now()). */
  since = performance.now();

  /** @param {Response} response @param {ReadableStream<Uint8Array>} body
   * @param {number | undefined} end of the requested range
   * @param {<T>(promise: Promise<T>, at: number, total?: number) => Promise<T>} timely adds a time limit to a promise
   * @param {() => void} close */
  constructor({ status, headers }, body, end, timely, close) {
    const range = /^bytes (\d+)-\d+\/(\d+)$/.exec(headers.get('content-range') ?? '');
    const encoded = headers.get('content-encoding');
    this.partial = status === 206;
    /** Offset of the next byte, NaN if the server does not say which range it sends. */
    this.at = this.partial ? Number(encoded ? NaN : (range?.[1] ?? NaN)) : 0;
    this.end = (this.partial && end) || Infinity;
    const total = Number(this.partial ? range?.[2] : encoded ? NaN : headers.get('content-length'));
    /** @type {Version} */
    this.version = {
      etag: (headers.get('etag') ?? '').slice(0, 200),
      modified: (headers.get('last-modified') ?? '').slice(0, 100),
      total: total || undefined,
    };
    const pump = pumpOf(body);
    this.#take = cutter(() => timely(pump(), this.at, this.version.total));
    this.close = close;
  }

  /** Returns at most `most` bytes, valid until the next call; none at the end. @param {number} most */
  async read(most) {
    const piece = await this.#take(most);
    this.at += piece.length;
    return piece;
  }
}
