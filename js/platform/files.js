/* files: locates the package's files for the worker: the wasm modules, and parts of its JavaScript that are imported
 * on first use.
 *
 * A part is a module of js/, for example grammar.js, in a file without imports (tools/build/package.js) beside
 * worker.js. modules.js contains the literal `new URL('./grammar.js', import.meta.url)`, so that bundlers copy the
 * file. The worker imports it with `platform.load('grammar')`. Comments in the import() of load() tell bundlers not to
 * split the code: some bundlers cannot split workers (Vite up to 7), and none can if the worker must be one file. A
 * part passes its exports to `offer`, because some bundlers remove exports (Parcel). */

import { notImported } from './errors.js';
/** @import { Place } from '../protocol.js' */

const OFFERED = 'gemma-wasm ';
const scope = /** @type {any} */ (globalThis);

/** Returns the URLs of files that a bundler-specific entry has registered (tools/build/package.js).
 * @returns {Record<string, string> | undefined} */
export const filesKnown = () => scope[`${OFFERED}files`];

/** Registers the exports of a module that Files.load() imports. @param {string} name @param {object} part */
export function offer(name, part) {
  scope[OFFERED + name] = part;
}

/** Finds the URLs from which a worker loads the files of the package. */
export class Files {
  #known;
  /** @type {Place} */
  #place = {};

  /** @param {Record<string, URL | string>} known URLs by file name (modules.js), which a bundler may have replaced */
  constructor(known) {
    this.#known = known;
  }

  /** Sets the location of the package's files, which the client's first message contains. @param {Place} [place] */
  settle(place = {}) {
    this.#place = place;
  }

  /** Returns the URL of a file of the package. @param {string} name */
  address(name) {
    const { page, baseUrl, files } = this.#place;
    if (files && !baseUrl) return files[name];
    // Some bundlers replace the URL of a file by a path.
    return baseUrl ? new URL(name, baseUrl).href : new URL(String(this.#known[name]), page).href;
  }

  /** Imports a part of the worker's code, such as `grammar`. Throws `engine-missing`.
   * @param {string} name @returns {Promise<any>} */
  async load(name) {
    const address = this.address(`${name}.js`);
    try {
      const part = await import(/* @vite-ignore */ /* webpackIgnore: true */ /* turbopackIgnore: true */ address);
      return scope[OFFERED + name] ?? part;
    } catch (cause) {
      throw notImported(address, cause);
    }
  }
}
