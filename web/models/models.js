/**
 * models: the model that is loaded, and the one that was before: loads a choice with the progress shown, lets the old
 * one go only when the new one's header has been read and fits, and knows how to get back what was there. The
 * storyteller is small: it stays to talk to until another model is here.
 * @module
 */
import { GemmaError, loadModel } from '../../js/index.js';
import { button } from '../shell/dom.js';
import { LoadingView } from './loading.js';
import { isDownload, mustAnswer, preflight } from './preflight.js';
import { addressOf } from './presets.js';
import { storyteller } from './storyteller.js';
import { modelsHere } from './stored.js';

/** @typedef {import('../../js/index.js').Model} Model */
/** @typedef {import('./presets.js').Choice} Choice */
/** @typedef {import('../history/archive.js').ModelNote} ModelNote */

/** Only the options that were given. @param {Record<string, unknown>} options */
function defined(options) {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

export class Models {
  /** @type {Model | null} */ model = null;
  /** The one that is loaded, or was. @type {Choice | null} */ choice = null;
  /** @type {AbortController | null} */ #loading = null;
  /** The load that runs, or the last one: two at once would take the memory of both. @type {Promise<unknown>} */
  #last = Promise.resolve();
  /** When what was let go is gone. @type {Promise<void>} */ #going = Promise.resolve();
  /** What is loading, or was last. @type {Choice | null} */ #coming = null;
  /** Ends a pause: whether to go on. @type {((on: boolean) => void) | null} */ #resume = null;
  #pausing = false;
  #on;
  /** A load runs while the model that is there can be talked to. */
  behind = false;

  /** leave: before a model is let go; idle: when nobody waits for an answer of it.
   * @param {{ leave: (dead: boolean) => Promise<void>, idle: () => Promise<void> }} on */
  constructor(on) {
    this.#on = on;
    button('loading-pause').addEventListener('click', () => this.#pause());
  }

  get loading() {
    return this.#loading !== null;
  }

  /** What has become of the model at an address. @param {string} address @returns {import('./rows.js').State} */
  stateOf(address) {
    if (this.loading && this.#coming && addressOf(this.#coming.source) === address) return 'coming';
    return this.model && this.choice && addressOf(this.choice.source) === address ? 'in use' : '';
  }

  cancel() {
    this.#resume?.(false);
    this.#loading?.abort();
  }

  #pause() {
    if (this.#resume) return this.#resume(true);
    this.#pausing = true;
    this.#loading?.abort();
  }

  /** A load that is still running is cancelled, and gone before this one begins.
   * @param {Choice} choice @param {{ contextLength?: number, threads?: number }} form @returns {Promise<Model>} */
  load(choice, form) {
    this.cancel();
    this.behind = this.model !== null && this.choice?.kind === 'storyteller' && isDownload(choice);
    const next = this.#last.then(() => this.#load(choice, form));
    this.#last = next.catch(() => {});
    return next;
  }

  /** @param {Choice} choice @param {{ contextLength?: number, threads?: number }} form */
  async #load(choice, form) {
    const options = defined({ ...form, contextLength: choice.contextLength ?? form.contextLength });
    const view = new LoadingView(choice.label, choice.bytes);
    button('loading-pause').hidden = !isDownload(choice);
    this.#coming = choice;
    try {
      const loaded = await this.#unlessPaused(view, (signal) => this.#ready(choice, options, view, signal));
      this.behind = false;
      await this.release();
      this.model = loaded;
      this.choice = choice;
      return loaded;
    } finally {
      this.#loading = null;
    }
  }

  /** What was paused begins anew, with what is here already. @template T @param {LoadingView} view
   * @param {(signal: AbortSignal) => Promise<T>} work @returns {Promise<T>} */
  async #unlessPaused(view, work) {
    for (;;) {
      this.#pausing = false;
      this.#loading = new AbortController();
      view.going();
      try {
        return await work(this.#loading.signal);
      } catch (error) {
        if (!this.#pausing) throw error;
        view.paused();
        const on = await new Promise((resolve) => {
          this.#resume = resolve;
        });
        this.#resume = null;
        if (!on) throw error;
      }
    }
  }

  /** @param {Choice} choice @param {object} options @param {LoadingView} view @param {AbortSignal} signal */
  async #fetch(choice, options, view, signal) {
    if (this.model || isDownload(choice)) {
      // a model that would be lost, or bytes: worth a look at the header
      view.checking();
      view.needs(await preflight(choice, options, signal));
    }
    if (!this.behind) await this.release();
    return loadModel(choice.source, {
      ...options,
      ...defined({ token: choice.token, sha256: choice.sha256 }),
      cache: choice.kind !== 'storyteller', // its host is the page's own: it costs little to fetch again
      signal,
      onProgress: (progress) => view.update(progress),
    });
  }

  /** Loaded, and no answer of the model before runs any more.
   * @param {Choice} choice @param {object} options @param {LoadingView} view @param {AbortSignal} signal */
  async #ready(choice, options, view, signal) {
    const loaded = await this.#fetch(choice, options, view, signal);
    try {
      mustAnswer(loaded.info);
    } catch (error) {
      await loaded.dispose();
      throw error;
    }
    const cancelled = new Promise((resolve) => {
      signal.addEventListener('abort', resolve);
    });
    if (this.behind && !signal.aborted) await Promise.race([this.#on.idle(), cancelled]);
    if (!signal.aborted) return loaded;
    await loaded.dispose();
    throw new GemmaError('aborted', 'the load was cancelled');
  }

  /** Let go of the loaded model, if there is one. @param {boolean} [dead]   it answers no more */
  release(dead = false) {
    const old = this.model;
    this.model = null;
    if (old) this.#going = this.#let(old, dead);
    return this.#going;
  }

  /** @param {Model} old @param {boolean} dead */
  async #let(old, dead) {
    await this.#on.leave(dead);
    await old.dispose().catch(() => {}); // it may have died already
  }
}

/** What a conversation remembers of its model. @param {Choice} choice @returns {ModelNote} */
export function noteOf({ label, kind, source, bytes }) {
  const file = source instanceof File || Array.isArray(source);
  return { label, ...defined({ kind: file ? 'file' : kind, bytes, source: file ? undefined : source }) };
}

/** The choice that a note stands for, null where the file would have to be chosen again; here: it needs no download.
 * @param {ModelNote | undefined} note @returns {Promise<{ choice: Choice, here: boolean } | null>} */
export async function choiceOfNote(note) {
  if (!note || note.kind === 'file') return null;
  const own = storyteller();
  if (note.kind === 'storyteller') return own && { choice: own, here: true };
  if (!note.source) return null;
  const address = addressOf(note.source);
  const found = (await modelsHere()).find(({ choice, complete }) => complete && addressOf(choice.source) === address);
  if (found) return { choice: found.choice, here: true };
  const { source, label, bytes } = note;
  return { choice: { source, label, bytes }, here: false };
}
