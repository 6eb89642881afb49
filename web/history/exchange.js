/**
 * exchange: conversations as files: JSON, with all versions, which can be imported again; and Markdown for people. An
 * imported file is untrusted: it is checked, and its conversations get new ids.
 * @module
 */
import { el } from '../shell/dom.js';
import { PageError } from '../shell/errors.js';
import { titleOf } from '../shell/format.js';
import { t } from '../shell/language.js';
import { Tree, newId, spoken } from './tree.js';

/** @import { Head } from './archive.js' */
/** @import { Kept, Said, Attached } from './tree.js' */

const FORMAT = 'gemma-wasm conversations';

/** Returns conversations as the text of a file that fromJson() reads.
 * @param {{ head: Head, body: Kept }[]} conversations */
export function toJson(conversations) {
  const plain = conversations.map(({ head, body }) => ({ ...head, ...body }));
  return JSON.stringify({ format: FORMAT, version: 1, conversations: plain }, null, 1);
}

/** Returns the shown messages of a conversation as Markdown. Other versions are left out.
 * @param {{ head: Head, body: Kept }} conversation */
export function toMarkdown({ head, body }) {
  const parts = [
    `# ${head.title}`,
    `${new Date(head.created).toISOString().slice(0, 10)}${head.model ? `, ${head.model.label}` : ''}`,
  ];
  if (head.system) parts.push(`## ${t('markdown.system')}`, head.system);
  for (const one of new Tree(body).path()) {
    parts.push(`## ${t(one.role === 'user' ? 'you' : 'answer')}`);
    if (one.thoughts) parts.push(`### ${t('thoughts')}`, one.thoughts.replace(/^/gm, '> '));
    parts.push(spoken(one));
  }
  return `${parts.join('\n\n')}\n`;
}

/** @param {import('../shell/language.js').Key} why @param {Record<string, number>} [values] */
const refuse = (why, values) => new PageError('import.none', values, why);

/** Returns the conversations of a file, with new ids. Throws a PageError if the text is not such a file or is damaged.
 * @param {string} text @returns {{ head: Head, body: Kept }[]} */
export function fromJson(text) {
  /** @type {any} */
  let data;
  try {
    data = JSON.parse(text);
  } catch {
    throw refuse('import.not-json');
  }
  if (data?.format !== FORMAT || !Array.isArray(data.conversations)) throw refuse('import.not-ours');
  return data.conversations.map(conversation);
}

/** @param {any} given @param {number} at */
function conversation(given, at) {
  const said = Array.isArray(given?.said) ? given.said.map(oneSaid) : [];
  const ids = new Set(said.map((/** @type {Said} */ one) => one.id));
  const whole = said.length > 0 && ids.size === said.length && grows(said);
  if (!whole) throw refuse('import.damaged', { n: at + 1 });
  const last = ids.has(given.leaf) ? given.leaf : said[said.length - 1].id;
  return { head: headOf(given, said), body: { said, leaf: last } };
}

/** Returns whether each message follows an earlier one, which excludes cycles, or is a question at the beginning.
 * @param {Said[]} said */
function grows(said) {
  const before = new Set();
  return said.every(({ id, parent, role }) => {
    const stands = parent === null ? role === 'user' : before.has(parent);
    before.add(id);
    return stands;
  });
}

/** @param {any} one @returns {Said} */
function oneSaid(one) {
  const { id, parent, role, text, thoughts, thoughtMs, files, state, stats, hint, model, full } = one ?? {};
  const good =
    typeof id === 'string' &&
    (parent === null || typeof parent === 'string') &&
    (role === 'user' || role === 'assistant') &&
    typeof text === 'string';
  if (!good) throw refuse('import.no-text');
  const known = ['whole', 'cut', 'partial'].includes(state) ? state : 'whole';
  const said = { id, parent, role, text, state: known, ...strings({ thoughts, stats, hint, model }) };
  return {
    ...said,
    ...(full === true && { full }),
    ...(Number.isFinite(thoughtMs) && thoughtMs > 0 && { thoughtMs }),
    ...attached(files),
  };
}

/** @param {any} files @returns {{ files?: Attached[] }} */
function attached(files) {
  if (!Array.isArray(files) || !files.length) return {};
  if (files.some((file) => typeof file?.name !== 'string' || typeof file.text !== 'string')) {
    throw refuse('import.no-file');
  }
  return { files: files.map(({ name, text }) => ({ name, text })) };
}

/** @param {Record<string, unknown>} given @returns {Record<string, string>} */
function strings(given) {
  const found = Object.entries(given).filter(([, value]) => typeof value === 'string');
  return /** @type {Record<string, string>} */ (Object.fromEntries(found));
}

/** @param {any} given @param {Said[]} said @returns {Head} */
function headOf(given, said) {
  const now = Date.now();
  const date = (/** @type {unknown} */ value) => (typeof value === 'number' && value > 0 && value <= now ? value : now);
  return {
    id: newId(),
    title: strings({ title: given.title }).title?.slice(0, 200) || titleOf(said[0].text),
    named: given.named === true,
    pinned: given.pinned === 1 ? 1 : 0,
    created: date(given.created),
    updated: date(given.updated),
    ...strings({ system: given.system }),
    ...(said.some(({ id }) => id === given.from) && { from: given.from }),
  };
}

/** Makes the browser download a text as a file.
 * @param {string} name @param {string} type   MIME type @param {string} text */
export function saveFile(name, type, text) {
  const href = URL.createObjectURL(new Blob([text], { type }));
  el('a', { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}

/** Returns a file name without extension for a title: letters, digits, spaces, _ and -, at most 60 characters;
 * `conversation` if none is left.
 * @param {string} title */
export function fileName(title) {
  const plain = title.replace(/[^\p{L}\p{N} _-]+/gu, '');
  return plain.trim().slice(0, 60) || 'conversation';
}
