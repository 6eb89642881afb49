/* rows-faults: faults while a model reads the rows of one matrix (the table) from disk. The table is still being
 * downloaded (`later`) or is cached completely (`whole`). The kinds of fault are those of inject.js, and killing the
 * tab or process. Faults at rest change rows that are read next; faults of the store happen when the table is read or
 * written. Every call ends in time with the right logits or a coded error; no file is deleted; afterwards the same
 * model answers, and the next load is right. */
import * as fs from 'node:fs';
import { join } from 'node:path';
import { inspectModel, loadModel } from '../../js/index.node.js';
import { testModel } from '../js/models.js';
import { randoms } from '../support/random.js';
import { FAULTY } from './faults.js';
import { KINDS, sleep } from './inject.js';
import { TUNING as USUAL, openLab, openPlace } from './place.js';
import { inTime, isCoded } from './rules.js';

/** @import { Member, Side } from './place.js' */
/** @typedef {import('./inject.js').Kind & { kill?: boolean }} Kind */
/** Plan of a run. `gone`: whether the server is unreachable during the fault; `first`: index of the first list of token
 * ids.
 * @typedef {{ kind: Kind, from: 'later' | 'whole', moment: number, lasting: boolean, gone: boolean, first: number,
 *   seed: number }} Plan */
/** @typedef {{ code?: string, stack?: string, kept?: string, logits?: string }} Got */

const OPTIONS = { threads: 1, contextLength: 64, rowsOnDisk: true };
/** Tuning with a stall limit that is short, but above the pauses of a busy machine. */
const TUNING = { ...USUAL, stallMs: 1000 };
const LONGEST_MS = 60_000;
const DURING = 4;
const AFTER = 2;
/** Number of lists of token ids, with several rows each. No run uses a list twice, because the engine caches rows. */
const LISTS = 40;
const ROWS = 6;
/** Upper bound of the random number of requests or table accesses before the fault. */
const MOMENTS = 12;
const CHANGES = 3;
/** Requests for more bytes than this number belong to the table's download, and are answered slowly. */
const SMALL = 1 << 16;
const SLOW_MS = 5;

/** @type {Kind[]} */
const ROW_KINDS = [
  ...KINDS.filter(({ client }) => !client),
  ...Array(8).fill({ name: 'process: killed while it reads rows', kill: true }),
];

/** @param {number} n @param {number} seed @param {Kind[]} kinds @returns {Plan} */
function planOf(n, seed, kinds) {
  const random = randoms(seed * 1_000_003 + n * 7919);
  const kind = kinds[n % kinds.length];
  return {
    kind,
    // A complete cached file needs no requests.
    from: kind.server || random() < 0.5 ? 'later' : 'whole',
    moment: random(MOMENTS),
    lasting: random() < 0.6,
    gone: Boolean(kind.rest) && random() < 0.5,
    first: random(LISTS),
    seed: random(2 ** 31),
  };
}

/** @param {string} name */
async function expectationsOf(name) {
  const file = await testModel(name);
  const { tensors } = await inspectModel(file);
  const table = /** @type {any} */ (tensors.find((tensor) => tensor.name === 'per_layer_token_embd.weight'));
  const random = randoms(11);
  const lists = Array.from({ length: LISTS }, () => Array.from({ length: ROWS }, () => random(table.shape[1])));
  const model = await loadModel(file, { ...OPTIONS, rowsOnDisk: false });
  const logits = [];
  for (const ids of lists) logits.push(String(await model.debug.logits(ids)));
  await model.dispose();
  return { bytes: fs.readFileSync(file), table, lists, logits };
}

/** Returns the newest file of a folder among those whose first bytes equal the model's.
 * @param {string} folder @param {Buffer} head */
function copyIn(folder, head) {
  const found = fs
    .readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .filter((path) => beginsWith(path, head));
  if (!found.length) throw new Error(`There is no cached file of the model in ${folder}.`);
  return found.sort((a, b) => fs.statSync(b).mtimeMs - fs.statSync(a).mtimeMs)[0];
}

/** @param {string} path @param {Buffer} head */
function beginsWith(path, head) {
  try {
    const file = fs.openSync(path, 'r');
    const bytes = Buffer.alloc(head.length);
    fs.readSync(file, bytes, 0, head.length, 0);
    fs.closeSync(file);
    return bytes.equals(head);
  } catch {
    return false; // The path is a socket, or a file that the browser has just removed.
  }
}

class RowFaults {
  /** @type {Member | undefined} */
  #member;
  #next = 0;
  /** Path of the changed cached file if the file must still exist, else ''. */
  #changed = '';
  counts = { right: 0, coded: 0 };

  /** @param {Awaited<ReturnType<typeof expectationsOf>>} known @param {import('./place.js').Lab} lab
   * @param {import('./place.js').Place} place */
  constructor(known, lab, place) {
    this.known = known;
    this.lab = lab;
    this.place = place;
    this.other = Buffer.from(known.bytes);
    for (let at = known.table.offset; at < known.bytes.length; at += 977) this.other[at] ^= 1;
  }

  /** @param {string} method @param {any[]} args @returns {Promise<Got>} */
  async #call(method, ...args) {
    this.#member ??= await this.place.member();
    const got = await inTime(this.#member.call(method, ...args), LONGEST_MS);
    if (got === 'late') throw new Error(`${method} took longer than ${LONGEST_MS} ms`);
    return got;
  }

  /** @param {(n: number) => Fault} [fault] @param {boolean} [slow] */
  #serve(fault = () => ({}), slow = false) {
    const { source } = this.lab;
    source.forget();
    source.state.faults = (n, { headers }) => {
      const [, first, last] = /bytes=(\d+)-(\d+)/.exec(headers.range ?? '') ?? [];
      return { ...(slow && Number(last) - Number(first) > SMALL && { slow: SLOW_MS }), ...fault(n) };
    };
  }

  /** @param {object} options */
  async #start(options) {
    const got = await this.#call('start', { ...OPTIONS, ...options });
    if (got.stack && !isCoded(got)) throw new Error(`the load failed without an error code: ${got.stack}`);
    return got;
  }

  /** Loads without a fault, so that any error fails the run. @param {object} [options] */
  async #mustStart(options = {}) {
    const got = await this.#start({ rowsLater: false, ...options });
    if (got.stack) throw new Error(`a load without a fault failed: ${got.stack}`);
    return got;
  }

  /** @param {number} count @param {boolean} must whether an error fails the run */
  async #ask(count, must) {
    const { lists, logits } = this.known;
    for (let i = 0; i < count; i++) {
      const n = this.#next++ % LISTS;
      const got = await this.#call('ask', lists[n]);
      if (got.stack && (must || !isCoded(got)))
        throw new Error(`a call failed ${must ? 'without a fault' : 'without an error code'}: ${got.stack}`);
      if (!got.stack && got.logits !== logits[n])
        throw new Error(`wrong logits of list ${n}${must ? ', without a fault' : ''}`);
      if (!must) this.counts[got.stack ? 'coded' : 'right']++;
    }
  }

  /** @param {Plan} plan */
  #damage({ kind, seed }) {
    const { bytes, table, lists } = this.known;
    const { other } = this;
    const path = copyIn(String(this.place.folder), bytes.subarray(0, 64));
    const random = randoms(seed);
    const row = table.bytes / table.shape[1];
    /** Returns a random number below n for a fault. If n is the file's size in bytes or in bits, the number is an
     * offset in the file: returns the offset of a byte or bit in a table row that the next calls read. */
    const aimed = (/** @type {number} */ n = 0) => {
      if (n < bytes.length) return random(n);
      const at = table.offset + lists[(this.#next + random(DURING)) % LISTS][random(ROWS)] * row + random(row);
      return n < 8 * bytes.length ? at : 8 * at + random(8);
    };
    /** @type {Uint8Array | null | undefined} */
    let copy = fs.readFileSync(path);
    for (let i = 0; copy && i < CHANGES; i++) copy = kind.rest?.(copy, { bytes, other, random: aimed });
    if (!copy) return fs.unlinkSync(path);
    // Writes into the existing file, so that an open handle sees the change.
    fs.writeFileSync(path, copy, { flag: 'r+' });
    fs.truncateSync(path, copy.length);
    this.#changed = path;
  }

  /** Runs a plan. Returns the message of the error, or '' if there is none. @param {Plan} plan */
  async run(plan) {
    const { bytes, table } = this.known;
    const { kind, from, moment, lasting, seed } = plan;
    const later = from === 'later';
    this.#next = plan.first;
    this.#changed = '';
    try {
      this.#serve();
      if (later) await this.#call('work', { what: 'delete' });
      else await this.#mustStart();
      this.#serve(undefined, later);
      const inside = [table.offset, table.offset + table.bytes];
      const { stack } = await this.#start({
        rowsLater: later,
        ...(kind.store && { fault: { ...kind.store, moment, lasting, inside } }),
      });
      if (kind.rest) await this.#ask(1, true);
      if (kind.rest) this.#damage(plan);
      const facts = { bytes, other: this.other, random: randoms(seed) };
      const fault = plan.gone ? { killAt: 0 } : kind.server?.(facts);
      if (fault) {
        this.#serve((n) => ((lasting ? n >= moment : n === moment) ? fault : {}), later);
        if (lasting && later) this.lab.source.cut();
      }
      if (kind.kill) await this.#kill(plan);
      else if (stack) this.counts.coded++;
      else await this.#ask(DURING, false);
      this.#serve();
      await this.#call('calm');
      if (!kind.kill && !stack) await this.#ask(AFTER, true);
      await this.#afterwards(plan);
      return '';
    } catch (error) {
      await this.#member?.kill(true);
      this.#member = undefined;
      return String(/** @type {Error} */ (error).message);
    }
  }

  /** @param {Plan} plan */
  async #kill({ moment }) {
    const reads = this.#member?.call('ask', this.known.lists[this.#next++ % LISTS]);
    reads?.catch(() => {});
    await sleep(moment * 10);
    await this.#member?.kill(true);
    this.#member = undefined;
  }

  /** @param {Plan} plan */
  async #afterwards({ kind, from }) {
    if (this.#changed && !fs.existsSync(this.#changed)) throw new Error('the cached file was deleted');
    if (from === 'whole' && !kind.rest) {
      this.#serve(() => ({ status: 403 }));
      const { kept } = await this.#mustStart();
      if (kept !== 'cached') throw new Error(`the complete cached file is lost: ${kept}`);
      await this.#ask(1, true);
    }
    this.#serve();
    await this.#mustStart();
    await this.#ask(AFTER, true);
    // Pieces that are still corrupt would disturb later runs.
    if (kind.rest || kind.store) await this.#call('work', { what: 'delete' });
  }
}

/** Makes the runs `first` to `first` + `count` - 1, with the faults whose names match `kind`.
 * @param {import('./cases.js').Run} run */
export async function run({ side, count, seed, first, kind }) {
  const kinds = ROW_KINDS.filter(({ name }) => new RegExp(kind).test(name));
  const known = await expectationsOf('gemma4-table');
  const lab = await openLab(known.bytes, { plugins: [FAULTY], tuning: TUNING });
  const place = await openPlace(side, lab, { onDisk: true });
  const faults = new RowFaults(known, lab, place);
  /** @type {Record<string, { cells: string[], kinds: Set<string>, runs: number, right: number, coded: number, broken: number }>} */
  const rows = {};
  /** @type {string[]} */
  const broken = [];
  try {
    for (let n = first; n < first + count; n++) {
      const plan = planOf(n, seed, kinds);
      const { kind, from, moment, lasting, gone } = plan;
      const group = kind.name.split(':')[0];
      const row = (rows[`${from} ${group}`] ??= {
        ...{ cells: [place.name, from, group], kinds: new Set(), runs: 0, right: 0, coded: 0, broken: 0 },
      });
      faults.counts = { right: 0, coded: 0 };
      const problem = await faults.run(plan);
      row.runs++;
      row.kinds.add(kind.name);
      row.right += faults.counts.right;
      row.coded += faults.counts.coded;
      if (problem) row.broken++;
      const how = JSON.stringify({ from, moment, lasting, gone });
      if (problem) broken.push(`${kind.name}, run ${n} of seed ${seed}, ${how}: ${problem}`);
      if (problem) console.error(broken.at(-1));
      if ((n + 1) % 50 === 0) console.error(`${n + 1} runs`);
    }
  } finally {
    await place.close();
    await lab.close();
  }
  const cells = Object.values(rows).map(({ cells, kinds, runs, right, coded, broken }) => {
    return [...cells, kinds.size, runs, right, coded, broken];
  });
  return { counts: { rows: cells.map((row) => row.join(' ')) }, broken, rows: cells };
}
