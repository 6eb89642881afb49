/**
 * attachments: texts that are sent with a message: long pastes and text files. Each is shown as a chip that opens the
 * text, with a button that removes it.
 * @module
 */
import { action, announce, box, byId, el, input, onClick, takeFiles } from '../shell/dom.js';
import { addLater, list, t } from '../shell/language.js';
import { fail, resolve } from '../shell/notices.js';

/** @import { Attached } from '../history/tree.js' */

/** A pasted text of this size becomes an attached file. */
const LONG = { characters: 2000, lines: 30 };
/** Maximum size of an attached file in bytes. A larger text fits into no context. */
const MOST_BYTES = 4e6;

/** Returns whether a file is a model, by its name or its first bytes. Never rejects. @param {File} file */
export async function isModel(file) {
  if (/\.gguf$/i.test(file.name)) return true;
  const start = file.slice(0, 4);
  return (await start.text().catch(() => '')) === 'GGUF'; // a folder cannot be read
}

/** Returns the text of a file; null if it is too large or not UTF-8. @param {File} file */
async function textOf(file) {
  if (file.size > MOST_BYTES) return null;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    return text.includes('\0') ? null : text;
  } catch {
    return null;
  }
}

/** Shows the notice that only texts up to MOST_BYTES can be attached. */
export async function refuse() {
  await addLater();
  fail('attach', t('attach.only-texts', { n: MOST_BYTES / 1e6 }));
}

/** Reads files as texts. Resolves with null if one of them is a model, too large or not UTF-8.
 * @param {File[]} files @returns {Promise<Attached[] | null>} */
export async function textsOf(files) {
  const texts = await Promise.all(files.map(async (file) => ((await isModel(file)) ? null : textOf(file))));
  if (texts.includes(null)) return null;
  return files.map(({ name }, i) => ({ name, text: /** @type {string} */ (texts[i]) }));
}

/** The texts that the next message will have, and their chips. */
export class Attachments {
  /** @type {Attached[]} */ #files = [];
  #changed;
  /** Number of conversations opened so far, to detect a switch. */
  place = 0;

  /** @param {HTMLTextAreaElement} field @param {() => void} changed */
  constructor(field, changed) {
    this.#changed = changed;
    field.addEventListener('paste', (event) => {
      const text = event.clipboardData?.getData('text/plain') ?? '';
      if (text.length < LONG.characters && text.split('\n').length < LONG.lines) return;
      event.preventDefault();
      this.add([{ name: this.#free(t('attach.pasted')), text }]);
    });
    onClick('attach', () => input('attach-file').click());
    input('attach-file').addEventListener('change', () => void this.#chosen());
    onClick('attached-close', () => byId('attached', HTMLDialogElement).close());
  }

  async #chosen() {
    const { place } = this;
    const [texts] = await Promise.all([textsOf(takeFiles(input('attach-file'))), addLater()]);
    if (place !== this.place) fail('attach', t('attach.switched'));
    else if (texts) this.add(texts);
    else await refuse();
  }

  /** @param {string} name */
  #free(name) {
    let free = name;
    for (let n = 2; this.#files.some((file) => file.name === free); n++) free = `${name} ${n}`;
    return free;
  }

  /** The attached texts. set() replaces the array, so callers may keep it. */
  get files() {
    return this.#files;
  }

  /** Attaches further texts, announces them, and calls #changed(). @param {Attached[]} files */
  add(files) {
    this.set([...this.#files, ...files]);
    announce(t('attach.done', { names: list(files.map(({ name }) => name)) }));
    this.#changed();
  }

  /** Replaces the attached texts without calling #changed(). @param {Attached[]} files */
  set(files) {
    this.#files = files;
    resolve('attach');
    box('chips').hidden = files.length === 0;
    box('chips').replaceChildren(...files.map((file) => this.#chip(file)));
  }

  /** @param {Attached} file */
  #chip(file) {
    const view = action('', () => open(file), 'quiet small');
    view.append(file.name, el('span.hint', ` ${t('characters', { n: file.text.length })}`));
    const remove = () => {
      this.set(this.#files.filter((other) => other !== file));
      this.#changed();
      box('input').focus();
    };
    return el('li', view, action('×', remove, 'quiet small icon', t('attach.remove', { name: file.name })));
  }
}

/** @param {Attached} file */
function open({ name, text }) {
  box('attached-name').textContent = name;
  box('attached-text').textContent = text;
  byId('attached', HTMLDialogElement).showModal();
}
