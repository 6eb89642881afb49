/**
 * search: the panel of the document search: the user's texts, the passages nearest to a query, and a way to ask about
 * them. Long work continues when the panel is closed.
 * @module
 */
/// <reference path="../css.d.ts" />
import { textsOf } from '../chat/attachments.js';
import { action, announce, box, el, sheetOf, takeFiles } from '../shell/dom.js';
import { PageError } from '../shell/errors.js';
import { bytes, titleOf } from '../shell/format.js';
import { t } from '../shell/language.js';
import { actions, state, update } from '../shell/store.js';
import { Finds } from './finds.js';
import { EMBEDDER, embedderHere, loadMaker, makerOf } from './maker.js';
import { Collection } from './texts.js';
import { Work } from './work.js';
import css from './search.css';

/** @import { Maker, Wanted } from './maker.js' */

const NARROW = '(max-width: 47rem)';

/** The panel of the document search. */
export class Search {
  style = sheetOf(css);
  #place;
  #texts = new Collection(() => this.changed());
  #finds = new Finds(
    (question, signal) => this.#nearest(question, signal),
    (draft) => this.#ask(draft),
  );
  #work = new Work((cancelled) => this.#ended(cancelled));
  /** A model that only the search uses. @type {Maker | null} */ #own = null;
  /** Whether the stored texts and their model are still being opened. */
  #opening = true;
  #list = el('ul.texts', { ariaLabel: t('search.yours') });
  #others = el('div');
  #maker = el('div');
  #add = action(t('search.add'), () => this.#files.click());
  #files = el('input', { type: 'file', multiple: true, hidden: true });
  #file = el('input', { type: 'file', accept: '.gguf', hidden: true });

  /** @param {HTMLElement} place */
  constructor(place) {
    this.#place = place;
    this.#build();
    this.#takeDrops();
  }

  #build() {
    this.#files.onchange = () => this.#take(takeFiles(this.#files));
    this.#file.onchange = () => {
      const [file] = takeFiles(this.#file);
      if (file) this.#get({ source: file, label: file.name });
    };
    const close = action(t('close'), () => update({ panel: '' }), 'quiet');
    this.#place.replaceChildren(
      el('div.settings-head', el('h2', t('documents')), close),
      this.#finds.element,
      this.#work.element,
      this.#others,
      el('h3', t('search.yours')),
      this.#list,
      el('div.add', this.#add, el('span.hint', t('search.drop'))),
      this.#pasting(),
      el('h3', t('search.model')),
      this.#maker,
      this.#files,
      this.#file,
    );
  }

  #pasting() {
    const field = el('textarea', { rows: 4, dir: 'auto', ariaLabel: t('search.paste.label') });
    const summary = el('summary', t('search.paste'));
    const fold = el(
      'details.fold',
      summary,
      field,
      action(t('search.paste.add'), () => {
        this.#paste(field.value);
        field.value = '';
        fold.open = false;
        summary.focus();
      }),
    );
    return fold;
  }

  /** Handles files that are dropped on the panel, before the page does. */
  #takeDrops() {
    /** @param {(event: DragEvent) => void} f @returns {(event: DragEvent) => void} */
    const ours = (f) => (event) => {
      if (!event.dataTransfer?.types.includes('Files')) return;
      event.preventDefault();
      event.stopPropagation();
      this.#place.classList.toggle('over', event.type === 'dragover');
      f(event);
    };
    this.#place.addEventListener(
      'dragover',
      ours(() => {
        box('drop-veil').hidden = true;
      }),
    );
    this.#place.addEventListener(
      'drop',
      ours((event) => this.#take([...(event.dataTransfer?.files ?? [])])),
    );
    this.#place.addEventListener('dragleave', () => this.#place.classList.remove('over'));
  }

  /** Shows the panel, opens the stored texts, and loads an embedding model if one is stored. */
  open() {
    this.#opening = true;
    this.#show();
    this.#add.focus();
    void this.#work
      .do(async (signal) => {
        await this.#texts.open();
        this.#show();
        const wanted = this.#own ? null : await embedderHere();
        if (wanted) await this.#load(wanted, signal);
      })
      .then(() => {
        this.#opening = false;
        this.#show();
        if (this.#texts.size && document.activeElement === this.#add) this.#finds.focus();
      });
  }

  /** Unloads the model that only the search uses, after the current work. */
  close() {
    this.#finds.stop();
    void this.#work.last.then(async () => {
      const own = this.#own;
      if (!this.#place.hidden || !this.#work.idle) return;
      this.#own = null;
      await own?.model.dispose();
    });
  }

  /** Updates the panel and repeats the search, because texts or the model may have changed. */
  changed() {
    this.#show();
    this.#finds.again();
  }

  /** @param {boolean} cancelled */
  #ended(cancelled) {
    this.changed();
    if (cancelled) this.#add.focus();
  }

  /** @returns {Maker | null} */
  get #reader() {
    const { model, choice } = state;
    if (this.#own || this.#opening) return this.#own;
    return model && makerOf(model, choice?.label ?? '', false);
  }

  /** @param {Wanted} wanted @param {AbortSignal} signal */
  async #load(wanted, signal) {
    const { label } = wanted;
    const before = this.#own;
    this.#work.show(t('search.loading', { name: label }), 0);
    this.#own = await loadMaker(wanted, signal, (done, total = 0) => {
      const progress = total ? t('of', { some: bytes(done), all: bytes(total) }) : bytes(done);
      this.#work.show(t('search.loading.bytes', { name: label, progress }), done, total);
    });
    announce(t('search.ready', { name: label }));
    await before?.model.dispose();
  }

  /** @param {Wanted} wanted */
  #get(wanted) {
    void this.#work.do((signal) => this.#load(wanted, signal));
  }

  /** @param {File[]} files */
  #take(files) {
    for (const file of files)
      void this.#work.do(async (signal) => {
        const texts = await textsOf([file]);
        if (!texts) throw new PageError('search.not-text', { name: file.name });
        await this.#read(texts[0], signal);
      });
  }

  /** @param {string} text */
  #paste(text) {
    if (!text.trim()) return;
    const taken = this.#texts.list().map(({ name }) => name);
    const title = titleOf(text);
    let name = title;
    for (let n = 2; taken.includes(name); n++) name = `${title} (${n})`;
    void this.#work.do((signal) => this.#read({ name, text }, signal));
  }

  /** @param {AbortSignal} signal @returns {import('./texts.js').Reading} */
  #reading(signal) {
    return {
      signal,
      onProgress: (name, done, total) =>
        this.#work.show(t('search.indexing', { name, done, passages: t('passages', { n: total }) }), done, total),
    };
  }

  /** Adds a text to the index, after indexing the others again if another model has embedded them.
   * @param {import('../history/tree.js').Attached} file @param {AbortSignal} signal */
  async #read(file, signal) {
    const reader = this.#reader;
    if (!reader) return;
    await this.#texts.readAnew(reader, this.#reading(signal));
    const passages = await this.#texts.add(reader, file, this.#reading(signal));
    announce(t('search.added', { name: file.name, passages: t('passages', { n: passages }) }));
    this.#show();
  }

  /** @param {string} question @param {AbortSignal} signal */
  async #nearest(question, signal) {
    const reader = this.#reader;
    if (!reader || !this.#texts.size || !this.#texts.fits(reader)) return [];
    const waits = !reader.own && state.busy;
    if (this.#work.idle) this.#work.say(waits ? t('search.waits') : '');
    return waits ? [] : this.#texts.nearest(reader, question, signal);
  }

  /** @param {import('../shell/store.js').Draft} draft */
  #ask(draft) {
    if (matchMedia(NARROW).matches) update({ panel: '' });
    actions.ask(draft);
  }

  #show() {
    const texts = this.#texts.list();
    const reader = this.#reader;
    const fits = reader !== null && this.#texts.fits(reader);
    const empty = !texts.length;
    const askable = !state.model?.info.embedding;
    this.#list.replaceChildren(...texts.map((one) => this.#row(one)));
    this.#list.hidden = empty;
    this.#finds.enable({ empty, on: !empty && fits, askable });
    const stay = t(this.#texts.kept ? 'search.saved' : 'search.tab');
    this.#others.replaceChildren(...(reader && !fits ? [this.#again(reader)] : []));
    this.#maker.replaceChildren(...(reader ? this.#about(reader) : []), el('p.hint', t('search.private'), ' ', stay));
  }

  /** @param {{ name: string, passages: number }} text */
  #row({ name, passages }) {
    const remove = async () => {
      await this.#texts.delete(name);
      announce(t('deleted.file', { name }));
      this.#add.focus();
    };
    return el(
      'li',
      el('span.name', { dir: 'auto' }, name),
      el('span.hint', t('passages', { n: passages })),
      action(t('delete'), () => void this.#work.do(remove), 'quiet small', t('delete.it', { name })),
    );
  }

  /** @param {Maker} reader */
  #again(reader) {
    const again = action(
      t('search.index-again', { name: reader.label }),
      () => void this.#work.do((signal) => this.#texts.readAnew(reader, this.#reading(signal))),
    );
    const said = t('search.other-model', { name: this.#texts.by?.label ?? '' });
    return el('div.notice', el('p', said), again);
  }

  /** @param {Maker} reader */
  #about({ label, own }) {
    if (own) return [el('p', t('search.semantic', { name: label }))];
    const get = action(t('download.name-size', { name: EMBEDDER.label, size: bytes(EMBEDDER.bytes) }), () =>
      this.#get(EMBEDDER),
    );
    return [
      el('p', t('search.chat-model', { name: label })),
      el(
        'p',
        get,
        ' ',
        action(t('search.choose-file'), () => this.#file.click(), 'link'),
      ),
    ];
  }
}
