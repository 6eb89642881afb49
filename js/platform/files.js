/* files: where the package's files lie, for the worker: the wasm modules, and parts of JavaScript that are imported
 * when something first needs them.
 *
 * The rule for parts: a part is one module of js/ itself (grammar.js, say) that lies beside worker.js and is named in
 * modules.js as a literal `new URL('./grammar.js', import.meta.url)`, so that bundlers copy it; the worker gets it by
 * `platform.load('grammar')`, which is the import() below, and nowhere else. The comments in that import() keep
 * bundlers from splitting code there: some cannot in workers (Vite up to 7), none can where a worker is one file.
 * A part gives what it has by `offer`, since some make a script without exports of it (Parcel).
 * tools/build/package.js makes each part a file that needs no other. On the page, outside the worker, an ordinary
 * `import()` is fine: every bundler splits code there. */

import { failure } from '../errors.js';
/** @import { Place } from '../protocol.js' */

const OFFERED = 'gemma-wasm ';
const scope = /** @type {any} */ (globalThis);

/** What an entry for one bundler has made known (tools/build/package.js).
 * @returns {Record<string, string> | undefined} */
export const filesKnown = () => scope[`${OFFERED}files`];

/** What a part has, to whoever loads it. @param {string} name @param {object} part */
export function offer(name, part) {
  scope[OFFERED + name] = part;
}

export class Files {
  #known;
  /** @type {Place} */
  #place = {};

  /** @param {Record<string, URL | string>} known by name: where a bundler put the file */
  constructor(known) {
    this.#known = known;
  }

  /** The client's, with its first message. @param {Place} [place] */
  settle(place = {}) {
    this.#place = place;
  }

  /** @param {string} name */
  address(name) {
    const { page, baseUrl, files } = this.#place;
    if (files && !baseUrl) return files[name];
    // Some bundlers give a path in place of a URL.
    return baseUrl ? new URL(name, baseUrl).href : new URL(String(this.#known[name]), page).href;
  }

  /** A part. @param {string} name @returns {Promise<any>} */
  async load(name) {
    const address = this.address(`${name}.js`);
    try {
      const part = await import(/* @vite-ignore */ /* webpackIgnore: true */ /* turbopackIgnore: true */ address);
      return scope[OFFERED + name] ?? part;
    } catch (cause) {
      const why = new Error(missing(cause), { cause });
      throw failure('engine-missing', `${address} could not be imported`, why);
    }
  }
}

/** Words for people whose file is not where it should be. @param {unknown} cause */
export function missing(cause) {
  const why = cause instanceof Error ? cause.message : String(cause);
  return `${why}. Is the file there, as the bundler was to copy it? Else pass the folder of the package's files as \`baseUrl\``;
}
