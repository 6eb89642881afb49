/* requests: which request gives the bytes at a place. There are four ways:
 *   first   one range after the other, each for one lane, until it is seen how fast they come
 *   pieces  the same, several side by side
 *   long    one after the other, longer than a lane, the next one asked for before the last one ends: the network is
 *           faster than requests are, and what has come waits outside for whoever reads it
 *   whole   one answer for the whole file: the server gives no ranges; for good
 * An answer that goes on behind the lane it was asked for waits for the next lane: `stream`. */
/** @import { Tuning, UrlSource } from '../protocol.js' */
/** @import { Answer } from './http.js' */
/** @import { Identity, Version } from './identity.js' */
/** @import { CachedFile } from './cached-file.js' */
import { GemmaError } from '../errors.js';
import { TransientError, Remote } from './http.js';
import { nameOf } from './identity.js';
import { bodiesWait } from './pump.js';

/** Of bytes, in bytes per ms. */
class Pace {
  /** 0: not known. */
  rate = 0;
  #since = 0;
  #window;

  /** @param {number} window bytes that a measurement is for */
  constructor(window) {
    this.#window = window;
  }

  /** Of one answer so far. @param {number} came @param {number} since */
  one(came, since) {
    this.#since = since;
    if (came >= this.#window / 4) this.rate = came / passed(performance.now(), since);
  }

  /** Of long ranges one with another, for buffers fill and empty. @param {number} came since the last call */
  mean(came) {
    const now = performance.now();
    this.rate += ((came / passed(now, this.#since) - this.rate) * came) / this.#window / 4;
    this.#since = now;
  }
}

/** Clocks may be coarse. @param {number} now @param {number} since */
const passed = (now, since) => Math.max(now - since, 1);

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
  /** One that was asked for before it is needed. @type {{ at: number, answer: Promise<Answer> } | undefined} */
  #early;
  /** Whether there may be more of those: some servers refuse a second request. */
  #eager = true;
  /** @type {Set<Answer>} */
  #open = new Set();
  #closed = false;
  /** No byte is wanted from here on. */
  limit = Infinity;
  /** Whether bytes of two versions would be found out, by a digest. */
  checked = () => false;

  /** @param {UrlSource} source @param {Tuning} tuning @param {Identity} identity @param {CachedFile} shelf */
  constructor(source, tuning, identity, shelf) {
    this.#tuning = tuning;
    this.#identity = identity;
    this.#file = shelf;
    this.#remote = new Remote(source, tuning);
    this.#pace = new Pace(tuning.segment);
  }

  /** Of the URL, for people. */
  get shown() {
    return this.#remote.shown;
  }

  /** SHA-256, if the server names it. */
  get digest() {
    return this.#remote.digest;
  }

  /** How long a silence may be while f runs. @template T @param {number} ms @param {() => Promise<T>} f */
  async within(ms, f) {
    const { patience } = this.#remote;
    this.#remote.patience = Math.min(ms, patience);
    try {
      return await f();
    } finally {
      this.#remote.patience = patience;
    }
  }

  /** How many ranges are filled side by side. */
  get lanes() {
    return this.#way === 'pieces' ? this.#tuning.parallel : 1;
  }

  /** More than a header is wanted: how it is asked for, as soon as it is known how fast bytes come. */
  settle() {
    if (this.#way !== 'first' || !this.#pace.rate) return;
    this.#way = this.#pace.rate > this.#tuning.alone && bodiesWait() ? 'long' : 'pieces';
  }

  /** @param {number} [at] @param {number} [end] @param {Version} [version] */
  async ask(at, end, version = this.#identity.version) {
    this.mustBeOpen();
    const answer = await this.#remote.ask(at, end, version);
    this.#open.add(answer);
    if (this.#closed) answer.close();
    return answer;
  }

  mustBeOpen() {
    if (this.#closed) throw new GemmaError('aborted', 'the download was closed');
  }

  /** Takes the first answer. @param {Answer} answer @param {number} at what was asked for */
  begin(answer, at) {
    this.#check(answer);
    if (!answer.partial) {
      this.#stream = answer;
      this.#way = 'whole';
    } else if (answer.at === at && (this.#identity.named || this.checked())) {
      // Its bytes come while the cache is read: how fast, nobody sees.
      if (at) answer.since = -Infinity;
      this.#early = { at, answer: Promise.resolve(answer) };
    } else {
      this.drop(answer);
      this.#identity.unpin();
      this.#way = 'whole';
    }
  }

  /** That it is the file of the first answer. @param {Answer} answer */
  #check({ version }) {
    const verdict = this.#identity.pin(version);
    const { total, version: first } = this.#identity;
    if (!first || verdict === 'same' || (verdict === 'unknown' && this.checked())) return;
    if (verdict === 'unknown') {
      throw new GemmaError(
        'truncated',
        `the connection to ${this.shown} ended early, and the server names no version` +
          ' of the file (ETag): what is missing could be of another one',
        { expected: `${total ?? 'more'} bytes` },
      );
    }
    throw new GemmaError('source-changed', `${this.shown} changed while it was read; load it again`, {
      expected: nameOf(first),
      got: nameOf(version),
    });
  }

  /** Whether it says that it is of the version that counts. @param {Answer} answer */
  isSame({ version }) {
    return this.#identity.pin(version) === 'same' && this.#identity.named;
  }

  /** That bytes came which are not those of the version that was stored. */
  other() {
    return new GemmaError('source-changed', `${this.shown} has other bytes than were stored of it`);
  }

  /** An answer that goes on at `at`. @param {number} at @param {number} end of what is wanted for this lane
   * @param {Promise<void>} before when all lanes before it are full */
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
    await before;
    return this.#whole(at);
  }

  /** @param {Answer} answer to a request for a range */
  #giveUpRanges(answer) {
    this.#way = 'whole';
    this.#forget();
    if (answer.partial || this.#stream) this.drop(answer);
    else this.#stream = answer;
  }

  /** The answer for the whole file, read up to `at`. @param {number} at */
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

  /** No more bytes came behind `at`. @param {number} at */
  ended(at) {
    const total = (this.#identity.total ??= at);
    if (total === at) return;
    throw new TransientError('truncated', `the connection to ${this.shown} ended early`, {
      expected: `${total} bytes`,
      got: `${at} bytes`,
    });
  }

  /** @param {Answer} answer @param {number} came of it for this lane so far */
  progress(answer, came) {
    if (this.#way === 'long') this.#askEarly(answer);
    else this.#pace.one(came, answer.since);
  }

  /** What was wanted for this lane has come. @param {Answer} answer @param {number} came */
  received(answer, came) {
    if (this.#way === 'long') this.#pace.mean(came);
    if (answer === this.#stream && answer.at === answer.end) this.#stream = undefined;
    if (answer !== this.#stream) this.done(answer);
  }

  /** @param {Answer} [answer] that no more is taken of */
  failed(answer) {
    this.drop(answer);
    // One for the whole file is the other lanes' too.
    if (this.#way !== 'whole' || answer === this.#stream) this.#stream = this.drop(this.#stream);
  }

  /** How many bytes come while an answer is waited for. */
  get #ahead() {
    return this.#pace.rate * this.#remote.latency;
  }

  /** How much one request is for when long ranges are read: what was asked for and has not been read is
   * fetched twice when everything ends, for browsers and systems take it from the network, whoever waits. */
  get #reach() {
    const { share, least, most, spare } = this.#tuning;
    const stored = this.#file.total;
    return Math.ceil(Math.max(stored ? stored * share : most, least, spare * this.#ahead));
  }

  /** How many bytes may come before the cache is told what it has. */
  get journalEvery() {
    return Math.min(this.#tuning.journal, this.#reach / 2);
  }

  /** Where the request for a long range at `at` ends. @param {number} at */
  #far(at) {
    const next = Math.min(this.#early?.at ?? Infinity, this.#file.gap(at));
    return Math.min(at + this.#reach, Number(this.#identity.total), next);
  }

  /** For the range behind, as long before this one ends as an answer takes. @param {Answer} answer */
  #askEarly({ at, end }) {
    if (this.#early || !this.#eager || end - at > this.#ahead) return;
    if (end >= Math.min(Number(this.#identity.total), this.limit) || this.#file.held(end) > end) return;
    const answer = this.ask(end, this.#far(end));
    answer.catch(() => {}); // whoever takes it hears of it
    this.#early = { at: end, answer };
  }

  /** What was asked for early, if it begins at `at` and did not fail. @param {number} at */
  async #taken(at) {
    const early = this.#early;
    if (Number(early?.at) < at) this.#forget();
    if (early?.at !== at) return undefined;
    this.#early = undefined;
    return early.answer.catch(() => {
      this.#eager = false;
    });
  }

  /** What was asked for early is not wanted any more. */
  #forget() {
    this.#early?.answer.then(
      (answer) => this.drop(answer),
      () => {},
    );
    this.#early = undefined;
  }

  /** @param {Answer | undefined} answer @returns {undefined} */
  drop(answer) {
    answer?.close();
    if (answer) this.#open.delete(answer);
  }

  /** All of it was read, or nothing more is wanted. @param {Answer} answer */
  done(answer) {
    // A body read to its end leaves a connection that can be used again.
    const close = () => this.drop(answer);
    answer.read(1).then(close, close);
  }

  close() {
    this.#closed = true;
    for (const answer of this.#open) answer.close();
  }
}
