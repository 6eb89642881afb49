/* download: one file from a server, in order, in spite of what networks do: each piece comes from the shelf if it is
 * there, else from the network, and is put there on the way; what fails is asked for again. */
/** @import { GemmaError } from '../errors.js' */
/** @import { Store } from '../platform/env.js' */
/** @import { Entry } from './entries.js' */
/** @import { Answer, UrlSource } from './http.js' */
/** @import { Range } from './lanes.js' */
import { TUNING, patiently } from './http.js';
import { Identity, compare, keyOf, nameOf, plainUrl } from './identity.js';
import { Lanes } from './lanes.js';
import { Requests } from './requests.js';
import { Shelf } from './shelf.js';

const FIRST_ATTEMPTS = 3;

/** hash: of a text; counted: bytes that came, and whether the cache had them; readOnly: the cache stays as it is.
 * @typedef {{ store?: Store, readOnly: boolean, expected?: string, hash: (text: string) => string,
 *   counted: (bytes: number, cached: boolean) => void,
 *   notice: (code: string, message: string) => void }} Surroundings */

export class Download {
  /** Whether bytes come from the network. */
  network = true;
  #url;
  #around;
  #tuning;
  #identity = new Identity();
  #shelf;
  #requests;
  #lanes;
  /** Whether the header was read. */
  #planned = false;
  /** Whether the shelf is to get a copy. */
  #fresh = false;

  /** @param {UrlSource} source @param {Surroundings} around */
  constructor(source, around) {
    this.#url = source.url;
    this.#around = around;
    this.#tuning = { ...TUNING, ...source.tuning };
    this.#shelf = new Shelf(around);
    this.#requests = new Requests(source, this.#tuning, this.#identity, this.#shelf);
    this.#requests.checked = () => this.digest !== '';
    this.#lanes = new Lanes(this.#tuning.segment, (range, before) => this.#fill(range, before));
  }

  /** Bytes, once known. */
  get total() {
    return this.#identity.total;
  }

  get kept() {
    return this.#shelf.kept;
  }

  /** SHA-256 that the bytes must have; empty if none is known, or if they were found to have it. */
  get digest() {
    const wanted = (this.#around.expected ?? this.#requests.digest).toLowerCase();
    return wanted === this.#shelf.sha256 ? '' : wanted;
  }

  /** Asks the server what it has, and the cache what it has of that. */
  async open() {
    const { hash, notice } = this.#around;
    const stored = await this.#shelf.find(keyOf(this.#url, hash));
    const { answer, problem } = await this.#greet(stored);
    if (problem) notice('offline', `the stored copy is used; whether it is the latest is not known: ${problem}`);
    const fits = problem || (answer && stored && compare(answer.version, stored.journal) === 'same');
    if (stored && fits) return this.#resume(stored, answer);
    if (!stored) return this.#start(answer);
    notice('changed', 'the file on the server is another one now; the stored copy was deleted');
    this.#requests.drop(answer);
    await this.#shelf.discard(stored);
    this.#start((await this.#greet()).answer);
  }

  /** The first answer; none where a stored copy is of another version, or (with the problem) must do without.
   * @param {Entry} [stored] @returns {Promise<{ answer?: Answer, problem?: string }>} */
  async #greet(stored) {
    const whole = stored?.complete, at = whole ? 0 : stored?.heldTo(0) ?? 0, { segment } = this.#tuning;
    const boundary = (Math.floor(at / segment) + 1) * segment;
    const end = whole ? 1 : Math.min(boundary, stored?.gapTo(at) ?? Infinity);
    try {
      const ask = () => this.#requests.ask(at, end, stored?.journal);
      return { answer: await this.#patiently(whole ? 1 : FIRST_ATTEMPTS, ask) };
    } catch (error) {
      const { code, message } = /** @type {GemmaError} */ (error);
      if (code === 'source-changed') return {};
      if (whole) return { problem: message };
      throw error;
    }
  }

  /** Without a copy. @param {Answer} [answer] */
  async #start(answer) {
    // Some servers refuse a range of a small file.
    this.#requests.begin(answer ?? await this.#requests.ask(), 0);
    this.#fresh = true;
  }

  /** @param {Entry} stored @param {Answer} [answer] none: from the copy alone */
  async #resume(stored, answer) {
    await this.#shelf.use(stored);
    if (!stored.complete) return this.#requests.begin(/** @type {Answer} */ (answer), stored.heldTo(0));
    if (answer) this.#requests.done(answer);
    this.#identity.pin(stored.journal);
    this.network = false;
  }

  /** A new copy in the cache. */
  async #create() {
    const { hash } = this.#around, { total, version } = this.#identity, { etag = '', modified = '' } = version ?? {};
    this.#fresh = false;
    if (!this.#shelf.open) return;
    if (!total || !(etag || modified || this.digest)) {
      return this.#shelf.tell(new Error(`the server does not tell ${total ? 'the version' : 'the size'} of the file`));
    }
    const edition = hash(nameOf({ etag, modified, total })).slice(0, 16);
    await this.#shelf.create(`${keyOf(this.#url, hash)}-${edition}.gguf`, {
      url: plainUrl(this.#url).slice(0, 1000), etag, modified, total, have: [], need: 0, sha256: '', used: 0, turn: 0,
    });
  }

  /** The header was read: more at once, up to the last tensor. @param {number} need */
  planned(need) {
    this.#planned = true;
    if (!this.digest) this.#requests.limit = need;
    this.#shelf.need(need);
  }

  /** Bytes, valid until the next call; null at the end. */
  async next() {
    if (this.#fresh) await this.#create();
    return this.#lanes.next(() => {
      if (this.#planned) this.#requests.settle();
      return { lanes: this.#requests.lanes, end: Math.min(this.total ?? Infinity, this.#requests.limit) };
    });
  }

  /** @param {Range} range @param {Promise<void>} [before] when the one before it is full */
  async #fill(range, before) {
    const end = () => Math.min(range.end, this.total ?? Infinity);
    while (range.at < end()) {
      const held = Math.min(this.#shelf.held(range.at), end()) - range.at;
      if (held) this.#came(range, await this.#shelf.read(range.at, range.room(held)), true);
      else {
        const receive = () => this.#receive(range, Math.min(end(), this.#shelf.gap(range.at)), before);
        await this.#patiently(this.#tuning.attempts, receive, () => range.filled);
      }
    }
  }

  /** @param {Range} range @param {number} count @param {boolean} cached */
  #came(range, count, cached) {
    range.came(count);
    this.#around.counted(count, cached);
  }

  /** Through one connection, as much as it gives up to `end`.
   * @param {Range} range @param {number} end @param {Promise<void>} [before] */
  async #receive(range, end, before) {
    const requests = this.#requests;
    let answer;
    try {
      answer = await requests.connect(range.at, end, before);
      const start = range.at, last = Math.min(end, answer.end), { journalEvery } = requests;
      while (range.at < last) {
        const bytes = await answer.read(last - range.at);
        requests.mustBeOpen();
        if (!bytes.length) return requests.ended(range.at);
        range.room(bytes.length).set(bytes);
        await this.#shelf.put(range.at, bytes, journalEvery);
        this.#came(range, bytes.length, false);
        requests.progress(answer, range.at - start);
      }
      requests.received(answer, range.at - start);
    } catch (error) {
      requests.failed(answer);
      throw error;
    }
  }

  /** @template T @param {number} attempts @param {() => Promise<T>} f @param {() => number} [progress] */
  #patiently(attempts, f, progress) {
    const onRetry = () => this.#around.notice('retry', 'the connection failed; trying again');
    return patiently(this.#tuning, attempts, f, onRetry, progress);
  }

  /** @param {GemmaError} [error] why loading failed, if it did */
  async close(error) {
    const { digest } = this;
    this.#requests.close();
    await this.#shelf.finish(digest, error);
  }
}
