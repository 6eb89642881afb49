/**
 * tex: finds maths in Markdown: $…$ and \(…\) in a line, $$…$$ and \[…\] on separate lines, but no sums of money.
 * A formula is shown as code until it is rendered (maths.js).
 * @module
 */

/** Matches display maths, which must not contain blank lines, so it ends with its paragraph at the latest. */
const DISPLAY = /(?:\$\$((?:(?!\$\$|\n[ \t]*\n)[^]){1,4000})\$\$|\\\[((?:(?!\\\]|\n[ \t]*\n)[^]){1,4000})\\\])/;
const BLOCK = new RegExp(`^ {0,3}${DISPLAY.source}[ \\t]*(?:\\n+|$)`);
const IN_LINE = new RegExp(`^${DISPLAY.source}`);
/** Matches maths between dollar signs: no white space inside them, and no digit or letter after the second. */
const DOLLARS = /^\$(?![\s$])((?:\\[^\n]|[^\\$\n])+?)(?<!\s)\$(?![\w$])/;
const ROUND = /^\\\(((?:(?!\\\)|\n[ \t]*\n)[^]){1,4000})\\\)/;

/** @param {string} type @param {RegExpExecArray | null} match @param {boolean} display */
function token(type, match, display) {
  const [raw = '', ...found] = match ?? [];
  const text = found.join('').trim();
  return text ? { type, raw, text, display } : undefined;
}

/** Returns the extension of the Markdown parser that recognises maths.
 * @param {(text: string) => string} escape @returns {import('marked').MarkedExtension} */
export function texIn(escape) {
  /** @param {import('marked').Tokens.Generic} token */
  const renderer = ({ text, display }) => `<code class="maths-${display ? 'block' : 'inline'}">${escape(text)}</code>`;
  return {
    extensions: [
      {
        name: 'maths',
        level: 'block',
        renderer: (token) => `<p>${renderer(token)}</p>\n`,
        start: (src) => src.search(/\n {0,3}(?:\$\$|\\\[)/),
        tokenizer: (src) => token('maths', BLOCK.exec(src), true),
      },
      {
        name: 'mathsInLine',
        level: 'inline',
        start: (src) => src.search(/\$|\\[([]/),
        renderer,
        tokenizer(src) {
          const display = IN_LINE.exec(src);
          return token('mathsInLine', display ?? DOLLARS.exec(src) ?? ROUND.exec(src), display !== null);
        },
      },
    ],
  };
}
