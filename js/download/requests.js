/* requests: chooses the request that delivers the bytes at an offset. Requests have one of five modes:
 *   first   a range per lane (lanes.js), one after the other, until the speed is known
 *   pieces  a range per lane, several in parallel
 *   long    longer ranges, each requested before the previous one ends: for fast networks, whose speed the latency of
 *           requests would limit, and response bodies with back-pressure
 *   whole   one response for the whole file, because the server does not support ranges
 *   exact   the ranges that the caller needs, for files that are not read in order; no other mode follows
 * A response that continues beyond its lane is kept in `stream` for the next lane. */
/** @import { Tuning, UrlSource } from '../protocol.js' */
/** @import { Answer } from './http.js' */
/** @import { Identity, Version } from './identity.js' */
/** @import { CachedFile } from './cached-file.js' */
import { cannotResume, downloadAborted, endedEarly, fileChanged, noRanges } from './errors.js';
import { Remote } from './http.js';
import { nameOf } from './identity.js';
import { bodiesWait } from './pump.js';

/** Measures the download speed in bytes per ms. */
class Pace {
  rate = 0;
  #since = 0;
  #window;

  /** @param {number} window number of bytes that a measurement covers */
  constructor(window) {
    this.#window = window;
  }

  /** Measures the speed of a response, if enough of it has arrived. @param {number} came number of its bytes so far
   * @param {number} since time at which it began, in ms */
  one(came, since) {
    this.#since = since;
    if (came >= this.#window / 4) this.rate = came / passed(performance.now(), since);
  }

  /** Updates a moving average of the speed, because the speed of long ranges varies as buffers fill and empty.
   * @param {number} came bytes since the last call */
  mean(came) {
    const now = performance.now();
    this.rate += ((came / passed(now, this.#since) - this.rate) * came) / this.#window / 4;
    this.#since = now;
  }
}

/** Returns the elapsed ms, at least 1, because clocks can be coarse. @param {number} now @param {number} since */
const passed = (now, since) => Math.max(now - since, 1);

/** The requests of one download, their mode and the responses in progress. */
export class Requests {
  /** @type {'first' | 'pieces' | 'long' | 'whole' | 'exact'} */
  #way = 'first';
  #tuning;
  #identity;
  #file;
  #remote;
  #pace;
  /** @type {Answer | undefined} */
  #stream;
  /** The early request: made before the current range ends, for the bytes at offset `at`.
   * @type {{ at: number, answer: Promise<Answer> } | undefined} */
  #early;
  /** Whether to request the next range before the current response ends. Turned off after such a request failed,
   * because some servers refuse a second connection. */
  #eager = true;
  #closed = false;
  /** Offset in the file where the needed bytes end. */
  limit = Infinity;
  /** Returns whether a SHA-256 will be compared, which detects bytes of different versions. */
  checked = () => false;

  /** @param {UrlSource} source @param {Tuning} tuning @param {Identity} identity @param {CachedFile} file */
  constructor(source, tuning, identity, file) {
    this.#tuning = tuning;
    this.#identity = identity;
    this.#file = file;
    this.#remote = new Remote(source, tuning);
    this.#pace = new Pace(tuning.segment);
  }

  /** URL of the file for messages, without its query. */
  get shown() {
    return this.#remote.shown;
  }

  /** SHA-256 of the file, '' if the server did not send it. */
  get digest() {
    return this.#remote.digest;
  }

  /** Calls f with a shorter time limit: requests fail after `ms` without data. @template T @param {number} ms
   * @param {() => Promise<T>} f */
  async within(ms, f) {
    const { patience } = this.#remote;
    this.#remote.patience = Math.min(ms, patience);
    try {
      return await f();
    } finally {
      this.#remote.patience = patience;
    }
  }

  /** Number of lanes: parts of the file that are downloaded at the same time, each by its own request. */
  get lanes() {
    return /pieces|exact/.test(this.#way) ? this.#tuning.parallel : 1;
  }

  /** Chooses the mode for the rest of the file, once the speed is known. */
  settle() {
    if (this.#way !== 'first' || !this.#pace.rate) return;
    this.#way = this.#pace.rate > this.#tuning.alone && bodiesWait() ? 'long' : 'pieces';
  }

  /** Whether the server supports range requests, as far as is known. */
  get ranges() {
    return this.#way !== 'whole';
  }

  /** Changes to the mode `exact`. Closes the responses in progress. */
  exact() {
    this.#stream = this.drop(this.#stream);
    this.#forget();
    this.#way = 'exact';
  }

  /** Throws the error for a range that is needed and that the server does not send. @returns {never} */
  refuse() {
    throw noRanges(this.shown);
  }

  /** Requests a range, or the whole file. Throws `aborted` after close().
   * @param {number} [at] @param {number} [end] @param {Version} [version] */
  async ask(at, end, version = this.#identity.version) {
    this.mustBeOpen();
    return this.#remote.ask(at, end, version);
  }

  /** Throws `aborted` if the download was closed. */
  mustBeOpen() {
    if (this.#closed) throw downloadAborted();
  }

  /** Uses the first response, and chooses the mode `whole` if the server cannot continue it. @param {Answer} answer
   * @param {number} at the requested offset */
  begin(answer, at) {
    this.#check(answer);
    if (!answer.partial) {
      this.#stream = answer;
      this.#way = 'whole';
    } else if (answer.at === at && (this.#identity.named || this.checked())) {
      // The response to the first request is read only after the cached bytes, so its speed cannot be measured.
      if (at) answer.since = -Infinity;
      this.#early = { at, answer: Promise.resolve(answer) };
    } else {
      this.drop(answer);
      this.#identity.version = undefined;
      this.#way = 'whole';
    }
  }

  /** Throws unless a response is of the same version as the first one. @param {Answer} answer */
  #check({ version }) {
    const verdict = this.#identity.pin(version);
    const { total, version: first } = this.#identity;
    if (!first || verdict === 'same' || (verdict === 'unknown' && this.checked())) return;
    if (verdict === 'unknown') throw cannotResume(this.shown, total);
    throw fileChanged(this.shown, nameOf(first), nameOf(version));
  }

  /** Returns whether a response has the ETag or Last-Modified date of the first one. @param {Answer} answer */
  isSame({ version }) {
    return this.#identity.pin(version) === 'same' && this.#identity.named;
  }

  /** Returns a response whose next byte is at offset `at`. @param {number} at @param {number} end offset where this
   * lane's missing bytes end
   * @param {Promise<void>} before resolves when all earlier lanes are full */
  async connect(at, end, before) {
    if (this.ranges) {
      if (this.#stream?.at === at) return this.#stream;
      this.#stream = this.drop(this.#stream);
      const answer = (await this.#taken(at)) ?? (await this.ask(at, this.#way === 'long' ? this.#far(at) : end));
      this.#check(answer);
      if (answer.partial && answer.at === at) {
        if (this.#way === 'long') this.#stream = answer;
        return answer;
      }
      if (this.#way === 'exact') {
        this.drop(answer); // the mode stays `exact`, because a later request for a range may succeed
        this.refuse();
      }
      this.#giveUpRanges(answer);
    }
    await before;
    return this.#whole(at);
  }

  /** @param {Answer} answer */
  #giveUpRanges(answer) {
    this.#way = 'whole';
    this.#forget();
    if (answer.partial || this.#stream) this.drop(answer);
    else this.#stream = answer;
  }

  /** Returns the response for the whole file, after reading and dropping its bytes up to offset `at`.
   * @param {number} at */
  async #whole(at) {
    if (this.#stream && this.#stream.at > at) this.#stream = this.drop(this.#stream);
    if (!this.#stream) {
      this.#stream = await this.ask();
      this.#check(this.#stream);
    }
    const stream = this.#stream;
    try {
      while (stream.at < at) {
        if (!(await stream.read(at - stream.at)).length) this.ended(stream.at);
      }
    } catch (error) {
      this.#stream = this.drop(stream);
      throw error;
    }
    return stream;
  }

  /** Throws if a response ended before the end of the file. A file of unknown size ends where the response ends.
   * @param {number} at where
   * it ended */
  ended(at) {
    const total = (this.#identity.total ??= at);
    if (total !== at) throw endedEarly(this.shown, at, total);
  }

  /** Measures the speed, or makes the early request if one is due.
   * @param {Answer} answer @param {number} came bytes of this lane so far */
  progress(answer, came) {
    if (this.#way === 'long') this.#askEarly(answer);
    else this.#pace.one(came, answer.since);
  }

  /** Records that a lane is full. Closes the response unless it continues beyond the lane. @param {Answer} answer
   * @param {number} came bytes that arrived */
  received(answer, came) {
    if (this.#way === 'long') this.#pace.mean(came);
    if (answer === this.#stream && answer.at === answer.end) this.#stream = undefined;
    if (answer !== this.#stream) this.done(answer);
  }

  /** Closes the responses that cannot be used any more after an error.
   * @param {Answer} [answer] the response that failed, if there is one */
  failed(answer) {
    this.drop(answer);
    // In the mode `whole`, parallel requests share the current response. The current response is closed only if it
    // failed itself.
    if (this.#way !== 'whole' || answer === this.#stream) this.#stream = this.drop(this.#stream);
  }

  /** Number of bytes that arrive during the latency of a request. */
  get #ahead() {
    return this.#pace.rate * this.#remote.latency;
  }

  /** Length in bytes of ranges in the mode `long`. It is limited because after a crash the unread part of a range is
   * downloaded again. */
  get #reach() {
    const { share, least, most, spare } = this.#tuning;
    const stored = this.#file.total;
    return Math.ceil(Math.max(stored ? stored * share : most, least, spare * this.#ahead));
  }

  /** Number of bytes between two writes of the journal. */
  get journalEvery() {
    return Math.min(this.#tuning.journal, this.#reach / 2);
  }

  /** @param {number} at */
  #far(at) {
    const next = Math.min(this.#early?.at ?? Infinity, this.#file.gap(at));
    return Math.min(at + this.#reach, Number(this.#identity.total), next);
  }

  /** Makes the early request (for the next range) when the rest of a response will arrive within the latency of a
   * request.
   * @param {Answer} answer */
  #askEarly({ at, end }) {
    if (this.#early || !this.#eager || end - at > this.#ahead) return;
    if (end >= Math.min(Number(this.#identity.total), this.limit) || this.#file.held(end) > end) return;
    const answer = this.ask(end, this.#far(end));
    answer.catch(() => {}); // the error of the early request is handled when its response is used
    this.#early = { at: end, answer };
  }

  /** Returns the response to the early request, if it begins at `at` and did not fail. @param {number} at */
  async #taken(at) {
    const early = this.#early;
    if (Number(early?.at) < at) this.#forget();
    if (early?.at !== at) return undefined;
    this.#early = undefined;
    return early.answer.catch(() => {
      this.#eager = false;
    });
  }

  #forget() {
    this.#early?.answer.then(
      (answer) => this.drop(answer),
      () => {},
    );
    this.#early = undefined;
  }

  /** Closes a response. Returns undefined, for the variable that held it.
   * @param {Answer | undefined} answer @returns {undefined} */
  drop(answer) {
    answer?.close();
  }

  /** Closes a response whose needed bytes have all arrived. @param {Answer} answer */
  done(answer) {
    // Reads the body to its end, so that the connection can be reused.
    const close = () => this.drop(answer);
    answer.read(1).then(close, close);
  }

  /** Aborts all requests. Later requests throw `aborted`. */
  close() {
    this.#closed = true;
    this.#remote.close();
  }
}
