/* keywords: the keywords of JSON Schema. They tell a schema from another object, such as a list of parameters. */

/** Matches the keywords of drafts 4 to 2020-12 that limit values. */
const LIMITS = new RegExp(
  '^(\\$(ref|dynamicRef|recursiveRef)|type|enum|const|format|if|then|else|not|(all|any|one)Of|items|prefixItems' +
    '|contains|properties|required|pattern|dependencies|dependent(Required|Schemas)|multipleOf|uniqueItems' +
    '|(min|max)(imum|Length|Items|Contains|Properties)|exclusive(Min|Max)imum|(additional|unevaluated)(Items|Properties)' +
    '|patternProperties|propertyNames)$',
);
/** Matches keywords that do not restrict values. */
const ANNOTATIONS =
  /^(\$.*|id|title|description|default|examples|deprecated|readOnly|writeOnly|definitions|content(Encoding|MediaType|Schema))$/;

/** Returns what is wrong with a schema that has unknown keywords and none that limits values, otherwise ''.
 * @param {any} schema */
export function keywordFault(schema) {
  const keys = typeof schema === 'object' ? Object.keys(schema ?? {}) : [];
  if (keys.some((key) => LIMITS.test(key)) || keys.every((key) => ANNOTATIONS.test(key))) return '';
  const names = keys.slice(0, 5).join(', ');
  return `the schema has no keyword of JSON Schema that limits a value (only ${names}); describe members in \`properties\``;
}
