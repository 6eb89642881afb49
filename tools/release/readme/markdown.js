/** markdown: builds Markdown for the generated parts. */

export const NOT_YET = '*not measured yet*';

/** Returns a fenced code block, without the text's leading and trailing white space. @param {string} language
 * @param {string} text */
export const fence = (language, text) => `\`\`\`${language}\n${text.trim()}\n\`\`\``;
/** Escapes a text for a cell of a table. @param {string} text */
export const cell = (text) => text.replace(/\|/g, '\\|').replace(/</g, '&lt;');
/** Returns inline code for a cell of a table. The text must not contain backticks. @param {string} text */
export const code = (text) => `\`${text.replace(/\|/g, '\\|')}\``;

/** Returns a table without a final newline. Cells must be escaped already (cell(), code()). @param {string[]} heads
 * @param {string[][]} rows
 * @param {number} [numbers] how many of the last columns hold numbers */
export function table(heads, rows, numbers = 0) {
  const line = (/** @type {string[]} */ cells) => `| ${cells.join(' | ')} |`;
  const rule = heads.map((_, i) => (i >= heads.length - numbers ? '---:' : '---'));
  return [line(heads), `|${rule.join('|')}|`, ...rows.map(line)].join('\n');
}

/** Returns the id that GitHub gives a heading. @param {string} heading */
export const anchor = (heading) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replace(/ /g, '-');
