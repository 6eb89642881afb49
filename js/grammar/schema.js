/* schema: a JSON schema (2020-12, draft 7, and earlier ones as far as they are the same) as a grammar of JSON texts. */
import { Languages } from './language.js';
import { Layouts } from './layout.js';
import { Document, isSchema } from './references.js';
import { Unsupported } from './refusal.js';
import { Emitter } from './schema-emit.js';
import { Logic } from './schema-logic.js';
import { trimmed } from './trim.js';

/** @typedef {import('./layout.js').Whitespace} Whitespace */
/** `matching`: judge texts as the specification does (any white space, any spelling of numbers, `format` as the draft
 * says); else the narrower shape that answers are held to.
 * @typedef {{ whitespace?: Whitespace, matching?: boolean, draft?: number, formats?: boolean }} SchemaOptions */

/** @param {any} schema @param {SchemaOptions} options @param {import('./refusal.js').Budget} budget
 * @returns {import('./nodes.js').Grammar} */
export function schemaGrammar(schema, options, budget) {
  if (!isSchema(schema)) throw new Unsupported('a schema: expected an object or a boolean', '');
  const { matching = false, whitespace = matching ? 'any' : 'compact' } = options;
  const formats = options.formats ?? (matching ? undefined : true);
  const languages = new Languages(budget),
    document = new Document(schema, budget, options.draft);
  const logic = new Logic(document, languages, budget, formats, !matching);
  const emitter = new Emitter(logic, new Layouts(whitespace), { free: matching });
  return trimmed(emitter.grammar(logic.goal(document.root)), languages, budget);
}
