/**
 * walk: one token on its way through the model, step by step, in words and with the model's numbers.
 * @module
 */
import { action, el } from '../shell/dom.js';
import { count, plural } from '../shell/format.js';
import { actions } from '../shell/store.js';
import { chances, largest, percent, shown, spoken } from './numbers.js';
import { bars, hint, paragraph, picture, piece, quoted, select, strength, svg } from './parts.js';

/** @import { Look } from './subject.js' */
/** @import { InsideLayer } from '../../js/protocol.js' */
/** @import { Token } from './numbers.js' */

/** The tokens that were read, all layers at the last of them, its logits, and the token that came, if one did.
 * @typedef {{ tokens: Token[], layers: InsideLayer[], logits: Float32Array, came: Token | null,
 *   info: import('../../js/index.js').Model['info'] }} Seen */
/** @typedef {{ title: string, show: (seen: Seen) => Node[] }} Step */

/** Likely tokens at each layer, those that are shown, and tokens in pictures. */
const LENS = 8;
const SHOWN = 3;
const LAST = 24;

/** @param {Look} look */
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

/** Chooses the token that is explained. @param {Look} look @param {number} at
 * @param {(at: number) => void} on */
function whichToken({ subject: { tokens } }, at, on) {
  const from = Math.max(0, tokens.length - 200);
  const options = tokens.slice(from).map(({ text }, i) => {
    const next = from + i + 1 < tokens.length ? shown(tokens[from + i + 1].text) : 'what comes next';
    return /** @type {[number, string]} */ ([from + i, `${from + i + 1}: ${shown(text)} → ${next}`]);
  });
  return select('Follow the token', options, at, (value) => on(Number(value)));
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
      title: `Layer ${layer.layer} (0 to ${seen.layers.length - 1})`,
      show: () => layerStep(seen, layer),
    }));
    this.#steps = [
      { title: 'The text', show: textStep },
      { title: 'Tokens', show: tokensStep },
      { title: 'Embedding', show: embeddingStep },
      ...layers,
      { title: 'All layers together', show: allStep },
      { title: 'Scores', show: scoresStep },
      { title: 'The draw', show: drawStep },
    ];
    place.onkeydown = (event) => this.#key(event);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const by = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowLeft: -1 })[event.key];
    if (!by) return;
    event.preventDefault();
    this.#go(by);
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
    const back = action('‹ Back', () => this.#go(-1), 'small step-back');
    const next = action('Next ›', () => this.#go(1), 'small step-next');
    back.disabled = this.#at === 0;
    next.disabled = this.#at === this.#steps.length - 1;
    const place = `Step ${this.#at + 1} of ${this.#steps.length}`;
    const body = el(
      'div.step',
      { ariaLive: 'polite' },
      el('h3', title, ' ', el('span.hint', place)),
      ...show(this.#seen),
    );
    body.dataset.step = String(this.#at);
    this.#place.replaceChildren(body, el('div.controls', back, next, el('span.hint', '← and → lead on')));
  }
}

/** @param {Seen} seen */
function textStep({ tokens, came }) {
  const text = tokens.map((one) => one.text).join('');
  const after = came ? ['What came then was ', quoted(came.text), '.'] : ['What comes then is not known yet.'];
  return [
    paragraph(
      'A language model does one thing: it reads a text and says how likely each possible next piece of it is. ' +
        'One is drawn, put behind the text, and all begins again. This is the end of what it has read here, with the marks ' +
        'that tell it who is speaking: ',
    ),
    el('blockquote', { dir: 'auto' }, text.slice(-240)),
    paragraph(...after),
  ];
}

/** @param {Seen} seen */
function tokensStep({ tokens, info }) {
  const label = 'The last tokens with their ids';
  const list = el('ol.pieces', { ariaLabel: label }, ...tokens.slice(-12).map(piece));
  return [
    paragraph(
      `The model knows no letters. The text is cut into tokens, pieces from a fixed list of ${count(
        info.vocabSize,
      )}, and each becomes its number in that list, like an index into an array. ` +
        `This text has ${plural(tokens.length, 'token')}; these are the last:`,
    ),
    list,
  ];
}

/** @param {Seen} seen */
function embeddingStep({ tokens, layers, info }) {
  const last = tokens[tokens.length - 1];
  const place = info.architecture === 'gpt2' ? ' A second table, by the place in the text, is added to it.' : '';
  return [
    paragraph(
      `The number ${last.id} picks a row of a table: ${count(info.vocabSize)} rows, one for each token, of ` +
        `${count(info.width)} numbers that were learned. That row is now all the model has of `,
      quoted(last.text),
      `: a point in a space of ${count(info.width)} dimensions, where tokens that are used alike lie near each other.` +
        place,
    ),
    paragraph(
      'Every layer that follows reads this list of numbers and adds to it. It is called the residual stream. ' +
        `Its length, the square root of the sum of squares, is ${figure(normsOf(layers[0])[0])} here.`,
    ),
  ];
}

/** Returns the norms before the layer, behind its attention, and at its end. @param {InsideLayer} layer */
function normsOf({ norms = new Float32Array(3) }) {
  return [norms[0], norms[1], norms[2]];
}

/** @param {number} n */
const figure = (n) => (Math.abs(n) >= 100 ? count(n) : n.toPrecision(3));

/** @param {Seen} seen @param {InsideLayer} layer */
function layerStep({ tokens, info }, layer) {
  const [before, behind, end] = normsOf(layer);
  const heads = Object.values(layer.attention ?? {});
  const first = (layer.lens?.[0] ?? []).slice(0, SHOWN);
  const likely = first.map(({ probability, ...token }) => ({ ...token, share: probability }));
  const sight =
    layer.kind === 'local'
      ? 'This layer is local: it sees the last tokens only.'
      : 'This layer is global: it sees all tokens before.';
  return [
    paragraph(
      el('strong', 'Attention '),
      'looks up what other tokens have to say. Each of ' +
        `${plural(info.heads, 'head')} gives weights to the tokens so far, which add up to 1, and brings over a mix of ` +
        `what they hold. ${sight}`,
    ),
    headsPicture(tokens, heads),
    paragraph(
      el('strong', 'Feed-forward '),
      'then works on this token alone: two products with learned matrices and ' +
        'a bend between, so that it can turn what was gathered into something new. Most of what a model knows is said ' +
        'to lie here.',
    ),
    paragraph(
      'What both give is added to the token’s numbers. Their length went from ' +
        `${figure(before)} to ${figure(behind)} by attention, and to ${figure(end)} by the feed-forward block.`,
    ),
    paragraph('If the model stopped here, it would say:'),
    bars(`What layer ${layer.layer} would say`, likely),
  ];
}

/** Heads by the last tokens: the darker, the more weight. @param {Token[]} tokens @param {Float32Array[]} heads */
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
    return `head ${head} at ${spoken(tokens[most]?.text ?? '')} (${percent(weights[most] ?? 0)})`;
  });
  const words = `Attention of ${plural(heads.length, 'head')} to the last ${plural(wide, 'token')}`;
  return el(
    'figure',
    picture(14 * LAST, 14 * heads.length, words, ...cells),
    el(
      'figcaption.hint',
      `Rows: heads; columns: the last ${plural(wide, 'token')}. Most weight gives ${said.slice(0, 8).join(', ')}.`,
    ),
  );
}

/** @param {Seen} seen */
function allStep({ layers }) {
  const lengths = [normsOf(layers[0])[0], ...layers.map((layer) => normsOf(layer)[2])];
  const most = Math.max(...lengths);
  const step = 320 / Math.max(1, lengths.length - 1);
  const points = lengths
    .map((length, i) => `${(8 + i * step).toFixed(1)},${(96 - (84 * length) / most).toFixed(1)}`)
    .join(' ');
  const words = `Length of the residual stream: ${lengths.map(figure).join(', ')}`;
  const dots = points
    .split(' ')
    .map((point) => point.split(','))
    .map(([cx, cy]) => svg('circle', { cx, cy, r: 2.5, class: 'dot' }));
  const line = picture(
    336,
    104,
    words,
    svg('polyline', { points, class: 'line', 'data-values': lengths.join(' ') }),
    ...dots,
  );
  const opinion = layers
    .map(({ layer, lens = [] }) => {
      const [first] = lens[0] ?? [];
      return first && el('li', `layer ${layer}: `, quoted(first.text), ` ${percent(first.probability)}`);
    })
    .filter((item) => item !== undefined);
  return [
    paragraph(
      `All ${layers.length} layers have added to the list now. Its length after each, from the embedding to the end:`,
    ),
    el('figure', line, el('figcaption.hint', `From ${figure(lengths[0])} to ${figure(lengths[lengths.length - 1])}.`)),
    paragraph('And how its opinion of the next token grew:'),
    el('ol.opinions', ...opinion),
  ];
}

/** @param {Seen} seen */
function scoresStep(seen) {
  const { info } = seen;
  const { rows, least } = scored(seen);
  return [
    paragraph(
      'The last list is brought to one length (a norm) and compared with a row for each of the ' +
        `${count(info.vocabSize)} tokens: multiply number by number, add up. That is one score a token, called a logit. The ` +
        'highest:',
    ),
    bars(
      'Highest scores',
      rows.map((row) => ({ ...row, share: row.logit - least, value: row.logit.toFixed(2) })),
    ),
  ];
}

/** Returns the first candidates, with their texts from the last layer's lens. least: where bars of scores begin.
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
    note: `${percent(row.probability)} before`,
  }));
  const { temperature, topK, topP } = actions.sampling();
  const how =
    temperature === 0
      ? 'Temperature is 0: the highest score is taken, without a draw.'
      : `Then the settings: top-k ${topK || 'off'}, top-p ${topP} and temperature ${temperature} leave ` +
        `${plural(kept, 'token')} to draw from.`;
  return [
    paragraph(`Scores become probabilities: e to the power of each, divided by the sum of all (softmax). ${how}`),
    bars('Chances to be drawn', bent),
    paragraph(
      ...(came ? ['What came was ', quoted(came.text), '. '] : []),
      'The token is put behind the text, and for ' +
        'the next one all of this begins again; what the layers have kept of the tokens before (keys and values, the cache) ' +
        'is not worked out anew.',
    ),
    hint('Chances are those of the settings as they are now.'),
  ];
}
