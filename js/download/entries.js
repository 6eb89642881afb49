/* entries: how a model lies in a store: one file, the model's bytes at their places and behind them a
 * journal of what is there. The journal has two slots, written in turn, and a slot holds its text twice:
 * halves that differ were torn, and the other slot has the state before. */
/** @import { Store } from '../platform/env.js' */

const HALF = 4096;
const SLOTS = 4 * HALF;
const MAX_PIECES = 64;

/** Whether a copy could have this name: no other file is touched. @param {string} name */
export const isName = (name) => /^[0-9a-f-]+\.gguf$/.test(name);

/** From, and up to before. @typedef {[number, number]} Piece */
/** url: without what may be secret; have: in order; need: up to the last tensor's end, once known; sha256:
 * of all bytes, if it was checked; used: ms since 1970; doubt: its bytes did not prove to be a model, or the one that
 * was named; guarded: a token was sent for it.
 * @typedef {{ url: string, etag: string, modified: string, total: number, have: Piece[],
 *   need: number, sha256: string, used: number, turn: number, doubt?: boolean, guarded?: boolean }} Journal */

/** A store may give less than was asked for, and is asked on.
 * @param {Store} store @param {string} name @param {number} at @param {Uint8Array} into */
async function readAll(store, name, at, into) {
  for (let done = 0; done < into.length;) {
    const count = await store.read(name, at + done, into.subarray(done));
    if (!(count > 0 && count <= into.length - done)) throw new Error('the stored copy ends early');
    done += count;
  }
}

/** null: there is none. @param {Store} store @param {string} name @returns {Promise<Journal | null>} */
export async function readJournal(store, name) {
  const start = await store.size(name) - SLOTS;
  if (start < 0) return null;
  const bytes = new Uint8Array(SLOTS);
  await readAll(store, name, start, bytes);
  const text = new TextDecoder().decode(bytes);
  const slots = [0, 2].map((at) => parse(text.slice(at * HALF, (at + 2) * HALF), start));
  return slots.reduce((a, b) => (a && b ? (a.turn > b.turn ? a : b) : a ?? b));
}

/** @param {string} slot @param {number} total @returns {Journal | null} */
function parse(slot, total) {
  try {
    const journal = JSON.parse(slot.slice(0, HALF));
    return slot.slice(HALF) === slot.slice(0, HALF) && journal.total === total ? journal : null;
  } catch {
    return null;
  }
}

/** @param {Store} store @param {string} name @param {Journal} journal */
async function writeJournal(store, name, journal) {
  const half = JSON.stringify({ ...journal, have: journal.have.slice(0, MAX_PIECES) }).padEnd(HALF);
  await store.write(name, journal.total + (journal.turn % 2) * 2 * HALF, new TextEncoder().encode(half + half));
}

/** Add a piece. @param {Piece[]} have @param {number} start @param {number} end
 * @returns {Piece[]} in order, none touching another */
export function joined(have, start, end) {
  const apart = have.filter(([a, b]) => b < start || a > end);
  const touched = have.filter(([a, b]) => b >= start && a <= end);
  /** @type {Piece} */
  const piece = [Math.min(start, ...touched.map(([a]) => a)), Math.max(end, ...touched.map(([, b]) => b))];
  return [...apart, piece].sort(([a], [b]) => a - b);
}

/** Whether all that the engine needs is there. @param {Journal} journal */
const isWhole = ({ have, need, total }) => have.some(([a, b]) => a === 0 && b >= (need || total));

/** Whether it is, and nothing speaks against it. @param {Journal} journal */
export const isComplete = (journal) => isWhole(journal) && !journal.doubt;

/** The stored copy of a file. */
export class Entry {
  #store;
  #name;
  #unsaved = 0;
  #removed = false;
  /** @type {Promise<void> | undefined} */
  #saving;
  /** @type {unknown} */
  #failure;
  journal;

  /** @param {Store} store @param {string} name @param {Journal} journal */
  constructor(store, name, journal) {
    this.#store = store;
    this.#name = name;
    this.journal = journal;
  }

  /** The copies of a file, the one that was used last first. @param {Store} store @param {string} key */
  static async find(store, key) {
    const found = [];
    for (const name of await store.list()) {
      const journal = name.startsWith(key) && await readJournal(store, name);
      if (journal) found.push(new Entry(store, name, journal));
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

  /** @param {number} at @param {Uint8Array} into */
  read(at, into) {
    return readAll(this.#store, this.#name, at, into);
  }

  /** journalEvery: bytes that may be lost when everything ends now.
   * @param {number} at @param {Uint8Array} bytes @param {number} journalEvery */
  async put(at, bytes, journalEvery) {
    await this.#store.write(this.#name, at, bytes);
    this.journal.have = joined(this.journal.have, at, at + bytes.length);
    this.#unsaved += bytes.length;
    // The disk may take its time once; twice as much is not put at risk.
    if (this.#unsaved >= journalEvery) {
      await this.#saving;
      this.#saving ??= this.save().catch((error) => { this.#failure = error; })
        .finally(() => { this.#saving = undefined; });
    }
    if (this.#failure) throw this.#failure;
  }

  /** The journal never says more than what was flushed before. */
  async save() {
    const { journal } = this;
    const now = { ...journal, used: Date.now(), turn: ++journal.turn };
    this.#unsaved = 0;
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

  remove() {
    this.#removed = true;
    return this.#store.remove(this.#name);
  }
}
