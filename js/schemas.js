/* schemas: converts the schemas of callers to JSON for the worker. Accepts a JSON Schema, or an object of a schema
 * library that implements Standard JSON Schema (standardschema.dev). Rejects other values, which would not constrain an
 * answer. Loaded when an answer is first constrained. */
import { ModelError } from './errors.js';
import { flaw } from './front-errors.js';
import { notConvertible, notSchema, schemaTooLarge } from './later-errors.js';
import { jsonOf } from './options.js';

/** Maximum number of values in a schema, and of characters in its strings. A larger schema cannot be compiled, and
 * copying it would block the page for seconds. */
const MAX_VALUES = 500_000;
const MAX_TEXT = 4 << 20;
/** Keywords of JSON Schema whose value is an object of named subschemas. */
const MAPS = /^(properties|patternProperties|\$defs|definitions|dependent(Schemas|Required)|dependencies)$/;

/** Returns a callback for jsonOf() that throws if a schema is too large to be compiled, or if a named subschema is
 * undefined.
 * @param {boolean} plain whether to check for undefined subschemas */
function schemaCheck(plain) {
  let count = 0;
  let length = 0;
  const maps = new WeakSet();
  /** @param {string} name @param {any} part @param {any} holder */
  return (name, part, holder) => {
    length += name.length + (typeof part === 'string' ? part.length : 0);
    if (++count > MAX_VALUES) throw schemaTooLarge(`${MAX_VALUES} values`);
    if (length > MAX_TEXT) throw schemaTooLarge(`${MAX_TEXT} characters`);
    if (plain && part === undefined && maps.has(holder)) throw flaw(`\`${name}\``, 'undefined');
    // A name in a map is not a keyword: a property may be called `properties`, too.
    if (MAPS.test(name) && !maps.has(holder) && typeof part === 'object' && part) maps.add(part);
  };
}

/** Returns a schema as JSON. An object of a schema library converts itself. Throws `bad-option`.
 * @param {string} subject of error messages @param {any} schema */
export function schemaOf(subject, schema) {
  try {
    const standard = schema?.['~standard'];
    const converter = standard?.jsonSchema;
    if (standard && !converter?.input) throw notConvertible(subject, standard.vendor);
    if (Array.isArray(schema)) throw flaw('the value', 'an array');
    return converter
      ? closed(jsonOf(converter.input({ target: 'draft-2020-12' }), false, schemaCheck(false)))
      : jsonOf(schema, true, schemaCheck(true));
  } catch (cause) {
    throw cause instanceof ModelError ? cause : notSchema(subject, cause);
  }
}

/** Converts the schemas of a format and of tools in place, before they are posted. Returns the format's unconverted
 * schema, for validated(). @param {any} [format] @param {{ name: string, parameters?: any }[]} [tools]
 * @returns {any} */
export function convert(format, tools = []) {
  const schema = format?.schema;
  if (schema !== undefined) format.schema = schemaOf('`schema`', schema);
  for (const tool of tools) {
    if (tool.parameters !== undefined) tool.parameters = schemaOf(`The parameters of ${tool.name}`, tool.parameters);
  }
  return schema;
}

/** Keywords whose subschemas describe the same object as the schema that contains them. */
const JOINS = ['anyOf', 'oneOf', 'not', 'if', '$ref', 'dependentSchemas', 'dependencies'];

/** Adds `additionalProperties: false` to the objects of a schema: libraries and servers strip or refuse properties that
 * a schema does not list, so the model should not spend tokens on them. Returns the schema unchanged if several
 * subschemas describe one object, because each lists only some properties.
 * @param {any} root @returns {any} */
export function closed(root) {
  let joins = false;
  /** @param {any} schema @returns {any} */
  const close = (schema) => {
    if (Array.isArray(schema)) return schema.map(close);
    if (typeof schema !== 'object' || schema === null) return schema;
    joins ||= 'allOf' in schema || ('properties' in schema && JOINS.some((key) => key in schema));
    const made = { ...schema };
    for (const key of ['anyOf', 'oneOf', 'items', 'prefixItems', 'additionalProperties']) {
      if (key in made) made[key] = close(made[key]);
    }
    for (const key of ['properties', 'patternProperties', '$defs', 'definitions']) {
      const named = Object.entries(made[key] ?? {}).map(([name, value]) => [name, close(value)]);
      if (made[key]) made[key] = Object.fromEntries(named);
    }
    if (made.properties && !('additionalProperties' in made)) made.additionalProperties = false;
    return made;
  };
  const made = close(root);
  return joins ? root : made;
}

/** Validates a value with its schema library, which may also transform the value. Returns the result as `value`, or the
 * reasons for a refusal as `issues`.
 * @param {any} schema @param {unknown} value @returns {Promise<{ value?: any, issues?: { message: string }[] }>} */
export async function validated(schema, value) {
  const standard = schema?.['~standard'];
  if (!standard?.validate) return { value };
  const { issues, value: output } = await standard.validate(value);
  return issues ? { issues: [...issues] } : { value: output };
}
