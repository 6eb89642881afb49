/* download: one file from a server, in order, in spite of what networks do: each piece comes from the shelf if it is
 * there, else from the network, and is put there on the way; what fails is asked for again. */
/** @import { GemmaError } from '../errors.js' */
/** @import { Store } from '../platform/env.js' */
/** @import { Entry } from './entries.js' */
/** @import { Answer, UrlSource } from './http.js' */
/** @import { Range } from './lanes.js' */
import { TUNING, patiently } from './http.js';
import { Identity, compare, keyOf, loosely, nameOf, plainUrl } from './identity.js';
import { Lanes } from './lanes.js';
import { Requests } from './requests.js';
import { Shelf } from './shelf.js';

const FIRST_ATTEMPTS = 3;
/** How a model begins. */
const MAGIC = 'GGUF';

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
    this.#shelf = new Shelf(around, this.#tuning.stallMs);
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
    const copies = await this.#shelf.find(keyOf(this.#url, hash));
    const whole = copies.find(({ complete }) => complete);
    if (whole && await this.#keeps(whole)) return;
    const part = copies.find((copy) => !copy.whole);
    const answer = await this.#first(part, copies.find((copy) => copy.whole && !copy.complete));
    if (!answer && !this.network) return;
    const goesOn = part && answer && compare(answer.version, part.journal) === 'same';
    if (whole || (part && !goesOn)) notice('changed', 'the file on the server is another one now; it replaces the stored copy');
    if (goesOn) return this.#resume(part, answer);
    if (!part) return this.#start(answer);
    this.#requests.drop(answer);
    this.#start(await this.#greet());
  }

  /** Whether a complete copy is used: unless the server has another model instead. @param {Entry} whole */
  async #keeps(whole) {
    let answer, verdict = 'unknown', why = 'the server does not tell the version of the file';
    try {
      answer = await this.#patiently(1, () => this.#requests.ask(0, 1, whole.journal));
      verdict = compare(loosely(answer.version), loosely(whole.journal));
    } catch (error) {
      why = /** @type {GemmaError} */ (error).message;
    }
    if (verdict === 'changed') {
      answer = this.#requests.drop(answer);
      if (await this.#isModel()) return false;
      why = 'what the server gives now is no model';
    }
    if (verdict !== 'same') this.#unsure(why);
    await this.#resume(whole, answer);
    return true;
  }

  /** @param {string} why */
  #unsure(why) {
    this.#around.notice('offline', `the stored copy is used; whether it is the latest is not known: ${why}`);
  }

  /** Whether the server's file begins like one: portals and proxies answer as well. */
  async #isModel() {
    try {
      const answer = await this.#requests.ask(0, MAGIC.length), { at } = answer;
      let text = '', piece;
      do {
        piece = await answer.read(MAGIC.length - text.length);
        text += String.fromCharCode(...piece);
      } while (piece.length && text.length < MAGIC.length);
      this.#requests.drop(answer);
      return at === 0 && text === MAGIC;
    } catch {
      return false;
    }
  }

  /** The first answer; none where the part that is there is of another version, and where a doubtful copy is better
   * than nothing. @param {Entry} [part] @param {Entry} [doubtful] */
  async #first(part, doubtful) {
    try {
      return await this.#greet(part);
    } catch (error) {
      const { code, message } = /** @type {GemmaError} */ (error);
      if (part && code === 'source-changed') return undefined;
      if (!doubtful) throw error;
      this.#unsure(message);
      await this.#resume(doubtful);
      return undefined;
    }
  }

  /** @param {Entry} [part] to go on with */
  async #greet(part) {
    const at = part?.heldTo(0) ?? 0, { segment } = this.#tuning;
    const end = Math.min((Math.floor(at / segment) + 1) * segment, part?.gapTo(at) ?? Infinity);
    return this.#patiently(FIRST_ATTEMPTS, () => this.#requests.ask(at, end, part?.journal));
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
    if (!stored.whole) return this.#requests.begin(/** @type {Answer} */ (answer), stored.heldTo(0));
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
    await this.#shelf.create(`${keyOf(this.#url, hash)}-${edition}`, {
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
