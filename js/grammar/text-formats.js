/*
 * text-formats: the supported values of the schema keyword `format`, as regular expressions that follow the RFCs: 3339
 * (dates and times), 5321 (email), 1123 (hostname), 2673 and 4291 (addresses), 3986 and 3987 (URI and IRI), 6570
 * (templates), 6901 (JSON pointers), 4122 (UUID). Unknown formats are annotations, which allow any text. Formats of the
 * specification that no regular expression can describe are rejected.
 */
import { wholeNode } from './regex.js';
import { unsupportedFormat } from './errors.js';

/** @import { Node } from './nodes.js' */
/** @import { Budget } from './refusal.js' */

const LONG = '(0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])';
const SHORT = '(0[469]|11)-(0[1-9]|[12]\\d|30)';
const LEAP = '(\\d\\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29';
const DATE = `(\\d{4}-(${LONG}|${SHORT}|02-(0[1-9]|1\\d|2[0-8]))|${LEAP})`;
/** @param {string} utc letters that mean UTC @param {string} fraction pattern for the fraction of a second */
const timeOf = (utc, fraction) =>
  `(([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.${fraction})?` +
  `([${utc}]|[+-]([01]\\d|2[0-3]):[0-5]\\d)|23:59:60(\\.${fraction})?([${utc}]|[+-]00:00))`;
const TIME = timeOf('Zz', '\\d+');
const ANSWERED_TIME = timeOf('Z', '\\d{1,9}');
const CLOCK = 'T(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|\\d+S)';
const DURATION = `P(\\d+W|${CLOCK}|(\\d+D|\\d+M(\\d+D)?|\\d+Y(\\d+M(\\d+D)?)?)(${CLOCK})?)`;

/** @param {number} n maximum number of characters */
const label = (n) => `[A-Za-z0-9]([A-Za-z0-9-]{0,${n - 2}}[A-Za-z0-9])?`;
const LABEL = label(63);
const HOST = `${LABEL}(\\.${LABEL})*`;
/** Patterns for host names. A name may have 253 characters, but counting them needs too many states. These alternatives
 * stay below the limit: a few long labels, many short ones, or one long label among short ones. */
const HOSTNAME =
  `(${LABEL}(\\.${LABEL}){0,2}(\\.${label(61)})?|${label(24)}(\\.${label(24)}){1,9}` +
  `|(${label(18)}\\.){0,5}${LABEL}(\\.${label(18)}){0,5})`;
const BYTE = '(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
const IPV4 = `${BYTE}(\\.${BYTE}){3}`;
const HEX = '[0-9A-Fa-f]';
const GROUP = `${HEX}{1,4}`;
const LAST = `(${GROUP}:${GROUP}|${IPV4})`;
const IPV6 = [
  `(${GROUP}:){6}${LAST}`,
  `::(${GROUP}:){5}${LAST}`,
  ...[1, 2, 3, 4, 5].map((n) => `(${GROUP}(:${GROUP}){0,${n - 1}})?::(${GROUP}:){${5 - n}}${LAST}`),
  `(${GROUP}(:${GROUP}){0,5})?::${GROUP}`,
  `(${GROUP}(:${GROUP}){0,6})?::`,
].join('|');
const ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
const QUOTED = '"([ !#-\\[\\]-~]|\\\\[ -~])*"';
const ADDRESS = `\\[(${IPV4}|IPv6:(${IPV6}))\\]`;
const EMAIL = `(${ATOM}(\\.${ATOM})*|${QUOTED})@(${HOST}|${ADDRESS})`;

/** Returns patterns for URIs (RFC 3986, appendix A) or IRIs (RFC 3987).
 * @param {string} more letters that only IRIs allow @param {string} own further letters that IRIs allow in queries */
function identifiers(more, own) {
  const plain = `A-Za-z0-9._~${more}!$&'()*+,;=`;
  const escape = `%${HEX}{2}`;
  const letter = `([${plain}:@-]|${escape})`;
  const segment = `${letter}*`;
  const first = `${letter}+`;
  const noColon = `([${plain}@-]|${escape})+`;
  const user = `([${plain}:-]|${escape})*`;
  const name = `([${plain}-]|${escape})*`;
  const future = `[vV]${HEX}+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+`;
  const authority = `(${user}@)?(\\[(${IPV6}|${future})\\]|${name})(:\\d*)?`;
  const tail = `(\\?([${plain}:@/?${own}-]|${escape})*)?(#([${plain}:@/?-]|${escape})*)?`;
  const net = `//${authority}(/${segment})*`;
  const absolute = `/(${first}(/${segment})*)?`;
  const scheme = '[A-Za-z][A-Za-z0-9+.-]*';
  const some = `${net}|${absolute}|${first}(/${segment})*`;
  const full = `${scheme}:(${some}|)${tail}`;
  return {
    full,
    narrow: `${scheme}:(${some})${tail}`,
    reference: `(${full}|(${net}|${absolute}|${noColon}(/${segment})*|)${tail})`,
  };
}
const UCS =
  '\\u{A0}-\\u{D7FF}\\u{F900}-\\u{FDCF}\\u{FDF0}-\\u{FFEF}\\u{10000}-\\u{1FFFD}\\u{20000}-\\u{2FFFD}' +
  '\\u{30000}-\\u{3FFFD}\\u{40000}-\\u{DFFFD}\\u{E1000}-\\u{EFFFD}';
const URI = identifiers('', '');
const IRI = identifiers(UCS, '\\u{E000}-\\u{F8FF}\\u{F0000}-\\u{FFFFD}\\u{100000}-\\u{10FFFD}');
const POINTER = '(/([^~/]|~[01])*)*';
/** Returns the pattern of a URI template. dot: pattern of the separator within variable names; letters: content of a
 * character class, for text outside braces. @param {string} dot @param {string} letters */
function template(dot, letters) {
  const variable = `([A-Za-z0-9_]|%${HEX}{2})(${dot}([A-Za-z0-9_]|%${HEX}{2}))*(:[1-9]\\d{0,3}|\\*)?`;
  return `([${letters}]|%${HEX}{2}|\\{[+#./;?&=,!@|]?${variable}(,${variable})*\\})*`;
}

/** Patterns of the supported formats, by name. @type {Record<string, string>} */
export const FORMATS = Object.freeze({
  date: DATE,
  time: TIME,
  'date-time': `${DATE}[Tt]${TIME}`,
  duration: DURATION,
  email: EMAIL,
  hostname: HOSTNAME,
  ipv4: IPV4,
  ipv6: IPV6,
  uri: URI.full,
  'uri-reference': URI.reference,
  iri: IRI.full,
  'iri-reference': IRI.reference,
  'uri-template': template('\\.?', `!#$&-;=?-\\[\\]_a-z~${UCS}`),
  uuid: `${HEX}{8}(-${HEX}{4}){3}-${HEX}{12}`,
  'json-pointer': POINTER,
  'relative-json-pointer': `(0|[1-9]\\d*)(#|${POINTER})`,
});
/** Narrower patterns for answers. They leave out forms that common validators reject or read differently, such as
 * lower-case letters in times; hosts without a dot and quoted local parts in emails; URIs with only a scheme; dots in
 * variable names of templates. @type {Record<string, string>} */
const NARROW = Object.freeze({
  time: ANSWERED_TIME,
  'date-time': `${DATE}T${ANSWERED_TIME}`,
  email: `${ATOM}(\\.${ATOM})*@(${LABEL}\\.)+${LABEL}`,
  uri: URI.narrow,
  iri: IRI.narrow,
  'uri-template': template('', `!#$&(-;=?-\\[\\]_a-z~${UCS}`),
});
/** Formats of the specifications that are rejected, with the reason. @type {Record<string, string>} */
export const REFUSED = Object.freeze({
  regex: 'no finite automaton recognises regular expressions',
  'idn-email': 'internationalised host names depend on tables of Unicode',
  'idn-hostname': 'internationalised host names depend on tables of Unicode',
});

/** Compiled patterns, with the steps that compiling them takes. @type {Map<string, { node: Node, steps: number }>} */
const made = new Map();

/** Returns a node for the texts of a format; undefined if the format is unknown and so only an annotation.
 * @param {string} name @param {Budget} budget @param {string} pointer
 * @param {boolean} narrow whether to use the narrower patterns for answers @returns {Node | undefined} */
export function formatNode(name, budget, pointer, narrow) {
  if (Object.hasOwn(REFUSED, name)) throw unsupportedFormat(name, REFUSED[name], pointer);
  if (!Object.hasOwn(FORMATS, name)) return undefined;
  const source = narrow && Object.hasOwn(NARROW, name) ? NARROW[name] : FORMATS[name];
  const isNew = budget.isNew(source);
  const known = made.get(source);
  if (known) {
    if (isNew) budget.spend(pointer, known.steps);
    return known.node;
  }
  const before = budget.left;
  const node = wholeNode(source, '', budget);
  made.set(source, { node, steps: before - budget.left });
  return node;
}
