/* requests: chooses the request that gives the bytes at an offset. There are four ways:
 *   first   one range after the other, each for one lane, until the speed is known
 *   pieces  the same, several in parallel
 *   long    one after the other, longer than a lane, the next one requested before this one ends: the network is faster
 *           than requests are, and bodies apply back-pressure
 *   whole   one answer for the whole file, because the server does not support ranges; final
 * An answer that continues beyond its lane is kept for the next lane: `stream`. */
/** @import { Tuning, UrlSource } from '../protocol.js' */
/** @import { Answer } from './http.js' */
/** @import { Identity, Version } from './identity.js' */
/** @import { CachedFile } from './cached-file.js' */
import { ModelError } from '../errors.js';
import { TransientError, Remote } from './http.js';
import { nameOf } from './identity.js';
import { bodiesWait } from './pump.js';

/** Measures speed, in bytes per ms. */
class Pace {
  /** 0 if unknown. */
  rate = 0;
  #since = 0;
  #window;

  /** @param {number} window bytes of a measurement */
  constructor(window) {
    this.#window = window;
  }

  /** Measures one answer so far. @param {number} came @param {number} since */
  one(came, since) {
    this.#since = since;
    if (came >= this.#window / 4) this.rate = came / passed(performance.now(), since);
  }

  /** Averages over long ranges, because buffers fill and empty. @param {number} came since the last call */
  mean(came) {
    const now = performance.now();
    this.rate += ((came / passed(now, this.#since) - this.rate) * came) / this.#window / 4;
    this.#since = now;
  }
}

/** Clocks can be coarse. @param {number} now @param {number} since */
const passed = (now, since) => Math.max(now - since, 1);

/** All requests for one file. */
export class Requests {
  /** @type {'first' | 'pieces' | 'long' | 'whole'} */
  #way = 'first';
  #tuning;
  #identity;
  #file;
  #remote;
  #pace;
  /** @type {Answer | undefined} */
  #stream;
  /** A request made before its answer is needed. @type {{ at: number, answer: Promise<Answer> } | undefined} */
  #early;
  /** Whether to make more early requests: some servers refuse a second connection. */
  #eager = true;
  /** @type {Set<Answer>} */
  #open = new Set();
  #closed = false;
  #exactly = false;
  /** End of the bytes that are needed. */
  limit = Infinity;
  /** Whether a digest would detect bytes of two versions. */
  checked = () => false;

  /** @param {UrlSource} source @param {Tuning} tuning @param {Identity} identity @param {CachedFile} file */
  constructor(source, tuning, identity, file) {
    this.#tuning = tuning;
    this.#identity = identity;
    this.#file = file;
    this.#remote = new Remote(source, tuning);
    this.#pace = new Pace(tuning.segment);
  }

  /** The URL for messages. */
  get shown() {
    return this.#remote.shown;
  }

  /** SHA-256, if the server names it. */
  get digest() {
    return this.#remote.digest;
  }

  /** Runs f with a shorter tolerated silence. @template T @param {number} ms @param {() => Promise<T>} f */
  async within(ms, f) {
    const { patience } = this.#remote;
    this.#remote.patience = Math.min(ms, patience);
    try {
      return await f();
    } finally {
      this.#remote.patience = patience;
    }
  }

  /** Number of lanes that are filled in parallel. */
  get lanes() {
    return this.#way === 'pieces' ? this.#tuning.parallel : 1;
  }

  /** Chooses the kind of requests for the rest of the file, once the speed is known. */
  settle() {
    if (this.#way !== 'first' || !this.#pace.rate) return;
    this.#way = this.#pace.rate > this.#tuning.alone && bodiesWait() ? 'long' : 'pieces';
  }

  /** From now on requests only the bytes that are asked for. */
  exact() {
    this.#exactly = true;
    this.#stream = this.drop(this.#stream);
    this.#forget();
    if (this.#way === 'whole') this.#refuse();
    this.#way = 'pieces';
  }

  /** @returns {never} */
  #refuse() {
    this.#stream = this.drop(this.#stream);
    throw new ModelError('cache-failed', `${this.shown} is not cached, and the server sends no parts of it.`);
  }

  /** Requests a range, or the whole file. Throws `aborted` after close().
   * @param {number} [at] @param {number} [end] @param {Version} [version] */
  async ask(at, end, version = this.#identity.version) {
    this.mustBeOpen();
    const answer = await this.#remote.ask(at, end, version);
    this.#open.add(answer);
    if (this.#closed) answer.close();
    return answer;
  }

  /** Throws `aborted` after close(). */
  mustBeOpen() {
    if (this.#closed) throw new ModelError('aborted', 'The download was closed.');
  }

  /** Records the first response. @param {Answer} answer @param {number} at the requested offset */
  begin(answer, at) {
    this.#check(answer);
    if (!answer.partial) {
      this.#stream = answer;
      this.#way = 'whole';
    } else if (answer.at === at && (this.#identity.named || this.checked())) {
      // Bytes of this response arrive while the cache is read, so their speed cannot be measured.
      if (at) answer.since = -Infinity;
      this.#early = { at, answer: Promise.resolve(answer) };
    } else {
      this.drop(answer);
      this.#identity.unpin();
      this.#way = 'whole';
    }
  }

  /** Throws unless an answer is of the same version as the first one. @param {Answer} answer */
  #check({ version }) {
    const verdict = this.#identity.pin(version);
    const { total, version: first } = this.#identity;
    if (!first || verdict === 'same' || (verdict === 'unknown' && this.checked())) return;
    if (verdict === 'unknown') {
      throw new ModelError(
        'truncated',
        `The connection to ${this.shown} ended early and cannot be resumed, because the server sends no version of the` +
          ' file (ETag or Last-Modified). Load it again.',
        { expected: `${total ?? 'more'} bytes` },
      );
    }
    throw new ModelError('source-changed', `${this.shown} changed while it was read. Load it again.`, {
      expected: nameOf(first),
      got: nameOf(version),
    });
  }

  /** Returns whether an answer names the version of the first one. @param {Answer} answer */
  isSame({ version }) {
    return this.#identity.pin(version) === 'same' && this.#identity.named;
  }

  /** The error for bytes that differ from the cached version's. */
  other() {
    return new ModelError('source-changed', `${this.shown} no longer has the bytes that were cached. Load it again.`);
  }

  /** Returns an answer that continues at `at`. @param {number} at @param {number} end of the bytes for this lane
   * @param {Promise<void>} before resolves when all lanes before it are full */
  async connect(at, end, before) {
    if (this.#way !== 'whole') {
      if (this.#stream?.at === at) return this.#stream;
      this.#stream = this.drop(this.#stream);
      const answer = (await this.#taken(at)) ?? (await this.ask(at, this.#way === 'long' ? this.#far(at) : end));
      this.#check(answer);
      if (answer.partial && answer.at === at) {
        if (this.#way === 'long') this.#stream = answer;
        return answer;
      }
      this.#giveUpRanges(answer);
    }
    if (this.#exactly) this.#refuse();
    await before;
    return this.#whole(at);
  }

  /** The server ignored the range. @param {Answer} answer */
  #giveUpRanges(answer) {
    this.#way = 'whole';
    this.#forget();
    if (answer.partial || this.#stream) this.drop(answer);
    else this.#stream = answer;
  }

  /** Returns the answer for the whole file, read up to `at`. @param {number} at */
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

  /** Throws if an answer ended too early. @param {number} at */
  ended(at) {
    const total = (this.#identity.total ??= at);
    if (total === at) return;
    const message = `The connection to ${this.shown} ended early: ${at} of ${total} bytes received. Load it again.`;
    throw new TransientError('truncated', message, { expected: `${total} bytes`, got: `${at} bytes` });
  }

  /** Measures the speed, and requests the next range in time.
   * @param {Answer} answer @param {number} came bytes for this lane so far */
  progress(answer, came) {
    if (this.#way === 'long') this.#askEarly(answer);
    else this.#pace.one(came, answer.since);
  }

  /** Records that the lane's bytes are complete. @param {Answer} answer @param {number} came */
  received(answer, came) {
    if (this.#way === 'long') this.#pace.mean(came);
    if (answer === this.#stream && answer.at === answer.end) this.#stream = undefined;
    if (answer !== this.#stream) this.done(answer);
  }

  /** Drops an answer that failed. @param {Answer} [answer] */
  failed(answer) {
    this.drop(answer);
    // Other lanes share an answer for the whole file.
    if (this.#way !== 'whole' || answer === this.#stream) this.#stream = this.drop(this.#stream);
  }

  /** Bytes that arrive during the latency of a request. */
  get #ahead() {
    return this.#pace.rate * this.#remote.latency;
  }

  /** Length of long ranges. After a crash, bytes that were requested but not read are fetched twice: browsers and
   * systems receive them in any case. */
  get #reach() {
    const { share, least, most, spare } = this.#tuning;
    const stored = this.#file.total;
    return Math.ceil(Math.max(stored ? stored * share : most, least, spare * this.#ahead));
  }

  /** Bytes between two writes of the journal. */
  get journalEvery() {
    return Math.min(this.#tuning.journal, this.#reach / 2);
  }

  /** Returns the end of a long range at `at`. @param {number} at */
  #far(at) {
    const next = Math.min(this.#early?.at ?? Infinity, this.#file.gap(at));
    return Math.min(at + this.#reach, Number(this.#identity.total), next);
  }

  /** Requests the next range one latency before this one ends. @param {Answer} answer */
  #askEarly({ at, end }) {
    if (this.#early || !this.#eager || end - at > this.#ahead) return;
    if (end >= Math.min(Number(this.#identity.total), this.limit) || this.#file.held(end) > end) return;
    const answer = this.ask(end, this.#far(end));
    answer.catch(() => {}); // reported where it is used
    this.#early = { at: end, answer };
  }

  /** Returns the early answer, if it begins at `at` and did not fail. @param {number} at */
  async #taken(at) {
    const early = this.#early;
    if (Number(early?.at) < at) this.#forget();
    if (early?.at !== at) return undefined;
    this.#early = undefined;
    return early.answer.catch(() => {
      this.#eager = false;
    });
  }

  /** Drops the early answer. */
  #forget() {
    this.#early?.answer.then(
      (answer) => this.drop(answer),
      () => {},
    );
    this.#early = undefined;
  }

  /** Closes an answer. @param {Answer | undefined} answer @returns {undefined} */
  drop(answer) {
    answer?.close();
    if (answer) this.#open.delete(answer);
  }

  /** Ends a response of which no more bytes are needed. @param {Answer} answer */
  done(answer) {
    // Reading a body to its end keeps the connection reusable.
    const close = () => this.drop(answer);
    answer.read(1).then(close, close);
  }

  /** Closes all answers. Later requests throw `aborted`. */
  close() {
    this.#closed = true;
    for (const answer of this.#open) answer.close();
  }
}
