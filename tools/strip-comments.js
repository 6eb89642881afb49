/**
 * strip-comments: JavaScript as it was written, without its comments and blank lines. Every other line
 * keeps its words and its indentation, so that what users step through is what is in this repository.
 */
import ts from 'typescript';

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
 * What is between two tokens: white space and comments.
 * @param {string} gap
 */
function withoutRemarks(gap) {
  const lines = gap.split('\n');
  if (lines.length > 1) return `\n${lines[lines.length - 1].match(/^ */)?.[0]}`;
  return gap && ' ';
}

/** @param {string} source of an ES module */
export function stripComments(source) {
  const firstLine = source.match(/^#!.*\n/)?.[0] ?? '';
  const file = ts.createSourceFile('', source.slice(firstLine.length), ts.ScriptTarget.Latest, true, ts.ScriptKind.JS);
  const code = tokens(file, file).map((token) => {
    return withoutRemarks(file.text.slice(token.pos, token.getStart(file))) + token.getText(file);
  });
  return `${firstLine}${code.join('').trim()}\n`;
}
