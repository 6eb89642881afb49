/* entry: the cached copy of a file: its bytes, with a checksum per piece that is compared at each read (checks.js), and
 * its journal (entries.js). A corrupt piece counts as lost until it is written again. The new bytes must be of the same
 * version of the file, or match the stored checksum, or equal the stored bytes (then the checksum was corrupt). */
/** @import { Store } from '../protocol.js' */
/** @import { Journal } from './entries.js' */
/** Bytes of a lane (lanes.js). start: their offset in the file. @typedef {{ start: number, bytes: Uint8Array }} Part */
import { Checks, tableBytes } from './checks.js';
import { isComplete, isWhole, joined, readAll, readJournal, without, writeJournal } from './entries.js';

/** Number of bytes per read of a copy. The bytes are still in the processor's cache when their checksum is computed. */
const AT_ONCE = 1 << 20;

/** Longest time between two writes of a copy's journal, in ms. Other tabs read the journal to see the progress. */
const SAVE_MS = 2000;

/** Dependencies of an Entry. sum: computes a checksum of two words; readOnly: whether the store must stay unchanged.
 * @typedef {{ sum: (bytes: Uint8Array) => number[], readOnly?: boolean }} EntryDeps */

/** @typedef {'reading' | 'writing' | 'whole' | 'removed'} State */
/** The states of a copy, each with the states that may follow.
 *   reading   nothing is written: the load reads only the header, or another tab may continue the copy
 *   writing   the copy is incomplete: bytes are written as they arrive, and the copy may be removed if a write fails
 *   whole     the copy was complete when it was found, or when the load ended: only repairs are written
 *   removed   nothing is written, because a write would create the file again
 * Tests check that copies follow this table (tests/js/lanes.test.js). @type {Record<State, string>} */
export const TRANSITIONS = {
  reading: 'removed',
  writing: 'reading whole removed',
  whole: 'reading removed',
  removed: '',
};

/** Returns null if the error means that the name belongs to a folder, not a file; rethrows other errors.
 * @param {any} error */
function noFile(error) {
  if (error?.name !== 'TypeMismatchError') throw error;
  return null;
}

/** One cached copy in a store. Its methods reject if the store fails. */
export class Entry {
  #store;
  #sum;
  #unsaved = 0;
  #saved = 0;
  /** @type {Checks | undefined} */
  #checks;
  /** Indices of corrupt pieces, each with the checksum of the bytes that were read. @type {Map<number, number[]>} */
  #lost = new Map();
  /** @type {Promise<void> | undefined} */
  #saving;
  /** @type {unknown} */
  #failure;
  journal;
  /** @type {State} */
  state;
  mended = 0;

  /** @param {Store} store @param {string} name @param {Journal} journal @param {EntryDeps} deps */
  constructor(store, name, journal, { sum, readOnly }) {
    this.#store = store;
    this.name = name;
    this.#sum = sum;
    this.journal = journal;
    this.state = readOnly ? 'reading' : isWhole(journal) ? 'whole' : 'writing';
    if (!journal.turn) this.#checks = new Checks(new Uint8Array(tableBytes(journal)));
  }

  /** Finds the copies of a file, most recently used first.
   * @param {Store} store @param {string} key @param {EntryDeps} deps */
  static async find(store, key, deps) {
    const found = [];
    for (const name of await store.list()) {
      const journal = name.startsWith(key) && (await readJournal(store, name).catch(noFile));
      if (journal) found.push(new Entry(store, name, journal, deps));
    }
    return found.sort((a, b) => b.journal.used - a.journal.used);
  }

  get #writes() {
    return this.state === 'writing' || this.state === 'whole';
  }

  /** Whether the copy has all bytes that the engine needs, even if it is marked as wrong. */
  get whole() {
    return isWhole(this.journal);
  }

  /** Whether the copy is complete and not marked as wrong. */
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

  /** Returns the description of a corrupt piece for messages, or '' if the piece at offset `at` is not corrupt.
   * @param {number} at */
  lost(at) {
    const { piece, total } = this.journal;
    const i = Math.floor(at / piece);
    const [start, end] = this.#place(i);
    return this.#lost.has(i) ? `piece ${i + 1} of ${Math.ceil(total / piece)} (bytes ${start} to ${end - 1})` : '';
  }

  /** @param {number} i index @returns {[number, number]} */
  #place(i) {
    const { piece, total } = this.journal;
    return [i * piece, Math.min((i + 1) * piece, total)];
  }

  async #table() {
    if (!this.#checks) {
      const table = new Uint8Array(tableBytes(this.journal));
      await readAll(this.#store, this.name, this.journal.total, table);
      this.#checks ??= new Checks(table);
    }
    return this.#checks;
  }

  /** Returns how many bytes to read at offset `at`: whole pieces, which can be checked in place, or the bytes up to the
   * next piece.
   * @param {number} at @param {number} most */
  pieces(at, most) {
    const { piece } = this.journal;
    const count = Math.min(most, this.heldTo(at) - at);
    return count < piece || at % piece ? Math.min(count, piece - (at % piece)) : count - (count % piece);
  }

  /** Fills `into` with the copy's bytes up to the first corrupt piece. Returns the number of bytes read.
   * @param {number} at @param {Uint8Array} into @param {() => boolean} [wanted] returns false once `into` must no
   * longer be written */
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

  /** Reads at least one piece: directly into `into` if the piece fits, else through a new buffer, because only whole
   * pieces can be checked. Returns the number of correct bytes.
   * @param {Checks} checks @param {number} at @param {Uint8Array} into @param {() => boolean} wanted */
  async #some(checks, at, into, wanted) {
    const { piece, total } = this.journal;
    const first = Math.floor(at / piece);
    const [start, end] = this.#place(first);
    const whole = at + into.length === total ? into.length : into.length - (into.length % piece);
    const direct = at === start ? Math.min(whole, Math.max(AT_ONCE, piece)) : 0;
    const bytes = direct ? into.subarray(0, direct) : new Uint8Array(end - start);
    await readAll(this.#store, this.name, start, bytes, wanted);
    if (!wanted()) return 0;
    const right = this.#check(checks, first, bytes);
    if (direct || !right) return right;
    const part = bytes.subarray(at - start, at - start + into.length);
    into.set(part);
    return part.length;
  }

  /** Compares the checksums of pieces up to the first corrupt piece, which it records as lost. Returns the number of
   * correct bytes.
   * @param {Checks} checks @param {number} i index of the first piece @param {Uint8Array} bytes */
  #check(checks, i, bytes) {
    const { piece, have } = this.journal;
    for (let at = 0; at < bytes.length; at += piece, i++) {
      const sum = this.#sum(bytes.subarray(at, at + piece));
      if (checks.fits(i, sum)) continue;
      this.#lost.set(i, sum);
      this.journal.have = without(have, ...this.#place(i));
      return at;
    }
    return bytes.length;
  }

  /** Writes bytes of a lane. Returns false if the bytes cannot replace a corrupt piece. journalEvery: bytes between
   * two writes of the journal; same: whether the server says that the bytes are of the stored version.
   * @param {Part} lane @param {number} at @param {number} end @param {{ journalEvery: number, same: boolean }} how */
  async put(lane, at, end, { journalEvery, same }) {
    if (!this.#writes && !this.#lost.size) return true;
    const checks = await this.#table();
    const { piece } = this.journal;
    const written = !this.#lost.size; // tested before #write(): another lane may repair a piece meanwhile
    if (written) await this.#write(lane, at, end);
    for (let i = Math.floor(at / piece); this.#place(i)[0] < end; i++) {
      const [start, stop] = this.#place(i);
      if (stop > end) {
        // A corrupt piece is not written before all of its new bytes are verified.
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
    if (this.#writes) await this.#store.write(this.name, at, lane.bytes.subarray(at - lane.start, end - lane.start));
  }

  /** Called when all bytes of a piece have arrived. Stores the piece's checksum. Returns false if the bytes
   * cannot replace a corrupt piece. @param {Checks} checks @param {number} i index @param {Part} lane
   * @param {{ at: number, same: boolean, written: boolean }} how at: start of the bytes that arrived last */
  async #complete(checks, i, lane, { at, same, written }) {
    const [start, end] = this.#place(i);
    const lies = this.#lost.get(i);
    if (!lies && !this.#writes) return true;
    const sum = this.#sum(await this.#bytesOf(lane, start, end));
    if (lies && start < lane.start) return false;
    if (lies && !same && !checks.fits(i, sum) && sum.join() !== lies.join()) return false;
    if (!this.#writes) return true;
    if (!written) await this.#write(lane, lies ? start : at, end);
    if (this.#lost.delete(i)) this.mended++;
    checks.set(i, sum);
    this.journal.have = joined(this.journal.have, start, end);
    return true;
  }

  /** Returns the bytes of a piece. Reads them from the store if the piece begins before the lane, as in a copy that was
   * begun with another lane size.
   * @param {Part} lane @param {number} start @param {number} end */
  async #bytesOf(lane, start, end) {
    if (start >= lane.start) return lane.bytes.subarray(start - lane.start, end - lane.start);
    const bytes = new Uint8Array(end - start);
    await readAll(this.#store, this.name, start, bytes);
    return bytes;
  }

  /** @param {number} came @param {number} journalEvery */
  async #journal(came, journalEvery) {
    this.#unsaved += came;
    // Waits for the previous save, so that on a slow disk a crash loses no more than `journalEvery` bytes.
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

  /** Writes the journal after flushing the bytes that it lists. Corrupt pieces stay listed as stored: the next reader
   * detects them again. */
  async save() {
    if (!this.#writes || (await this.#replaced())) return;
    const { journal } = this;
    const rows = this.#checks?.take();
    const have = [...this.#lost.keys()].reduce((pieces, i) => joined(pieces, ...this.#place(i)), journal.have);
    const now = { ...journal, have, used: Date.now(), turn: ++journal.turn };
    this.#unsaved = 0;
    this.#saved = Date.now();
    if (rows && this.#writes) await this.#store.write(this.name, journal.total + rows.at, rows.bytes);
    await this.#store.flush?.(this.name);
    if (this.#writes) await writeJournal(this.#store, this.name, now);
  }

  /** Returns whether another tab has removed the copy, or has started to download it again since this load found it
   * complete. Writing the journal would then make an incomplete copy count as complete. */
  async #replaced() {
    const size = !this.journal.turn || (await this.#store.size(this.name));
    if (!size || this.state !== 'whole' || !this.mended) return !size;
    const journal = await readJournal(this.#store, this.name);
    return Boolean(journal && !isWhole(journal));
  }

  /** Saves the journal and closes the copy. */
  async close() {
    await this.#saving;
    try {
      await this.save();
      if (this.#writes) await this.#store.flush?.(this.name);
    } finally {
      await this.leave();
    }
  }

  /** Closes a copy that a model reads from. Saves the journal only after repairs, because another tab may have replaced
   * the copy. */
  rest() {
    return this.mended ? this.close() : this.leave();
  }

  /** Saves the journal and closes the copy, which is only read from now on: another tab may continue it. */
  async freeze() {
    await this.close();
    this.state = 'reading';
  }

  /** Closes the copy without saving the journal. */
  async leave() {
    await this.#store.close?.(this.name);
  }

  /** Returns whether the store still has the copy as it was saved: it may have been removed or truncated. */
  async there() {
    return (await readJournal(this.#store, this.name))?.turn === this.journal.turn;
  }

  /** Removes the copy, after pending writes. */
  async remove() {
    this.state = 'removed';
    await this.#saving;
    await this.#store.remove(this.name);
  }
}
