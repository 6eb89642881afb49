/* entry: the cached copy of a file: its bytes, each piece checked when it is read (checks.js), and its journal
 * (entries.js). A corrupt piece is lost until it is written again. The new bytes must be of the same version, or match
 * the stored checksum, or equal the stored bytes (then the checksum was corrupt). */
/** @import { Store } from '../protocol.js' */
/** @import { Journal } from './entries.js' */
/** The start of a lane and its bytes. @typedef {{ start: number, bytes: Uint8Array }} Part */
import { Checks, tableBytes } from './checks.js';
import { isComplete, isWhole, joined, readAll, readJournal, without, writeJournal } from './entries.js';

/** Bytes read at once: few enough to be still in the processor's cache when they are checked. */
const AT_ONCE = 1 << 20;

/** Saves the journal at least this often, because other tabs may watch the progress. */
const SAVE_MS = 2000;

/** sum: a checksum of two words; readOnly: leave the store as it is.
 * @typedef {{ sum: (bytes: Uint8Array) => number[], readOnly: boolean }} EntryDeps */

/** Ignores a folder with the name of a copy; rethrows other errors. @param {any} error */
function noFile(error) {
  if (error?.name !== 'TypeMismatchError') throw error;
  return null;
}

/** A copy of a file in the store: its bytes, checksums and journal. */
export class Entry {
  #store;
  #name;
  #sum;
  #writes;
  #unsaved = 0;
  #saved = 0;
  #removed = false;
  /** @type {Checks | undefined} */
  #checks;
  /** Corrupt pieces, with the checksums of their bytes. @type {Map<number, number[]>} */
  #lost = new Map();
  /** @type {Promise<void> | undefined} */
  #saving;
  /** @type {unknown} */
  #failure;
  journal;
  /** Whether it was complete when it was found, so that this load must not remove it. */
  wasWhole;
  /** Number of repaired pieces. */
  mended = 0;

  /** @param {Store} store @param {string} name @param {Journal} journal @param {EntryDeps} deps */
  constructor(store, name, journal, { sum, readOnly }) {
    this.#store = store;
    this.#name = name;
    this.#sum = sum;
    this.#writes = !readOnly;
    this.journal = journal;
    this.wasWhole = isWhole(journal);
    if (!journal.turn && journal.piece) this.#checks = new Checks(new Uint8Array(tableBytes(journal)));
  }

  /** Finds the copies of a file, the last used first.
   * @param {Store} store @param {string} key @param {EntryDeps} deps */
  static async find(store, key, deps) {
    const found = [];
    for (const name of await store.list()) {
      const journal = name.startsWith(key) && (await readJournal(store, name).catch(noFile));
      if (journal) found.push(new Entry(store, name, journal, deps));
    }
    return found.sort((a, b) => b.journal.used - a.journal.used);
  }

  get name() {
    return this.#name;
  }

  get whole() {
    return isWhole(this.journal);
  }

  get complete() {
    return isComplete(this.journal);
  }

  /** Returns the end of the stored range that contains `at`, or `at` if none does. @param {number} at */
  heldTo(at) {
    return this.journal.have.find(([a, b]) => a <= at && at < b)?.[1] ?? at;
  }

  /** Returns the start of the first stored range after `at`. @param {number} at */
  gapTo(at) {
    return this.journal.have.find(([a]) => a > at)?.[0] ?? Infinity;
  }

  /** Returns the name of the lost piece at `at` for messages, '' if it is not lost. @param {number} at */
  lost(at) {
    const { piece = 1, total } = this.journal;
    const i = Math.floor(at / piece);
    const [start, end] = this.#place(i);
    return this.#lost.has(i) ? `piece ${i + 1} of ${Math.ceil(total / piece)} (bytes ${start} to ${end - 1})` : '';
  }

  /** Returns the start and end of a piece. @param {number} i @returns {[number, number]} */
  #place(i) {
    const { piece = 1, total } = this.journal;
    return [i * piece, Math.min((i + 1) * piece, total)];
  }

  /** Loads the stored checksums. */
  async #table() {
    const { total, piece } = this.journal;
    if (!this.#checks && piece) {
      const table = new Uint8Array(tableBytes(this.journal));
      await readAll(this.#store, this.#name, total, table);
      this.#checks ??= new Checks(table);
    }
    return this.#checks;
  }

  /** Returns how many bytes to read: whole pieces, which are checked in place, or up to the next piece.
   * @param {number} at @param {number} most */
  pieces(at, most) {
    const { piece = 1 } = this.journal;
    const count = Math.min(most, this.heldTo(at) - at);
    return count < piece || at % piece ? Math.min(count, piece - (at % piece)) : count - (count % piece);
  }

  /** Fills `into` up to the first corrupt piece. Returns the count.
   * @param {number} at @param {Uint8Array} into @param {() => boolean} [wanted] false: `into` must not be written any
   * more */
  async read(at, into, wanted = () => true) {
    const checks = await this.#table();
    for (let done = 0; done < into.length; ) {
      const rest = into.subarray(done);
      const count = await this.#some(checks, at + done, rest, wanted);
      if (!count) return done;
      done += count;
    }
    return into.length;
  }

  /** Reads whole pieces in place, others into a new buffer, because checks need whole pieces. Returns the number of
   * correct bytes. @param {Checks | undefined} checks @param {number} at @param {Uint8Array} into
   * @param {() => boolean} wanted */
  async #some(checks, at, into, wanted) {
    const { piece = 1, total } = this.journal;
    const first = Math.floor(at / piece);
    const [start, end] = this.#place(first);
    const whole = at + into.length === total ? into.length : into.length - (into.length % piece);
    const direct = at === start ? Math.min(whole, Math.max(AT_ONCE, piece)) : 0;
    const bytes = direct ? into.subarray(0, direct) : new Uint8Array(end - start);
    await readAll(this.#store, this.#name, start, bytes, wanted);
    if (!wanted()) return 0;
    const right = checks ? this.#check(checks, first, bytes) : bytes.length;
    if (direct || !right) return right;
    const part = bytes.subarray(at - start, at - start + into.length);
    into.set(part);
    return part.length;
  }

  /** Returns the number of correct bytes; the piece after them is lost.
   * @param {Checks} checks @param {number} i the first piece @param {Uint8Array} bytes */
  #check(checks, i, bytes) {
    const { piece = 1, have } = this.journal;
    for (let at = 0; at < bytes.length; at += piece, i++) {
      const sum = this.#sum(bytes.subarray(at, at + piece));
      if (checks.fits(i, sum)) continue;
      this.#lost.set(i, sum);
      this.journal.have = without(have, ...this.#place(i));
      return at;
    }
    return bytes.length;
  }

  /** Writes bytes of a lane. Returns false if they are not those of the lost piece. journalEvery: bytes between two
   * writes of the journal; same: the server says that they are of the stored version.
   * @param {Part} lane @param {number} at @param {number} end @param {{ journalEvery: number, same: boolean }} how */
  async put(lane, at, end, { journalEvery, same }) {
    const checks = await this.#table();
    const { piece = 1 } = this.journal;
    const written = !this.#lost.size; // decided once, because another lane may repair the piece meanwhile
    if (written) await this.#write(lane, at, end);
    if (!checks) this.journal.have = joined(this.journal.have, at, end);
    for (let i = Math.floor(at / piece); checks && this.#place(i)[0] < end; i++) {
      const [start, stop] = this.#place(i);
      if (stop > end) {
        // A lost piece is not written before all of it is verified.
        if (!written && !this.#lost.has(i)) await this.#write(lane, Math.max(at, start), end);
      } else if (!(await this.#complete(checks, i, lane, { at: Math.max(at, start), same, written }))) {
        return false;
      }
    }
    await this.#journal(end - at, journalEvery);
    return true;
  }

  /** @param {Part} lane @param {number} at @param {number} end */
  async #write(lane, at, end) {
    if (this.#writes) await this.#store.write(this.#name, at, lane.bytes.subarray(at - lane.start, end - lane.start));
  }

  /** All bytes of a piece have arrived. @param {Checks} checks @param {number} i @param {Part} lane
   * @param {{ at: number, same: boolean, written: boolean }} how at: start of its last bytes */
  async #complete(checks, i, lane, { at, same, written }) {
    const [start, end] = this.#place(i);
    const lies = this.#lost.get(i);
    const sum = this.#sum(await this.#bytesOf(lane, start, end));
    if (lies && start < lane.start) return false;
    if (lies && !same && !checks.fits(i, sum) && sum.join() !== lies.join()) return false;
    if (!written) await this.#write(lane, lies ? start : at, end);
    if (this.#lost.delete(i)) this.mended++;
    checks.set(i, sum);
    this.journal.have = joined(this.journal.have, start, end);
    return true;
  }

  /** Returns a piece's bytes. If the piece begins before the lane, because it was made for another lane size,
   * reads them from the store.
   * @param {Part} lane @param {number} start @param {number} end */
  async #bytesOf(lane, start, end) {
    if (start >= lane.start) return lane.bytes.subarray(start - lane.start, end - lane.start);
    const bytes = new Uint8Array(end - start);
    await readAll(this.#store, this.#name, start, bytes);
    return bytes;
  }

  /** @param {number} came @param {number} journalEvery */
  async #journal(came, journalEvery) {
    this.#unsaved += came;
    // Waits for the previous save, so that a slow disk risks no more than this.
    if (this.#writes && (this.#unsaved >= journalEvery || Date.now() - this.#saved > SAVE_MS)) {
      await this.#saving;
      this.#saving ??= this.save()
        .catch((error) => {
          this.#failure = error;
        })
        .finally(() => {
          this.#saving = undefined;
        });
    }
    if (this.#failure) throw this.#failure;
  }

  /** Writes the journal, which never claims more than was flushed before. Lost pieces stay in it: the next reader
   * detects them again. */
  async save() {
    // A copy that was removed meanwhile must not come back.
    if (this.wasWhole && !(await this.#store.size(this.#name))) return;
    const { journal } = this;
    const rows = this.#checks?.take();
    const have = [...this.#lost.keys()].reduce((pieces, i) => joined(pieces, ...this.#place(i)), journal.have);
    const now = { ...journal, have, used: Date.now(), turn: ++journal.turn };
    this.#unsaved = 0;
    this.#saved = Date.now();
    if (rows && !this.#removed) await this.#store.write(this.#name, journal.total + rows.at, rows.bytes);
    await this.#store.flush?.(this.#name);
    if (!this.#removed) await writeJournal(this.#store, this.#name, now);
  }

  /** Saves the journal and closes the copy. */
  async close() {
    await this.#saving;
    try {
      await this.save();
      await this.#store.flush?.(this.#name);
    } finally {
      await this.leave();
    }
  }

  /** Closes the copy without saving the journal. */
  async leave() {
    await this.#store.close?.(this.#name);
  }

  /** Returns whether the store still has the copy as it was saved: it may have been removed or truncated. */
  async there() {
    return (await readJournal(this.#store, this.#name))?.turn === this.journal.turn;
  }

  /** Removes the copy after its last write. */
  async remove() {
    this.#removed = true;
    await this.#saving;
    await this.#store.remove(this.#name);
  }
}
