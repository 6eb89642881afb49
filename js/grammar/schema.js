/* schema: compiles a JSON schema (2020-12, draft 7, and earlier drafts where they agree) to a grammar of JSON
 * texts. */
import { keywordFault } from '../keywords.js';
import { Languages } from './language.js';
import { Layouts } from './layout.js';
import { Document, isSchema } from './references.js';
import { badKeywords, notSchema } from './errors.js';
import { Emitter } from './schema-emit.js';
import { Logic } from './schema-logic.js';
import { trimmed } from './trim.js';
/** @import { Bounds, Whitespace } from '../protocol.js' */
/** @import { Grammar } from './nodes.js' */
/** @import { Budget } from './refusal.js' */

/** `matching` (index.js) allows any whitespace, any notation of numbers, and `format` as the draft says; `bounds`:
 * limits for what the schema leaves unbounded.
 * @typedef {{ bounds?: Bounds, whitespace?: Whitespace, matching?: boolean, draft?: number,
 *   formats?: boolean }} SchemaOptions */

/** Throws `Unsupported` if a schema has unknown keywords and none that limits values. @param {any} schema
 * @param {string} [place] */
export function checkKeywords(schema, place) {
  const fault = keywordFault(schema);
  if (fault) throw badKeywords(fault, place);
}

/** Returns the grammar of the JSON texts that a schema allows. Throws `Unsupported` if the schema cannot be enforced.
 * @param {any} schema @param {SchemaOptions} options @param {Budget} budget @returns {Grammar} */
export function schemaGrammar(schema, options, budget) {
  if (!isSchema(schema)) throw notSchema();
  checkKeywords(schema);
  const { matching = false, whitespace = matching ? 'any' : 'compact' } = options;
  const formats = options.formats ?? (matching ? undefined : true);
  const languages = new Languages(budget);
  const document = new Document(schema, budget, options.draft);
  const logic = new Logic(document, languages, budget, formats, !matching);
  const bounds = matching ? {} : options.bounds;
  const emitter = new Emitter(logic, new Layouts(whitespace), { free: matching, bounds });
  return trimmed(emitter.grammar(logic.goal(document.root)), languages, budget);
}
