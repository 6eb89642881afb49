/**
 * library: the list of conversations beside the page: found again by their words, renamed, pinned, deleted with a way
 * back, taken out and in as files. Knows the archive; which one is open is app.js's affair.
 * @module
 */
import { openArchive, MemoryArchive, PAGE } from './archive.js';
import { action, announce, box, button, el, hasTouch, input } from '../shell/dom.js';
import { explain } from '../shell/errors.js';
import { fileName, fromJson, saveFile, toJson, toMarkdown } from './exchange.js';
import { plural } from '../shell/format.js';
import { recall, remember } from './storage.js';

/** @typedef {import('./archive.js').Head} Head */
/** @typedef {import('./archive.js').Archive} Archive */

/** How long a deletion can be taken back. */
const UNDO_MS = 10_000;
const NARROW = '(max-width: 60rem)';

/** @type {Archive} */
export let archive = new MemoryArchive();
/** @type {{ open: (id: string | null) => unknown, changed: (id: string, news: Partial<Head>) => void,
 *   heard: (id: string) => void, removed: () => void, current: () => string | undefined }} */
let on = { open() {}, changed() {}, heard() {}, removed() {}, current: () => undefined };

export const keepsNothing = () => recall('keep', /** @type {boolean} */ (true)) === false;

/** @param {typeof on} hooks */
export async function setUpLibrary(hooks) {
  on = hooks;
  if (!keepsNothing()) archive = await openKept();
  input('library-search').addEventListener('input', () => {
    most = PAGE;
    box('library-list').parentElement?.scrollTo(0, 0);
    void showLibrary();
  });
  button('library-more').addEventListener('click', () => void showMore());
  button('library-toggle').addEventListener('click', () => open(box('library').hidden));
  button('library-close').addEventListener('click', () => open(false));
  box('library').addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || !matchMedia(NARROW).matches) return;
    event.stopPropagation();
    open(false);
  });
  button('library-export').addEventListener('click', () => void exportAll());
  button('library-import').addEventListener('click', () => input('library-file').click());
  input('library-file').addEventListener('change', () => void importFile());
  setUpKeeping();
  if (recall('library', false) && !matchMedia(NARROW).matches) show(true);
  await showLibrary();
}

/** One for the page: it hears of other tabs. @type {Promise<Archive> | null} */
let opened = null;

function openKept() {
  return (opened ??= openArchive().then((one) => {
    one.heard((id) => on.heard(id));
    return one;
  }));
}

/** @param {boolean} now */
function show(now) {
  box('library').hidden = !now;
  document.body.dataset.library = now ? 'open' : 'closed';
  button('library-toggle').setAttribute('aria-expanded', String(now));
}

/** @param {boolean} now */
function open(now) {
  const had = box('library').contains(document.activeElement);
  show(now);
  remember('library', now);
  if (now && !hasTouch())
    input('library-search').focus(); // else the keyboard would cover the list
  else if (!now && had) button('library-toggle').focus();
}

/** On a small screen it covers the page: it goes when it has done its duty. */
export function leaveLibrary() {
  if (matchMedia(NARROW).matches) show(false);
}

function setUpKeeping() {
  const keep = input('library-keep');
  keep.checked = keepsNothing();
  keep.addEventListener('change', async () => {
    remember('keep', !keep.checked);
    archive = keep.checked ? new MemoryArchive() : await openKept();
    announce(keep.checked ? 'From now on no conversation is kept.' : 'Conversations are kept again.');
    await showLibrary();
  });
}

let listings = 0;
/** Rows of the list: each "Show more" doubles them. */
let most = PAGE;

/** Lists twice as many; the focus goes to the first new one. */
async function showMore() {
  const before = most;
  most *= 2;
  await showLibrary();
  /** @type {HTMLElement | undefined} */ ([...box('library-list').querySelectorAll('a')][before])?.focus();
}

/** Brings the list up to date. */
export async function showLibrary() {
  const question = input('library-search').value.trim();
  const mine = ++listings;
  // One more than is shown says whether there are more.
  const found = await (question ? archive.search(question, most + 1) : archive.list(most + 1)).catch(
    () => /** @type {Head[]} */ ([]),
  );
  const heads = found.slice(0, most);
  if (mine !== listings) return; // a later one is on its way
  if (box('library-list').querySelector('input')) return; // a name is being written: behind that
  replaceRows(heads.map(row));
  button('library-more').hidden = found.length <= most;
  box('library-none').hidden = heads.length > 0;
  box('library-none').textContent = question ? 'No conversation has these words.' : 'No conversations yet.';
  button('library-export').disabled = heads.length === 0 && !question;
}

/** Where the focus is, and the menu that is open, stay. @param {HTMLLIElement[]} rows */
function replaceRows(rows) {
  const list = box('library-list');
  const at = document.activeElement;
  const held = list.contains(at) ? /** @type {HTMLLIElement | null | undefined} */ (at?.closest('li')) : null;
  const place = held ? [...held.querySelectorAll('a, button')].findIndex((one) => one === at) : -1;
  const menu = list.querySelector('.talk-menu:not([hidden])')?.closest('li')?.dataset.id;
  list.replaceChildren(...rows);
  const controls = (/** @type {string | undefined} */ id) => {
    const row = rows.find((one) => one.dataset.id === id);
    return /** @type {HTMLElement[]} */ ([...(row?.querySelectorAll('a, button') ?? [])]);
  };
  if (menu) controls(menu)[1]?.click();
  if (held) (controls(held.dataset.id)[place] ?? controls(held.dataset.id)[1])?.focus();
}

const DAY = 86_400_000;

/** Today's with their time, others with their day. @param {number} time */
function when(time) {
  const date = new Date(time);
  const now = Date.now();
  if (now - time < DAY && date.getDate() === new Date(now).getDate()) {
    return date.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
  }
  const year = now - time > 300 * DAY && { year: /** @type {const} */ ('numeric') };
  return date.toLocaleDateString([], { day: 'numeric', month: 'short', ...year });
}

/** @param {Head} head */
function row(head) {
  const link = el(
    'a',
    { href: `#/c/${head.id}`, className: 'talk', dir: 'auto' },
    el('span', { className: 'talk-title' }, head.title),
    el('span', { className: 'hint' }, `${head.pinned ? 'pinned · ' : ''}${when(head.updated)}`),
  );
  if (head.id === on.current()) link.setAttribute('aria-current', 'page');
  link.addEventListener('click', () => head.id === on.current() && leaveLibrary()); // it leads nowhere else
  const more = action('⋯', () => toggle(), 'quiet small icon');
  more.setAttribute('aria-label', `What to do with “${head.title}”`);
  more.setAttribute('aria-expanded', 'false');
  const menu = el('div', { className: 'talk-menu', hidden: true });
  const toggle = () => {
    if (menu.hidden) menu.replaceChildren(...actions(head, item));
    menu.hidden = !menu.hidden;
    more.setAttribute('aria-expanded', String(!menu.hidden));
  };
  menu.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    toggle();
    more.focus();
  });
  const item = el('li', {}, el('div', { className: 'talk-line' }, link, more), menu);
  item.dataset.id = head.id;
  return item;
}

/** @param {Head} head @param {HTMLLIElement} item */
function actions(head, item) {
  const { id, title, pinned } = head;
  const small = 'quiet small';
  return [
    action('Rename', () => rename(head, item), small),
    action(pinned ? 'Unpin' : 'Pin', () => void change(id, { pinned: pinned ? 0 : 1 }), small),
    action(
      'Save as Markdown',
      () => void take(id, (one) => saveFile(`${fileName(title)}.md`, 'text/markdown', toMarkdown(one))),
      small,
    ),
    action(
      'Save as JSON',
      () => void take(id, (one) => saveFile(`${fileName(title)}.json`, 'application/json', toJson([one]))),
      small,
    ),
    action('Delete', () => void remove(head), `${small} danger`),
  ];
}

/** @param {string} id @param {(one: { head: Head, body: import('./tree.js').Kept }) => void} use */
async function take(id, use) {
  const one = await archive.get(id);
  if (one) use(one);
}

/** @param {string} id @param {Partial<Head>} news */
async function change(id, news) {
  on.changed(id, news); // before it is written with what is open
  const menus = /** @type {NodeListOf<HTMLElement>} */ (box('library-list').querySelectorAll('.talk-menu'));
  for (const menu of menus) menu.hidden = true;
  await archive.change(id, news);
  await showLibrary();
}

/** Enter keeps the new name, Escape the old one. @param {Head} head @param {HTMLLIElement} item */
function rename({ id, title }, item) {
  const field = el('input', { value: title, maxLength: 200, ariaLabel: 'Name of this conversation' });
  let over = false;
  const end = (/** @type {boolean} */ keep) => {
    if (over) return;
    over = true;
    const name = field.value.trim();
    field.remove();
    if (keep && name && name !== title) void change(id, { title: name, named: true });
    else void showLibrary();
  };
  field.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.isComposing) end(true);
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    end(false);
  });
  field.addEventListener('blur', () => end(true));
  item.replaceChildren(field);
  field.select();
}

/** At once, and back again at a click. @param {Head} head */
async function remove(head) {
  // An answer that runs is kept when it ends: before.
  if (on.current() === head.id) await on.open(null);
  const one = await archive.get(head.id);
  const draft = await archive.draft(head.id);
  await archive.remove(head.id);
  on.removed();
  await showLibrary();
  input('library-search').focus();
  if (one)
    offerUndo(`“${head.title}” is deleted.`, async () => {
      await archive.put(one.head, one.body);
      if (draft) await archive.setDraft(head.id, draft);
      await showLibrary();
    });
}

let undoTimer = 0;

/** @param {string} text @param {() => Promise<void>} undo */
function offerUndo(text, undo) {
  const place = box('toast');
  clearTimeout(undoTimer);
  const close = () => {
    place.hidden = true;
  };
  const back = action(
    'Undo',
    () =>
      void undo().then(() => {
        close();
        announce('It is back.');
      }),
    'link',
  );
  place.replaceChildren(el('span', {}, text), back);
  place.hidden = false;
  announce(`${text} Undo is the last button of the page.`);
  undoTimer = window.setTimeout(close, UNDO_MS);
}

async function exportAll() {
  const all = [];
  for await (const one of archive.all()) all.push(one);
  saveFile('conversations.json', 'application/json', toJson(all));
  announce(`${plural(all.length, 'conversation')} exported.`);
}

async function importFile() {
  const file = input('library-file').files?.[0];
  input('library-file').value = '';
  if (!file) return;
  const said = box('library-said');
  try {
    const all = fromJson(await file.text());
    for (const { head, body } of all) await archive.put(head, body);
    said.textContent = `${plural(all.length, 'conversation')} imported.`;
  } catch (error) {
    const { title, advice } = explain(error);
    said.textContent = `${title} ${advice}`;
  }
  announce(said.textContent);
  await showLibrary();
}
