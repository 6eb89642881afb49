/**
 * attention: a view of how much a token attends to each earlier token, for a layer and a head.
 * @module
 */
import { el } from '../shell/dom.js';
import { list, parts, t } from '../shell/language.js';
import { largest, percent, range, spoken, windowOf } from './numbers.js';
import { Strip, hint, select } from './parts.js';

/** @import { Look } from './subject.js' */
/** @import { InsideLayer } from '../../js/protocol.js' */

/** @typedef {{ at: number, layers: InsideLayer[] }} Seen */

/** Renders the view. The model computes the attention of all layers and heads of the chosen token at once.
 * @param {Look} look */
export async function showAttention(look) {
  const {
    model,
    subject: { tokens },
    choices,
    panel,
    signal,
  } = look;
  const { info } = model;
  const at = choices.token >= 0 && choices.token < tokens.length ? choices.token : tokens.length - 1;
  const window = windowOf((await model.inspect()).metadata);
  /** @type {Seen | null} */
  let seen = null;
  const place = el('div.others');
  const sentence = el('p.said');
  const strip = new Strip(t('attention.select'), tokens, (next) => {
    choices.token = next;
    look.run(async (during) => {
      seen = await weightsOf(look, next, during);
      shade();
    });
  });
  const shade = () => {
    if (seen) sentence.replaceChildren(...shadeStrip(strip, look, seen, window));
  };
  panel.replaceChildren(el('p', t('attention.about')), pickers(look, info, shade), strip.element, sentence, place);
  strip.choose(at);
  seen = await weightsOf(look, at, signal);
  shade();
}

/** Returns the attention weights of a token. Only bidirectional models attend to later tokens.
 * @param {Look} look @param {number} at @param {AbortSignal} signal @returns {Promise<Seen>} */
async function weightsOf({ model, subject: { ids } }, at, signal) {
  const read = model.info.embedding ? ids : ids.slice(0, at + 1);
  const { layers } = await model.debug.inside(read, { heads: 'all', positions: [at], signal });
  return { at, layers };
}

/** @param {Look} look @param {{ layers: number, heads: number }} info @param {() => void} shade */
function pickers({ choices }, { layers, heads }, shade) {
  choices.layer = Math.min(choices.layer < 0 ? layers - 1 : choices.layer, layers - 1);
  choices.head = Math.min(choices.head, heads - 1);
  const numbers = (/** @type {number} */ n) =>
    range(0, n).map((i) => /** @type {[number, string]} */ ([i, `${i + 1}`]));
  return el(
    'div.controls',
    select(t('layer'), numbers(layers), choices.layer, (value) => {
      choices.layer = Number(value);
      shade();
    }),
    select(t('head'), numbers(heads), choices.head, (value) => {
      choices.head = Number(value);
      shade();
    }),
  );
}

/** @param {Strip} strip @param {Look} look @param {Seen} seen
 * @param {number} window   in tokens; 0: none */
function shadeStrip(strip, { model, subject: { tokens }, choices }, { at, layers }, window) {
  const { kind, attention = {} } = layers[choices.layer];
  const weights = attention[choices.head];
  const back = model.info.embedding ? Math.floor(window / 2) : window - 1; // bidirectional windows are centred
  const [top] = largest(weights, 1);
  const begins = kind === 'local' && window ? Math.max(0, at - back) : 0;
  for (let i = strip.first; i < tokens.length; i++) {
    const weight = weights[i] ?? 0;
    const seen = i < weights.length && i >= begins;
    const className = i === at ? 'looks' : seen ? '' : i < begins ? 'outside' : 'behind';
    const name = seen ? percent(weight) : t(i < begins ? 'attention.outside' : 'attention.unseen');
    strip.mark(i, { name, className, data: { p: weight }, shade: weight / weights[top] });
  }
  const most = largest(weights, 5).map((i) =>
    t('attention.item', { token: spoken(tokens[i].text), share: percent(weights[i]) }),
  );
  const place = {
    layer: choices.layer + 1,
    head: choices.head + 1,
    kind: el('span', { className: `kind ${kind}` }, t(kind)),
  };
  return [
    el('strong', ...parts('attention.where', place)),
    ` ${reach(kind, window, begins)} `,
    t('attention.most', { token: spoken(tokens[at].text), list: list(most) }),
    hint(t('attention.sum')),
  ];
}

/** @param {string} kind @param {number} window @param {number} begins */
function reach(kind, window, begins) {
  if (kind === 'global') return t('attention.global');
  const sight = window ? t('attention.window', { tokens: t('tokens', { n: window }) }) : t('attention.window.short');
  return begins ? `${sight} ${t('attention.beyond', { n: begins })}` : sight;
}
