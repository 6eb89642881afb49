/* faults: loads a model with one fault (KINDS in inject.js), which occurs once or from some moment on. The store is
 * empty or has a part or all of the file. The load must end in time, with the right model or an error with a code. A
 * complete cached file must survive, unless the fault damaged or cleared it. The next load must be right. */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { testModel } from '../js/models.js';
import { randoms } from '../support/random.js';
import { KINDS } from './inject.js';
import { RANGES, openLab, openPlace } from './place.js';
import { inTime, isCoded } from './rules.js';

/** @import { Lab, Member, Place, Side } from './place.js' */

/** Plan of a run. `engine` says whether an engine loads the model; otherwise only the bytes are read, which is much
 * faster and exercises the store and the network equally.
 * @typedef {{ kind: import('./inject.js').Kind, from: typeof SITUATIONS[number], moment: number, lasting: boolean,
 *   digest: boolean, engine: boolean, seed: number }} Plan */
/** Results of one kind of fault. `waited` holds the longest load, and the longest time without a progress event, in ms.
 * @typedef {{ tried: number, right: number, coded: number, broken: string[],
 *   waited: { all: number, untold: number } }} Row */

const SITUATIONS = /** @type {const} */ (['empty', 'part', 'whole']);
const TUNING = { ...RANGES, stallMs: 400 };
/** Tuning for loads without a fault, which must succeed on a busy machine too. */
const PATIENT = { ...TUNING, stallMs: 8000 };
const LONGEST_MS = 10_000;
/** Time limit of a load with the package's default timeouts: a stall is noticed after 20 seconds, and several can
 * follow. */
const USUAL_LONGEST_MS = 240_000;
/** Upper bound of the random number of requests, or calls of a method, before a fault. With the package's default
 * tuning, which sends fewer requests, the bound is divided by FEWER. */
const MOMENTS = 12;
const FEWER = 4;
const STORE_WORKER = fileURLToPath(new URL('store-worker.js', import.meta.url));

/** Plugin that makes workers use the store that fails on command. @type {import('esbuild').Plugin} */
export const FAULTY = {
  name: 'faulty store',
  setup: (build) =>
    build.onResolve({ filter: /store-browser\.js$/ }, ({ importer }) =>
      /js[/\\]worker\.js$/.test(importer) ? { path: STORE_WORKER } : undefined,
    ),
};

/** Returns the plan of the n-th run. The kinds of fault take turns, the other fields are random.
 * @param {number} n @param {number} seed @param {boolean} [storing] @returns {Plan} */
export function planOf(n, seed, storing = true, all = KINDS) {
  const random = randoms(seed * 1_000_003 + n * 7919);
  const kinds = storing ? all : all.filter(({ server, client }) => server || client);
  const kind = kinds[n % kinds.length];
  const drawn = SITUATIONS[random(3)];
  return {
    kind,
    // A fault in a stored file needs the file, so the store is not empty.
    from: !storing ? 'empty' : kind.rest && drawn === 'empty' ? 'whole' : drawn,
    moment: Math.floor(random() ** 2 * MOMENTS),
    lasting: random() < 0.6,
    digest: random() < 0.25,
    engine: Boolean(kind.garbage || kind.client) || n % (4 * all.length) < all.length,
    seed: random(2 ** 31),
  };
}

export class Faults {
  #options;
  /** @type {Lab} */
  // @ts-ignore open() sets it
  #lab;
  /** @type {Place} */
  // @ts-ignore open() sets it
  place;
  /** @type {Member['call']} */
  // @ts-ignore open() sets it
  call;
  /** Duration of the last load with a fault, and its longest time without a progress event (ms). */
  waited = { all: 0, untold: 0 };

  /** Prepares runs. With `usual`, loads use the package's default tuning.
   * @param {Buffer} bytes of a model
   * @param {{ side: Side, usual?: boolean, shared?: import('puppeteer-core').Browser }} options */
  constructor(bytes, options) {
    this.#options = options;
    this.bytes = bytes;
    this.other = Buffer.from(bytes);
    for (let at = bytes.length >> 1; at < bytes.length; at += 977) this.other[at] ^= 1;
    this.digest = createHash('sha256').update(bytes).digest('hex');
  }

  async open() {
    const { side, shared } = this.#options;
    this.#lab = await openLab(this.bytes, { plugins: [FAULTY] });
    this.place = await openPlace(side, this.#lab, { shared, within: true });
    ({ call: this.call } = await this.place.member());
    await this.call('tune', PATIENT);
    for (const bytes of [this.bytes, this.other]) {
      this.#serve();
      this.#lab.source.state.bytes = bytes;
      await this.call('know');
    }
    if (this.place.storing) for (const name of ['whole', 'part']) await this.#copy(name);
  }

  /** Makes the complete (`whole`) or the partial (`part`) cached file, for runs that begin with it. For the partial
   * file, the server fails after the first requests. If that leaves no partial file, as can happen on a busy machine,
   * the next try answers one more request.
   * @param {string} name */
  async #copy(name) {
    for (let tries = 0; tries < 6; tries++) {
      await this.call('begin', 'empty');
      this.#serve((n) => (name === 'whole' || n < 6 + tries ? {} : { killAt: 0 }));
      await this.call('load');
      const [copy] = (await this.call('there')).list;
      const made = copy?.stored && copy.complete === (name === 'whole');
      if (made) await this.call('keep', name);
      await this.call('end', true);
      if (made) return;
    }
    throw new Error(`Six loads did not make the cached file "${name}" that runs begin with. Is the machine too busy?`);
  }

  async close() {
    await this.place?.close();
    await this.#lab?.close();
  }

  /** @param {(n: number) => Fault} [faults] */
  #serve(faults = () => ({})) {
    this.#lab.source.forget();
    Object.assign(this.#lab.source.state, { bytes: this.bytes, etag: '"one"', faults });
  }

  /** Judges a load: returns 'right', 'coded' for an error with a code, or a description of the failure.
   * @param {Promise<import('./member.js').Outcome>} load
   * @param {boolean} [other] whether the other model is also right */
  async #judged(load, other = false) {
    const longest = this.#options.usual ? USUAL_LONGEST_MS : LONGEST_MS;
    const got = await inTime(load, longest);
    if (got === 'late') return `took longer than ${longest} ms`;
    if ('is' in got) return got.is === 0 || (got.is === 1 && other) ? 'right' : 'a wrong model';
    return isCoded(got) ? 'coded' : `no coded error: ${got.stack ?? got.code}`;
  }

  /** Runs a plan. Returns 'right', 'coded' for a load that failed with a code, or a description of the failure.
   * @param {Plan} plan */
  async run(plan) {
    const { kind, from, seed } = plan;
    if (this.place.storing) await this.call('begin', from);
    if (kind.rest) await this.call('damage', kind.name, seed);
    await this.call('tune', this.#options.usual ? {} : TUNING);
    const outcome = await this.#broken(plan);
    const ended = outcome === 'right' || outcome === 'coded';
    await this.call('tune', PATIENT);
    const problem = ended && (await this.#afterwards(plan));
    await this.call('end', Boolean(ended && !problem));
    return problem || outcome;
  }

  /** @param {Plan} plan */
  async #broken({ kind, moment, lasting, digest, engine, seed }) {
    const { usual, side } = this.#options;
    const fault = kind.server?.({ bytes: this.bytes, other: this.other, random: randoms(seed) }) ?? {};
    const options = digest ? { sha256: this.digest } : {};
    const first = usual ? Math.floor(moment / FEWER) : moment;
    this.#serve((n) => ((lasting ? n >= first : n === first) ? fault : {}));
    const began = performance.now();
    let last = began;
    let untold = 0;
    const told = () => {
      untold = Math.max(untold, performance.now() - last);
      last = performance.now();
    };
    const load = kind.client
      ? this.call('disturb', kind.client, moment, options)
      : this.call('load', {
          ...options,
          engine: engine || Boolean(usual),
          ...(side === 'node' && { told }),
          ...(kind.store && { fault: { ...kind.store, moment, lasting } }),
        });
    const outcome = await this.#judged(load, kind.other && !digest);
    told();
    this.waited = { all: last - began, untold };
    return usual && untold > LONGEST_MS ? `no progress event for ${Math.round(untold)} ms` : outcome;
  }

  /** Loads the model without a fault after a run. Returns a description of the failure, or '' if there is none.
   * @param {Plan} plan */
  async #afterwards({ kind, from, digest, engine }) {
    const later = (/** @type {object} */ options) =>
      this.#judged(this.call('load', { engine, ...options }), kind.other);
    if (from === 'whole' && !kind.client?.startsWith('clears') && !kind.rest) {
      this.#serve(() => ({ status: 403 }));
      const offline = await later({});
      if (offline !== 'right')
        return `the complete cached file is lost: ${offline}, ${JSON.stringify(await this.call('there'))}`;
    }
    this.#serve();
    for (const options of [digest ? { sha256: this.digest } : {}, {}]) {
      const next = await later(options);
      if (next !== 'right') return `the next load: ${next}`;
    }
    if (!this.place.storing) return '';
    const left = (await this.call('there')).names.filter((/** @type {string} */ name) => !name.endsWith('.gguf'));
    return left.length ? `other files remain in the cache: ${left}` : '';
  }
}

/** Runs the plans with these numbers (planOf), then closes `faults`. Returns the results by the name of the fault.
 * @param {Faults} faults @param {number} seed @param {number[]} numbers @param {typeof KINDS} [kinds] */
export async function tryFaults(faults, seed, numbers, kinds) {
  /** @type {Record<string, Row>} */
  const rows = {};
  try {
    await faults.open();
    for (const n of numbers) {
      const plan = planOf(n, seed, faults.place.storing, kinds);
      const { kind, from, moment, lasting, digest } = plan;
      const result = await faults.run(plan);
      const row = (rows[kind.name] ??= { tried: 0, right: 0, coded: 0, broken: [], waited: { all: 0, untold: 0 } });
      row.tried++;
      for (const key of /** @type {const} */ (['all', 'untold']))
        row.waited[key] = Math.max(row.waited[key], faults.waited[key]);
      if (result === 'right' || result === 'coded') row[result]++;
      else {
        const how = JSON.stringify({ from, moment, lasting, digest });
        row.broken.push(`${kind.name}, run ${n} of seed ${seed}, ${how}: ${result}`);
      }
      if ((n + 1) % 100 === 0) console.error(`${n + 1} runs`);
    }
  } finally {
    await faults.close();
  }
  return rows;
}

/** Sums up the rows by the place of the fault: server, store, cached file at rest, client.
 * @param {Record<string, Row>} rows */
const groupsOf = (rows) =>
  [...new Set(Object.keys(rows).map((name) => name.split(':')[0]))].map((group) => {
    const all = Object.entries(rows).flatMap(([name, row]) => (name.startsWith(`${group}:`) ? [row] : []));
    const sum = (/** @type {(row: Row) => number} */ f) => all.reduce((total, row) => total + f(row), 0);
    return [
      group,
      all.length,
      sum((row) => row.tried),
      sum((row) => row.right),
      sum((row) => row.coded),
      sum((row) => row.broken.length),
    ];
  });

/** Runs the fault-injection tests. `kind` is a pattern for names of faults; `usual` chooses the default tuning.
 * @param {import('./cases.js').Run & { usual?: boolean }} run */
export async function run({ side, count, seed, first, kind, usual }) {
  const faults = new Faults(await readFile(await testModel('parity-q4_0')), { side, usual });
  const kinds = KINDS.filter(({ name }) => new RegExp(kind).test(name));
  const numbers = Array.from({ length: count }, (_, i) => first + i);
  const rows = await tryFaults(faults, seed, numbers, kinds);
  const seconds = (/** @type {number} */ ms) => (ms / 1000).toFixed(1);
  const each = Object.entries(rows).map(([name, { tried, right, coded, broken, waited }]) => {
    const cells = [name, tried, right, coded, broken.length];
    return usual ? [...cells, seconds(waited.all), seconds(waited.untold)] : cells;
  });
  const groups = groupsOf(rows).map((cells) => [faults.place.name, ...cells]);
  return {
    counts: { kinds: each.length, groups: groups.map((cells) => cells.join(' ')) },
    broken: Object.values(rows).flatMap(({ broken }) => broken),
    ...(usual
      ? { table: ['reports/faults.md', 'waits', 1], rows: each }
      : side === 'node'
        ? { table: ['reports/faults.md', 'laboratory', 1], rows: each }
        : { table: ['reports/lost.md', 'laboratory', 2], rows: groups }),
  };
}
