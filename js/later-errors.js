/* later-errors: the errors of modules directly in js/ that are loaded on first use. Not in front-errors.js, so that a
 * page's first load is smaller. */
import { ModelError, show } from './errors.js';
import { firstLine } from './front-errors.js';

/** @param {unknown} summary */
export const badSummary = (summary) =>
  new ModelError('bad-option', `\`summarize\` must return a string (got ${show(summary)}).`);

/** @param {string} subject @param {unknown} cause */
export const notSchema = (subject, cause) =>
  new ModelError(
    'bad-option',
    `${subject} must be a JSON Schema: ${firstLine(cause)}. Pass plain JSON, or an object of a schema library that` +
      ' implements Standard JSON Schema.',
    { cause },
  );

/** @param {string} subject @param {string} vendor */
export const notConvertible = (subject, vendor) =>
  new ModelError(
    'bad-option',
    `${subject} must be a JSON Schema, but this schema of ${vendor} cannot convert itself. Update the library` +
      ' (zod >= 4.2, ArkType >= 2.1.28), or convert it (Valibot: toStandardJsonSchema()).',
  );

/** @param {string} most */
export const schemaTooLarge = (most) =>
  new ModelError('format-too-complex', `The schema has more than ${most}. Use a smaller one.`);

/** The message is for the model. @param {readonly { message: string }[]} issues */
export const badArguments = (issues) => {
  const faults = issues.map(({ message }) => message.replace(/\.$/, '')).join('; ');
  return new Error(`The arguments are invalid: ${faults}. Correct them.`);
};

/** The message is for the model and the caller. @param {string} name of the tool @param {unknown} cause */
export const badResult = (name, cause) =>
  new Error(`The result of the tool ${name} is not JSON: ${firstLine(cause)}. Return only JSON values.`, { cause });
