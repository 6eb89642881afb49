/**
 * tokens: a view that shows any text as tokens with their ids, and the durations of the conversation's answers.
 * @module
 */
import { el } from '../shell/dom.js';
import { rate, shortTime } from '../shell/format.js';
import { list as listed, number, t } from '../shell/language.js';
import { hint, piece } from './parts.js';

/** @import { Look } from './subject.js' */
/** @import { GenerateResult } from '../../js/protocol.js' */

const MOST = 1000;

/** Renders the view. It has its own text field, which begins with the last message. @param {Look} look */
export async function showTokens(look) {
  const { panel, choices, conversation, signal } = look;
  const field = el('textarea', { rows: 2, dir: 'auto', value: choices.text ?? conversation.message.text });
  const list = el('ol.pieces');
  const total = el('p.said');
  list.ariaLabel = t('tokens.ids');
  const update = async (/** @type {AbortSignal} */ during) => showPieces(look, field.value, { list, total }, during);
  field.addEventListener('input', () => {
    choices.text = field.value;
    look.run(update);
  });
  panel.replaceChildren(el('label', t('tokens.text'), field), total, list, ...cost(look));
  await update(signal);
}

/** @param {Look} look @param {string} text @param {{ list: HTMLElement, total: HTMLElement }} to
 * @param {AbortSignal} signal */
async function showPieces({ model }, text, { list, total }, signal) {
  const ids = await model.tokenize(text, { signal });
  const read = ids.slice(0, MOST);
  const tokens = read.length ? (await model.debug.inside(read, { layers: [], signal })).tokens : [];
  list.replaceChildren(...tokens.map(piece));
  const facts = [t('characters', { n: [...text].length }), t('tokens', { n: ids.length })];
  if (ids.length > MOST) facts.push(t('tokens.first', { n: MOST }));
  total.textContent = listed(facts);
}

/** @param {Look} look */
function cost({ conversation, model }) {
  const made = conversation.answers.flatMap((answer) => (answer.made ? [answer.made] : []));
  const title = el('h3', t('cost.title'));
  if (!made.length) return [title, hint(t('cost.none'))];
  const names = /** @type {const} */ (['answer', 'prompt', 'output', 'prompt-time', 'output-time', 'context']);
  const head = el('thead', el('tr', ...names.map((name) => el('th', { scope: 'col' }, t(`cost.${name}`)))));
  const rows = made.map((one, i) => costRow(one, i + 1, model.info.contextLength));
  const table = el('table.cost', head, el('tbody', ...rows));
  const place = el('div.grid-place', { tabIndex: 0, role: 'region', ariaLabel: t('cost.label') }, table);
  return [title, timeBar(/** @type {GenerateResult} */ (made.at(-1))), place, hint(t('cost.about'))];
}

/** @param {GenerateResult} result @param {number} n @param {number} context */
function costRow({ usage, timings }, n, context) {
  const { promptTokens, reusedTokens, completionTokens } = usage;
  const used = promptTokens + completionTokens;
  const cells = [
    t('of', { some: promptTokens - reusedTokens, all: promptTokens }),
    number(completionTokens),
    timed(timings.prefillMs, timings.prefillTokensPerSecond),
    timed(timings.decodeMs, timings.decodeTokensPerSecond),
    t('of', { some: used, all: context }),
  ];
  return el('tr', el('th', { scope: 'row' }, number(n)), ...cells.map((text) => el('td', text)));
}

/** @param {number} ms @param {number} speed */
const timed = (ms, speed) => listed([shortTime(ms), ...(speed > 0 ? [rate(speed)] : [])]);

/** @param {GenerateResult} result */
function timeBar({ timings: { firstTokenMs, prefillMs, decodeMs } }) {
  const parts = /** @type {['preparing' | 'reading' | 'writing', number][]} */ ([
    ['preparing', Math.max(0, firstTokenMs - prefillMs)],
    ['reading', prefillMs],
    ['writing', decodeMs],
  ]);
  return el(
    'ul.times',
    { ariaLabel: t('cost.time') },
    ...parts.map(([name, ms]) => {
      const part = el('li', { className: name }, t(`cost.${name}`, { time: shortTime(ms) }));
      part.style.setProperty('--grow', String(Math.max(1, ms)));
      part.dataset.ms = String(ms);
      return part;
    }),
  );
}
