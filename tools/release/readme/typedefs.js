/** typedefs: what the code declares: properties of a JSDoc typedef, defaults of the sampler. */
import { readFileSync } from 'node:fs';
import ts from 'typescript';
import { Trouble, at } from '../../support/proc.js';

/** @typedef {{ name: string, type: string, optional: boolean }} Property */

/** On one line. @param {string} text */
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

/** Written either way: @property by @property, or as `{{ … }}`.
 * @param {string} file @param {string} name @returns {Property[]} */
export function properties(file, name) {
  const text = readFileSync(at(file), 'utf8');
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true, ts.ScriptKind.JS);
  const all = [...source.statements, source.endOfFileToken].flatMap(typedefsOf);
  const found = all.find((tag) => tag.name?.text === name)?.typeExpression;
  const show = (/** @type {import('typescript').Node | undefined} */ node) => flat(node?.getText(source) ?? '');
  if (found && ts.isJSDocTypeLiteral(found)) {
    return (found.jsDocPropertyTags ?? []).map((tag) => {
      return { name: show(tag.name), type: show(tag.typeExpression?.type), optional: tag.isBracketed };
    });
  }
  // What is intersected with a list of properties only narrows them.
  const literal = found && ts.isIntersectionTypeNode(found.type) ? found.type.types[0] : found?.type;
  if (literal && ts.isTypeLiteralNode(literal)) {
    return literal.members.filter(ts.isPropertySignature).map((member) => {
      return { name: show(member.name), type: show(member.type), optional: Boolean(member.questionToken) };
    });
  }
  throw new Trouble(`${file} has no typedef ${name} with properties`);
}

/** Defaults of the sampler, by the engine's names: its own table. */
export function samplerDefaults() {
  const text = readFileSync(at('src', 'run', 'sampler.c'), 'utf8');
  const rows = text.matchAll(/^ {4}X\(\w+, "(\w+)", [^,]+, [^,]+, ([\d.]+), (?:true|false)\)/gm);
  return new Map([...rows].map(([, name, standard]) => [name, standard]));
}
