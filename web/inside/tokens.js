/**
 * tokens: any text as tokens with their ids, and the time that the answers took.
 * @module
 */
import { el } from '../shell/dom.js';
import { count, plural, rate, shortTime } from '../shell/format.js';
import { hint, piece } from './parts.js';

/** @import { Look } from './subject.js' */
/** @import { GenerateResult } from '../../js/protocol.js' */

const MOST = 1000;

/** @param {Look} look */
export async function showTokens(look) {
  const { panel, choices, conversation, signal } = look;
  const field = el('textarea', { rows: 2, dir: 'auto', value: choices.text ?? conversation.message.text });
  const list = el('ol.pieces');
  const total = el('p.said');
  list.ariaLabel = 'Tokens with their ids';
  const update = async (/** @type {AbortSignal} */ during) => showPieces(look, field.value, { list, total }, during);
  field.addEventListener('input', () => {
    choices.text = field.value;
    look.run(update);
  });
  panel.replaceChildren(el('label', 'Text', field), total, list, ...cost(look));
  await update(signal);
}

/** @param {Look} look @param {string} text @param {{ list: HTMLElement, total: HTMLElement }} to
 * @param {AbortSignal} signal */
async function showPieces({ model }, text, { list, total }, signal) {
  const ids = await model.tokenize(text, { signal });
  const read = ids.slice(0, MOST);
  const tokens = read.length ? (await model.debug.inside(read, { layers: [], signal })).tokens : [];
  list.replaceChildren(...tokens.map(piece));
  const characters = [...text].length;
  total.textContent =
    `${plural(characters, 'character')}, ${plural(ids.length, 'token')}` +
    (ids.length > MOST ? `; the first ${count(MOST)} are shown` : '');
}

/** @param {Look} look */
function cost({ conversation, model }) {
  const made = conversation.answers.flatMap((answer) => (answer.made ? [answer.made] : []));
  const title = el('h3', 'What the answers cost');
  if (!made.length) return [title, hint('No answer was made here yet since this model was loaded.')];
  const names = ['Answer', 'Read', 'Written', 'Reading', 'Writing', 'Context'];
  const head = el('thead', el('tr', ...names.map((name) => el('th', { scope: 'col' }, name))));
  const rows = made.map((one, i) => costRow(one, i + 1, model.info.contextLength));
  const table = el('table.cost', head, el('tbody', ...rows));
  const place = el('div.grid-place', { tabIndex: 0, role: 'region', ariaLabel: 'Costs' }, table);
  return [
    title,
    timeBar(/** @type {GenerateResult} */ (made.at(-1))),
    place,
    hint(
      'Read: tokens of the prompt that were evaluated; those that the answer before had left in the cache cost nothing.',
    ),
  ];
}

/** @param {GenerateResult} result @param {number} n @param {number} context */
function costRow({ usage, timings }, n, context) {
  const { promptTokens, reusedTokens, completionTokens } = usage;
  const used = promptTokens + completionTokens;
  const cells = [
    `${count(promptTokens - reusedTokens)} of ${count(promptTokens)}`,
    count(completionTokens),
    timed(timings.prefillMs, timings.prefillTokensPerSecond),
    timed(timings.decodeMs, timings.decodeTokensPerSecond),
    `${count(used)} of ${count(context)}`,
  ];
  return el('tr', el('th', { scope: 'row' }, `${n}`), ...cells.map((text) => el('td', text)));
}

/** @param {number} ms @param {number} speed */
const timed = (ms, speed) => `${shortTime(ms)}${speed > 0 ? `, ${rate(speed)}` : ''}`;

/** @param {GenerateResult} result */
function timeBar({ timings: { firstTokenMs, prefillMs, decodeMs } }) {
  const parts = /** @type {[string, number][]} */ ([
    ['Preparing', Math.max(0, firstTokenMs - prefillMs)],
    ['Reading', prefillMs],
    ['Writing', decodeMs],
  ]);
  return el(
    'ul.times',
    { ariaLabel: 'Time of the last answer' },
    ...parts.map(([name, ms]) => {
      const part = el('li', { className: name.toLowerCase() }, `${name} ${shortTime(ms)}`);
      part.style.setProperty('--grow', String(Math.max(1, ms)));
      part.dataset.ms = String(ms);
      return part;
    }),
  );
}
