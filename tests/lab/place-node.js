/* place-node: where the laboratory loads models in Node: each run has a folder of its own. */
import { copyFile, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { openStore } from '../../js/download/store-node.js';
import { inspectModel, loadModel, openCache } from '../../js/index.node.js';
import { environment } from '../../js/platform/env.js';
import { disturbed } from './client.js';
import { randoms } from '../support/random.js';
import { readThrough } from './reading.js';
import { faultyStore } from './store.js';

/** @typedef {import('./laboratory.js').Place} Place */
/** @typedef {Float32Array | Buffer} Got */

/** @implements {Place} */
export class NodePlace {
  name = `Node ${process.versions.node.split('.')[0]}`;
  storing = true;
  #root = '';
  #folder = '';
  /** Bytes, and logits. @type {Got[][]} */
  #known = [];
  /** @type {import('./laboratory.js').Server} */
  // @ts-ignore it is there once it is open
  #server;

  /** @param {import('./laboratory.js').Server} server */
  async open(server) {
    this.#server = server;
    this.#root = await mkdtemp(join(tmpdir(), 'gemma-wasm-laboratory-'));
  }

  async close() {
    await rm(this.#root, { recursive: true, force: true });
  }

  /** @param {object} tuning */
  async tune(tuning) {
    environment.tuning = tuning;
  }

  async know() {
    const bytes = Buffer.from(this.#server.state.bytes);
    this.#known.push([bytes, await this.#logits(new Uint8Array(bytes))]);
  }

  /** @param {string} name */
  async keep(name) {
    await mkdir(join(this.#root, name));
    for (const file of await readdir(this.#folder))
      await copyFile(join(this.#folder, file), join(this.#root, name, file));
  }

  /** @param {string} from */
  async begin(from) {
    this.#folder = await mkdtemp(join(this.#root, 'run-'));
    if (from === 'empty') return;
    for (const name of await readdir(join(this.#root, from)))
      await copyFile(join(this.#root, from, name), join(this.#folder, name));
  }

  /** What did not end in time may go on in its folder. @param {boolean} inTime */
  async end(inTime) {
    if (inTime) await rm(this.#folder, { recursive: true, force: true });
  }

  /** @param {import('./faults.js').Kind} kind @param {number} seed */
  async damage({ rest }, seed) {
    const [[bytes], [other]] = this.#known;
    for (const name of await readdir(this.#folder)) {
      const path = join(this.#folder, name);
      const copy = await readFile(path);
      const broken = rest?.(copy, {
        bytes: /** @type {Buffer} */ (bytes),
        other: /** @type {Buffer} */ (other),
        random: randoms(seed),
      });
      if (broken) await writeFile(path, broken);
      else await rm(path);
    }
  }

  /** engine: or bytes are read as for one.
   * @param {{ sha256?: string, fault?: import('./laboratory.js').StoreFault, engine: boolean, told?: () => void }} options */
  load({ sha256, fault, engine, told }) {
    const { url } = this.#server;
    const cache = this.#cache(fault);
    const options = sha256 ? { cache, sha256 } : { cache };
    const proves = (/** @type {Buffer} */ bytes) =>
      this.#known.some(([known]) => bytes.equals(/** @type {Buffer} */ (known)));
    return this.#outcome(
      engine
        ? this.#logits(url, { ...options, ...(told && { onProgress: told }) })
        : readThrough(url, { ...options, proves }),
    );
  }

  /** @param {string} what @param {number} moment @param {{ sha256?: string }} options */
  disturb(what, moment, options) {
    const { url } = this.#server;
    const cache = this.#cache();
    const load = (/** @type {object} */ more = {}) => this.#logits(url, { ...options, cache, ...more });
    return this.#outcome(disturbed({ load, inspect: () => inspectModel(url, { cache }), cache }, what, moment));
  }

  async there() {
    return { list: await this.#cache().list(), names: await readdir(this.#folder) };
  }

  /** @param {import('./laboratory.js').StoreFault} [fault] */
  #cache(fault) {
    if (!fault) return openCache(this.#folder);
    const { moment, lasting } = fault;
    const active = (/** @type {number} */ n) => (lasting ? n >= moment : n === moment);
    return openCache(faultyStore(openStore(this.#folder), fault, active));
  }

  /** @param {any} source @param {object} [options] */
  async #logits(source, options) {
    const model = await loadModel(source, { threads: 1, ...options });
    try {
      return await model.logits([2, 300, 310, 305]);
    } finally {
      await model.dispose();
    }
  }

  /** @param {Promise<Got>} load @returns {Promise<import('./laboratory.js').Outcome>} */
  #outcome(load) {
    const which = (/** @type {Got} */ got) =>
      this.#known.findIndex((known) => known.some((one) => isDeepStrictEqual(one, got)));
    return load.then(
      (got) => ({ is: which(got) }),
      (error) => ({ code: error?.code, stack: error?.stack ?? String(error) }),
    );
  }
}
