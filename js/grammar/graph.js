/*
 * graph: an acyclic graph that encodes characters as bytes. A node has spans (byte ranges), each of which leads to an
 * older node. Node 0 has no spans and ends every encoding. Equal nodes are stored once. A hash table in typed arrays
 * finds them, because schemas have tens of thousands of nodes.
 */
import { tooManyEncodings } from './errors.js';

const MOST_NODES = 1 << 20;

/** @param {Uint32Array<ArrayBuffer>} words @param {number} least minimum capacity */
function grown(words, least) {
  if (words.length >= least) return words;
  const larger = new Uint32Array(Math.max(2 * words.length, least));
  larger.set(words);
  return larger;
}

/** @param {number} h @param {number} x */
const mixed = (h, x) => {
  const product = Math.imul(h ^ x, 0x9e3779b1);
  return product ^ (product >>> 15);
};

/** The nodes and spans of all encodings of one grammar. */
export class Graph {
  count = 1;
  #spans = new Uint32Array(1 << 12);
  /** For each node, the end of its spans in #spans, in 32-bit words. */
  #ends = new Uint32Array(1 << 10);
  #table = new Uint32Array(1 << 11);
  /** Index in #spans at which put() writes the next span of the node under construction, in 32-bit words. */
  #at = 0;

  /** Adds a span to the node under construction: bytes `lo` to `hi` lead to the node `to`. @param {number} lo
   * @param {number} hi @param {number} to */
  put(lo, hi, to) {
    const at = this.#at;
    if (at > this.#ends[this.count - 1] && this.#spans[at - 1] === to && this.#spans[at - 2] >> 8 === lo - 1) {
      this.#spans[at - 2] = (this.#spans[at - 2] & 255) | (hi << 8);
      return;
    }
    if (at + 2 > this.#spans.length) this.#spans = grown(this.#spans, at + 2);
    this.#spans[at] = lo | (hi << 8);
    this.#spans[at + 1] = to;
    this.#at = at + 2;
  }

  /** Finishes a node after calls of put(). Returns its number, or that of an equal older node. */
  made() {
    const from = this.#ends[this.count - 1];
    const size = this.#at - from;
    const spans = this.#spans;
    let hash = size;
    for (let i = from; i < this.#at; i++) hash = mixed(hash, spans[i]);
    const mask = this.#table.length - 1;
    let slot = hash & mask;
    for (; this.#table[slot]; slot = (slot + 1) & mask) {
      const other = this.#table[slot];
      const begin = this.#ends[other - 1];
      if (this.#ends[other] - begin !== size) continue;
      let same = 0;
      while (same < size && spans[begin + same] === spans[from + same]) same++;
      if (same < size) continue;
      this.#at = from;
      return other;
    }
    if (this.count === MOST_NODES) {
      this.#at = from;
      throw tooManyEncodings(MOST_NODES);
    }
    this.#table[slot] = this.count;
    this.#ends = grown(this.#ends, this.count + 1);
    this.#ends[this.count] = this.#at;
    if (2 * ++this.count > this.#table.length) this.#widen();
    return this.count - 1;
  }

  #widen() {
    const table = new Uint32Array(2 * this.#table.length);
    const mask = table.length - 1;
    for (let node = 1; node < this.count; node++) {
      let hash = this.#ends[node] - this.#ends[node - 1];
      for (let i = this.#ends[node - 1]; i < this.#ends[node]; i++) hash = mixed(hash, this.#spans[i]);
      let slot = hash & mask;
      while (table[slot]) slot = (slot + 1) & mask;
      table[slot] = node;
    }
    this.#table = table;
  }

  /** Returns the nodes reachable from `from`, renumbered so that each follows the nodes it leads to. ends: end of each
   * node's spans, in spans; spans: two numbers each (bytes, target); place: new number of each old node, -1 if
   * unreachable. @param {Iterable<number>} from */
  reachable(from) {
    const place = new Int32Array(this.count).fill(-1);
    const ends = [0];
    /** @type {number[]} */
    const spans = [];
    place[0] = 0;
    /** @param {number} node @returns a target of the node without a new number, 0 if there is none */
    const next = (node) => {
      for (let i = this.#ends[node - 1]; i < this.#ends[node]; i += 2) {
        if (place[this.#spans[i + 1]] < 0) return this.#spans[i + 1];
      }
      return 0;
    };
    for (const first of from) {
      for (const open = place[first] < 0 ? [first] : []; open.length; ) {
        const node = open[open.length - 1];
        const before = next(node);
        if (before) {
          open.push(before);
          continue;
        }
        open.pop();
        for (let i = this.#ends[node - 1]; i < this.#ends[node]; i += 2) {
          spans.push(this.#spans[i], place[this.#spans[i + 1]]);
        }
        place[node] = ends.length;
        ends.push(spans.length / 2);
      }
    }
    return { ends, spans, place };
  }
}
