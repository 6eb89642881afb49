/**
 * walk: explains one token's path through the model, step by step, with the model's numbers.
 * @module
 */
import { action, el } from '../shell/dom.js';
import { list as listed, locale, number, parts, t } from '../shell/language.js';
import { actions } from '../shell/store.js';
import { chances, largest, percent, shown, spoken } from './numbers.js';
import { bars, hint, picture, piece, quoted, select, stepped, strength, svg } from './parts.js';

/** @import { Look } from './subject.js' */
/** @import { InsideLayer } from '../../js/protocol.js' */
/** @import { Token } from './numbers.js' */

/** The tokens up to the explained token, the layers and logits at that token, and the token that followed, if any.
 * @typedef {{ tokens: Token[], layers: InsideLayer[], logits: Float32Array, came: Token | null,
 *   info: import('../../js/index.js').Model['info'] }} Seen */
/** @typedef {{ title: string, show: (seen: Seen) => Node[] }} Step */

/** Number of likely tokens per layer that are computed (LENS) and shown (SHOWN); number of tokens in pictures (LAST). */
const LENS = 8;
const SHOWN = 3;
const LAST = 24;

/** Renders the view at the step that was shown last. @param {Look} look */
export async function showWalk(look) {
  const {
    model,
    subject: { tokens, ids },
    choices,
    panel,
    signal,
    again,
  } = look;
  const at = choices.walk >= 0 && choices.walk < tokens.length ? choices.walk : tokens.length - 2;
  const end = Math.max(0, at);
  const walk = el('div.walk');
  panel.replaceChildren(
    el(
      'div.controls',
      whichToken(look, end, (next) => {
        choices.walk = next;
        again('select');
      }),
    ),
    walk,
  );
  const read = ids.slice(0, end + 1);
  const seen = await model.debug.inside(read, { heads: 'all', positions: [-1], lens: LENS, norms: true, signal });
  const logits = await model.debug.logits(read, { signal });
  const { id, text } = tokens[end + 1] ?? {};
  const came = id === undefined ? null : { id, text };
  new Walk(walk, { ...seen, logits, came, info: model.info }, choices).show(choices.step);
}

/** @param {Look} look @param {number} at @param {(at: number) => void} on */
function whichToken({ subject: { tokens } }, at, on) {
  const from = Math.max(0, tokens.length - 200);
  const options = tokens.slice(from).map(({ text }, i) => {
    const next = from + i + 1 < tokens.length ? shown(tokens[from + i + 1].text) : t('walk.next');
    return /** @type {[number, string]} */ ([from + i, `${from + i + 1}: ${shown(text)} → ${next}`]);
  });
  return select(t('walk.follow'), options, at, (value) => on(Number(value)));
}

class Walk {
  #place;
  #seen;
  #choices;
  /** @type {Step[]} */ #steps;
  #at = 0;

  /** @param {HTMLElement} place @param {Seen} seen @param {Look['choices']} choices */
  constructor(place, seen, choices) {
    this.#place = place;
    this.#seen = seen;
    this.#choices = choices;
    const layers = seen.layers.map((layer) => ({
      title: t('walk.layer', { n: layer.layer + 1, all: seen.layers.length }),
      show: () => layerStep(seen, layer),
    }));
    this.#steps = [
      { title: t('walk.text'), show: textStep },
      { title: t('view.tokens'), show: tokensStep },
      { title: t('walk.embedding'), show: embeddingStep },
      ...layers,
      { title: t('walk.all'), show: allStep },
      { title: t('walk.scores'), show: scoresStep },
      { title: t('walk.sampling'), show: drawStep },
    ];
    place.onkeydown = (event) => this.#key(event);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (!/^Arrow(Left|Right)$/.test(event.key)) return;
    event.preventDefault();
    const by = stepped(event, this.#at, this.#steps.length) - this.#at;
    if (by) this.#go(by);
  }

  /** @param {number} by */
  #go(by) {
    const next = this.#at + by;
    if (next < 0 || next >= this.#steps.length) return;
    this.show(next);
    const wanted = this.#place.querySelector(by > 0 ? '.step-next:enabled' : '.step-back:enabled');
    /** @type {HTMLElement} */ (wanted ?? this.#place.querySelector('button:enabled')).focus();
  }

  /** @param {number} at */
  show(at) {
    this.#at = Math.min(at, this.#steps.length - 1);
    this.#choices.step = this.#at;
    const { title, show } = this.#steps[this.#at];
    const back = action(t('walk.back'), () => this.#go(-1), 'small step-back');
    const next = action(t('walk.forward'), () => this.#go(1), 'small step-next');
    back.disabled = this.#at === 0;
    next.disabled = this.#at === this.#steps.length - 1;
    const place = t('walk.step', { n: this.#at + 1, all: this.#steps.length });
    const body = el(
      'div.step',
      { ariaLive: 'polite' },
      el('h3', title, ' ', el('span.hint', place)),
      ...show(this.#seen),
    );
    body.dataset.step = String(this.#at);
    this.#place.replaceChildren(body, el('div.controls', back, next, el('span.hint', t('walk.keys'))));
  }
}

/** @param {Seen} seen */
function textStep({ tokens, came }) {
  const text = tokens.map((one) => one.text).join('');
  return [
    el('p', t('walk.text.about')),
    el('blockquote', { dir: 'auto' }, text.slice(-240)),
    el('p', ...next(came, 'walk.unknown')),
  ];
}

/** @param {Token | null} came @param {'walk.unknown' | ''} unknown   key of the text if `came` is null */
function next(came, unknown) {
  return came ? parts('walk.came', { token: quoted(came.text) }) : unknown ? [t(unknown)] : [];
}

/** @param {Seen} seen */
function tokensStep({ tokens, info }) {
  const list = el('ol.pieces', { ariaLabel: t('walk.tokens.last') }, ...tokens.slice(-12).map(piece));
  return [el('p', t('walk.tokens.about', { n: info.vocabSize, tokens: t('tokens', { n: tokens.length }) })), list];
}

/** @param {Seen} seen */
function embeddingStep({ tokens, layers, info }) {
  const { id, text } = tokens[tokens.length - 1];
  const table = { id: String(id), rows: info.vocabSize, width: info.width, token: quoted(text) };
  const place = info.architecture === 'gpt2' ? ` ${t('walk.embedding.place')}` : '';
  return [
    el('p', ...parts('walk.embedding.about', table), place),
    el('p', t('walk.residual', { length: figure(normsOf(layers[0])[0]) })),
  ];
}

/** @param {InsideLayer} layer */
function normsOf({ norms = new Float32Array(3) }) {
  return [norms[0], norms[1], norms[2]];
}

/** @param {number} n */
const figure = (n) => n.toLocaleString(locale, { maximumSignificantDigits: Math.max(3, `${Math.trunc(n)}`.length) });

/** @param {Seen} seen @param {InsideLayer} layer */
function layerStep({ tokens, info }, layer) {
  const [before, between, after] = normsOf(layer);
  const heads = Object.values(layer.attention ?? {});
  const first = (layer.lens?.[0] ?? []).slice(0, SHOWN);
  const likely = first.map(({ probability, ...token }) => ({ ...token, share: probability }));
  const lengths = { before: figure(before), between: figure(between), after: figure(after) };
  const attention = { name: el('strong', t('walk.attention.name')), heads: t('heads', { n: info.heads }) };
  return [
    el('p', ...parts('walk.attention', attention), ' ', t(layer.kind === 'local' ? 'walk.local' : 'walk.global')),
    headsPicture(tokens, heads),
    el('p', ...parts('walk.feed-forward', { name: el('strong', t('walk.feed-forward.name')) })),
    el('p', t('walk.added', lengths)),
    el('p', t('walk.stop')),
    bars(t('layers.says', { n: layer.layer + 1 }), likely),
  ];
}

/** Draws the attention of the heads (rows) to the last tokens (columns): the darker, the more weight.
 * @param {Token[]} tokens
 * @param {Float32Array[]} heads */
function headsPicture(tokens, heads) {
  const from = Math.max(0, tokens.length - LAST);
  const wide = tokens.length - from;
  const cells = heads.flatMap((weights, head) =>
    Array.from(weights.subarray(from), (weight, i) => {
      const place = { x: 14 * i, y: 14 * head, width: 13, height: 13 };
      const cell = svg('rect', { ...place, class: 'heat', 'data-p': weight, 'data-head': head });
      cell.style.setProperty('--shade', strength(weight));
      return cell;
    }),
  );
  const said = heads.map((weights, head) => {
    const [most] = largest(weights, 1);
    const token = spoken(tokens[most]?.text ?? '');
    return t('walk.heads.item', { n: head + 1, token, share: percent(weights[most] ?? 0) });
  });
  const last = t('tokens', { n: wide });
  return el(
    'figure',
    picture(
      14 * LAST,
      14 * heads.length,
      t('walk.heads', { heads: t('heads', { n: heads.length }), tokens: last }),
      ...cells,
    ),
    el('figcaption.hint', t('walk.heads.rows', { tokens: last, list: listed(said.slice(0, 8)) })),
  );
}

/** @param {Seen} seen */
function allStep({ layers }) {
  const lengths = [normsOf(layers[0])[0], ...layers.map((layer) => normsOf(layer)[2])];
  const most = Math.max(...lengths);
  const step = 320 / Math.max(1, lengths.length - 1);
  const points = lengths.map((length, i) => [(8 + i * step).toFixed(1), (96 - (84 * length) / most).toFixed(1)]);
  const words = t('walk.lengths', { list: listed(lengths.map(figure)) });
  const dots = points.map(([cx, cy]) => svg('circle', { cx, cy, r: 2.5, class: 'dot' }));
  const line = picture(
    336,
    104,
    words,
    svg('polyline', { points: points.join(' '), class: 'line', 'data-values': lengths.join(' ') }),
    ...dots,
  );
  const opinion = layers.flatMap(({ layer, lens = [] }) => {
    const [first] = lens[0] ?? [];
    if (!first) return [];
    const what = { n: layer + 1, token: quoted(first.text), share: percent(first.probability) };
    return [el('li', ...parts('walk.opinion', what))];
  });
  return [
    el('p', t('walk.layers', { n: layers.length })),
    el(
      'figure',
      line,
      el(
        'figcaption.hint',
        t('walk.from-to', { first: figure(lengths[0]), last: figure(lengths[lengths.length - 1]) }),
      ),
    ),
    el('p', t('walk.grew')),
    el('ol.opinions', ...opinion),
  ];
}

/** @param {Seen} seen */
function scoresStep(seen) {
  const { info } = seen;
  const { rows, least } = scored(seen);
  return [
    el('p', t('walk.scores.about', { n: info.vocabSize })),
    bars(
      t('walk.scores.highest'),
      rows.map((row) => ({ ...row, share: row.logit - least, value: number(row.logit, 2) })),
    ),
  ];
}

/** Returns the likeliest tokens, with their texts from the last layer's lens. least: logit at which bars begin.
 * @param {Seen} seen */
function scored({ logits, layers }) {
  const { candidates, kept } = chances(logits, actions.sampling());
  const texts = new Map((layers.at(-1)?.lens?.[0] ?? []).map(({ id, text }) => [id, text]));
  const rows = candidates.slice(0, LENS).map((one) => ({ ...one, text: texts.get(one.id) ?? '' }));
  return { rows, kept, least: Math.min(...rows.map(({ logit }) => logit)) - 1 };
}

/** @param {Seen} seen */
function drawStep(seen) {
  const { came } = seen;
  const { rows, kept } = scored(seen);
  const bent = rows.map((row) => ({
    ...row,
    share: row.chance,
    chosen: row.id === came?.id,
    note: t('walk.before', { share: percent(row.probability) }),
  }));
  const { temperature, topK, topP } = actions.sampling();
  const how =
    temperature === 0
      ? t('walk.top')
      : t('walk.settings', {
          k: topK || t('walk.off'),
          p: String(topP),
          temperature: String(temperature),
          n: kept,
        });
  return [
    el('p', t('walk.softmax', { how })),
    bars(t('walk.probabilities'), bent),
    el('p', ...next(came, ''), ' ', t('walk.repeats')),
    hint(t('walk.now')),
  ];
}
