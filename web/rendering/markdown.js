/**
 * markdown: renders an answer's text as elements, cheaply while it grows. Blocks that later text cannot change are
 * rendered once; only the last block is rendered again. The result equals one rendering of the whole text.
 *
 * Model output is untrusted: raw HTML is shown as text, images become links, so that nothing is fetched, and
 * DOMPurify decides about tags and addresses. Libraries for code and TeX are loaded when settled blocks need them.
 * @module
 */
import { Marked } from 'marked';
import DOMPurify from 'dompurify';
import { el } from '../shell/dom.js';
import { t } from '../shell/language.js';
import { texIn } from './tex.js';

/** @import { Token } from 'marked' */

/** @param {string} text */
function escape(text) {
  return text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
}

const marked = new Marked({
  gfm: true,
  renderer: {
    html: ({ text }) => escape(text),
    image(token) {
      return this.link({ ...token, type: 'link', text: token.href, autolink: !token.text });
    },
    checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
  },
});

marked.use(texIn(escape));

const TAGS = 'a blockquote br code del em h1 h2 h3 h4 h5 h6 hr li ol p pre strong table tbody td th thead tr ul';
const ALLOWED = {
  ALLOWED_TAGS: TAGS.split(' '),
  ALLOWED_ATTR: ['align', 'class', 'href', 'start', 'title'],
  ADD_URI_SAFE_ATTR: ['align', 'start'], // these are not URLs, so ALLOWED_URI_REGEXP does not apply
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  ALLOW_ARIA_ATTR: false,
  ALLOW_DATA_ATTR: false,
};

/** Matches a line that may become a list item, quote or rule, and could still join the block before it. */
const UNDECIDED = /^\s*(?:\d{0,9}[.)]?|[-+*_>|#`~=:\s]*)\s*$/;

/** Limits of nesting and of marks (such as * and [) in a paragraph, beyond what people write. Above them, the parser
 * would take exponential or quadratic time. */
const NESTED = /^(?:[ \t]*(?:>|(?:[-+*]|\d{1,9}[.)])[ \t])){24}|^[ \t]{80}/;
const MARKS = /[$*_[\]`<~!\\]/g;
const MOST_MARKS = 1500;
const LONGEST_PARAGRAPH = 40_000;
/** Matches a very long word. The parser looks for an e-mail address at each of the word's characters, which takes
 * quadratic time. */
const LONG_WORD = /[\w.+-]{4000}/;
const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)/;
/** Maximum duration of one parse, in milliseconds. */
const LONGEST_MS = 1000;

/** Throws if a parse takes too long. The Markdown parser calls this extension before each block and each part of a
 * line. */
const clock = {
  ends: Infinity,
  tokenizer() {
    if (performance.now() > clock.ends) throw new Error('The text takes too long to parse.');
    return undefined;
  },
};
const { tokenizer } = clock;
marked.use({
  extensions: [
    { name: 'clock', level: 'block', tokenizer },
    { name: 'clockInLine', level: 'inline', tokenizer },
  ],
});

/** Splits a text into parts that are safe to parse and paragraphs that are not.
 * @param {string} text @returns {Generator<{ part: string, safe: boolean }>} */
function* partsOf(text) {
  let begun = 0;
  let paragraph = 0;
  let marks = 0;
  let wild = false;
  let fence = '';
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf('\n', at) + 1 || text.length;
    const line = text.slice(at, end);
    const [, run = '', info = ''] = FENCE.exec(line) ?? [];
    at = end;
    if (fence) {
      if (!run.startsWith(fence) || info.trim()) continue;
      fence = '';
      [paragraph, marks] = [end, 0];
    } else if (!line.trim()) {
      if (wild) {
        yield { part: text.slice(paragraph, end), safe: false };
        begun = end;
        wild = false;
      }
      [paragraph, marks] = [end, 0];
    } else if (!wild) {
      if (run && !(run[0] === '`' && info.includes('`'))) fence = run;
      marks += line.match(MARKS)?.length ?? 0;
      wild = marks > MOST_MARKS || end - paragraph > LONGEST_PARAGRAPH || NESTED.test(line) || LONG_WORD.test(line);
      if (!wild) continue;
      fence = '';
      if (begun < paragraph) yield { part: text.slice(begun, paragraph), safe: true };
    }
  }
  if (wild) yield { part: text.slice(paragraph), safe: false };
  else if (begun < text.length) yield { part: text.slice(begun), safe: true };
}

/** @param {string} raw @returns {Token} */
function plain(raw) {
  /** @param {string} text @returns {Token} */
  const line = (text) => ({ type: 'text', raw: text, text, escaped: false });
  const tokens = raw
    .trimEnd()
    .split('\n')
    .flatMap((text, i) => {
      return i ? [/** @type {Token} */ ({ type: 'br', raw: '\n' }), line(text)] : [line(text)];
    });
  return { type: 'paragraph', raw, text: raw, tokens };
}

/** @param {string} text @returns {Token[] | null} null: the parser ran out of time or of stack */
function parsed(text) {
  clock.ends = performance.now() + LONGEST_MS;
  try {
    return [...partsOf(text)].flatMap(({ part, safe }) => (safe ? marked.lexer(part) : [plain(part)]));
  } catch {
    return null;
  }
}

/** Splits a growing text into settled blocks and the rest, which may still change.
 * @param {string} text @returns {{ settled: Token[], open: Token[], rest: string }} */
function settle(text) {
  const tokens = parsed(text);
  if (!tokens) return { settled: [], open: [plain(text)], rest: text };
  let last = tokens.length - 1;
  while (last > 0 && tokens[last].type === 'space') last--;
  if (last > 0 && UNDECIDED.test(tokens[last].raw)) last--;
  while (last > 0 && tokens[last].type === 'space') last--;
  const settled = tokens.slice(0, last);
  const before = settled.map(({ raw }) => raw).join('');
  // Takes the rest from the text itself, because the parser's `raw` can differ from the source.
  if (!text.startsWith(before)) return { settled: [], open: tokens, rest: text };
  return { settled, open: tokens.slice(settled.length), rest: text.slice(before.length) };
}

/** @param {string} html @returns {DocumentFragment} */
function sanitised(html) {
  const fragment = DOMPurify.sanitize(html, { ...ALLOWED, RETURN_DOM_FRAGMENT: true });
  for (const link of fragment.querySelectorAll('a')) {
    link.rel = 'noopener noreferrer';
    link.target = '_blank';
  }
  for (const pre of fragment.querySelectorAll('pre')) addCopy(pre);
  for (const table of fragment.querySelectorAll('table')) addScroll(table);
  // Each block has its own direction, because answers mix scripts. Blocks within a list item or quote have its
  // direction.
  for (const block of fragment.querySelectorAll('p, ul, ol, h1, h2, h3, h4, h5, h6, blockquote, .wide-table')) {
    if (!block.parentElement?.closest('li, blockquote')) block.setAttribute('dir', 'auto');
  }
  return fragment;
}

/** Makes the children of a parent, from index `at` on, equal to `wanted`. Equal nodes stay, and text that has grown is
 * appended to, so that a selection in them survives.
 * @param {Node} parent @param {Node[]} wanted @param {number} [at] */
function become(parent, wanted, at = 0) {
  for (const next of wanted) {
    const old = parent.childNodes[at++];
    if (!old) parent.appendChild(next);
    else if (old.isEqualNode(next)) continue;
    else if (old instanceof Text && next instanceof Text && next.data.startsWith(old.data)) {
      old.appendData(next.data.slice(old.length));
    } else if (old instanceof Element && old.cloneNode().isEqualNode(next.cloneNode()))
      become(old, [...next.childNodes]);
    else parent.replaceChild(next, old);
  }
  while (parent.childNodes.length > at) parent.lastChild?.remove();
}

/** Colours code and draws maths; both stay as they are if a library cannot be loaded.
 * @param {Node[]} nodes @param {() => void} changed */
async function adorned(nodes, changed) {
  const found = (/** @type {string} */ selector) =>
    nodes.flatMap((node) => (node instanceof Element ? [...node.querySelectorAll(selector)] : []));
  const codes = found('pre code');
  const maths = found('[class^=maths-]');
  if (!codes.length && !maths.length) return;
  const [colours, drawing] = await Promise.all([
    codes.length ? import('./code.js') : null,
    maths.length ? import('./maths.js') : null,
  ]).catch(() => [null, null]);
  for (const code of codes) {
    const language = code.closest('.code')?.querySelector('.code-head span')?.textContent ?? '';
    const better = colours?.coloured(code.textContent ?? '', language.toLowerCase());
    if (better) code.replaceChildren(better);
  }
  for (const tex of maths) {
    const drawn = drawing?.toMathML(tex.textContent ?? '', tex.className === 'maths-block');
    if (drawn) tex.replaceWith(drawn);
  }
  changed();
}

/** Matches the text of a table cell that needs a minimum width: 13 characters, or 6 that are twice as wide. Without it,
 * columns of a table on a phone are as narrow as one word, or in Chinese and Japanese one character. */
const LONG_CELL = /.{13}|[\u2e80-\ud7ff]{6}/;

/** Makes a wide table scroll in its own frame, by keyboard too. @param {HTMLTableElement} table */
function addScroll(table) {
  for (const cell of table.querySelectorAll('th, td')) if (LONG_CELL.test(cell.textContent)) cell.className = 'long';
  const frame = el('div.wide-table', { tabIndex: 0, role: 'group', ariaLabel: t('table') });
  table.replaceWith(frame);
  frame.append(table);
}

/** @param {HTMLPreElement} pre */
function addCopy(pre) {
  const code = pre.querySelector('code');
  const language = /^language-(\S{1,20})$/.exec(code?.className ?? '')?.[1] ?? '';
  code?.removeAttribute('class');
  const look = { type: 'button', className: 'quiet small copy-code', ariaLabel: t('code.copy') };
  const button = el('button', look, t('copy'));
  const frame = el('div.code', el('div.code-head', el('span', language), button));
  pre.tabIndex = 0; // makes code with long lines, which scrolls sideways, reachable by keyboard
  pre.replaceWith(frame);
  frame.append(pre);
}

/** Renders one growing text into one element. */
export class MarkdownView {
  #root;
  #changed;
  #kept = 0; // number of nodes of the blocks that no longer change
  #rest = ''; // text of the blocks that may still change
  #html = ''; // HTML of the blocks that no longer change
  #frame = 0;
  #cost = 0; // milliseconds that the last rendering took
  #ended = 0;
  /** A \r at the end of the text, maybe half of a line break. */ #held = '';
  text = '';

  /**
   * @param {HTMLElement} root
   * @param {() => void} [changed]   called after each rendering
   */
  constructor(root, changed = () => {}) {
    this.#root = root;
    this.#changed = changed;
    root.classList.add('md');
    root.replaceChildren();
  }

  /** Appends text, which is rendered in one of the next frames. @param {string} piece */
  add(piece) {
    // The Markdown parser knows only \n as a line break.
    const lines = `${this.#held}${piece}`.replace(/\r\n|\r(?!\n|$)/g, '\n');
    this.#held = lines.endsWith('\r') ? '\r' : '';
    const whole = lines.slice(0, lines.length - this.#held.length);
    this.text += whole;
    this.#rest += whole;
    this.#schedule();
  }

  /** Schedules a rendering: at most once per frame, and at most a fifth of the time. */
  #schedule() {
    this.#frame ||= requestAnimationFrame((now) => {
      this.#frame = 0;
      if (now - this.#ended < 4 * this.#cost) this.#schedule();
      else this.#render();
    });
  }

  #render() {
    const start = performance.now();
    // A text whose rendering took too long would take as long each time, so it is shown as plain text.
    const { settled, open, rest } =
      this.#cost < LONGEST_MS ? settle(this.#rest) : { settled: [], open: [plain(this.#rest)], rest: this.#rest };
    const html = marked.parser(settled);
    this.#html += html;
    this.#rest = rest;
    this.#show(html, marked.parser(open));
    this.#ended = performance.now();
    if (this.#cost < LONGEST_MS) this.#cost = this.#ended - start;
    this.#changed();
  }

  /** Shows blocks after the blocks that are kept. @param {string} settled   HTML of new blocks that will not change
   * @param {string} [open]   HTML of the blocks that may still change */
  #show(settled, open = '') {
    const [stay, change] = [settled, open].map((html) => (html ? [...sanitised(html).childNodes] : []));
    become(this.#root, [...stay, ...change], this.#kept);
    const nodes = [...this.#root.childNodes].slice(this.#kept, (this.#kept += stay.length));
    if (nodes.length) void adorned(nodes, this.#changed);
  }

  /** Renders the complete text: repairs links whose address came after their use. */
  finish() {
    cancelAnimationFrame(this.#frame);
    const all = parsed(this.text);
    const rest = marked.parser((all && parsed(this.#rest)) ?? [plain(this.#rest)]);
    const whole = all ? marked.parser(all) : this.#html + rest;
    const isWhole = this.#html + rest === whole;
    if (!isWhole) this.#kept = 0;
    this.#show(isWhole ? rest : whole);
    this.#changed();
  }
}
