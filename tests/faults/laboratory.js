/* laboratory: one run: a fault of faults.js at some moment of a load, beginning with an empty store, a part of a copy or
 * a whole one. What must hold, whatever was broken:
 *   the load ends in time, with a right model or a coded error
 *   a complete copy is not lost: without the network the model is loaded from it (unless it was damaged, which is named)
 *   when nothing is broken any more, the next load is right */
import { createHash } from 'node:crypto';
import { copyFile, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { CODES, inspectModel, loadModel, openCache } from '../../js/index.node.js';
import { openStore } from '../../js/download/store-node.js';
import { environment } from '../../js/platform/env.js';
import { faultyServer, randoms } from '../js/faulty-server.js';
import { KINDS } from './faults.js';
import { readThrough } from './reading.js';
import { faultyStore } from './store.js';

/** @typedef {import('./faults.js').Kind} Kind */
/** right: a model; coded: an error with a code; else what was broken that must not be. @typedef {'right' | 'coded'} Held */
/** engine: whether there is one, or bytes are read as for one: all that the store and the network do, much faster.
 * @typedef {{ kind: Kind, from: Situation, moment: number, lasting: boolean, digest: boolean, engine: boolean,
 *   seed: number }} Plan */
/** @typedef {typeof SITUATIONS[number]} Situation */

export const SITUATIONS = /** @type {const} */ (['empty', 'part', 'whole']);
const TUNING = { segment: 1 << 18, alone: 20_000, least: 1 << 16, journal: 1 << 14, backoffMs: 1, longestMs: 1500, stallMs: 400 };
/** Where nothing is broken, a busy machine is no fault. */
const PATIENT = { ...TUNING, stallMs: 8000 };
const LONGEST_MS = 10_000;
/** Requests, or calls of a method, before the fault. */
const MOMENTS = 12;
const IDS = [2, 300, 310, 305];

/** How the n-th run goes: kinds in turn, all else by chance. @param {number} n @param {number} seed @returns {Plan} */
export function planOf(n, seed) {
  const random = randoms(seed * 1_000_003 + n * 7919);
  random();
  const kind = KINDS[n % KINDS.length], from = SITUATIONS[Math.floor(random() * 3)];
  // What happens to a copy at rest needs one.
  return { kind, from: kind.rest && from === 'empty' ? 'whole' : from, moment: Math.floor(random() ** 2 * MOMENTS),
    lasting: random() < 0.6, digest: random() < 0.25,
    engine: Boolean(kind.garbage || kind.client) || n % (4 * KINDS.length) < KINDS.length, seed: Math.floor(random() * 2 ** 31) };
}

export class Laboratory {
  #root = '';
  /** @type {(() => unknown)[]} */
  #after = [];
  /** @type {Awaited<ReturnType<typeof faultyServer>>} */
  // @ts-ignore it is there once it is open
  server;
  /** @type {Float32Array[]} of the model, and of the other one */
  #expected = [];

  /** @param {Buffer} bytes of a model */
  constructor(bytes) {
    this.bytes = bytes;
    this.other = Buffer.from(bytes);
    for (let at = bytes.length >> 1; at < bytes.length; at += 977) this.other[at] ^= 1;
    this.digest = createHash('sha256').update(bytes).digest('hex');
  }

  /** Makes a whole copy, and a part of one. */
  async open() {
    environment.tuning = PATIENT;
    this.#root = await mkdtemp(join(tmpdir(), 'gemma-wasm-laboratory-'));
    this.server = await faultyServer({ after: (/** @type {() => unknown} */ f) => this.#after.push(f) }, this.bytes);
    for (const bytes of [this.bytes, this.other]) this.#expected.push(await this.#logits(new Uint8Array(bytes), {}));
    await this.#logits(this.server.url, { cache: openCache(join(this.#root, 'whole')) });
    this.#usual((n) => (n < 6 ? {} : { killAt: 0 }));
    await this.#logits(this.server.url, { cache: openCache(join(this.#root, 'part')) }).catch(() => {});
    const [[whole], [part]] = await Promise.all(['whole', 'part'].map((name) => openCache(join(this.#root, name)).list()));
    if (!whole?.complete || !part?.stored || part.complete) throw new Error('the copies to begin with could not be made');
  }

  async close() {
    for (const f of this.#after) await f();
    await rm(this.#root, { recursive: true, force: true });
  }

  /** @param {(n: number) => import('./faults.js').Fault} [faults] */
  #usual(faults = () => ({})) {
    this.server.forget();
    Object.assign(this.server.state, { bytes: this.bytes, etag: '"one"', faults });
  }

  /** @param {any} options @returns {Promise<Float32Array | Buffer>} */
  async #load({ engine, ...options }) {
    const { url } = this.server, proves = (/** @type {Buffer} */ bytes) => this.#models.some((model) => model.equals(bytes));
    return engine ? this.#logits(url, options) : readThrough(url, { ...options, proves });
  }

  get #models() {
    return [this.bytes, this.other];
  }

  /** @param {any} source @param {object} options */
  async #logits(source, options) {
    const model = await loadModel(source, { threads: 1, ...options });
    try {
      return await model.logits(IDS);
    } finally {
      await model.dispose();
    }
  }

  /** What a load comes to. @param {Promise<Float32Array | Buffer>} load @param {boolean} [other] whether the other model is right */
  async #outcome(load, other = false) {
    /** @type {any} */
    let timer;
    const late = new Promise((resolve) => { timer = setTimeout(resolve, LONGEST_MS, 'late'); });
    const got = await Promise.race([late, load.catch((error) => error)]);
    clearTimeout(timer);
    if (got === 'late') return `took longer than ${LONGEST_MS} ms`;
    if (ArrayBuffer.isView(got)) {
      const known = [...this.#expected, ...this.#models], which = known.findIndex((one) => isDeepStrictEqual(one, got));
      return which % 2 === 0 || (which > 0 && other) ? 'right' : 'a wrong model';
    }
    return Object.hasOwn(CODES, got?.code) && got.code !== 'worker-failed' ? 'coded' : `no coded error: ${got?.stack ?? got}`;
  }

  /** Gives what held, or in words what did not. @param {Plan} plan */
  async run(plan) {
    const folder = await mkdtemp(join(this.#root, 'run-')), { kind } = plan;
    if (plan.from !== 'empty') {
      for (const name of await readdir(join(this.#root, plan.from))) await copyFile(join(this.#root, plan.from, name), join(folder, name));
    }
    if (kind.rest) await this.#damage(folder, kind, plan);
    environment.tuning = TUNING;
    const outcome = await this.#broken(folder, plan);
    environment.tuning = PATIENT;
    if (outcome !== 'right' && outcome !== 'coded') return outcome;
    const problem = await this.#afterwards(folder, plan);
    await rm(folder, { recursive: true, force: true });
    return problem || outcome;
  }

  /** @param {string} folder @param {Kind} kind @param {Plan} plan */
  async #damage(folder, { rest }, { seed }) {
    for (const name of await readdir(folder)) {
      const copy = await readFile(join(folder, name)), facts = { bytes: this.bytes, other: this.other, random: randoms(seed) };
      const broken = rest?.(copy, facts);
      if (broken) await writeFile(join(folder, name), broken);
      else await rm(join(folder, name));
    }
  }

  /** The load with the fault. @param {string} folder @param {Plan} plan */
  async #broken(folder, plan) {
    const { kind, moment, lasting } = plan, facts = { bytes: this.bytes, other: this.other, random: randoms(plan.seed) };
    const active = (/** @type {number} */ n) => (lasting ? n >= moment : n === moment), fault = kind.server?.(facts) ?? {};
    this.#usual((n) => (active(n) ? fault : {}));
    const cache = openCache(kind.store ? faultyStore(openStore(folder), kind.store, active) : folder);
    const options = { cache, ...(plan.digest && { sha256: this.digest }) };
    const load = kind.client ? this.#client(kind.client, options, plan) : this.#load({ ...options, engine: plan.engine });
    return this.#outcome(load, kind.other && !plan.digest);
  }

  /** @param {string} what @param {{ cache: import('../../js/download/cache.js').ModelCache }} options @param {Plan} plan */
  async #client(what, options, { moment }) {
    const { url } = this.server, control = new AbortController();
    const first = this.#logits(url, { ...options, signal: control.signal });
    first.catch(() => {});
    await new Promise((resolve) => { setTimeout(resolve, moment * 15); });
    if (what.startsWith('aborts')) control.abort();
    if (what === 'aborts and loads again at once' || what === 'loads it twice at once') {
      const second = this.#logits(url, options);
      await first.catch(() => {});
      return second;
    }
    for (let i = 0; i < 5; i++) {
      if (what.startsWith('inspects')) await inspectModel(url, options);
      if (what.startsWith('lists')) await Promise.all([options.cache.list(), options.cache.estimate()]);
      if (what.startsWith('clears')) await options.cache.clear();
    }
    return first;
  }

  /** What is wrong when nothing is broken any more; '' if nothing is. @param {string} folder @param {Plan} plan */
  async #afterwards(folder, { kind, from, digest, engine }) {
    const cache = openCache(folder), cleared = kind.client?.startsWith('clears');
    const later = async (/** @type {object} */ options) => this.#outcome(this.#load({ cache, engine, ...options }), kind.other);
    if (from === 'whole' && !cleared && !kind.rest) {
      this.#usual(() => ({ status: 403 }));
      const offline = await later({});
      if (offline !== 'right') return `the complete copy is lost: ${offline}, ${JSON.stringify(await cache.list())}`;
    }
    this.#usual();
    for (const options of [digest ? { sha256: this.digest } : {}, {}]) {
      const next = await later(options);
      if (next !== 'right') return `the next load: ${next}`;
    }
    const left = (await readdir(folder)).filter((name) => !name.endsWith('.gguf'));
    return left.length ? `left behind: ${left}` : '';
  }
}

/** Results by kinds. @typedef {{ tried: number, right: number, coded: number, broken: string[] }} Row */
/** @param {Buffer} bytes @param {{ numbers: number[], seed: number,
 *   each?: (n: number, plan: Plan, result: string) => void }} options
 * @returns {Promise<Record<string, Row>>} */
export async function experiment(bytes, { numbers, seed, each = () => {} }) {
  /** @type {Record<string, Row>} */
  const rows = {};
  const laboratory = new Laboratory(bytes);
  await laboratory.open();
  try {
    for (const n of numbers) {
      const plan = planOf(n, seed), result = await laboratory.run(plan);
      const row = rows[plan.kind.name] ??= { tried: 0, right: 0, coded: 0, broken: [] };
      row.tried++;
      if (result === 'right' || result === 'coded') row[result]++;
      else row.broken.push(`run ${n} of seed ${seed}, ${plan.from}, from ${plan.moment}${plan.lasting ? ' on' : ''}: ${result}`);
      each(n, plan, result);
    }
  } finally {
    await laboratory.close();
  }
  return rows;
}
