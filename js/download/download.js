/* download: one file from a server, in order, in spite of what networks do: each piece comes from the shelf if it is
 * there, else from the network, and is put there on the way; what fails is asked for again. */
/** @import { Store, UrlSource } from '../protocol.js' */
/** @import { Entry } from './entry.js' */
/** @import { Answer } from './http.js' */
/** @import { Version } from './identity.js' */
/** @import { Range } from './lanes.js' */
import { GemmaError } from '../errors.js';
import { pieceOf } from './checks.js';
import { StallBudget, TUNING, withRetry } from './http.js';
import { Identity, compare, keyOf, loosely, nameOf, shownUrl } from './identity.js';
import { Lanes } from './lanes.js';
import { Requests } from './requests.js';
import { CachedFile } from './cached-file.js';

const FIRST_ATTEMPTS = 3;
/** Bytes that are checked at a time. */
const CHECKED = 1 << 20;
/** How a model begins. */
const MAGIC = 'GGUF';

/** hash: of a text; sum: a checksum of bytes; room: bytes where that is fastest, if there are any left;
 * watched: what another tab or process has fetched of it; counted: bytes that came, and whether the cache had them;
 * readOnly: the cache stays as it is.
 * @typedef {{ store?: Store, readOnly: boolean, expected?: string, hash: (text: string) => string,
 *   hasher: () => { update: (bytes: Uint8Array) => void, hex: () => string },
 *   sum: (bytes: Uint8Array) => number[], room: (size: number) => Uint8Array | undefined,
 *   counted: (bytes: number, cached: boolean) => void,
 *   watched: (have: number, total: number) => void, notice: (code: string, message: string) => void }} DownloadDeps */

export class Download {
  /** Whether bytes come from the network. */
  network = true;
  #url;
  /** Of a copy that was named. @type {string | undefined} */
  #key;
  /** Whether a token is sent. */
  #guarded;
  #around;
  #tuning;
  #identity = new Identity();
  #file;
  #requests;
  #lanes;
  #stallBudget;
  /** Bytes up to the last tensor; 0 until the header was read. */
  #planned = 0;
  /** The copy that has the digest that the caller named. @type {Entry | undefined} */
  #proved;
  /** That a stored copy has another digest than the caller named. @type {GemmaError | undefined} */
  #wrong;
  /** Whether the shelf is to get a copy. */
  #fresh = false;
  /** Whether bytes are read from the stored copy alone, and how many were. */
  #direct = false;
  #read = 0;
  /** Whether bytes are fetched that were stored and are damaged. */
  #mending = false;
  /** Says how far it is. @type {any} */
  #telling;
  /** When somebody else's download was told. */
  #watched = -Infinity;

  /** @param {UrlSource} source @param {DownloadDeps} around */
  constructor(source, around) {
    this.#url = source.url;
    this.#key = source.key;
    this.#guarded = Boolean(source.headers?.some(([name]) => name.toLowerCase() === 'authorization'));
    this.#around = around;
    this.#tuning = { ...TUNING, ...source.tuning };
    this.#stallBudget = new StallBudget(this.#tuning);
    this.#file = new CachedFile(around, this.#tuning.stallMs);
    this.#requests = new Requests(source, this.#tuning, this.#identity, this.#file);
    this.#requests.checked = () => this.digest !== '' || this.#mending;
    const { segment } = this.#tuning;
    const room = () => (around.store && around.room(segment)) ?? new Uint8Array(segment);
    this.#lanes = new Lanes(room, (range, before) => this.#fill(range, before));
  }

  /** Bytes, once known. */
  get total() {
    return this.#identity.total;
  }

  get kept() {
    return this.#file.kept;
  }

  /** SHA-256 that the bytes must have; empty if none is known, or if they were found to have it. */
  get digest() {
    const wanted = (this.#around.expected ?? this.#requests.digest).toLowerCase();
    return wanted === this.#file.sha256 ? '' : wanted;
  }

  /** Asks the server what it has, and the cache what it has of that. @returns {Promise<void>} */
  async open() {
    this.#telling ??= setInterval(() => this.#tell(), this.#tuning.toldMs);
    const { notice, hash } = this.#around;
    const own = keyOf(this.#url, hash);
    const key = this.#key ?? own;
    const copies = await this.#file.find(key);
    const whole = await this.#sound(copies.filter((copy) => copy.whole));
    if (key !== own) return this.#alone(whole);
    const keeps = whole && (() => this.#keeps(whole));
    if (keeps && (await this.#requests.within(this.#tuning.glanceMs, keeps))) return this.#file.tidy(key);
    // What another one stores meanwhile is ours too.
    if (await this.#file.lock(key, (have, total) => this.#watch(have, total))) return this.open();
    const part = copies.find((copy) => !copy.whole);
    const answer = await this.#first(part);
    const goesOn = part && answer && compare(answer.version, part.journal) === 'same';
    if (whole || (part && !goesOn))
      notice('changed', 'the file on the server is another one now; it replaces the stored copy');
    if (goesOn) return this.#resume(part, answer);
    if (!part) return this.#start(answer);
    this.#requests.drop(answer);
    this.#start(await this.#greet());
  }

  #tell() {
    if (performance.now() - this.#watched >= this.#tuning.toldMs) this.#around.counted(0, false);
  }

  /** @param {number} have @param {number} total */
  #watch(have, total) {
    this.#watched = performance.now();
    this.#around.watched(have, total);
  }

  /** The first copy that has the bytes that the caller named; if none were, that nothing speaks against.
   * @param {Entry[]} copies that are whole */
  async #sound(copies) {
    const expected = this.#around.expected?.toLowerCase();
    for (const copy of copies) {
      const { total, sha256 } = copy.journal;
      // Bytes behind the last tensor may be missing; they are fetched and checked with the rest.
      if (!expected || this.#around.readOnly || copy.heldTo(0) < total) {
        if (copy.complete) return copy;
        continue;
      }
      const { got, lost } = await this.#digestOf(copy);
      if (lost) {
        this.#wrong = this.#damaged(lost);
        copy.journal.sha256 = '';
        return copy;
      }
      if (got === expected) {
        copy.journal.sha256 = got;
        if (!copy.complete || got !== sha256) await this.#file.mark(copy, false);
        this.#proved = copy;
        return copy;
      }
      this.#wrong = new GemmaError('sha256-mismatch', 'SHA-256 of the stored copy', { expected, got });
      if (got && got !== sha256) await this.#file.mark(copy, true);
    }
    return undefined;
  }

  /** Of all bytes, or what is damaged; neither where it cannot be read. @param {Entry} copy */
  async #digestOf(copy) {
    const hasher = this.#around.hasher();
    const bytes = new Uint8Array(CHECKED);
    const { total } = copy.journal;
    for (let at = 0; at < total; at += CHECKED) {
      const piece = bytes.subarray(0, total - at);
      this.#requests.mustBeOpen();
      const count = await this.#file.look(copy, at, piece);
      if (count !== piece.length) return { got: '', lost: count === undefined ? '' : copy.lost(at + count) };
      hasher.update(piece);
    }
    return { got: hasher.hex(), lost: '' };
  }

  /** @param {string} lost what is @param {unknown} [cause] why it stays so */
  #damaged(lost, cause) {
    const got = cause ? `other ones, and none from the server: ${/** @type {Error} */ (cause).message}` : 'other ones';
    return new GemmaError('copy-damaged', `${lost} of the stored copy of ${this.#requests.shown}`, {
      expected: 'the bytes that were stored',
      got,
      cause,
    });
  }

  /** Whether a complete copy is used: unless the server has another model instead. @param {Entry} whole */
  async #keeps(whole) {
    let answer;
    let verdict = 'unknown';
    let why = 'the server does not tell the version of the file';
    try {
      answer = await this.#withRetry(1, () => this.#requests.ask(0, 1, whole.journal));
      // With the digest that was asked for, there is nothing later.
      verdict = whole === this.#proved ? 'same' : compare(loosely(answer.version), loosely(whole.journal));
    } catch (error) {
      // Who may not read it any more does not get it from here.
      if (whole.journal.guarded && /** @type {any} */ (error).status === 401) throw error;
      why = /** @type {GemmaError} */ (error).message;
    }
    if (verdict === 'changed') {
      answer = this.#requests.drop(answer);
      if (await this.#isModel()) return false;
      why = 'what the server gives now is no model';
    }
    if (verdict !== 'same') this.#unsure(why);
    await this.#resume(whole, answer, verdict === 'same' ? answer?.version : undefined);
    return true;
  }

  /** Without a server: of its address, what may be secret was not stored. @param {Entry} [whole] */
  async #alone(whole) {
    if (!whole) {
      throw (
        this.#wrong ??
        new GemmaError('unsupported-source', 'no whole copy, and not all of the address, is stored', {
          expected: 'its whole URL',
          got: this.#requests.shown,
        })
      );
    }
    this.#unsure('not all of its address is stored');
    await this.#resume(whole);
  }

  /** @param {string} why */
  #unsure(why) {
    this.#around.notice('offline', `the stored copy is used; whether it is the latest is not known: ${why}`);
  }

  /** Whether the server's file begins like one: portals and proxies answer as well. */
  async #isModel() {
    try {
      const answer = await this.#requests.ask(0, MAGIC.length);
      const { at } = answer;
      let text = '';
      let piece;
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

  /** The first answer; none where the part that is there is of another version. @param {Entry} [part] */
  async #first(part) {
    try {
      return await this.#greet(part);
    } catch (error) {
      if (part && /** @type {GemmaError} */ (error).code === 'source-changed') return undefined;
      throw this.#wrong ?? error;
    }
  }

  /** @param {Entry} [part] to go on with */
  async #greet(part) {
    const at = part?.heldTo(0) ?? 0;
    const { segment } = this.#tuning;
    const end = Math.min((Math.floor(at / segment) + 1) * segment, part?.gapTo(at) ?? Infinity);
    return this.#withRetry(FIRST_ATTEMPTS, () => this.#requests.ask(at, end, part?.journal));
  }

  /** Without a copy. @param {Answer} [answer] */
  async #start(answer) {
    // Some servers refuse a range of a small file.
    this.#requests.begin(answer ?? (await this.#requests.ask()), 0);
    this.#fresh = true;
  }

  /** @param {Entry} stored @param {Answer} [answer] none: from the copy alone
   * @param {Version} [version] as it is called now, if that is another name */
  async #resume(stored, answer, version) {
    await this.#file.use(stored);
    if (!stored.wasWhole) return this.#requests.begin(/** @type {Answer} */ (answer), stored.heldTo(0));
    if (answer) this.#requests.done(answer);
    this.#identity.total = stored.journal.total;
    this.#identity.pin(version ?? stored.journal);
    this.network = false;
    this.#direct = true;
  }

  /** A new copy in the cache. */
  async #create() {
    const { hash } = this.#around;
    const { total, version } = this.#identity;
    const { etag = '', modified = '' } = version ?? {};
    this.#fresh = false;
    if (!this.#file.open) return;
    if (!total || !(etag || modified || this.digest)) {
      return this.#file.tell(new Error(`the server does not tell ${total ? 'the version' : 'the size'} of the file`));
    }
    const edition = hash(nameOf({ etag, modified, total })).slice(0, 16);
    await this.#file.create(`${keyOf(this.#url, hash)}-${edition}`, {
      url: shownUrl(this.#url).slice(0, 1000),
      guarded: this.#guarded || undefined,
      etag,
      modified,
      total,
      have: [],
      need: this.#planned || total + 1,
      sha256: '',
      used: 0,
      turn: 0,
      piece: pieceOf(total, this.#tuning.segment),
    });
  }

  /** The header was read: more at once, up to the last tensor. @param {number} need */
  planned(need) {
    this.#planned = need;
    if (!this.digest) this.#requests.limit = need;
    this.#file.need(need);
  }

  /** From the stored copy straight to where bytes are wanted, as far as that goes; gives the count. From where it ends,
   * and where there is none, they come by `next`. @param {Uint8Array} into */
  async read(into) {
    if (!this.#direct) return 0;
    const at = this.#read;
    const count = await this.#file.read(at, this.#file.pieces(at, into));
    this.#around.counted(count, true);
    this.#read += count;
    this.#direct = count > 0;
    return count;
  }

  /** Bytes, valid until the next call; null at the end. */
  async next() {
    if (this.#fresh) await this.#create();
    return this.#lanes.next(this.#read, () => {
      if (this.#planned) this.#requests.settle();
      return { lanes: this.#requests.lanes, end: Math.min(this.total ?? Infinity, this.#requests.limit) };
    });
  }

  /** @param {Range} range @param {Promise<void>} before when all before it are full */
  async #fill(range, before) {
    const end = () => Math.min(range.end, this.total ?? Infinity);
    while (range.at < end()) {
      const held = Math.min(this.#file.held(range.at), end()) - range.at;
      if (held) this.#came(range, await this.#file.read(range.at, range.room(held)), true);
      else {
        const receive = () => this.#receive(range, Math.min(end(), this.#file.gap(range.at)), before);
        await this.#mend(range, () => this.#withRetry(this.#tuning.attempts, receive, () => range.filled));
      }
    }
  }

  /** Says what was damaged, and that it is no more, or cannot be fetched again. @param {Range} range
   * @param {() => Promise<void>} fetch */
  async #mend(range, fetch) {
    const lost = this.#file.lost(range.at);
    if (!lost) return fetch();
    this.#mending = true;
    try {
      await fetch();
    } catch (error) {
      const still = this.#file.lost(range.at) || lost;
      throw /** @type {GemmaError} */ (error).code === 'aborted' ? error : this.#damaged(still, error);
    }
    this.#around.notice('mended', `${lost} of the stored copy was damaged, and was fetched again`);
  }

  /** Where the shelf gives up on its store meanwhile, that may still write the lane's bytes.
   * @param {Range} range @param {number} count that have come @param {Parameters<CachedFile['put']>[3]} how */
  async #put(range, count, how) {
    const { total } = this.#file;
    const right = await this.#file.put(range, range.at, range.at + count, how);
    if (total !== undefined && this.#file.total === undefined) range.leave();
    if (!right) throw this.#requests.other();
  }

  /** @param {Range} range @param {number} count @param {boolean} cached */
  #came(range, count, cached) {
    range.came(count);
    if (!cached) this.#stallBudget.came(count);
    this.#around.counted(count, cached);
  }

  /** Through one connection, as much as it gives up to `end`.
   * @param {Range} range @param {number} end @param {Promise<void>} before */
  async #receive(range, end, before) {
    const requests = this.#requests;
    let answer;
    try {
      answer = await requests.connect(range.at, end, before);
      const start = range.at;
      const last = Math.min(end, answer.end);
      const how = { journalEvery: requests.journalEvery, same: requests.isSame(answer) };
      while (range.at < last) {
        const bytes = await answer.read(last - range.at);
        requests.mustBeOpen();
        if (!bytes.length) return requests.ended(range.at);
        range.room(bytes.length).set(bytes);
        await this.#put(range, bytes.length, how);
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
  #withRetry(attempts, f, progress) {
    const onRetry = () => {
      this.#requests.mustBeOpen(); // closing ends what a lane still reads, which is no failure
      this.#around.notice('retry', 'the connection failed; trying again');
    };
    return withRetry(this.#tuning, attempts, f, { onRetry, stallBudget: this.#stallBudget }, progress);
  }

  /** @param {GemmaError} [error] why loading failed, if it did */
  async close(error) {
    const { digest } = this;
    clearInterval(this.#telling);
    if (!error) await this.#file.wait(this.#lanes.settled());
    this.#requests.close();
    await this.#file.finish(digest, error);
  }
}
