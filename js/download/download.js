/* download: one file from a server, in order, in spite of what networks do: pieces are fetched side by
 * side and asked for again when they fail; what the cache has is not fetched, what it has not is put
 * there on the way. Where a server cannot give pieces, one stream takes their place. */
/** @import { Store } from '../platform/env.js' */
/** @import { Answer, UrlSource, Version } from './http.js' */
import { Entry } from './entries.js';
import { GemmaError } from '../errors.js';
import { Passing, Remote, TUNING, patiently, sameVersion } from './http.js';

const FIRST_ATTEMPTS = 3;
/** Parts of a query that say who may read, not what is read. */
const SECRET = /sig|token|key|auth|cred|secret|pass|expire|policy|x-amz|x-goog/i;
/** Failures that do not make the stored bytes doubtful. */
const INNOCENT = ['network-error', 'http-error', 'truncated', 'no-memory', 'bad-option', 'bad-part'];

/** hash: of a text; counted: bytes that came, and whether the cache had them; readOnly: the cache stays as it is.
 * @typedef {{ store?: Store, readOnly: boolean, expected?: string, hash: (text: string) => string,
 *   counted: (bytes: number, cached: boolean) => void,
 *   notice: (code: string, message: string) => void }} Surroundings */
/** filled and given: how many bytes came, and went; end: of the filling, well or not.
 * @typedef {{ start: number, bytes: Uint8Array, filled: number, given: number, done: boolean,
 *   error?: unknown, wake: () => void, end: Promise<void> }} Segment */

export class Download {
  network = true;
  /** @type {number | undefined} */
  total;
  /** @type {'cached' | 'stored' | 'none'} */
  kept = 'none';
  #url;
  #around;
  #tuning;
  #remote;
  /** @type {Entry | undefined} */
  #entry;
  /** @type {Version | undefined} */
  #version;
  /** Those that were begun, from the one that is being given. @type {Segment[]} */
  #segments = [];
  #given = 0;
  /** @type {Uint8Array[]} */
  #spare = [];
  #parallel = 1;
  /** No byte is wanted from here on. */
  #limit = Infinity;
  /** Whether all comes through one stream. */
  #plain = false;
  /** Whether the header was read. */
  #ready = false;
  /** Whether long ranges are read one after the other: the network is faster than requests are. */
  #alone = false;
  /** In bytes per ms: of the last request, or a mean of long ranges. 0: not known. */
  #rate = 0;
  /** Since when it is measured. */
  #since = 0;
  /** @type {Answer | undefined} */
  #stream;
  /** One that was asked for before it is needed. @type {{ at: number, answer: Promise<Answer> } | undefined} */
  #early;
  /** Whether there may be more of those: some servers refuse a second request. */
  #eager = true;
  /** @type {Set<Answer>} */
  #open = new Set();
  #closed = false;
  /** Whether the cache is to get an entry. */
  #fresh = false;

  /** @param {UrlSource} source @param {Surroundings} around */
  constructor(source, around) {
    this.#url = source.url;
    this.#around = around;
    this.#tuning = { ...TUNING, ...source.tuning };
    this.#remote = new Remote(source, this.#tuning);
  }

  /** SHA-256 that the bytes must have; empty if none is known, or if they were found to have it. */
  get digest() {
    const wanted = (this.#around.expected ?? this.#remote.digest).toLowerCase();
    return wanted === this.#entry?.journal.sha256 ? '' : wanted;
  }

  /** Asks the server what it has, and the cache what it has of that. */
  async open() {
    const { store, hash, notice } = this.#around;
    const stored = store && await this.#try(() => Entry.find(store, keyOf(this.#url, hash)));
    let answer, problem = '';
    try {
      answer = await this.#greet(stored);
    } catch (error) {
      const { code, message } = /** @type {GemmaError} */ (error);
      problem = code === 'source-changed' ? '' : message;
      if (problem && !stored?.complete) throw error;
    }
    if (problem) notice('offline', `the stored copy is used; whether it is the latest is not known: ${problem}`);
    const fits = problem || (stored && answer && sameVersion(answer.version, stored.journal));
    if (stored && fits) return this.#resume(stored, answer);
    if (stored) {
      notice('changed', 'the file on the server is another one now; the stored copy was deleted');
      this.#drop(answer);
      await this.#try(() => stored.remove());
      answer = await this.#greet();
    }
    // Some servers refuse a range of a small file.
    this.#accept(answer ?? await this.#ask(), 0);
    this.#fresh = true;
  }

  /** The first request. @param {Entry} [stored] */
  #greet(stored) {
    const at = stored?.complete ? 0 : stored?.heldTo(0) ?? 0;
    const end = stored?.complete ? 1 : Math.min(this.#boundary(at), stored?.gapTo(at) ?? Infinity);
    return this.#patiently(stored?.complete ? 1 : FIRST_ATTEMPTS, () => this.#ask(at, end, stored?.journal));
  }

  /** @param {number} [at] @param {number} [end] @param {Version} [version] */
  async #ask(at, end, version = this.#version) {
    this.#mustBeOpen();
    const answer = await this.#remote.ask(at, end, version);
    this.#open.add(answer);
    if (this.#closed) answer.close();
    return answer;
  }

  /** @template T @param {number} attempts @param {() => Promise<T>} f @param {() => number} [progress] */
  #patiently(attempts, f, progress) {
    const onRetry = () => this.#around.notice('retry', 'the connection failed; trying again');
    return patiently(this.#tuning, attempts, f, onRetry, progress);
  }

  /** Where the segment that holds `at` ends. @param {number} at */
  #boundary(at) {
    return (Math.floor(at / this.#tuning.segment) + 1) * this.#tuning.segment;
  }

  /** @param {Entry} stored @param {Answer} [answer] */
  async #resume(stored, answer) {
    const { readOnly } = this.#around;
    if (!stored.complete) {
      if (readOnly || await this.#try(() => stored.save().then(() => true))) this.#entry = stored;
      return this.#accept(/** @type {Answer} */ (answer), stored.heldTo(0));
    }
    if (answer) this.#done(answer);
    this.#entry = stored;
    this.#version = stored.journal;
    this.total = stored.journal.total;
    this.network = false;
    this.kept = 'cached';
  }

  /** @param {Answer} answer the first one @param {number} at what was asked for */
  #accept(answer, at) {
    this.#check(answer);
    const { etag, modified } = answer.version;
    if (!answer.partial) this.#stream = answer;
    else if (answer.at === at && (etag || modified || this.digest)) {
      // Its bytes come while the cache is read: how fast, nobody sees.
      if (at) answer.since = -Infinity;
      this.#early = { at, answer: Promise.resolve(answer) };
    } else this.#version = this.#drop(answer);
    this.#plain = !this.#early;
  }

  /** That it is the file of the first answer. @param {Answer} answer */
  #check({ version }) {
    const same = this.#version ? sameVersion(this.#version, version) : true;
    this.#version ??= version;
    this.total ??= version.total;
    if (same || (same === null && this.digest)) return;
    if (same === null) {
      throw new GemmaError('truncated', `the connection to ${this.#remote.shown} ended early, and the server names no version`
        + ' of the file (ETag): what is missing could be of another one', { expected: `${this.total ?? 'more'} bytes` });
    }
    throw new GemmaError('source-changed', `${this.#remote.shown} changed while it was read; load it again`,
      { expected: nameOf(this.#version), got: nameOf(version) });
  }

  /** A new entry of the cache, if there is room. */
  async #create() {
    const { store, readOnly, hash } = this.#around;
    this.#fresh = false;
    if (!store || readOnly) return;
    const { etag = '', modified = '' } = this.#version ?? {}, { total, digest } = this;
    if (!total || !(etag || modified || digest)) {
      return this.#tell(new Error(`the server does not tell ${total ? 'the version' : 'the size'} of the file`));
    }
    await this.#try(async () => {
      const { usage = 0, quota = Infinity } = await store.estimate?.() ?? {};
      if (quota - usage < total) {
        throw new Error(`it needs ${total} bytes of storage, and ${Math.max(quota - usage, 0)} are free`);
      }
      const name = `${keyOf(this.#url, hash)}-${hash(nameOf({ etag, modified, total })).slice(0, 16)}.gguf`;
      const entry = new Entry(store, name, {
        url: plainUrl(this.#url).slice(0, 1000), etag, modified, total, have: [], need: 0, sha256: '', used: 0, turn: 0,
      });
      try {
        await entry.save();
        this.#entry = entry;
      } catch (error) {
        // What another tab stores is not ours to remove, not even when it has finished a moment later.
        if (/** @type {Error} */ (error).name !== 'NoModificationAllowedError') await entry.remove().catch(() => {});
        throw error;
      }
    });
  }

  /** What f of the cache gives; when it fails the load goes on without. @template T @param {() => Promise<T>} f */
  async #try(f) {
    try {
      return await f();
    } catch (error) {
      const entry = this.#entry;
      this.#entry = this.#around.store = undefined;
      await entry?.remove().catch(() => {});
      this.#tell(error);
      return undefined;
    }
  }

  /** @param {unknown} error */
  #tell(error) {
    const { name, message } = /** @type {Error} */ (error);
    const words = { QuotaExceededError: 'there is no room', NoModificationAllowedError: 'another tab is storing it' };
    const why = words[/** @type {keyof typeof words} */ (name)] ?? message;
    this.#around.notice('not-cached', `the model is not kept for the next time: ${why}`);
  }

  /** The header was read: more at once, up to the last tensor. @param {number} need */
  planned(need) {
    this.#ready = true;
    if (!this.digest) this.#limit = need;
    if (this.#entry) this.#entry.journal.need = need;
  }

  /** Bytes, valid until the next call; null at the end. */
  async next() {
    if (this.#fresh) await this.#create();
    for (;;) {
      this.#begin();
      const [segment] = this.#segments;
      if (!segment) return null;
      const { given, filled } = segment;
      if (given < filled) {
        segment.given = filled;
        return segment.bytes.subarray(given, filled);
      }
      if (segment.error) throw segment.error;
      if (segment.done) {
        this.#segments.shift();
        this.#spare.push(segment.bytes);
        this.#given++;
      } else {
        await new Promise((resolve) => { segment.wake = () => resolve(null); });
      }
    }
  }

  /** As many segments as may be under way. */
  #begin() {
    const { segment: size, alone, parallel } = this.#tuning;
    if (this.#ready && this.#rate) {
      this.#ready = false;
      this.#alone = this.#rate > alone;
      if (!this.#alone) this.#parallel = parallel;
    }
    while (this.#segments.length < (this.#plain || !this.network ? 1 : this.#parallel)) {
      const start = (this.#given + this.#segments.length) * size;
      if (start >= Math.min(this.total ?? Infinity, this.#limit)) return;
      /** @type {Segment} */
      const segment = { start, bytes: this.#spare.pop() ?? new Uint8Array(size), filled: 0, given: 0, done: false,
        wake() {}, end: Promise.resolve() };
      const before = this.#segments.at(-1)?.end;
      segment.end = this.#fill(segment, before).catch((error) => { segment.error = error; }).finally(() => {
        segment.done = true;
        segment.wake();
      });
      this.#segments.push(segment);
    }
  }

  /** @param {Segment} segment @param {Promise<void>} [before] when the one before it is full */
  async #fill(segment, before) {
    for (;;) {
      const at = segment.start + segment.filled;
      const end = Math.min(this.#boundary(segment.start), this.total ?? Infinity);
      if (at >= end) return;
      const held = Math.min(this.#entry?.heldTo(at) ?? at, end);
      if (held > at) await this.#fromCache(segment, held - at);
      else {
        await this.#patiently(this.#tuning.attempts, () => this.#receive(segment, end, before), () => segment.filled);
      }
    }
  }

  /** @param {Segment} segment @param {number} count */
  async #fromCache(segment, count) {
    const { start, filled, bytes } = segment;
    const read = await this.#try(() => /** @type {Entry} */ (this.#entry)
      .read(start + filled, bytes.subarray(filled, filled + count)).then(() => count));
    this.#came(segment, read ?? 0, true);
  }

  /** @param {Segment} segment @param {number} count @param {boolean} cached */
  #came(segment, count, cached) {
    segment.filled += count;
    this.#around.counted(count, cached);
    segment.wake();
  }

  /** Through one connection, as much as it gives up to `end`, or to what the cache has.
   * @param {Segment} segment @param {number} end @param {Promise<void>} [before] */
  async #receive(segment, end, before) {
    const at = () => segment.start + segment.filled;
    const to = Math.min(end, this.#entry?.gapTo(at()) ?? Infinity);
    let answer;
    try {
      answer = await this.#connect(at(), to, before);
      const start = at(), last = Math.min(to, answer.end);
      if (!this.#alone) this.#since = answer.since;
      const journal = Math.min(this.#tuning.journal, this.#reach / 2);
      while (at() < last) {
        const bytes = await answer.read(last - at());
        this.#mustBeOpen();
        if (!bytes.length) return this.#ended(at());
        segment.bytes.set(bytes, segment.filled);
        if (!this.#around.readOnly) await this.#try(async () => this.#entry?.put(at(), bytes, journal));
        this.#came(segment, bytes.length, false);
        if (this.#alone) this.#askEarly(answer);
        else this.#measure(at() - start);
      }
      if (this.#alone) this.#measure(at() - start);
    } catch (error) {
      this.#drop(answer);
      this.#stream = this.#drop(this.#stream);
      throw error;
    }
    if (answer === this.#stream && answer.at === answer.end) this.#stream = undefined;
    if (answer !== this.#stream) this.#done(answer);
  }

  /** Of long ranges one with another, for buffers fill and empty. @param {number} came */
  #measure(came) {
    const now = performance.now(), share = came / this.#tuning.segment / 4;
    const rate = came / Math.max(now - this.#since, 1);   // clocks may be coarse
    if (this.#alone) {
      this.#rate += (rate - this.#rate) * share;
      this.#since = now;
    } else if (share >= 1 / 16) this.#rate = rate;
  }

  /** How many bytes come while an answer is waited for. */
  get #ahead() {
    return this.#rate * this.#remote.latency;
  }

  /** How much one request is for when long ranges are read: what was asked for and has not been read is
   * fetched twice when everything ends, for browsers and systems take it from the network, whoever waits. */
  get #reach() {
    const { share, least, most, spare } = this.#tuning;
    return Math.ceil(Math.max(this.#entry ? this.#entry.journal.total * share : most, least, spare * this.#ahead));
  }

  /** Where the request for a long range at `at` ends. @param {number} at */
  #far(at) {
    const next = Math.min(this.#early?.at ?? Infinity, this.#entry?.gapTo(at) ?? Infinity);
    return Math.min(at + this.#reach, Number(this.total), next);
  }

  /** For the range behind, as long before this one ends as an answer takes. @param {Answer} answer */
  #askEarly({ at, end }) {
    if (this.#early || !this.#eager || end - at > this.#ahead) return;
    if (end >= Math.min(Number(this.total), this.#limit) || Number(this.#entry?.heldTo(end)) > end) return;
    const answer = this.#ask(end, this.#far(end));
    answer.catch(() => {});   // whoever takes it hears of it
    this.#early = { at: end, answer };
  }

  /** What was asked for early, if it begins at `at` and did not fail. @param {number} at */
  async #taken(at) {
    const early = this.#early;
    if (Number(early?.at) < at) this.#forget();
    if (early?.at !== at) return undefined;
    this.#early = undefined;
    return early.answer.catch(() => { this.#eager = false; });
  }

  /** What was asked for early is not wanted any more. */
  #forget() {
    this.#early?.answer.then((answer) => this.#drop(answer), () => {});
    this.#early = undefined;
  }

  #mustBeOpen() {
    if (this.#closed) throw new GemmaError('aborted', 'the download was closed');
  }

  /** @param {number} at */
  #ended(at) {
    this.total ??= at;
    if (this.total === at) return;
    throw new Passing('truncated', `the connection to ${this.#remote.shown} ended early`,
      { expected: `${this.total ?? 'more'} bytes`, got: `${at} bytes` });
  }

  /** An answer that goes on at `at`. @param {number} at @param {number} end @param {Promise<void>} [before] */
  async #connect(at, end, before) {
    if (!this.#plain) {
      if (this.#stream?.at === at) return this.#stream;
      this.#stream = this.#drop(this.#stream);
      const answer = await this.#taken(at) ?? await this.#ask(at, this.#alone ? this.#far(at) : end);
      this.#check(answer);
      if (answer.partial && answer.at === at) {
        if (this.#alone) this.#stream = answer;
        return answer;
      }
      this.#plain = true;
      this.#forget();
      if (answer.partial || this.#stream) this.#drop(answer);
      else this.#stream = answer;
    }
    await before;
    if (this.#stream && this.#stream.at > at) this.#stream = this.#drop(this.#stream);
    if (!this.#stream) {
      this.#stream = await this.#ask();
      this.#check(this.#stream);
    }
    const stream = this.#stream;
    while (stream.at < at) {
      if (!(await stream.read(at - stream.at)).length) this.#ended(stream.at);
    }
    return stream;
  }

  /** @param {Answer | undefined} answer @returns {undefined} */
  #drop(answer) {
    answer?.close();
    if (answer) this.#open.delete(answer);
  }

  /** All of it was read, or nothing more is wanted. @param {Answer} answer */
  #done(answer) {
    // A body read to its end leaves a connection that can be used again.
    const close = () => this.#drop(answer);
    answer.read(1).then(close, close);
  }

  /** @param {GemmaError} [error] why loading failed, if it did */
  async close(error) {
    this.#closed = true;
    const { digest } = this, entry = this.#entry;
    this.#entry = undefined;
    for (const answer of this.#open) answer.close();
    if (!entry) return;
    try {
      if (this.#around.readOnly) return await entry.leave();
      if (this.kept === 'cached' && !error && !digest) {
        // When it was used; another tab may have it, which does not matter, and is not waited for.
        entry.close().catch(() => {});
        return;
      }
      if (error?.code && !INNOCENT.includes(error.code)) return await entry.remove();
      if (!error && digest) entry.journal.sha256 = digest;
      await entry.close();
      if (!error && entry.complete && this.kept === 'none') this.kept = 'stored';
    } catch (problem) {
      // Another tab may have a whole copy, which does not matter.
      if (this.kept === 'none') this.#tell(problem);
    }
  }
}

/** @param {string} url */
const plainUrl = (url) => url.split(/[?#]/)[0];

/** Which file a URL names, without what is secret in it. @param {string} url @param {(text: string) => string} hash */
function keyOf(url, hash) {
  const { searchParams } = new URL(url);
  const query = [...searchParams].filter(([name]) => !SECRET.test(name));
  return hash(JSON.stringify([plainUrl(url), query])).slice(0, 24);
}

/** @param {Version} version */
const nameOf = ({ etag, modified, total }) => `${etag || modified || 'no version'}, ${total ?? 'some'} bytes`;
