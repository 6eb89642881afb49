/**
 * layers: the logit lens, a view of what the model would predict after each token if it ended with a given layer.
 * @module
 */
import { action, el } from '../shell/dom.js';
import { parts, t } from '../shell/language.js';
import { percent, range, shown, spoken } from './numbers.js';
import { bars, hint, quoted, select, stepped } from './parts.js';

/** @import { Look } from './subject.js' */
/** @typedef {import('../../js/protocol.js').Inside} Seen */

const LENS = 5;
const SPANS = [4, 8, 16, 32].map((n) => /** @type {[number, string]} */ ([n, t('tokens', { n })]));

/** Renders the view for the chosen number of tokens. @param {Look} look */
export async function showLayers(look) {
  const {
    subject: { tokens, ids },
    choices,
    panel,
    model,
    signal,
  } = look;
  const span = Math.min(choices.span, tokens.length);
  const end = Math.min(tokens.length, Math.max(span, choices.end || tokens.length));
  const place = el('div.grid-place', { tabIndex: -1 });
  const details = el('div.others');
  panel.replaceChildren(el('p', t('layers.about')), controls(look, span, end), place, details);
  const positions = range(end - span, end);
  const seen = await model.debug.inside(ids.slice(0, end), { positions, lens: LENS, signal });
  /** @param {number} layer @param {number} column */
  const show = (layer, column) => details.replaceChildren(...cellDetails(seen, layer, column));
  place.replaceChildren(grid(seen, show));
  place.scrollLeft = place.scrollWidth;
  show(seen.layers.length - 1, span - 1);
}

/** @param {Look} look @param {number} span @param {number} end */
function controls({ subject: { tokens }, choices, again }, span, end) {
  const move = (/** @type {number} */ by) => () => {
    choices.end = Math.min(tokens.length, Math.max(span, end + by));
    again(by < 0 ? '.earlier:enabled, .later-tokens' : '.later-tokens:enabled, .earlier');
  };
  const earlier = action(t('layers.earlier'), move(-span), 'small earlier');
  const later = action(t('layers.later'), move(span), 'small later-tokens');
  earlier.disabled = end <= span;
  later.disabled = end >= tokens.length;
  return el(
    'div.controls',
    select(t('layers.show'), SPANS, choices.span, (value) => {
      choices.span = Number(value);
      again('select');
    }),
    earlier,
    later,
    el('span.hint', t('layers.range', { first: end - span + 1, last: end, all: tokens.length })),
  );
}

/** @param {Seen} seen @param {(layer: number, column: number) => void} show */
function grid({ tokens, positions, layers }, show) {
  const head = el(
    'tr',
    { role: 'row' },
    el('td', {}),
    ...positions.map((at) =>
      header('columnheader', shown(tokens[at].text), t('layers.after', { token: spoken(tokens[at].text) })),
    ),
  );
  const rows = layers.map(({ layer, kind, lens = [] }) =>
    el(
      'tr',
      { role: 'row' },
      header('rowheader', `${layer + 1}`, t('layers.row', { n: layer + 1, kind: t(kind) }), kind),
      ...lens.map((likely, column) => cell(likely[0], { layer, column, position: positions[column] })),
    ),
  );
  const table = el('table.lens', { role: 'grid' }, el('thead', head), el('tbody', ...rows.reverse()));
  table.ariaLabel = t('layers.table');
  moves(table, show);
  return table;
}

/** @param {string} role @param {string} text @param {string} label @param {string} [kind] */
function header(role, text, label, kind = '') {
  const cell = el('th', { role, scope: role === 'rowheader' ? 'row' : 'col', title: label, dir: 'auto' }, text);
  cell.ariaLabel = label;
  cell.dataset.kind = kind;
  return cell;
}

/** @param {import('./words.js').Likely} likely @param {Record<string, number>} place */
function cell({ id, text, probability }, place) {
  const found = el('td', { role: 'gridcell', tabIndex: -1, dir: 'auto' }, shown(text));
  Object.assign(found.dataset, { ...place, id, p: probability });
  found.ariaLabel = t('layers.cell', { token: spoken(text), share: percent(probability) });
  found.style.setProperty('--shade', `${(100 * probability).toFixed(1)}%`);
  return found;
}

/** Moves the focus between cells by arrow keys. Focusing a cell or pointing at it shows its details.
 * @param {HTMLTableElement} table @param {(layer: number, column: number) => void} show */
function moves(table, show) {
  const rows = [...table.tBodies[0].rows].map((row) => /** @type {HTMLElement[]} */ ([...row.querySelectorAll('td')]));
  let [row, column] = [0, rows[0].length - 1];
  rows[row][column].tabIndex = 0;
  const look = (/** @type {HTMLElement} */ cell) => show(Number(cell.dataset.layer), Number(cell.dataset.column));
  for (const [r, cells] of rows.entries())
    for (const [c, one] of cells.entries()) {
      one.addEventListener('pointerenter', () => look(one));
      one.addEventListener('click', () => one.focus());
      one.addEventListener('focus', () => {
        rows[row][column].tabIndex = -1;
        [row, column] = [r, c];
        one.tabIndex = 0;
        look(one);
      });
    }
  table.addEventListener('keydown', (event) => {
    const upDown = /^Arrow(Up|Down)$/.test(event.key);
    const across = stepped(event, column, rows[row].length);
    const to = upDown ? rows[stepped(event, row, rows.length)][column] : rows[row][across];
    if (to === rows[row][column]) return;
    event.preventDefault();
    to.focus();
  });
}

/** @param {Seen} seen @param {number} at   layer @param {number} column */
function cellDetails({ tokens, positions, layers }, at, column) {
  const { lens = [], kind } = layers[at];
  const { text } = tokens[positions[column]];
  const rows = lens[column].map(({ id, text: other, probability }) => ({ id, text: other, share: probability }));
  const title = el('h3', ...parts('layers.title', { n: at + 1, kind: t(kind), token: quoted(text) }));
  return [title, bars(t('layers.says', { n: at + 1 }), rows), hint(t('layers.how'))];
}
