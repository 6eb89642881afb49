/**
 * strip-comments: JavaScript as it was written, without its comments and blank lines. Every other line
 * keeps its words, and its indentation as tabs, so that what users step through is what is in this repository.
 */
import ts from 'typescript';

const INDENT = '  ';

/**
 * The tokens of a file in order: TypeScript's own reading, which knows a regular expression from a
 * division and the text of a template from code.
 * @param {ts.Node} node @param {ts.SourceFile} file @returns {ts.Node[]}
 */
function tokens(node, file) {
  const parts = node.getChildren(file).filter(({ kind }) => kind !== ts.SyntaxKind.JSDoc);
  return parts.length ? parts.flatMap((part) => tokens(part, file)) : [node];
}

/**
 * What stays of the white space and comments between two tokens.
 * @param {string} gap @param {string} before @param {string} after
 */
function withoutRemarks(gap, before, after) {
  const lines = gap.split('\n');
  if (lines.length > 1) return `\n${lines[lines.length - 1].match(/^ */)?.[0].replaceAll(INDENT, '\t')}`;
  const words = /\w$/.test(before) && /^\w/.test(after);
  return gap.startsWith(' ') || (gap && words) ? ' ' : '';
}

/** @param {string} source of an ES module */
export function stripComments(source) {
  const firstLine = source.match(/^#!.*\n/)?.[0] ?? '';
  const file = ts.createSourceFile('', source.slice(firstLine.length), ts.ScriptTarget.Latest, true, ts.ScriptKind.JS);
  let code = '';
  for (const token of tokens(file, file)) {
    const text = token.getText(file);
    code += withoutRemarks(file.text.slice(token.pos, token.getStart(file)), code, text) + text;
  }
  return `${firstLine}${code.trim()}\n`;
}
