/* download: delivers the bytes of one file on a server in order. Reads each piece from the cached copy or else from the
 * network, caches it on the way, and retries failed requests. */
/** @import { ModelError } from '../errors.js' */
/** @import { Store, UrlSource } from '../protocol.js' */
/** @import { Entry } from './entry.js' */
/** @import { Answer } from './http.js' */
/** @import { Version } from './identity.js' */
import { emptyJournal } from './entries.js';
import { bytesChanged, corrupt, noVersion, notWhole, wrongDigest } from './errors.js';
import { StallBudget, TUNING, withRetry } from './http.js';
import { Identity, compare, keyOf, loosely, nameOf, shownUrl } from './identity.js';
import { Lane, Lanes } from './lanes.js';
import { Requests } from './requests.js';
import { CachedFile } from './cached-file.js';

/** @typedef {'planned' | 'probing' | 'starting' | 'streaming' | 'reading' | 'resuming' | 'mending' | 'serving'
 *   | 'repairing' | 'done' | 'failed'} State */
/** The states of a download, each with the states that may follow.
 *   planned     no request was made yet
 *   probing     asks the cache and the server for their versions of the file
 *   starting    the server has answered, and no cached copy is usable: next() creates one
 *   streaming   bytes come from the network
 *   reading     a complete copy is cached: read() copies bytes directly from it
 *   resuming    a part of the file is cached: bytes come from that copy, or else from the network
 *   mending     like resuming, and corrupt pieces of the copy are downloaded again
 *   serving     the model is loaded: at() reads any range, from the copy or the network
 *   repairing   like serving, and corrupt pieces of the copy are downloaded again
 *   done, failed   closed
 * Tests check that downloads follow this table (tests/js/given-up.test.js). @type {Record<State, string>} */
export const TRANSITIONS = {
  planned: 'probing',
  probing: 'starting reading resuming failed',
  starting: 'streaming done failed',
  streaming: 'serving done failed',
  reading: 'resuming serving done failed',
  resuming: 'mending serving done failed',
  mending: 'mending serving done failed',
  serving: 'repairing done failed',
  repairing: 'repairing serving done failed',
  done: '',
  failed: '',
};

const FIRST_ATTEMPTS = 3;
const HASHED = 1 << 20;
const MAGIC = 'GGUF';

/** Dependencies of a download. readOnly: whether the cache must stay unchanged; expected: SHA-256 that the caller
 * passed; hash: hashes a text; sum: computes a checksum; room: allocates bytes in the engine's heap, where checksums
 * are computed faster, undefined if the heap is full; counted: called with the number of bytes that arrived; watched:
 * called with the progress of another tab or process that downloads the file.
 * @typedef {{ store?: Store, readOnly: boolean, expected?: string, hash: (text: string) => string,
 *   hasher: () => { update: (bytes: Uint8Array) => void, hex: () => string },
 *   sum: (bytes: Uint8Array) => number[], room: (size: number) => Uint8Array | undefined,
 *   counted: (bytes: number, cached: boolean) => void,
 *   watched: (have: number, total: number) => void, notice: (code: string, message: string) => void }} DownloadDeps */
/** The best complete copy in the cache. verified: whether it has the SHA-256 that the caller passed; wrong: the error
 * of a rejected copy.
 * @typedef {{ whole?: Entry, verified?: boolean, wrong?: ModelError }} Found */

/** Delivers the bytes of one file during one load: open(), then next() and read() in order, then serve() or close(). */
export class Download {
  /** @type {State} */
  state = 'planned';
  #url;
  /** Key of the cached copy that the caller chose from the cache's list. @type {string | undefined} */
  #key;
  /** Whether requests carry an access token. */
  #guarded;
  #deps;
  #tuning;
  #identity = new Identity();
  #file;
  #requests;
  #lanes;
  #stallBudget;
  /** Bytes up to the end of the last tensor; 0 until the header was read. */
  #need = 0;
  /** Offset in the file of the next byte to return to the caller. */
  #read = 0;
  #mends = 0;
  /** Whether the cached copy is used although the server may have another version. */
  #offline = false;
  /** @type {any} */
  #reporting;
  #watched = -Infinity;

  /** @param {UrlSource} source @param {DownloadDeps} deps */
  constructor(source, deps) {
    this.#url = source.url;
    this.#key = source.key;
    this.#guarded = Boolean(source.headers?.some(([name]) => name.toLowerCase() === 'authorization'));
    this.#deps = deps;
    this.#tuning = { ...TUNING, ...source.tuning };
    this.#stallBudget = new StallBudget(this.#tuning);
    this.#file = new CachedFile(deps, this.#tuning.stallMs);
    this.#requests = new Requests(source, this.#tuning, this.#identity, this.#file);
    this.#requests.checked = () => this.digest !== '' || this.#mends > 0;
    const { segment } = this.#tuning;
    const room = () => (deps.store && deps.room(segment)) ?? new Uint8Array(segment);
    this.#lanes = new Lanes(room, (range, before) => this.#fill(range, before));
  }

  /** Whether ranges were postponed (postpone()) and are still to be downloaded. */
  get late() {
    return this.#lanes.holes.length > 0;
  }

  get #served() {
    return this.state === 'serving' || this.state === 'repairing';
  }

  /** Whether bytes can come from the network: not while a complete copy is read. */
  get network() {
    return this.state !== 'reading';
  }

  /** Whether bytes at any offset can be read after the load: the file is cached, or this load reads only the header and
   * a full load would cache the file. */
  get seekable() {
    return this.#file.total !== undefined || (this.#deps.readOnly && Boolean(this.#deps.store));
  }

  /** Alignment in bytes for the ranges of at(), because only whole pieces of a cached copy can be checked. */
  get grain() {
    return this.#file.grain;
  }

  /** Size of the file in bytes, once known. */
  get total() {
    return this.#identity.total;
  }

  /** Whether a complete copy was read (`cached`), this load has completed one (`stored`), or neither (`none`). */
  get kept() {
    return this.#file.kept;
  }

  /** SHA-256 that the caller must compare with the loaded bytes; empty if none is known or the copy was verified
   * before. */
  get digest() {
    const wanted = (this.#deps.expected ?? (this.#offline ? '' : this.#requests.digest)).toLowerCase();
    return wanted === this.#file.sha256 ? '' : wanted;
  }

  /** Finds out which versions the cache and the server have, and chooses the one to load. @returns {Promise<void>} */
  async open() {
    this.state = 'probing';
    this.#reporting = setInterval(() => this.#report(), this.#tuning.toldMs);
    await this.#probe();
  }

  /** @returns {Promise<void>} */
  async #probe() {
    const { notice, hash } = this.#deps;
    const own = keyOf(this.#url, hash);
    const key = this.#key ?? own;
    const copies = await this.#file.find(key);
    const found = await this.#verify(copies.filter((copy) => copy.whole));
    if (key !== own) return this.#useUnasked(found);
    const { whole, wrong } = found;
    if (whole && (await this.#requests.within(this.#tuning.glanceMs, () => this.#keeps(whole, found)))) {
      return this.#file.tidy(key);
    }
    // Another tab may have stored the file before this load had the lock, so the search for a copy starts over.
    if (await this.#file.lock(key, (have, total) => this.#watch(have, total))) return this.#probe();
    const part = copies.find((copy) => !copy.whole);
    const answer = await this.#askFirst(part).catch((error) => {
      throw wrong ?? error;
    });
    const continues = part && answer && compare(answer.version, part.journal) === 'same';
    if (whole || (part && !continues))
      notice('changed', 'The file on the server has changed, so it replaces the cached copy.');
    if (continues) return this.#resume(part, answer);
    if (!part) return this.#start(answer);
    this.#requests.drop(answer);
    return this.#start(await this.#askFirst());
  }

  #report() {
    if (performance.now() - this.#watched >= this.#tuning.toldMs) this.#deps.counted(0, false);
  }

  /** @param {number} have @param {number} total */
  #watch(have, total) {
    this.#watched = performance.now();
    this.#deps.watched(have, total);
  }

  /** Returns the first copy with the SHA-256 that the caller passed; without a SHA-256, the first copy that is not
   * marked as wrong.
   * @param {Entry[]} copies complete copies @returns {Promise<Found>} */
  async #verify(copies) {
    const expected = this.#deps.expected?.toLowerCase();
    let wrong;
    for (const copy of copies) {
      const { total, sha256 } = copy.journal;
      // If the copy lacks bytes after the last tensor, its SHA-256 cannot be computed yet. The load downloads these
      // bytes and compares the SHA-256 at the end.
      if (!expected || this.#deps.readOnly || copy.heldTo(0) < total) {
        if (copy.complete) return { whole: copy, wrong };
        continue;
      }
      const { got, lost } = await this.#digestOf(copy);
      if (lost) {
        copy.journal.sha256 = '';
        return { whole: copy, wrong: corrupt(this.#requests.shown, lost) };
      }
      if (!got) continue;
      if (got === expected) {
        copy.journal.sha256 = got;
        if (!copy.complete || got !== sha256) await this.#file.mark(copy, false);
        return { whole: copy, verified: true, wrong };
      }
      wrong = wrongDigest(this.#requests.shown, got, expected);
      if (got !== sha256) await this.#file.mark(copy, true);
    }
    return { wrong };
  }

  /** Returns the SHA-256 of a copy as `got`, or a description of its first corrupt piece as `lost`. Both are empty if
   * the copy cannot be read. @param {Entry} copy */
  async #digestOf(copy) {
    const hasher = this.#deps.hasher();
    const bytes = new Uint8Array(HASHED);
    const { total } = copy.journal;
    for (let at = 0; at < total; at += HASHED) {
      const piece = bytes.subarray(0, total - at);
      this.#requests.mustBeOpen();
      const count = await this.#file.look(copy, at, piece);
      if (count !== piece.length) return { got: '', lost: count === undefined ? '' : copy.lost(at + count) };
      hasher.update(piece);
    }
    return { got: hasher.hex(), lost: '' };
  }

  /** Uses a complete copy, unless the server has another model now. Returns whether the copy is used.
   * @param {Entry} whole
   * @param {Found} found */
  async #keeps(whole, { verified }) {
    let answer;
    let verdict = 'unknown';
    let why = 'The server sent no ETag or Last-Modified header.';
    try {
      answer = await this.#withRetry(1, () => this.#requests.ask(0, 1, whole.journal));
      verdict = compare(loosely(answer.version), loosely(whole.journal));
    } catch (error) {
      // A client that may not access the file on the server must not use the cached copy either.
      if (whole.journal.guarded && /** @type {any} */ (error).status === 401) throw error;
      why = /** @type {ModelError} */ (error).message;
    }
    // A copy with the SHA-256 that the caller passed is used, whatever version the server has.
    if (verdict === 'changed' && !verified) {
      answer = this.#requests.drop(answer);
      if (await this.#isModel()) return false;
      why = 'The server no longer sends a model.';
    }
    const isSame = verdict === 'same';
    if (!isSame && !(verified && answer)) this.#unsure(why);
    this.#readFrom(whole, answer, isSame ? answer?.version : undefined);
    return true;
  }

  /** Uses a complete copy without asking the server. Requests would fail, because the URL was stored without its
   * secrets.
   * @param {Found} found */
  #useUnasked({ whole, wrong }) {
    if (!whole) throw wrong ?? notWhole(this.#requests.shown);
    this.#unsure('The query of the URL was not stored.');
    this.#readFrom(whole);
  }

  /** @param {string} why */
  #unsure(why) {
    this.#offline = true;
    this.#deps.notice('offline', `The cached copy is used, and may be outdated: ${why}`);
  }

  /** Returns whether the server's file begins like a GGUF file. Captive portals and proxies may answer with a web page
   * instead. */
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

  /** Requests the segment with the first byte that is not cached. Returns undefined if the server refuses the range.
   * @param {Entry} [part] an incomplete copy to continue */
  async #askFirst(part) {
    const at = part?.heldTo(0) ?? 0;
    const { segment } = this.#tuning;
    const end = Math.min((Math.floor(at / segment) + 1) * segment, part?.gapTo(at) ?? Infinity);
    return this.#withRetry(FIRST_ATTEMPTS, () => this.#requests.ask(at, end, part?.journal)).catch((error) => {
      if (error.code !== 'source-changed') throw error;
      return undefined;
    });
  }

  /** @param {Answer} [answer] */
  async #start(answer) {
    // If the server refused the range, requests the whole file, because some servers refuse a range of a small file.
    this.#requests.begin(answer ?? (await this.#withRetry(FIRST_ATTEMPTS, () => this.#requests.ask())), 0);
    this.state = 'starting';
  }

  /** @param {Entry} part @param {Answer} answer */
  async #resume(part, answer) {
    await this.#file.continue(part);
    this.#requests.begin(answer, part.heldTo(0));
    this.state = 'resuming';
  }

  /** Sets the complete copy from which this load reads.
   * @param {Entry} whole @param {Answer} [answer] missing if no request was made or it failed
   * @param {Version} [version] current version on the server */
  #readFrom(whole, answer, version = whole.journal) {
    this.#file.use(whole);
    if (answer) this.#requests.done(answer);
    this.#identity.total = whole.journal.total;
    this.#identity.pin(version);
    this.state = 'reading';
  }

  async #create() {
    const { hash } = this.#deps;
    const { total, version } = this.#identity;
    const { etag = '', modified = '' } = version ?? {};
    if (!this.#file.open) return;
    if (!total || !(etag || modified || this.digest)) {
      return this.#file.tell(noVersion(total));
    }
    const edition = hash(nameOf({ etag, modified, total })).slice(0, 16);
    await this.#file.create(`${keyOf(this.#url, hash)}-${edition}`, {
      ...emptyJournal(total, this.#tuning.segment),
      url: shownUrl(this.#url),
      guarded: this.#guarded || undefined,
      etag,
      modified,
      need: this.#need || total + 1,
    });
  }

  /** Called when the header was read. Later requests are larger or parallel. They end after the last tensor, unless a
   * SHA-256 must be computed. @param {number} need bytes up to the end of the last tensor */
  planned(need) {
    this.#need = need;
    if (!this.digest) this.#requests.limit = need;
    this.#file.need(need);
  }

  /** Reads from a complete copy directly into the caller's memory. Returns the number of bytes, or 0 if no more can be
   * read in this way. Then next() returns the remaining bytes.
   * @param {Uint8Array} into */
  async read(into) {
    if (this.state !== 'reading') return 0;
    const at = this.#read;
    const count = await this.#file.read(at, this.#file.pieces(at, into));
    this.#deps.counted(count, true);
    this.#read += count;
    return count;
  }

  /** Skips bytes, as far as they are in the cached copy or were postponed. Returns the offset where reading continues,
   * which is `at` if nothing was skipped. @param {number} at offset of the next byte @param {number} to */
  skip(at, to) {
    if (this.state === 'reading') return (this.#read = to);
    const hole = this.#lanes.holes.find(([from, end]) => from <= at && at < end);
    const next = this.#file.held(at) >= to ? to : Math.min(to, hole?.[1] ?? at);
    this.#lanes.skip(next);
    return next;
  }

  /** Postpones ranges of a file that is being cached: at() or a later download fetches them. Returns false if that is
   * impossible, for example because the server does not support range requests. @param {[number, number][]} ranges in
   * order */
  postpone(ranges) {
    const isOrdered = this.state === 'streaming' || this.state === 'resuming';
    if (!isOrdered || this.#file.total === undefined || !this.#requests.ranges) return false;
    this.#requests.exact();
    this.#lanes.holes = ranges;
    return true;
  }

  /** Returns the end of the stored range that contains `at`, or `at` if none does. @param {number} at */
  held(at) {
    return this.#file.held(at);
  }

  /** Returns the next bytes of the file, valid until the next call; null at the end. @param {number} [most] bytes at
   * most */
  async next(most) {
    if (this.state === 'reading') this.state = 'resuming';
    if (this.state === 'starting') {
      this.state = 'streaming';
      await this.#create();
    }
    const settings = () => {
      if (this.#need) this.#requests.settle();
      const end = Math.min(this.total ?? Infinity, this.#requests.limit);
      return { lanes: this.#requests.lanes, end, grain: this.grain };
    };
    return this.#lanes.next(this.#read, settings, most);
  }

  /** Fills a range with bytes from the cached copy, or else from the network.
   * @param {Lane} range @param {Promise<void>} before resolves when all earlier ranges are full */
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

  /** Downloads a range. Sends a notice if that repaired a corrupt piece of the cached copy. @param {Lane} range
   * @param {() => Promise<void>} fetch */
  async #mend(range, fetch) {
    const lost = this.#file.lost(range.at);
    if (!lost) return fetch();
    this.#mends++;
    this.state = this.#served ? 'repairing' : 'mending';
    try {
      await fetch();
    } catch (error) {
      const still = this.#file.lost(range.at) || lost;
      throw /** @type {ModelError} */ (error).code === 'aborted' ? error : corrupt(this.#requests.shown, still, error);
    } finally {
      if (!--this.#mends && this.state === 'repairing') this.state = 'serving';
    }
    // While postponed ranges are downloaded, lanes still write the copy; keep() closes it later.
    if (this.#served && !this.late) await this.#file.rest();
    this.#deps.notice('mended', `The cached copy was corrupt at ${lost}, which was fetched again.`);
  }

  /** Caches bytes that arrived. If the store times out, it may still be reading the range's buffer, so the range gets
   * another buffer.
   * @param {Lane} range @param {number} count @param {Parameters<CachedFile['put']>[3]} how */
  async #put(range, count, how) {
    const { total } = this.#file;
    const right = await this.#file.put(range, range.at, range.at + count, how);
    if (total !== undefined && this.#file.total === undefined) range.leave();
    if (!right) throw bytesChanged(this.#requests.shown);
  }

  /** @param {Lane} range @param {number} count @param {boolean} cached */
  #came(range, count, cached) {
    range.came(count);
    if (!cached) this.#stallBudget.came(count);
    this.#deps.counted(count, cached);
  }

  /** @param {Lane} range @param {number} end @param {Promise<void>} before */
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
      this.#requests.mustBeOpen(); // close() aborts pending reads, which must not be retried
      this.#deps.notice('retry', 'The connection failed. Trying again.');
    };
    return withRetry(this.#tuning, attempts, f, { onRetry, stallBudget: this.#stallBudget }, progress);
  }

  /** Ends the load. Keeps the cached copy open, and allows at() to make requests. */
  async serve() {
    clearInterval(this.#reporting);
    await this.#file.wait(this.#lanes.settled());
    if (!this.late) await this.keep();
    this.state = 'serving';
    const { ranges } = this.#requests;
    this.#requests.exact();
    if (!ranges && this.#file.total === undefined) this.#requests.refuse();
  }

  /** Completes the copy and keeps it open for at(). Must not run during at(). */
  async keep() {
    this.#lanes.holes = [];
    await this.#file.finish(this.digest, undefined, true);
  }

  /** Ends the download of postponed ranges; another tab or the next load continues the copy. Must not overlap with
   * at(). */
  async stop() {
    this.#lanes.holes = [];
    await this.#file.freeze();
  }

  /** Fills a view with the bytes at an offset, after serve(). Calls may overlap only while ranges are postponed
   * (`late`), because repairing a complete copy closes its file. @param {number} at @param {Uint8Array} into */
  async at(at, into) {
    const range = new Lane(at, into);
    await this.#fill(range, Promise.resolve());
    if (range.at < range.end) this.#requests.ended(range.at);
    if (range.bytes !== into) into.set(range.bytes); // the store timed out, so leave() has replaced the buffer
  }

  /** Closes connections and the cached copy; resolves when both are done.
   * @param {ModelError} [error] why loading failed, if it did */
  async close(error) {
    const { digest } = this;
    const served = this.#served;
    clearInterval(this.#reporting);
    if (!served && !error) await this.#file.wait(this.#lanes.settled());
    this.#requests.close();
    this.state = error || this.state === 'probing' ? 'failed' : 'done';
    if (served && !this.late) await this.#file.rest();
    else await this.#file.finish(digest, error);
  }
}
