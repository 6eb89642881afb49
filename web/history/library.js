/**
 * library: the list of conversations beside the page: search, rename, pin, delete with undo, export and import.
 * @module
 */
import { openArchive, MemoryArchive } from './archive.js';
import { action, announce, box, button, el, hasTouch, input, onClick, onEscape, takeFiles } from '../shell/dom.js';
import { lineOf, savingError, withDetails } from '../shell/errors.js';
import { addLater, locale, t } from '../shell/language.js';
import { actions, latest, state, update, watch } from '../shell/store.js';
import { keepsNothing, onChoice, recall, remember } from './storage.js';
import { hitIn, spoken } from './tree.js';

/** @import { Head, Archive } from './archive.js' */

const PAGE = 60;
const UNDO_MS = 10_000;
const DAY = 86_400_000;
/** Returns whether the window is so narrow that the list of conversations covers the page. */
const isNarrow = () => matchMedia('(max-width: 60rem)').matches;

/** Loads the code that reads and writes files, and its texts, when it is first needed. */
const exchange = async () => (await Promise.all([import('./exchange.js'), addLater()]))[0];

/** Callbacks of the list. changed: a name or a pin has changed; heard: another tab has changed a conversation; kept:
 * the user has turned saving on; removed: a conversation was deleted.
 * @typedef {{ changed: (id: string, news: Partial<Head>) => void, heard: (id: string) => void, kept: () => void,
 *   removed: () => void }} On */

/** The list of conversations, and the archive in use. */
export class Library {
  /** @type {Archive} */ archive = new MemoryArchive();
  on = /** @type {On} */ ({});
  #latest = latest();
  #uses = latest();
  /** Number of rows in the list. "Show more" doubles it. */
  #most = PAGE;
  #undoTimer = 0;
  /** The archive in IndexedDB. Opened only once, because it receives notifications from other tabs.
   * @type {Promise<Archive> | null} */
  #opened = null;

  /** Connects the controls, opens the archive and shows the list. Called once. */
  async start() {
    const keep = input('library-keep');
    keep.checked = keepsNothing();
    await this.#use();
    input('library-search').addEventListener('input', () => {
      this.#most = PAGE;
      box('library-list').parentElement?.scrollTo(0, 0);
      void this.show();
    });
    addEventListener('pointerdown', ({ target }) => {
      if (target instanceof Element && !target.closest('.talk-menu, [aria-expanded=true]')) closeMenu();
      // In windows of medium width the list covers a part of the page; a press beside the list closes it.
      if (target instanceof Element && isNarrow() && target.closest('#chat, #picker')) this.leave();
    });
    box('library-list').parentElement?.addEventListener('scroll', closeMenu);
    onClick('library-more', () => void this.#showMore());
    onClick('library-toggle', () => this.#turn(!state.library));
    onClick('library-close', () => this.#turn(false));
    box('library').addEventListener('keydown', (event) => {
      if (event.key !== 'Escape') return;
      const closes = closeMenu();
      if (!closes && !isNarrow()) return;
      event.stopPropagation();
      if (!closes) this.#turn(false);
    });
    onClick('library-export', () => void this.#do(() => this.#exportAll()));
    onClick('library-import', () => input('library-file').click());
    input('library-file').addEventListener('change', () => void this.#do(() => this.#importFile()));
    keep.addEventListener('change', async () => {
      remember('keep', !keep.checked);
      await this.#keep();
      if (!keep.checked) this.on.kept();
    });
    onChoice('keep', () => {
      keep.checked = keepsNothing();
      void this.#keep();
    });
    watch(['library'], () => {
      box('library').hidden = !state.library;
      button('library-toggle').ariaExpanded = String(state.library);
    });
    update({ library: recall('library', false) && !isNarrow() });
    await this.show();
  }

  #open() {
    return (this.#opened ??= openArchive((id) => this.on.heard(id)));
  }

  /** @param {boolean} library */
  #turn(library) {
    const had = box('library').contains(document.activeElement);
    update({ library });
    remember('library', library);
    // Focuses no field if a touch keyboard would cover the list.
    if (library && !hasTouch()) input('library-search').focus();
    else if (!library && had) button('library-toggle').focus();
  }

  /** Closes the list if it covers the page, because a conversation was chosen. */
  leave() {
    if (isNarrow()) update({ library: false });
  }

  /** Uses the archive that the checkbox asks for. */
  async #use() {
    const isLatest = this.#uses();
    const archive = input('library-keep').checked ? new MemoryArchive() : await this.#open();
    if (!isLatest()) return;
    this.archive = archive;
    update({ stored: archive.kept });
  }

  async #keep() {
    await this.#use();
    await addLater();
    announce(t(input('library-keep').checked ? 'saving.off' : 'saving.on'));
    await this.show();
  }

  /** Reads or changes the archive, then updates the list and the line under it.
   * @param {() => Promise<string | void>} work   returns the text of that line */
  async #do(work) {
    const place = box('library-said');
    let said;
    try {
      said = (await work()) ?? '';
      place.textContent = said;
    } catch (error) {
      await addLater();
      const shown = savingError(error);
      said = lineOf(shown);
      place.replaceChildren(withDetails(said, shown));
    }
    if (said) announce(said);
    await this.show();
  }

  async #showMore() {
    const before = this.#most;
    this.#most *= 2;
    await this.show();
    /** @type {HTMLElement | undefined} */ ([...box('library-list').querySelectorAll('a')][before])?.focus();
  }

  /** Shows the conversations that match the search field. Leaves the list alone while a name is edited. */
  async show() {
    const question = input('library-search').value.trim();
    const isLatest = this.#latest();
    const most = this.#most;
    // Requests one conversation more than is shown, to know whether there are more.
    const found = await this.archive.search(question, most + 1).catch(() => /** @type {Head[]} */ ([]));
    const heads = found.slice(0, most);
    const hits = question ? await Promise.all(heads.map(({ id }) => this.#hit(id, question))) : [];
    if (!isLatest()) return;
    if (box('library-list').querySelector('input')) return; // the user is renaming a conversation
    replaceRows(heads.map((head, i) => this.#row(head, hits[i])));
    button('library-more').hidden = found.length <= most;
    box('library-none').hidden = heads.length > 0;
    box('library-none').textContent = t(question ? 'none.found' : 'none');
    button('library-export').disabled = heads.length === 0 && !question;
  }

  /** Returns the first passage in a conversation's messages that matches the search. @param {string} id
   * @param {string} question */
  async #hit(id, question) {
    const one = await this.archive.get(id).catch(() => null);
    return one && hitIn(one.body.said.map(spoken), question);
  }

  /** @param {Head} head @param {ReturnType<typeof hitIn>} [hit] */
  #row(head, hit) {
    const link = el(
      'a',
      { href: `#/c/${head.id}`, className: 'talk', dir: 'auto' },
      el('span.talk-title', head.title),
      ...(hit ? [el('span.talk-hit.hint', hit[0], el('mark', hit[1]), hit[2])] : []),
      el('span.hint', { dir: 'auto' }, head.pinned ? t('pinned', { when: when(head.updated) }) : when(head.updated)),
    );
    if (head.id === state.id) link.ariaCurrent = 'page';
    // The link to the open conversation does not navigate, so the list must be closed here.
    link.addEventListener('click', () => head.id === state.id && this.leave());
    const more = action('⋯', () => toggle(), 'quiet small icon', t('options.for', { name: head.title }));
    more.ariaExpanded = 'false';
    const menu = el('div.talk-menu', { hidden: true });
    const toggle = () => {
      const opens = menu.hidden;
      closeMenu();
      if (!opens) return;
      menu.replaceChildren(...this.#actions(head, item));
      menu.hidden = false;
      more.ariaExpanded = 'true';
      const { left, right, bottom, top } = more.getBoundingClientRect();
      const { offsetWidth, offsetHeight } = menu;
      const from = document.dir === 'rtl' ? left : right - offsetWidth;
      const under = bottom + offsetHeight < innerHeight ? bottom : Math.max(0, top - offsetHeight);
      menu.style.setProperty('--left', `${from}px`);
      menu.style.setProperty('--top', `${under}px`);
    };
    const item = el('li', el('div.talk-line', link, more), menu);
    item.dataset.id = head.id;
    return item;
  }

  /** @param {Head} head @param {HTMLLIElement} item */
  #actions(head, item) {
    const { id, title, pinned } = head;
    const small = 'quiet small';
    const save = (/** @type {'.md' | '.json'} */ end) =>
      this.#do(async () => {
        const { fileName, saveFile, toJson, toMarkdown } = await exchange();
        const one = await this.archive.get(id);
        if (!one) return;
        if (end === '.md') saveFile(fileName(title) + end, 'text/markdown', toMarkdown(one));
        else saveFile(fileName(title) + end, 'application/json', toJson([one]));
      });
    return [
      action(t('rename'), () => this.#rename(head, item), small),
      action(t(pinned ? 'unpin' : 'pin'), () => void this.#change(id, { pinned: pinned ? 0 : 1 }), small),
      action(t('save.markdown'), () => void save('.md'), small),
      action(t('save.json'), () => void save('.json'), small),
      action(t('delete'), () => void this.#remove(head), `${small} danger`),
    ];
  }

  /** @param {string} id @param {Partial<Head>} news */
  async #change(id, news) {
    this.on.changed(id, news); // first, because the open conversation may be saved during the change
    closeMenu();
    await this.#do(() => this.archive.change(id, news));
  }

  /** Lets the user rename a conversation: Enter keeps the new name, Escape the old one. @param {Head} head
   * @param {HTMLLIElement} item */
  #rename({ id, title }, item) {
    const field = el('input', { value: title, maxLength: 200, ariaLabel: t('rename.label') });
    let over = false;
    const end = async (/** @type {boolean} */ keep) => {
      if (over) return;
      over = true;
      const name = field.value.trim();
      const had = document.activeElement === field;
      field.remove();
      if (keep && name && name !== title) await this.#change(id, { title: name, named: true });
      else await this.show();
      const more = /** @type {'button'} */ (`[data-id="${id}"] button`);
      if (had) box('library-list').querySelector(more)?.focus();
    };
    field.addEventListener('keydown', (event) => event.key === 'Enter' && !event.isComposing && void end(true));
    onEscape(field, () => void end(false));
    field.addEventListener('blur', () => void end(true));
    item.replaceChildren(field);
    field.select();
  }

  /** Deletes a conversation at once. Offers to undo that once the list no longer shows it. @param {Head} head */
  async #remove(head) {
    const { archive } = this;
    /** @type {(() => Promise<void>) | undefined} */
    let undo;
    await this.#do(async () => {
      // Closes the conversation first. This ends a running answer, which saves the conversation.
      if (state.id === head.id) await actions.open(null);
      const one = await archive.get(head.id);
      const draft = await archive.draft(head.id);
      await archive.remove(head.id);
      this.on.removed();
      input('library-search').focus();
      if (!one) return;
      undo = async () => {
        await archive.put(one.head, one.body);
        if (draft) await archive.setDraft(head.id, draft);
      };
    });
    if (undo) this.#offerUndo(head.title, undo);
  }

  /** @param {string} name @param {() => Promise<void>} undo */
  #offerUndo(name, undo) {
    const place = box('toast');
    const close = () => {
      if (place.contains(document.activeElement)) {
        box('main').focus();
        input('library-search').focus(); // has no effect while the list is hidden
      }
      place.hidden = true;
    };
    const back = async () => {
      await Promise.all([undo(), addLater()]);
      close();
      announce(t('restored'));
    };
    place.replaceChildren(
      el('span', t('deleted', { name })),
      action(t('undo'), () => void this.#do(back), 'link'),
    );
    place.hidden = false;
    announce(t('deleted.undo', { name }));
    clearTimeout(this.#undoTimer);
    this.#undoTimer = window.setTimeout(close, UNDO_MS);
  }

  async #exportAll() {
    const all = [];
    const { saveFile, toJson } = await exchange();
    for await (const one of this.archive.all()) all.push(one);
    saveFile('conversations.json', 'application/json', toJson(all));
    announce(t('exported', { n: all.length }));
  }

  async #importFile() {
    const [file] = takeFiles(input('library-file'));
    if (!file) return;
    const { archive } = this;
    const { fromJson } = await exchange();
    const all = fromJson(await file.text());
    try {
      for (const { head, body } of all) await archive.put(head, body);
    } catch (error) {
      for (const { head } of all) await archive.remove(head.id); // so that a second attempt adds none twice
      throw error;
    }
    return t('imported', { n: all.length });
  }
}

/** Closes the open menu; returns whether there was one. */
function closeMenu() {
  const menu = /** @type {HTMLElement | null} */ (document.querySelector('.talk-menu:not([hidden])'));
  const more = /** @type {HTMLElement | null | undefined} */ (menu?.parentElement?.querySelector('[aria-expanded]'));
  if (!menu || !more) return false;
  more.ariaExpanded = 'false';
  if (menu.contains(document.activeElement)) more.focus({ preventScroll: true });
  menu.hidden = true;
  return true;
}

/** Replaces the rows; keeps the focus and the open menu. @param {HTMLLIElement[]} rows */
function replaceRows(rows) {
  const list = box('library-list');
  const at = /** @type {HTMLElement} */ (document.activeElement);
  const held = at.closest('#library-list li');
  const menu = list.querySelector('.talk-menu:not([hidden])')?.closest('li');
  /** @param {Element | undefined | null} row */
  const controls = (row) => /** @type {HTMLElement[]} */ ([...(row?.querySelectorAll('a, button') ?? [])]);
  const place = controls(held).indexOf(at);
  list.replaceChildren(...rows);
  /** @param {any} old */
  const renewed = (old) => controls(rows.find((one) => one.dataset.id === old?.dataset.id));
  renewed(menu)[1]?.click();
  (renewed(held)[place] ?? renewed(held)[1])?.focus();
}

/** @param {number} time */
function when(time) {
  const date = new Date(time);
  const now = Date.now();
  const isToday = date.toDateString() === new Date(now).toDateString();
  if (isToday) return date.toLocaleTimeString(locale, { hour: '2-digit', minute: '2-digit' });
  const year = now - time > 300 * DAY && { year: /** @type {const} */ ('numeric') };
  return date.toLocaleDateString(locale, { day: 'numeric', month: 'short', ...year });
}
