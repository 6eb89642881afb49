/* idl: converts arguments as Web IDL bindings do (https://webidl.spec.whatwg.org): dictionaries, sequences, unions,
 * enumerations. Throws TypeError. Defines the dictionaries of the Prompt API. */
import { isA } from '../errors.js';
import { copied } from '../options.js';
import { missing, noPrompt, wrongType } from './errors.js';

/** Whether a session can be created: `downloadable` and `downloading` models are downloaded by `create()`.
 * @typedef {'unavailable' | 'downloadable' | 'downloading' | 'available'} Availability */
/** How varied answers are.
 * @typedef {'most-predictable' | 'predictable' | 'slightly-predictable' | 'balanced' | 'slightly-creative' | 'creative'
 *   | 'most-creative'} SamplingMode */
/** Kind of content. Only text is supported.
 * @typedef {'text' | 'image' | 'audio' | 'tool-call' | 'tool-response'} ContentType */
/** A part of a message.
 * @typedef {object} PromptContent
 * @property {ContentType} type Kind of content.
 * @property {any} value The text.
 */
/** A message of a prompt.
 * @typedef {object} PromptMessage
 * @property {'system' | 'user' | 'assistant'} role Role of the author. A system message must come first.
 * @property {string | PromptContent[]} content Text, or parts that are joined.
 * @property {boolean} [prefix] Whether the answer begins with this message, which must be the last one and the
 *   assistant's. Default: false.
 */
/** A prompt. A string is a message of the user. @typedef {string | PromptMessage[]} PromptInput */
/** Contents that a session expects.
 * @typedef {object} ExpectedContent
 * @property {ContentType} type Kind of content.
 * @property {string[]} [languages] Language tags (BCP 47).
 */
/** A function that the model may call.
 * @typedef {object} PromptTool
 * @property {string} name Name that the model calls: 1 to 64 letters, digits, `_`, `.` or `-`.
 * @property {string} description Description of the tool, for the model.
 * @property {object} inputSchema JSON Schema of the arguments.
 * @property {(...args: any[]) => Promise<string>} execute Called with the arguments. Its result is sent to the model.
 */
/** Options of `availability()`, and of `create()`.
 * @typedef {object} CreateCoreOptions
 * @property {ExpectedContent[]} [expectedInputs] Contents of prompts.
 * @property {ExpectedContent[]} [expectedOutputs] Contents of answers.
 * @property {SamplingMode} [samplingMode] How varied answers are. Default: balanced.
 * @property {number} [temperature] Ignored, as on pages in Chrome.
 * @property {PromptTool[]} [tools] Functions that the model may call.
 * @property {number} [topK] Ignored, as on pages in Chrome.
 */
/** Options of `create()` besides those of `availability()`.
 * @typedef {object} CreateOnlyOptions
 * @property {PromptMessage[]} [initialPrompts] Messages that are never evicted from the context window.
 * @property {(monitor: import('./events.js').CreateMonitor) => void} [monitor] Called at once, with an object that
 *   receives `downloadprogress` events.
 * @property {AbortSignal} [signal] Aborting it rejects `create()` or, later, destroys the session.
 */
/** Options of `create()`. @typedef {CreateCoreOptions & CreateOnlyOptions} CreateOptions */
/** Options of `prompt()`, `promptStreaming()` and `measureContextUsage()`.
 * @typedef {object} PromptOptions
 * @property {boolean} [omitResponseConstraintInput] Does not describe the constraint to the model. Default: false.
 * @property {object} [responseConstraint] A JSON Schema or a RegExp that the answer follows.
 * @property {AbortSignal} [signal] Aborts the call. The session then keeps neither the prompt nor its answer.
 */
/** Options of `append()` and `clone()`.
 * @typedef {object} SignalOptions
 * @property {AbortSignal} [signal] Aborts the call.
 */

/** Temperatures of the sampling modes, as multiples of the model's default. @type {Record<SamplingMode, number>} */
export const HEAT = {
  'most-predictable': 0,
  predictable: 0.5,
  'slightly-predictable': 0.75,
  balanced: 1,
  'slightly-creative': 1.125,
  creative: 1.25,
  'most-creative': 1.5,
};

/** A function that converts a value. where: name of the value in error messages.
 * @typedef {(value: any, where: string) => any} Conversion */
/** @typedef {{ to: Conversion, required?: boolean, fallback?: unknown }} Member */

/** @param {any} value */
const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';

/** @param {string} where @param {string} what @returns {never} */
function refuse(where, what) {
  throw wrongType(where, what);
}

/** @type {Conversion} */
const string = (value) => `${value}`;
/** @type {Conversion} */
const boolean = Boolean;
/** @type {Conversion} */
const number = Number;
/** Copies an object, because calls wait for earlier ones. @type {Conversion} */
const object = (value, where) => (isObject(value) ? copied(value) : refuse(where, 'an object'));
/** @type {Conversion} */
const callback = (value, where) => (typeof value === 'function' ? value : refuse(where, 'a function'));
/** @type {Conversion} */
const signal = (value, where) => (isA('AbortSignal', value) ? value : refuse(where, 'an AbortSignal'));

/** @param {string[]} words @returns {Conversion} */
const oneOf = (words) => (value, where) => {
  const word = string(value, where);
  return words.includes(word) ? word : refuse(where, `one of ${words.join(', ')}`);
};

/** @param {Conversion} item @returns {Conversion} */
const sequence = (item) => (value, where) => {
  if (!isObject(value) || typeof value[Symbol.iterator] !== 'function') refuse(where, 'an array');
  return [...value].map((one, i) => item(one, `${where}[${i}]`));
};

/** @param {Conversion} item @returns {Conversion} */
const sequenceOrString = (item) => (value, where) =>
  isObject(value) && value[Symbol.iterator] != null ? sequence(item)(value, where) : string(value, where);

/** Returns the conversion of a dictionary. Reads its members in alphabetical order, as Web IDL requires.
 * @param {Record<string, Member>} members
 * @returns {Conversion} */
const dictionary = (members) => (value, where) => {
  if (value !== undefined && value !== null && !isObject(value)) refuse(where, 'an object');
  const result = /** @type {Record<string, unknown>} */ ({});
  for (const [name, { to, required, fallback }] of Object.entries(members)) {
    const given = value?.[name];
    if (given !== undefined) result[name] = to(given, `${where}.${name}`);
    else if (required) throw missing(`${where}.${name}`);
    else if (fallback !== undefined) result[name] = fallback;
  }
  return result;
};

const PLATFORM_OBJECT =
  /^\[object (ArrayBuffer|AudioBuffer|Blob|File|Image\w*|HTML\w+|OffscreenCanvas|SVG\w+|Video\w+)\]$/;

/** Returns whether a value is an image, audio or bytes, which must not be converted to strings. @param {any} value */
const isMedia = (value) => ArrayBuffer.isView(value) || PLATFORM_OBJECT.test(Object.prototype.toString.call(value));

const TYPES = oneOf(['text', 'image', 'audio', 'tool-call', 'tool-response']);
const content = dictionary({
  type: { to: TYPES, required: true },
  value: { to: (value, where) => (isMedia(value) ? value : string(value, where)), required: true },
});
const message = dictionary({
  content: { to: sequenceOrString(content), required: true },
  prefix: { to: boolean, fallback: false },
  role: { to: oneOf(['system', 'user', 'assistant']), required: true },
});
const expected = dictionary({
  languages: { to: sequence(string) },
  type: { to: TYPES, required: true },
});
const tool = dictionary({
  description: { to: string, required: true },
  execute: { to: callback, required: true },
  inputSchema: { to: object, required: true },
  name: { to: string, required: true },
});
const CORE = {
  expectedInputs: { to: sequence(expected) },
  expectedOutputs: { to: sequence(expected) },
  samplingMode: { to: oneOf(Object.keys(HEAT)) },
  temperature: { to: number },
  tools: { to: sequence(tool) },
  topK: { to: number },
};
const coreOptions = dictionary(CORE);
const createOptions = dictionary({
  ...CORE,
  initialPrompts: { to: sequence(message) },
  monitor: { to: callback },
  signal: { to: signal },
});
const promptOptions = dictionary({
  omitResponseConstraintInput: { to: boolean, fallback: false },
  responseConstraint: { to: object },
  signal: { to: signal },
});
const signalOptions = dictionary({ signal: { to: signal } });

const toInput = sequenceOrString(message);
/** Converts the options of clone(). Throws TypeError. @param {unknown} value @returns {SignalOptions} */
export const toSignalOptions = (value) => signalOptions(value, 'options');

/** Converts the arguments of a method that takes a prompt. Throws TypeError, even if there are no arguments.
 * @param {string} method name for messages @param {any[]} given arguments of the call
 * @returns {PromptOptions & { input: PromptInput }} */
export function toPrompt(method, given) {
  if (!given.length) throw noPrompt(method);
  return { input: toInput(given[0], 'input'), ...promptOptions(given[1], 'options') };
}

/** Converts the options of create() or, with `core`, those of availability(). Throws RangeError for invalid language
 * tags.
 * @param {unknown} value @param {boolean} core @returns {CreateOptions} */
export function toCreateOptions(value, core) {
  const options = (core ? coreOptions : createOptions)(value, 'options');
  const { expectedInputs = [], expectedOutputs = [] } = options;
  for (const one of [...expectedInputs, ...expectedOutputs]) {
    if (one.languages) one.languages = Intl.getCanonicalLocales(one.languages);
  }
  return options;
}
