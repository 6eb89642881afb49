/**
 * models: loads a model with the progress shown. The previous model is unloaded only when the header of the new one has
 * been read and fits. The storyteller model is small: it can answer until the other model is loaded.
 * @module
 */
import { ModelError, loadModel } from '../../js/index.js';
import { button, onClick } from '../shell/dom.js';
import { addLater } from '../shell/language.js';
import { state, update } from '../shell/store.js';
import { LoadingView, RestView } from './loading.js';
import { isDownload, mustAnswer, preflight } from './preflight.js';
import { addressOf } from './presets.js';
import { storyteller } from './storyteller.js';
import { modelsHere } from './stored.js';

/** @import { Model } from '../../js/index.js' */
/** @import { Choice } from '../shell/store.js' */
/** @import { ModelNote } from '../history/archive.js' */
/** @typedef {{ contextLength?: number, threads?: number }} Options */

/** Abort reason of a load that is paused, not cancelled. */
const PAUSE = 'pause';

/** The loaded model and the load in progress, at most one of each. */
export class Models {
  #conversation;
  /** @type {AbortController | null} */ #loading = null;
  /** The current or last load: loads run one at a time, because two would take the memory of both.
   * @type {Promise<unknown>} */
  #last = Promise.resolve();
  /** Resolves when the previous, unloaded model is disposed of. @type {Promise<void>} */ #going = Promise.resolve();
  /** Shows the download of weights that were still missing when the last model was loaded. */
  rest = new RestView();
  /** Ends a pause; the argument is whether the load continues. @type {((on: boolean) => void) | null} */ #resume =
    null;

  /** @param {import('../chat/conversation.js').Conversation} conversation */
  constructor(conversation) {
    this.#conversation = conversation;
    onClick('loading-pause', () => this.#pause());
  }

  /** Cancels the load in progress or paused, if there is one. It then fails with `aborted`. */
  cancel() {
    this.#resume?.(false);
    this.#loading?.abort();
  }

  #pause() {
    if (this.#resume) return this.#resume(true);
    this.#loading?.abort(PAUSE);
  }

  /** Loads a model once the previous load has ended.
   * @param {Choice} choice @param {Options} form @returns {Promise<Model>} */
  load(choice, form) {
    const coming = { ...choice };
    update({ coming, behind: state.model !== null && state.choice?.kind === 'storyteller' && isDownload(choice) });
    const next = this.#last.then(() => this.#load(coming, form));
    this.#last = next.catch(() => {});
    return next;
  }

  /** @param {Choice} choice @param {Options} form */
  async #load(choice, form) {
    if (state.coming !== choice) throw new ModelError('aborted', 'Another load has replaced this one.');
    const options = { ...form, contextLength: choice.contextLength ?? form.contextLength };
    const view = new LoadingView(choice.label, choice.bytes);
    button('loading-pause').hidden = !isDownload(choice);
    try {
      const model = await this.#unlessPaused(view, (signal) => this.#ready(choice, options, view, signal));
      await this.release();
      update({ model, choice: named(choice, model), behind: false });
      return model;
    } finally {
      this.#loading = null;
      if (state.coming === choice) update({ coming: null });
    }
  }

  /** Runs a load, and resumes it after pauses with the bytes already received. @template T @param {LoadingView} view
   * @param {(signal: AbortSignal) => Promise<T>} work @returns {Promise<T>} */
  async #unlessPaused(view, work) {
    for (;;) {
      const { signal } = (this.#loading = new AbortController());
      view.going();
      try {
        return await work(signal);
      } catch (error) {
        if (signal.reason !== PAUSE) throw error;
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
    if (state.model || isDownload(choice)) {
      // Checks the header first if a loaded model would be lost or bytes would be downloaded.
      view.checking();
      await addLater();
      view.needs(await preflight(choice, options, signal));
    }
    if (!state.behind) await this.release();
    const rest = (this.rest = new RestView());
    return loadModel(choice.source, {
      ...options,
      token: choice.token,
      sha256: choice.sha256,
      cache: choice.kind !== 'storyteller', // the page's own model is cheap to fetch again
      signal,
      onProgress: (progress) => (progress.phase === 'rest' ? rest : view).update(progress),
    });
  }

  /** @param {Choice} choice @param {object} options @param {LoadingView} view @param {AbortSignal} signal */
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
    if (state.behind && !signal.aborted) await Promise.race([this.#conversation.idle(), cancelled]);
    if (!signal.aborted) return loaded;
    await loaded.dispose();
    throw new ModelError('aborted', 'the load was cancelled');
  }

  /** Unloads the model, if there is one. Resolves when it is disposed of.
   * @param {boolean} [dead]   its worker has failed */
  release(dead = false) {
    const old = state.model;
    update({ model: null });
    if (old) this.#going = this.#let(old, dead);
    return this.#going;
  }

  /** @param {Model} old @param {boolean} dead */
  async #let(old, dead) {
    if (state.panel !== 'settings') update({ panel: '' });
    if (!dead) await this.#conversation.settle();
    this.#conversation.use(null);
    await old.dispose().catch(() => {}); // the worker may have died already
  }
}

/** Replaces a file name in a choice by the model's own name. @param {Choice} choice @param {Model} model
 * @returns {Choice} */
function named(choice, { info }) {
  return info.name && /\.gguf$/i.test(choice.label) ? { ...choice, label: info.name, file: choice.label } : choice;
}

/** Returns the note by which choiceOfNote() finds a model again. A file of the user has no source.
 * @param {Choice} choice @returns {ModelNote} */
export function noteOf({ label, kind, source, bytes }) {
  const file = source instanceof File || Array.isArray(source);
  return { label, kind: file ? 'file' : kind, bytes, source: file ? undefined : source };
}

/** Returns the choice that a note of a model describes; null if the user must choose the file again. here: whether
 * no download is needed. @param {ModelNote | undefined} note
 * @returns {Promise<{ choice: Choice, here: boolean } | null>} */
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
