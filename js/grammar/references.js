/*
 * references: resolves identifiers, anchors, JSON pointers and drafts in a JSON schema (JSON Schema 2020-12, core 8 and
 * 9; draft 7, core 8; drafts 4 and 6 where they differ). Fetches nothing: references to other documents are rejected.
 */
import * as errors from './errors.js';

/** @import { Budget } from './refusal.js' */
/** @typedef {Record<string, any> | boolean} Schema */
/** A schema with its base URI, JSON pointer and draft.
 * @typedef {{ schema: Schema, base: string, pointer: string, draft: number, id: number }} Located */

/** Base URI of a document without an identifier. */
const NAMELESS = 'schema:///';
/** Maximum depth of nested schemas. */
const DEEPEST = 400;
const DRAFTS = /** @type {[RegExp, number][]} */ ([
  [/^https?:\/\/json-schema\.org\/draft\/2020-12\/schema#?$/, 2020],
  [/^https?:\/\/json-schema\.org\/draft\/2019-09\/schema#?$/, 2019],
  [/^https?:\/\/json-schema\.org\/draft-07\/schema#?$/, 7],
  [/^https?:\/\/json-schema\.org\/draft-06\/schema#?$/, 6],
  [/^https?:\/\/json-schema\.org\/draft-0[34]\/schema#?$/, 4],
  [/^https?:\/\/json-schema\.org\/schema#?$/, 2020],
  [/^https?:\/\/iglucentral\.com\/schemas\/com\.snowplowanalytics\.self-desc\/schema\/jsonschema\//, 4],
]);
/** Keywords whose value is a schema (ONE), a list of schemas (LIST), or a map of schemas (MAP). */
const ONE = new Set([
  'additionalProperties',
  'additionalItems',
  'items',
  'contains',
  'not',
  'if',
  'then',
  'else',
  'propertyNames',
  'unevaluatedItems',
  'unevaluatedProperties',
  'contentSchema',
]);
const LIST = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems', 'items']);
const MAP = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas', 'dependencies']);

/** Returns whether a value is an object, and neither null nor an array.
 * @param {any} value @returns {value is Record<string, any>} */
export const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
/** Returns whether a value may be a schema: an object or a boolean. @param {any} value @returns {value is Schema} */
export const isSchema = (value) => typeof value === 'boolean' || isObject(value);
/** Escapes a name for a JSON pointer (RFC 6901, section 3). @param {string} text */
export const escapePointer = (text) => text.replaceAll('~', '~0').replaceAll('/', '~1');

/** Returns the value of a keyword that must be a non-negative integer, or undefined if it is missing. Throws
 * `Unsupported`. @param {Located} place @param {Record<string, any>} schema @param {string} key
 * @returns {number | undefined} */
export function count({ pointer }, schema, key) {
  const value = schema[key];
  if (value === undefined) return undefined;
  if (!Number.isInteger(value) || value < 0) throw errors.mustBe(key, 'a non-negative integer', `${pointer}/${key}`);
  return value;
}

/** @param {Record<string, any>} schema @param {string} pointer @param {Budget} budget @returns {[Schema, string][]} */
function children(schema, pointer, budget) {
  /** @type {[Schema, string][]} */
  const found = [];
  for (const key of Object.keys(schema)) {
    const value = schema[key];
    const at = `${pointer}/${escapePointer(key)}`;
    if (ONE.has(key) && isSchema(value)) found.push([value, at]);
    if (LIST.has(key) && Array.isArray(value)) {
      budget.spend(at, value.length);
      value.forEach((part, i) => isSchema(part) && found.push([part, `${at}/${i}`]));
    }
    if (MAP.has(key) && isObject(value)) {
      const names = Object.keys(value);
      budget.spend(at, names.length);
      for (const name of names) {
        if (isSchema(value[name])) found.push([value[name], `${at}/${escapePointer(name)}`]);
      }
    }
  }
  return found;
}

/** Index of the schemas in one document, by object, URI and anchor. */
export class Document {
  /** @param {Schema} root @param {Budget} budget @param {number} [draft] draft of schemas without `$schema` */
  constructor(root, budget, draft) {
    this.budget = budget;
    /** @type {Map<Schema, Located>} */
    this.located = new Map();
    /** @type {Located[]} */
    this.all = [];
    /** Schemas with an identifier, by URI. The map `anchors` has schemas with an anchor, by URI with fragment.
     * @type {Map<string, Located>} */
    this.resources = new Map();
    /** @type {Map<string, Located>} */
    this.anchors = new Map();
    /** For each name of a dynamic anchor, the base URIs of the schemas that define it.
     * @type {Map<string, Set<string>>} */
    this.dynamic = new Map();
    /** Whether the document's `$schema` makes `format` an annotation. */
    this.annotates = isObject(root) && /draft\/20(19-09|20-12)\/schema/.test(String(root.$schema));
    const old = isObject(root) && 'definitions' in root && !('$defs' in root);
    this.root = this.index(root, NAMELESS, '', draft ?? (old ? 7 : 2020));
    this.resources.set(NAMELESS, this.root);
  }

  /** Records and returns the location of a schema, or returns the location recorded earlier for the same object.
   * @param {Schema} schema @param {string} base @param {string} pointer @param {number} draft @returns {Located} */
  locate(schema, base, pointer, draft) {
    const known = this.located.get(schema);
    if (known) return known;
    const place = { schema, base, pointer, draft, id: this.all.length };
    this.all.push(place);
    if (isObject(schema)) this.located.set(schema, place);
    return place;
  }

  /** Records a schema and all schemas inside it, with their identifiers and anchors. Throws TooComplex or
   * `Unsupported`.
   * @param {Schema} root @param {string} rootBase @param {string} rootPointer @param {number} rootDraft
   * @returns {Located} */
  index(root, rootBase, rootPointer, rootDraft) {
    /** @type {[Schema, string, string, number, number][]} */
    const open = [[root, rootBase, rootPointer, rootDraft, 0]];
    for (let next = open.pop(); next; next = open.pop()) {
      const [schema, outer, pointer, before, depth] = next;
      this.budget.spend(pointer, 1);
      if (depth > DEEPEST) throw errors.tooDeep('schemas', pointer);
      if (!isObject(schema) || this.located.has(schema)) continue;
      const draft = draftOf(schema, pointer, before);
      const base = this.identify(schema, outer, draft);
      const place = this.locate(schema, base, pointer, draft);
      if (base !== outer) this.resources.set(base, place);
      this.anchor(place, outer);
      for (const [child, at] of children(schema, pointer, this.budget)) open.push([child, base, at, draft, depth + 1]);
    }
    return this.locate(root, rootBase, rootPointer, rootDraft);
  }

  /** Returns the base URI for references inside a schema: that of the schema's identifier, or else the outer base URI.
   * @param {Record<string, any>} schema @param {string} outer @param {number} draft */
  identify(schema, outer, draft) {
    const id = schema[draft <= 4 ? 'id' : '$id'];
    if (typeof id !== 'string' || (draft <= 7 && '$ref' in schema)) return outer;
    if (draft <= 7 && id.startsWith('#')) return outer;
    return resolved(id, outer)?.replace(/#.*$/, '') ?? outer;
  }

  /** Records the anchors that a schema defines.
   * @param {Located} place @param {string} outer base URI outside the schema */
  anchor(place, outer) {
    const { base, draft } = place;
    const schema = /** @type {Record<string, any>} */ (place.schema);
    const id = schema[draft <= 4 ? 'id' : '$id'];
    if (draft <= 7 && typeof id === 'string' && id.startsWith('#') && id.length > 1) {
      this.anchors.set(outer + id, place);
    } else if (draft <= 7 && typeof id === 'string' && /#./.test(id)) {
      this.anchors.set(resolved(id, outer) ?? id, place);
    }
    for (const key of ['$anchor', '$dynamicAnchor']) {
      if (draft >= 2019 && typeof schema[key] === 'string') this.anchors.set(`${base}#${schema[key]}`, place);
    }
    const dynamic = schema.$recursiveAnchor === true ? '' : schema.$dynamicAnchor;
    if (typeof dynamic !== 'string') return;
    const places = this.dynamic.get(dynamic) ?? new Set();
    this.dynamic.set(dynamic, places.add(base));
  }

  /** Returns the location of a schema inside another schema. Throws `Unsupported` if the value is not a schema.
   * @param {Located} from @param {Schema} schema @param {string} path JSON pointer relative to `from`
   * @returns {Located} */
  child(from, schema, path) {
    if (!isSchema(schema)) throw errors.notSchema(from.pointer + path);
    return this.located.get(schema) ?? this.index(schema, from.base, from.pointer + path, from.draft);
  }

  /** Returns the schema to which a reference points. Throws `Unsupported` if it is missing or in another document.
   * @param {Located} from the schema with the reference @param {string} key the keyword, such as $ref
   * @returns {Located} */
  target(from, key) {
    const text = /** @type {Record<string, any>} */ (from.schema)[key];
    const at = `${from.pointer}/${key}`;
    if (typeof text !== 'string') throw errors.mustBe(key, 'a string', at);
    const uri = resolved(text, from.base);
    if (uri === undefined) throw errors.mustBe(key, `a URI reference, not ${text}`, at);
    const [base, fragment = ''] = uri.split(/#(.*)/s);
    // If only one schema defines the dynamic anchor, a dynamic reference equals an ordinary one.
    if (key !== '$ref' && (this.dynamic.get(key === '$recursiveRef' ? '' : fragment)?.size ?? 0) > 1) {
      throw errors.manyTargets(`${key} ${text}`, at);
    }
    if (fragment && !fragment.startsWith('/')) {
      const anchored = this.anchors.get(`${base}#${decoded(fragment, at)}`);
      if (anchored) return anchored;
      if (this.resources.has(base)) throw errors.noAnchor(`${key} ${text}`, at);
    }
    const resource = this.resources.get(base);
    if (!resource) throw errors.outside(`${key} ${text}`, at);
    return this.follow(resource, decoded(fragment, at), at, text);
  }

  /** Returns the schema at a JSON pointer. Throws `Unsupported` if there is none.
   * @param {Located} resource where the pointer starts @param {string} pointer
   * @param {string} at JSON pointer of the reference, for errors @param {string} text text of the reference, for errors
   * @returns {Located} */
  follow(resource, pointer, at, text) {
    let place = resource;
    /** @type {any} */
    let value = resource.schema;
    let path = resource.pointer;
    for (const part of pointer.split('/').slice(1)) {
      const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
      if (value === null || typeof value !== 'object' || !Object.hasOwn(value, name)) {
        throw errors.badTarget(text, 'nothing in the schema', at);
      }
      value = value[name];
      path += `/${escapePointer(name)}`;
      place = this.located.get(value) ?? place;
    }
    if (!isSchema(value)) throw errors.badTarget(text, 'a value that is not a schema', at);
    return this.located.get(value) ?? this.index(value, place.base, path, place.draft);
  }
}

/** @param {Record<string, any>} schema @param {string} pointer @param {number} before */
function draftOf(schema, pointer, before) {
  const name = schema.$schema;
  if (typeof name !== 'string') return before;
  const found = DRAFTS.find(([shape]) => shape.test(name));
  if (!found) throw errors.unknownDialect(name, `${pointer}/$schema`);
  return found[1];
}

/** @param {string} reference @param {string} base */
function resolved(reference, base) {
  try {
    return new URL(reference, base).href;
  } catch {
    return undefined;
  }
}

/** @param {string} fragment @param {string} at */
function decoded(fragment, at) {
  try {
    return decodeURIComponent(fragment);
  } catch {
    throw errors.badFragment(fragment, at);
  }
}
