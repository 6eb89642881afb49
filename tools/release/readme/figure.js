/** figure: draws docs/reports/speed.svg from docs/measured.json: bars of tokens/s at two threads. */

/** @typedef {import('./take.js').Measured} Measured */
/** @typedef {{ title: string, side: string, value: number }} Bar */

const OURS = /^gemma-/;
const WIDTH = 760;
const LABELS = 250;
const NUMBERS = 70;
const LINE = 24;
const GAP = 34;
const TOP = 30;

const STYLE = `text{font:13px system-ui,sans-serif;fill:#1f2328}.head{font-weight:600}
.ours{fill:#2f6feb}.other{fill:#9aa4af}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.ours{fill:#539bf5}.other{fill:#6b7684}}`;

/** @param {string} text */
const escape = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;');

/** @param {Measured} measured @param {string} column @returns {Bar[]} best first */
function bars({ speed }, column) {
  const { results = [] } = speed?.models[0] ?? {};
  return results
    .filter(({ threads, medians }) => threads === 2 && medians[column])
    .map(({ side, title, medians }) => ({ side, title, value: medians[column] }))
    .sort((a, b) => b.value - a.value);
}

/** @param {string} head @param {Bar[]} all @param {number} top */
function group(head, all, top) {
  const most = Math.max(...all.map(({ value }) => value));
  const room = WIDTH - LABELS - NUMBERS;
  const lines = all.map(({ side, title, value }, i) => {
    const y = top + LINE * (i + 0.5);
    const width = Math.max(1, (value / most) * room).toFixed(1);
    const kind = OURS.test(side) ? 'ours' : 'other';
    const number = value >= 100 ? value.toFixed(0) : value.toPrecision(3);
    return (
      `<text x="${LABELS - 8}" y="${y + 13}" text-anchor="end">${escape(title)}</text>` +
      `<rect class="${kind}" x="${LABELS}" y="${y + 1}" width="${width}" height="${LINE - 8}" rx="3"/>` +
      `<text x="${LABELS + Number(width) + 6}" y="${y + 13}">${number}</text>`
    );
  });
  return [`<text class="head" x="${LABELS}" y="${top + 2}">${escape(head)}</text>`, ...lines].join('\n');
}

/** Returns the text of the SVG. Figures that were not measured are left out. @param {Measured} measured */
export function drawSpeed(measured) {
  const groups = [
    { head: 'decode, tokens/s', all: bars(measured, 'decode @0') },
    { head: 'prefill of 256 tokens, tokens/s', all: bars(measured, 'prefill 256') },
  ].filter(({ all }) => all.length);
  let top = TOP;
  const drawn = groups.map(({ head, all }) => {
    const text = group(head, all, top);
    top += LINE * all.length + GAP;
    return text;
  });
  const size = `viewBox="0 0 ${WIDTH} ${top - 8}" width="${WIDTH}" height="${top - 8}"`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" ${size} role="img">`,
    '<title>Tokens per second of gemma-wasm and others, two threads</title>',
    `<style>${STYLE}</style>`,
    ...drawn,
    '</svg>',
    '',
  ].join('\n');
}
