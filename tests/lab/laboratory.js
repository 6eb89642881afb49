/* laboratory: one run: a fault of faults.js at some moment of a load, beginning with an empty store, a part of a copy or
 * a whole one, in Node or in a browser (place-node.js, place-browser.js). What must hold, whatever was broken:
 *   the load ends in time, with a right model or a coded error
 *   a complete copy is not lost: without the network the model is loaded from it (unless it was damaged, which is named)
 *   when nothing is broken any more, the next load is right */
import { createHash } from 'node:crypto';
import { CODES } from '../../js/index.node.js';
import { faultyServer } from '../js/faulty-server.js';
import { KINDS } from './faults.js';
import { randoms } from '../support/random.js';

/** @typedef {import('./faults.js').Kind} Kind */
/** right: a model; coded: an error with a code; else what was broken that must not be. @typedef {'right' | 'coded'} Held */
/** engine: whether there is one, or bytes are read as for one: all that the store and the network do, much faster.
 * @typedef {{ kind: Kind, from: Situation, moment: number, lasting: boolean, digest: boolean, engine: boolean,
 *   seed: number }} Plan */
/** @typedef {typeof SITUATIONS[number]} Situation */
/** What a load comes to; is: the first model that was known, or the second, -1 another one.
 * @typedef {{ is: number } | { code?: string, stack?: string }} Outcome */
/** The store fails, from a call on or once. @typedef {{ method: string, way: string, moment: number, lasting: boolean }} StoreFault */
/** Where models are loaded. kinds: that make sense there; storing: whether it has a store; know: of the models that the server has,
 * one after the other; begin: with a copy that was kept, or 'empty'; there: what the store has; end: in time or not.
 * @typedef {{ name: string, storing: boolean, open: (server: Server) => Promise<void>, tune: (tuning: object) => Promise<void>,
 *   know: () => Promise<void>, keep: (name: string) => Promise<void>, begin: (from: string) => Promise<void>,
 *   damage: (kind: Kind, seed: number) => Promise<void>,
 *   load: (options: { sha256?: string, fault?: StoreFault, engine: boolean, told?: () => void }) => Promise<Outcome>,
 *   disturb: (what: string, moment: number, options: { sha256?: string }) => Promise<Outcome>,
 *   there: () => Promise<{ list: { complete: boolean, stored: number }[], names: string[] }>,
 *   end: (inTime: boolean) => Promise<void>, close: () => Promise<void> }} Place */
/** @typedef {Awaited<ReturnType<typeof faultyServer>>} Server */

export const SITUATIONS = /** @type {const} */ (['empty', 'part', 'whole']);
const TUNING = {
  segment: 1 << 18,
  alone: 20_000,
  least: 1 << 16,
  journal: 1 << 14,
  backoffMs: 1,
  longestMs: 1500,
  stallMs: 400,
};
/** Where nothing is broken, a busy machine is no fault. */
const PATIENT = { ...TUNING, stallMs: 8000 };
const LONGEST_MS = 10_000;
/** With the package's own settings silences take their time, of which the caller is told meanwhile. */
const USUAL_LONGEST_MS = 240_000;
/** Requests, or calls of a method, before the fault; of requests there are few with the package's own settings. */
const MOMENTS = 12;
const FEWER = 4;

/** How the n-th run goes: kinds in turn, all else by chance. @param {number} n @param {number} seed
 * @param {boolean} [storing] @returns {Plan} */
export function planOf(n, seed, storing = true) {
  const random = randoms(seed * 1_000_003 + n * 7919);
  random();
  const kinds = storing ? KINDS : KINDS.filter(({ server, client }) => server || client);
  const kind = kinds[n % kinds.length];
  const drawn = SITUATIONS[Math.floor(random() * 3)];
  // What happens to a copy at rest needs one.
  const from = !storing ? 'empty' : kind.rest && drawn === 'empty' ? 'whole' : drawn;
  return {
    kind,
    from,
    moment: Math.floor(random() ** 2 * MOMENTS),
    lasting: random() < 0.6,
    digest: random() < 0.25,
    engine: Boolean(kind.garbage || kind.client) || n % (4 * KINDS.length) < KINDS.length,
    seed: Math.floor(random() * 2 ** 31),
  };
}

export class Laboratory {
  #place;
  /** @type {(() => unknown)[]} */
  #after = [];
  /** @type {Server} */
  // @ts-ignore it is there once it is open
  server;

  /** Of the last run with a fault: how long it took, and how long the caller was told nothing, in ms. */
  waited = { all: 0, untold: 0 };
  #packaged;

  /** usual: with the package's own settings. @param {Buffer} bytes of a model @param {Place} place @param {boolean} [usual] */
  constructor(bytes, place, usual = false) {
    this.#place = place;
    this.#packaged = usual;
    this.bytes = bytes;
    this.other = Buffer.from(bytes);
    for (let at = bytes.length >> 1; at < bytes.length; at += 977) this.other[at] ^= 1;
    this.digest = createHash('sha256').update(bytes).digest('hex');
  }

  /** Makes a whole copy, and a part of one. */
  async open() {
    this.server = await faultyServer({ after: (/** @type {() => unknown} */ f) => this.#after.push(f) }, this.bytes);
    const place = this.#place;
    const { server } = this;
    await place.open(server);
    await place.tune(PATIENT);
    for (const bytes of [this.bytes, this.other]) {
      this.#usual();
      server.state.bytes = bytes;
      await place.know();
    }
    if (!place.storing) return;
    for (const name of ['whole', 'part']) await this.#begins(name, 0);
  }

  /** A copy that runs begin with. On a busy machine no piece of a part may have come before the server is gone: then
   * more of it is served. @param {string} name @param {number} tries */
  async #begins(name, tries) {
    const place = this.#place;
    await place.begin('empty');
    this.#usual((n) => (name === 'whole' || n < 6 + tries ? {} : { killAt: 0 }));
    await place.load({ engine: true });
    const {
      list: [copy],
    } = await place.there();
    const made = copy?.stored && copy.complete === (name === 'whole');
    if (made) await place.keep(name);
    await place.end(true);
    if (made) return;
    if (tries === 5) throw new Error(`no ${name} copy to begin with could be made`);
    await this.#begins(name, tries + 1);
  }

  async close() {
    await this.#place.close();
    for (const f of this.#after) await f();
  }

  /** @param {(n: number) => import('./faults.js').Fault} [faults] */
  #usual(faults = () => ({})) {
    this.server.forget();
    Object.assign(this.server.state, { bytes: this.bytes, etag: '"one"', faults });
  }

  /** What a load comes to. @param {Promise<Outcome>} load @param {boolean} [other] whether the other model is right */
  async #judged(load, other = false) {
    /** @type {any} */
    let timer;
    const longest = this.#packaged ? USUAL_LONGEST_MS : LONGEST_MS;
    const late = new Promise((resolve) => {
      timer = setTimeout(resolve, longest, 'late');
    });
    const got = await Promise.race([late, load]);
    clearTimeout(timer);
    if (got === 'late') return `took longer than ${longest} ms`;
    if ('is' in got) return got.is === 0 || (got.is === 1 && other) ? 'right' : 'a wrong model';
    return Object.hasOwn(CODES, got.code) && got.code !== 'worker-failed'
      ? 'coded'
      : `no coded error: ${got.stack ?? got.code}`;
  }

  /** Gives what held, or in words what did not. @param {Plan} plan */
  async run(plan) {
    const place = this.#place;
    const { kind } = plan;
    await place.begin(plan.from);
    if (kind.rest) await place.damage(kind, plan.seed);
    await place.tune(this.#packaged ? {} : TUNING);
    const outcome = await this.#broken(plan);
    const ended = outcome === 'right' || outcome === 'coded';
    await place.tune(PATIENT);
    const problem = ended && (await this.#afterwards(plan));
    await place.end(ended && !problem);
    return problem || outcome;
  }

  /** The load with the fault. @param {Plan} plan */
  async #broken({ kind, moment, lasting, digest, engine, seed }) {
    const place = this.#place;
    const facts = { bytes: this.bytes, other: this.other, random: randoms(seed) };
    const fault = kind.server?.(facts) ?? {};
    const options = digest ? { sha256: this.digest } : {};
    const first = this.#packaged ? Math.floor(moment / FEWER) : moment;
    this.#usual((n) => ((lasting ? n >= first : n === first) ? fault : {}));
    const began = performance.now();
    let last = began;
    let untold = 0;
    const told = () => {
      untold = Math.max(untold, performance.now() - last);
      last = performance.now();
    };
    const load = kind.client
      ? place.disturb(kind.client, moment, options)
      : place.load({
          ...options,
          engine: engine || this.#packaged,
          told,
          fault: kind.store && { ...kind.store, moment, lasting },
        });
    const outcome = await this.#judged(load, kind.other && !digest);
    told();
    this.waited = { all: last - began, untold };
    return this.#packaged && untold > LONGEST_MS ? `told nothing for ${Math.round(untold)} ms` : outcome;
  }

  /** What is wrong when nothing is broken any more; '' if nothing is. @param {Plan} plan */
  async #afterwards({ kind, from, digest, engine }) {
    const place = this.#place;
    const cleared = kind.client?.startsWith('clears');
    const later = (/** @type {object} */ options) => this.#judged(place.load({ engine, ...options }), kind.other);
    if (from === 'whole' && !cleared && !kind.rest) {
      this.#usual(() => ({ status: 403 }));
      const offline = await later({});
      if (offline !== 'right') return `the complete copy is lost: ${offline}, ${JSON.stringify(await place.there())}`;
    }
    this.#usual();
    for (const options of [digest ? { sha256: this.digest } : {}, {}]) {
      const next = await later(options);
      if (next !== 'right') return `the next load: ${next}`;
    }
    const left = (await place.there()).names.filter((name) => !name.endsWith('.gguf'));
    return left.length ? `left behind: ${left}` : '';
  }
}

/** @typedef {{ all: number, untold: number }} Waited */
/** @param {Waited | undefined} a @param {Waited | undefined} b @returns {Waited} */
export const longer = (a, b) => ({
  all: Math.max(a?.all ?? 0, b?.all ?? 0),
  untold: Math.max(a?.untold ?? 0, b?.untold ?? 0),
});

/** Results by kinds; waited: the longest of them. @typedef {{ tried: number, right: number, coded: number, broken: string[],
 *   waited?: Waited }} Row */
/** @param {Buffer} bytes @param {{ place: Place, numbers: number[], seed: number, usual?: boolean,
 *   each?: (n: number, plan: Plan, result: string) => void }} options
 * @returns {Promise<Record<string, Row>>} */
export async function experiment(bytes, { place, numbers, seed, usual = false, each = () => {} }) {
  /** @type {Record<string, Row>} */
  const rows = {};
  const laboratory = new Laboratory(bytes, place, usual);
  try {
    await laboratory.open();
    for (const n of numbers) {
      const plan = planOf(n, seed, place.storing);
      const result = await laboratory.run(plan);
      const row = (rows[plan.kind.name] ??= { tried: 0, right: 0, coded: 0, broken: [] });
      row.tried++;
      row.waited = longer(row.waited, laboratory.waited);
      if (result === 'right' || result === 'coded') row[result]++;
      else
        row.broken.push(
          `run ${n} of seed ${seed}, ${plan.from}, from ${plan.moment}${plan.lasting ? ' on' : ''}: ${result}`,
        );
      each(n, plan, result);
    }
  } finally {
    await laboratory.close();
  }
  return rows;
}
