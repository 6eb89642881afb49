/* kills: at a random moment a tab is closed, its process is killed, or a Node process is killed, while it downloads,
 * loads or deletes a model, or saves conversations. Another tab or process then loads the right model. Complete cached
 * files are not fetched again, and the last saved conversation, or the one before, continues. Bytes in buffers of the
 * system and the browser are fetched twice: some 100 KB for any model. The large model (720 MB, with default tuning)
 * shows whether these bytes exceed 1 % of a file. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { loadModel } from '../../js/index.node.js';
import { testModel } from '../js/models.js';
import { randoms } from '../support/random.js';
import { sleep } from './inject.js';
import { IDS } from './member.js';
import { RANGES, openLab, openPlace } from './place.js';
import { isWhole } from './rules.js';
import { ROUNDS, conversation, next } from './talking.js';

/** @typedef {'download' | 'load' | 'save' | 'delete'} What */

/** @param {string} file */
async function talksOf(file) {
  const model = await loadModel(file, { threads: 1 });
  const talks = [];
  for (let round = 0; round < ROUNDS; round++) {
    const chat = await conversation(model, round);
    const saved = await chat.save();
    const { tokens = null } = await model.chat({ saved }).restored;
    talks.push({ round, tokens, next: await next(chat) });
  }
  await model.dispose();
  return talks;
}

/** Starts a server that sends a small model slowly, or the large one at full speed. @param {boolean} [large] */
export async function openKills(large = false) {
  const file = await testModel(large ? 'oneb-q4_0' : 'parity-q4_0');
  const model = await loadModel(file, { threads: 1, contextLength: 64 });
  const expected = String(await model.debug.logits(IDS));
  await model.dispose();
  const lab = await openLab(await readFile(file), large ? {} : { usual: { slow: 5 }, tuning: RANGES });
  return { lab, expected, talks: large ? [] : await talksOf(file) };
}

export class Profile {
  #place;
  #known;
  /** Approximate duration of each step without a kill, in ms. @type {Record<What, number>} */
  #longest = { download: 1000, load: 400, save: 1500, delete: 30 };

  /** @param {import('./place.js').Place} place @param {Awaited<ReturnType<typeof openKills>>} known */
  constructor(place, known) {
    this.#place = place;
    this.#known = known;
  }

  /** @param {import('./member.js').Step} step */
  async #work(step) {
    const { source } = this.#known.lab;
    const member = await this.#place.member();
    const began = performance.now();
    source.forget();
    const done = await member.call('work', step);
    const ms = performance.now() - began;
    await member.kill();
    assert.ok(!done.code, done.message);
    return { ...done, sent: source.sent, ms };
  }

  async #load() {
    const done = await this.#work({ what: 'load' });
    assert.equal(done.logits, this.#known.expected, 'right logits');
    return done;
  }

  async measure() {
    this.#longest.download = (await this.#load()).ms;
    this.#longest.load = (await this.#load()).ms;
    if (this.#known.talks.length) this.#longest.save = (await this.#work({ what: 'save' })).ms;
    this.#longest.delete = (await this.#work({ what: 'delete' })).ms;
  }

  /** Kills a tab or process after a fraction `moment` (0 to 1) of its work. Returns the number of bytes that the server
   * sent, or null if the work had already finished.
   * @param {What} what @param {boolean} hard @param {number} moment */
  async #kill(what, hard, moment) {
    const { source } = this.#known.lab;
    const member = await this.#place.member();
    source.forget();
    let ended = false;
    member.call('work', { what: what === 'download' ? 'load' : what }).then(
      () => {
        ended = what !== 'delete';
      },
      () => {},
    );
    await sleep(moment * this.#longest[what]);
    const early = ended;
    await member.kill(hard);
    return early ? null : source.sent;
  }

  /** Kills a tab or process and checks the next one. Returns the number of bytes that were fetched twice, or null if
   * the work had already finished.
   * @param {What} what @param {boolean} hard @param {number} moment */
  async trial(what, hard, moment) {
    const { lab, talks } = this.#known;
    if (what === 'download') await this.#work({ what: 'delete' }); // The last trial left a complete cached file.
    if (what === 'save') await this.#work({ what: 'save', rounds: 1 });
    const before = await this.#kill(what, hard, moment);
    if (what === 'save') {
      const { count, ...said } = (await this.#work({ what: 'restore' })).saved;
      assert.ok(count === 1 || count === 2, `${count} are kept`);
      assert.deepEqual(said, talks[said.round], 'what was saved');
    }
    const first = await this.#load();
    const again = await this.#load();
    assert.ok(isWhole(again, again.sent), `after that: ${again.kept}, ${again.sent} bytes`);
    assert.deepEqual(
      this.#place.names().filter((name) => !/\.(gguf|state)$/.test(name)),
      [],
      'left behind',
    );
    if (before === null) return null;
    if (what === 'load' || what === 'save')
      assert.ok(isWhole(first, first.sent), `after a ${what}: ${first.kept}, ${first.sent} bytes`);
    return what === 'download' ? Math.max(0, before + first.sent - lab.size) : 0;
  }
}

/** Kills tabs or processes `count` times, during each kind of work in turn. Kills after the end of the work
 * (`early`) do not count. Throws at the first failure. @param {import('./cases.js').Run & { large?: boolean }} run */
export async function run({ side, count, seed, large, after }) {
  const known = await openKills(large);
  after(known.lab.close);
  const place = await openPlace(side, known.lab);
  after(place.close);
  const profile = new Profile(place, known);
  const random = randoms(seed);
  const turns = /** @type {What[]} */ (large ? ['download'] : ['download', 'save', 'load', 'delete']);
  const counts = {
    kills: 0,
    early: 0,
    download: 0,
    load: 0,
    save: 0,
    delete: 0,
    hard: 0,
    twice: 0,
    of: known.lab.size,
  };
  await profile.measure();
  for (let n = 0; counts.kills < count; n++) {
    const what = turns[n % turns.length];
    const hard = side === 'node' || Math.floor(n / turns.length) % 2 === 1;
    const twice = await profile.trial(what, hard, random()).catch((cause) => {
      throw new Error(`kill ${n}, of a ${what}`, { cause });
    });
    if (twice === null) {
      counts.early++;
      continue;
    }
    counts.kills++;
    counts[what]++;
    counts.hard += Number(hard);
    counts.twice = Math.max(counts.twice, twice);
    if (counts.kills % 20 === 0) console.error(JSON.stringify(counts));
  }
  const { kills, download, load, save, delete: deleted, hard, twice, of } = counts;
  const share = `${Math.round(twice / 1e3)} KB, ${((100 * twice) / of).toFixed(2)} %`;
  return {
    counts,
    rows: [[place.name, `${Math.round(of / 1e6)} MB`, kills, download, load, save, deleted, hard, 0, share]],
  };
}
