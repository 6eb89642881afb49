/* schemas: converts the schemas of callers to the JSON that the worker takes: a JSON Schema, or an object of a schema
 * library that implements Standard JSON Schema (standardschema.dev). Everything else is refused, because it would not
 * constrain an answer. Loaded when an answer is first constrained. */
import { ModelError } from './errors.js';
import { jsonOf } from './options.js';

/** Maximum of values in a schema, and of characters in its texts. Larger ones cannot be compiled, and copying them
 * would block the page for seconds. */
const MAX_VALUES = 500_000;
const MAX_TEXT = 4 << 20;
/** Keywords whose value is a map of parts by name. */
const MAPS = /^(properties|patternProperties|\$defs|definitions|dependent(Schemas|Required)|dependencies)$/;

/** Returns a function for jsonOf() that throws if the parts of a schema are more than can be compiled, or undefined.
 * @param {boolean} plain whether undefined parts are refused */
function schemaCheck(plain) {
  let count = 0;
  let length = 0;
  const maps = new WeakSet();
  /** @param {string} name @param {any} part @param {any} holder */
  return (name, part, holder) => {
    length += name.length + (typeof part === 'string' ? part.length : 0);
    if (++count > MAX_VALUES) throw tooLarge(`${MAX_VALUES} values`);
    if (length > MAX_TEXT) throw tooLarge(`${MAX_TEXT} characters`);
    if (plain && part === undefined && maps.has(holder)) throw new Error(`\`${name}\` is undefined`);
    if (MAPS.test(name) && typeof part === 'object' && part) maps.add(part);
  };
}

/** @param {string} most */
const tooLarge = (most) => new ModelError('format-too-complex', `The schema has more than ${most}. Use a smaller one.`);

/** Returns a schema as JSON, converted by its library if it is a Standard Schema. Throws `bad-option`.
 * @param {string} name of the option @param {any} schema */
export function schemaOf(name, schema) {
  try {
    const standard = schema?.['~standard'];
    const convert = standard?.jsonSchema?.input;
    if (standard && !convert) {
      throw new ModelError(
        'bad-option',
        `\`${name}\` is a schema of ${standard.vendor} that does not convert itself to` +
          ' JSON Schema. Convert it first: zod 4.2 and ArkType 2.1.28 can by themselves, Valibot by toStandardJsonSchema().',
      );
    }
    if (Array.isArray(schema)) throw new Error('it is a list');
    return convert
      ? closed(jsonOf(convert({ target: 'draft-2020-12' }), false, schemaCheck(false)))
      : jsonOf(schema, true, schemaCheck(true));
  } catch (cause) {
    if (cause instanceof ModelError) throw cause;
    // For a circular structure, the following lines draw the circle.
    const [reason] = String(/** @type {any} */ (cause)?.message ?? cause).split('\n');
    throw new ModelError(
      'bad-option',
      `\`${name}\` must be a JSON Schema: ${reason}. Pass plain JSON, or an object of` +
        ' a schema library that implements Standard JSON Schema.',
      { cause },
    );
  }
}

/** Converts the schemas of a posted format and of posted tools in place. @param {any} [format]
 * @param {{ name: string, parameters?: any }[]} [tools] */
export function convert(format, tools = []) {
  if (format?.schema !== undefined) format.schema = schemaOf('schema', format.schema);
  for (const tool of tools) {
    if (tool.parameters !== undefined) tool.parameters = schemaOf(`parameters of ${tool.name}`, tool.parameters);
  }
}

/** Keywords whose schemas describe the same object as the schema that they are in. */
const JOINS = ['anyOf', 'oneOf', 'not', 'if', '$ref', 'dependentSchemas', 'dependencies'];

/** Closes the objects of a schema: libraries and servers strip or refuse names that an object does not list, and a model
 * should not spend tokens on them. Leaves them open if several parts describe one object, since each lists only its own.
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

/** Validates a value by its library, which may transform it: `value` is the result, `issues` says why there is none.
 * @param {any} schema @param {unknown} value @returns {Promise<{ value?: any, issues?: { message: string }[] }>} */
export async function validated(schema, value) {
  const { validate } = schema?.['~standard'] ?? {};
  if (!validate) return { value };
  const { issues, value: output } = await validate(value);
  return issues ? { issues: [...issues] } : { value: output };
}
