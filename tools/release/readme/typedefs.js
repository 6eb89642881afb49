/** typedefs: reads the properties of a JSDoc typedef from a JavaScript file of this project. */
import { readFileSync } from 'node:fs';
import ts from 'typescript';
import { Trouble, at } from '../../support/proc.js';

/** Property of a typedef. `text`: the property's description.
 * @typedef {{ name: string, type: string, optional: boolean, text: string }} Property */

/** @param {string} text */
const flat = (text) =>
  text
    .replace(/^\s*\*/gm, ' ')
    .replace(/\s+/g, ' ')
    .trim();

/** @param {import('typescript').Node} node @returns {import('typescript').JSDocTypedefTag[]} */
function typedefsOf(node) {
  const docs = /** @type {any} */ (node).jsDoc ?? [];
  return docs.flatMap((/** @type {import('typescript').JSDoc} */ doc) => (doc.tags ?? []).filter(ts.isJSDocTypedefTag));
}

/** Throws a Trouble if the file has no typedef of this name with properties. @param {string} file
 * @param {string} name of a typedef that has `@property` tags @returns {Property[]} */
export function properties(file, name) {
  const text = readFileSync(at(file), 'utf8');
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true, ts.ScriptKind.JS);
  const all = [...source.statements, source.endOfFileToken].flatMap(typedefsOf);
  const found = all.find((tag) => tag.name?.text === name)?.typeExpression;
  if (!found || !ts.isJSDocTypeLiteral(found)) throw new Trouble(`${file} has no typedef ${name} with properties`);
  return (found.jsDocPropertyTags ?? []).map((tag) => ({
    name: tag.name.getText(source),
    type: flat(tag.typeExpression?.type.getText(source) ?? ''),
    optional: tag.isBracketed,
    text: flat(ts.getTextOfJSDocComment(tag.comment) ?? ''),
  }));
}
