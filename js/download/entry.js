/* entry: the stored copy of a file: its bytes, each piece checked when it is read (checks.js), and its journal
 * (entries.js). A piece that is not what was written is lost until it is put there again: it must be of the same
 * version, or what was written, or what lies there if it was its checksum that was damaged. */
/** @import { Store } from '../protocol.js' */
/** @import { Journal } from './entries.js' */
/** Of a lane: where it begins, and its bytes. @typedef {{ start: number, bytes: Uint8Array }} Part */
import { Checks, tableBytes } from './checks.js';
import { isComplete, isWhole, joined, readAll, readJournal, without, writeJournal } from './entries.js';

/** Bytes that are read at once: when they are checked, the processor's cache still has them. */
const AT_ONCE = 1 << 20;

/** However little has come: others may wait for it, and watch. */
const SAVE_MS = 2000;

/** sum: a checksum, two words; readOnly: the store stays as it is.
 * @typedef {{ sum: (bytes: Uint8Array) => number[], readOnly: boolean }} EntryDeps */

/** A folder with the name of a copy is none; other failures do not mean that. @param {any} error */
function noFile(error) {
  if (error?.name !== 'TypeMismatchError') throw error;
  return null;
}

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
  /** Pieces that are not what was written, and the checksums of what lies there. @type {Map<number, number[]>} */
  #lost = new Map();
  /** @type {Promise<void> | undefined} */
  #saving;
  /** @type {unknown} */
  #failure;
  journal;
  /** Whether it was whole when it was found: then it is not ours to remove. */
  wasWhole;
  /** Pieces that were put there again. */
  mended = 0;

  /** @param {Store} store @param {string} name @param {Journal} journal @param {EntryDeps} means */
  constructor(store, name, journal, { sum, readOnly }) {
    this.#store = store;
    this.#name = name;
    this.#sum = sum;
    this.#writes = !readOnly;
    this.journal = journal;
    this.wasWhole = isWhole(journal);
    if (!journal.turn && journal.piece) this.#checks = new Checks(new Uint8Array(tableBytes(journal)));
  }

  /** The copies of a file, the one that was used last first.
   * @param {Store} store @param {string} key @param {EntryDeps} means */
  static async find(store, key, means) {
    const found = [];
    for (const name of await store.list()) {
      const journal = name.startsWith(key) && (await readJournal(store, name).catch(noFile));
      if (journal) found.push(new Entry(store, name, journal, means));
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

  /** Where the piece that holds `at` ends; `at` where there is none. @param {number} at */
  heldTo(at) {
    return this.journal.have.find(([a, b]) => a <= at && at < b)?.[1] ?? at;
  }

  /** Where the first piece behind `at` begins. @param {number} at */
  gapTo(at) {
    return this.journal.have.find(([a]) => a > at)?.[0] ?? Infinity;
  }

  /** The lost piece that holds `at`, if it was lost: for people. @param {number} at */
  lost(at) {
    const { piece = 1, total } = this.journal;
    const i = Math.floor(at / piece);
    const [start, end] = this.#place(i);
    return this.#lost.has(i) ? `piece ${i + 1} of ${Math.ceil(total / piece)} (bytes ${start} to ${end - 1})` : '';
  }

  /** Where a piece begins, and ends. @param {number} i @returns {[number, number]} */
  #place(i) {
    const { piece = 1, total } = this.journal;
    return [i * piece, Math.min((i + 1) * piece, total)];
  }

  /** Those that are stored, and compared with what is read. */
  async #table() {
    const { total, piece } = this.journal;
    if (!this.#checks && piece) {
      const table = new Uint8Array(tableBytes(this.journal));
      await readAll(this.#store, this.#name, total, table);
      this.#checks ??= new Checks(table);
    }
    return this.#checks;
  }

  /** How many bytes to read: whole pieces, which are checked where they are wanted, or up to where the next one begins.
   * @param {number} at @param {number} most */
  pieces(at, most) {
    const { piece = 1 } = this.journal;
    const count = Math.min(most, this.heldTo(at) - at);
    return count < piece || at % piece ? Math.min(count, piece - (at % piece)) : count - (count % piece);
  }

  /** Fills `into` up to the first piece that is not what was written; gives the count.
   * @param {number} at @param {Uint8Array} into
   * @param {() => boolean} [wanted] false: nothing may be put into it any more */
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

  /** Whole pieces are read into their place, others into one of their own, for they are checked whole. Gives how many
   * bytes are right. @param {Checks | undefined} checks @param {number} at @param {Uint8Array} into
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

  /** Gives how many bytes are what was written; the piece behind them is lost.
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

  /** Bytes of a lane; false: they are not what was lost. journalEvery: bytes that may be lost when everything ends now;
   * same: the server says that they are of the version that was stored.
   * @param {Part} lane @param {number} at @param {number} end @param {{ journalEvery: number, same: boolean }} how */
  async put(lane, at, end, { journalEvery, same }) {
    const checks = await this.#table();
    const { piece = 1 } = this.journal;
    const written = !this.#lost.size; // once: another lane may mend meanwhile
    if (written) await this.#write(lane, at, end);
    if (!checks) this.journal.have = joined(this.journal.have, at, end);
    for (let i = Math.floor(at / piece); checks && this.#place(i)[0] < end; i++) {
      const [start, stop] = this.#place(i);
      if (stop > end) {
        // Of what was lost, nothing is written before it has proved to be the same.
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

  /** A piece has come to its end. @param {Checks} checks @param {number} i @param {Part} lane
   * @param {{ at: number, same: boolean, written: boolean }} how at: where its last bytes begin */
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

  /** Of a piece; lanes of another size than it was made for may hold a part of it only.
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
    // The disk may take its time once; twice as much is not put at risk.
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

  /** The journal never says more than what was flushed before. What was lost, and not put there again, stays in it: the
   * next one who reads it finds out as well. */
  async save() {
    // What somebody removed meanwhile does not come back.
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

  async close() {
    await this.#saving;
    try {
      await this.save();
      await this.#store.flush?.(this.#name);
    } finally {
      await this.leave();
    }
  }

  /** As it is. */
  async leave() {
    await this.#store.close?.(this.#name);
  }

  /** Whether it is in the store as it was saved: somebody may have removed it, or cut it off. */
  async there() {
    return (await readJournal(this.#store, this.#name))?.turn === this.journal.turn;
  }

  async remove() {
    this.#removed = true;
    await this.#saving;
    await this.#store.remove(this.#name);
  }
}
