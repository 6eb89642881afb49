/*
 * options: the types, ranges and checks of the options of loadModel() and generate(). The JSDoc of an option is its
 * only description: the package's types, the help of the command line and docs/ are made from it. Sampling options are
 * described in src/run/sampler.c.
 */
/** @import { CacheEntry } from './download/cache.js' */
/** @import { HubSource } from './download/hub.js' */
/** @import { SamplingOptions } from './generated.js' */
/** @import { ChatMessage, PostedFormat, PrefillProgress, Progress } from './protocol.js' */
import { ModelCache } from './download/cache.js';
import { inBraces, isA, show } from './errors.js';
import { flaw, mustBe, notJson, unknownOption, unknownTool } from './front-errors.js';
import { SAMPLING } from './generated.js';
import { MAX_SEQUENCES, MAX_THREADS } from './protocol.js';

/** The result of `validate` of a Standard Schema.
 * @template [V=any] @typedef {{ readonly value: V, readonly issues?: undefined }
 *   | { readonly issues: readonly { readonly message: string }[] }} Validated */
/** A schema object of zod, Valibot, ArkType and others. Source: standardschema.dev, versions 1 of StandardSchema and
 * StandardJSONSchema.
 * @template [V=any]
 * @typedef {{ readonly '~standard': { readonly version: 1, readonly vendor: string,
 *   readonly validate: (value: unknown) => Validated<V> | Promise<Validated<V>>,
 *   readonly types?: { readonly input: unknown, readonly output: V } | undefined } }} StandardSchema */

/** The type of an object that a JSON Schema describes. P: type of the schema's `properties`; R: names in `required`.
 * @template P, R
 * @typedef {{ -readonly [K in keyof P as K extends R ? K : never]: FromSchema<P[K]> }
 *   & { -readonly [K in keyof P as K extends R ? never : K]?: FromSchema<P[K]> }} MembersOf */
/** The type of the JSON values that the schema S with the `type` T allows. @template S, T
 * @typedef {T extends 'string' ? string : T extends 'number' | 'integer' ? number : T extends 'boolean' ? boolean
 *   : T extends 'null' ? null : T extends 'array' ? (S extends { items: infer I } ? FromSchema<I>[] : any[])
 *   : [T, S] extends ['object', { properties: infer P }]
 *     ? MembersOf<P, S extends { required: readonly (infer R)[] } ? R : never> : any} TypedJson */
/** The type of the values that a schema accepts: that of a library's schema object, or of a JSON Schema given as a
 * literal. `any` where the schema has `$ref`, `allOf`, or no literal `type`.
 * @template S
 * @typedef {S extends StandardSchema<infer V> ? V : S extends { const: infer C } ? C
 *   : S extends { enum: readonly (infer E)[] } ? E : S extends { $ref: any } | { allOf: any } ? any
 *   : S extends { anyOf: readonly (infer A)[] } | { oneOf: readonly (infer A)[] } ? FromSchema<A>
 *   : S extends { type: readonly (infer T)[] } | { type: infer T } ? TypedJson<S, T> : any} FromSchema */
/** A tool that the model may call (docs/tools.md). P: type of `parameters`.
 * @template {object} [P=object]
 * @typedef {object} Tool
 * @property {string} name Name that the model calls: 1 to 64 letters, digits, `_`, `.` or `-`, unique among the tools.
 * @property {string} [description] Description of the tool, for the model.
 * @property {P} [parameters] Arguments, as a JSON Schema or a schema object of a library. Default: no arguments.
 * @property {(args: FromSchema<P>, call: ToolContext) => unknown} [execute] Called in a chat with the arguments of each
 *   call. Returns the result, or a promise of it. Without it the chat stops at the call.
 */
/** The call for which `execute` runs.
 * @typedef {object} ToolContext
 * @property {string} id Id of the call.
 * @property {AbortSignal} signal Aborted when the answer is aborted.
 */
/** A value of `toolChoice`: the model must call a tool.
 * @typedef {object} ToolDemand
 * @property {string} [name] Name of the tool. Default: any.
 * @property {boolean} [everyRound] Whether the demand also holds for answers to the results of tools. Default: false.
 */
/** A tool in OpenAI's form.
 * @template {object} [P=object]
 * @typedef {object} FunctionTool
 * @property {'function'} type Kind of the tool.
 * @property {ToolFunction<P>} function Description of the tool, for the model.
 * @property {Tool<P>['execute']} [execute] As in `Tool`.
 */
/** Description of a tool in OpenAI's form, for the model.
 * @template {object} [P=object]
 * @typedef {object} ToolFunction
 * @property {string} name As in `Tool`.
 * @property {string} [description] As in `Tool`.
 * @property {P} [parameters] As in `Tool`.
 * @property {boolean | null} [strict] Ignored: arguments always follow the schema.
 */
/** Format: JSON that follows a schema.
 * @template [V=any]
 * @typedef {object} SchemaFormat
 * @property {StandardSchema<V> | object | boolean} schema A JSON Schema, or a schema object of a library.
 * @property {'compact' | 'pretty' | 'any'} [whitespace] White space between values. Default: compact.
 * @property {number} [maxLength] Maximum number of characters of a string that the schema leaves unbounded.
 * @property {number} [maxItems] Maximum number of items of an array that the schema leaves unbounded.
 * @property {number} [maxProperties] Maximum number of properties of an object that the schema leaves unbounded.
 */
/** Format: text that matches a regular expression as a whole.
 * @typedef {object} RegexFormat
 * @property {string | RegExp} regex The expression. The flags m and v are not supported.
 */
/** Format: text that follows a grammar.
 * @typedef {object} GrammarFormat
 * @property {string} grammar A grammar in GBNF, the notation of llama.cpp.
 */
/** Format: one of several texts.
 * @typedef {object} ChoicesFormat
 * @property {readonly string[]} choices The texts, at least one.
 */
/** A constraint on an answer (docs/formats.md): any JSON, JSON of a schema, a regular expression, a grammar, or one of
 * several texts. V: type of `value`, where a schema library gives it.
 * @template [V=any]
 * @typedef {'json' | SchemaFormat<V> | RegexFormat | GrammarFormat | ChoicesFormat} Format */
/** The type of `value` for a format.
 * @template F
 * @typedef {F extends { schema: infer S } ? FromSchema<S> : F extends { choices: readonly (infer C)[] } ? C
 *   : F extends { regex: unknown } | { grammar: unknown } ? string : any} ValueOf */
/** A limit on the thoughts.
 * @typedef {object} ThinkingOptions
 * @property {number} budget Maximum number of tokens of the thoughts. The answer follows after them.
 */
/** Options whose types determine the type of the result.
 * @template {Format} F @template {readonly object[]} P
 * @typedef {object} TypedOptions
 * @property {F} [format] Constraint on the answer. Fails with `bad-format` or `format-too-complex` if it cannot be
 *   compiled.
 * @property {{ readonly [K in keyof P]: Tool<P[K]> | FunctionTool<P[K]> }} [tools] Tools that the model may call. The
 *   prompt must be messages.
 */
/** `GenerateOptions` with the types of `value` and of the tools' arguments. F: the format; P: the parameters of each
 * tool.
 * @template {Format} F @template {readonly object[]} P
 * @typedef {Omit<GenerateOptions, 'format' | 'tools'> & TypedOptions<F, P>} AnswerOptions */
/** Options of an answer besides sampling.
 * @template [V=any]
 * @typedef {object} DecodingOptions
 * @property {number} [maxTokens] Maximum number of tokens in the answer. 0 only evaluates the prompt. Default: 1024.
 * @property {number | null} [seed] Seed of the random numbers. The same seed, prompt and options give the same answer,
 *   with any number of threads. Default: random; the result reports it.
 * @property {string | readonly string[]} [stop] Ends the answer where one of these texts appears; the text itself is
 *   left out.
 * @property {Record<number, number> | Map<number, number>} [logitBias] Values to add to logits, by token id.
 *   `-Infinity` bans a token; the file's `tokenizer.ggml.suppress_tokens` are banned unless they have a value.
 * @property {number} [logprobs] Reports the log probability of each token and of up to this many alternatives at its
 *   position. Forced tokens are drawn too (`jumpForward` is off). Default: no log probabilities.
 * @property {Format<V>} [format] Constraint on the answer. Fails with `bad-format` or `format-too-complex` if it cannot
 *   be compiled. With `tools`, the answer is either tool calls or text of this format.
 * @property {boolean | ThinkingOptions} [thinking] Whether the model thinks before it answers messages
 *   ([more](chat.md#thinking)). `true` needs a model with `info.thinking`. Default: as the model's chat template
 *   decides.
 * @property {boolean} [jumpForward] Where `format` allows only one continuation, appends its tokens without sampling,
 *   and evaluates them together. Default: true.
 * @property {boolean} [draft] Speculative decoding: copies the tokens that followed an earlier occurrence of the latest
 *   tokens, or lets the `draftModel` draft, and evaluates them together. The answer is the same. Faster where memory
 *   bandwidth, not computing, limits the speed. Has no effect with `tools`, `logprobs`, a thinking budget, or a
 *   `format` after thoughts, nor while several answers run. Default: whether the model has a `draftModel`.
 * @property {readonly (Tool | FunctionTool)[]} [tools] Tools that the model may call. The prompt must be messages.
 * @property {'auto' | 'none' | 'required' | ToolDemand} [toolChoice] `auto`: the model answers in words or calls tools.
 *   `required`: it calls tools. `{ name }`: it calls this tool, once. `none`: the tools are ignored. After tool
 *   results, a choice other than `none` becomes `auto`, unless it has `everyRound: true`. Default: auto.
 * @property {number} [maxRounds] In a chat, maximum number of consecutive answers whose tool calls are executed.
 *   Default: 8.
 * @property {AbortSignal} [signal] Ends the answer. The result has `finishReason: 'aborted'` and the text so far.
 * @property {(progress: PrefillProgress) => void} [onPrefillProgress] Called while the prompt is evaluated.
 */
/** Options of an answer. null is the same as undefined. A value out of range fails with `bad-option`.
 * @template [V=any]
 * @typedef {SamplingOptions & DecodingOptions<V>} GenerateOptions */
/** HTTP headers, in any form that `new Headers()` accepts.
 * @typedef {Headers | Record<string, string> | readonly (readonly [string, string])[]} HeaderList */
/** Options of `loadModel` and `inspectModel`. A value out of range fails with `bad-option`.
 * @typedef {object} LoadOptions
 * @property {(progress: Progress) => void} [onProgress] Called while the model is loaded.
 * @property {AbortSignal} [signal] Aborts the load, which then fails with `aborted`.
 * @property {number} [threads] Number of threads that compute, including the engine's worker. In browsers, more than
 *   one needs cross-origin isolation. Limited to twice the number of cores, or to four if that is more. Default: the
 *   number of cores; if that is more than two, a measurement at the end of the load can reduce it.
 * @property {number} [contextLength] Context length in tokens, at most the model's own (`info.trainedContextLength`).
 *   The memory for it is reserved at loading. Default: the model's own, at most 4096.
 * @property {'auto' | 'relaxed' | 'simd128'} [variant] Build of the engine. `auto` uses relaxed SIMD where the platform
 *   computes it correctly, else simd128. Default: auto.
 * @property {'auto' | 'keep' | 'q8_0'} [quantizeFloats] Treatment of F32, F16 and BF16 matrices. `keep` leaves them
 *   unchanged. `q8_0` quantises those whose row length is a multiple of 32, which is faster, smaller and less exact.
 *   `auto` means `keep`. Default: auto.
 * @property {'auto' | 'f32' | 'i16' | 'q8_0'} [kvType] Format of the KV cache. `q8_0` takes the least memory, `f32` is
 *   exact. `auto` is `f32` for models with float weights and for layers with a sliding window, else `i16` (16-bit
 *   integers). If a few dimensions of a model's keys have outliers, `q8_0` changes 1 to 10 % of greedy tokens in long
 *   contexts. Default: auto.
 * @property {number} [sequences] Number of answers that are generated at the same time, in one batch
 *   ([more](chat.md#answers-at-the-same-time)). Each has its own context of `contextLength` tokens. Embedding models
 *   ignore this option. Default: 1.
 * @property {number} [kvTokens] Number of tokens for which the KV cache has room, for all `sequences` together; at least
 *   `contextLength`. Answers share the room for a common beginning of their prompts, and wait for room if there is not
 *   enough. Default: `sequences` times `contextLength`.
 * @property {'auto' | boolean} [rowsOnDisk] Which tables stay on disk: matrices with a row for each token, such as
 *   Gemma 4's per-layer embeddings. `auto`: those of 64 MB or more. `true`: all. `false`: none. Rows are read from the
 *   cached copy or the file; for other sources, from a temporary file. Answers are the same. Default: auto.
 * @property {boolean} [rowsLater] Whether a model is ready before the tables of `rowsOnDisk` are downloaded.
 *   Meanwhile (`onProgress` reports the phase `rest`), calls request the rows that they need. Default: true.
 * @property {ModelSource} [draftModel] A smaller model with the same vocabulary, or an assistant trained for this model.
 *   It drafts tokens for answers ([more](api.md#speculative-decoding)), which stay the same. Its download has the same
 *   `headers` and `token`, unless it is on another host. Default: none.
 * @property {boolean | ModelCache} [cache] Cache for downloads. `true`: `modelCache`; `false`: none. Default: true.
 * @property {string | readonly string[]} [sha256] SHA-256 of the whole file in hexadecimal; for a split model, an array
 *   with one for each file. If it differs, loading fails with `sha256-mismatch`.
 * @property {string} [token] Access token for the model's host, sent as a header and never stored.
 * @property {HeaderList} [headers] Headers of the requests for the model.
 * @property {boolean} [restart] Restarts the worker when it dies, and repeats the calls that had not returned anything
 *   yet ([more](errors.md#when-the-engine-dies)). Default: false.
 * @property {number} [chatCacheBytes] Maximum size of all chats in [`chatCache`](chat.md#keep-it-for-the-next-visit),
 *   in bytes. Default: 1 GiB.
 * @property {string | URL} [baseUrl] Folder of the package's files (worker, threads, wasm), if they are not next to the
 *   script that imports the package: a URL, in Node also a path ([more](hosting.md#files)).
 * @property {string | URL} [hub] Mirror of Hugging Face, for sources with a `repo`. Default: https://huggingface.co.
 */
/** Options of calls that can only be aborted.
 * @typedef {object} CallOptions
 * @property {AbortSignal} [signal] Aborts the call, which then fails with `aborted`.
 */
/** Options of `countTokens`.
 * @typedef {object} CountOptions
 * @property {boolean | ThinkingOptions} [thinking] As for the answer; needs messages. Default: as the model's chat
 *   template decides.
 * @property {AbortSignal} [signal] Aborts the call, which then fails with `aborted`.
 */
/** Options of `tokenize`.
 * @typedef {object} TokenizeOptions
 * @property {boolean} [bos] Puts the BOS token first. Default: false.
 * @property {boolean} [special] Encodes the names of control tokens as these tokens. Not for untrusted text. Default:
 *   false.
 * @property {AbortSignal} [signal] Aborts the call, which then fails with `aborted`.
 */
/** Options of `detokenize`.
 * @typedef {object} DetokenizeOptions
 * @property {boolean} [special] Writes control tokens by their names, which are otherwise left out. Default: false.
 * @property {AbortSignal} [signal] Aborts the call, which then fails with `aborted`.
 */
/** Options of `logits`.
 * @typedef {object} LogitsOptions
 * @property {boolean} [all] Returns a row for each id, not only for the last one. Default: false.
 * @property {AbortSignal} [signal] Aborts the call, which then fails with `aborted`.
 */
/** Options of `perplexity`.
 * @typedef {object} PerplexityOptions
 * @property {number} [window] Length of the evaluated windows, in tokens. Default: the context length.
 * @property {AbortSignal} [signal] Aborts the call, which then fails with `aborted`.
 */
/** Bytes of a file. @typedef {ArrayBuffer | ArrayBufferView} Bytes */
/** One file of a model. A string is a URL; in Node also a path or a `file:` URL.
 * @typedef {string | URL | Blob | Bytes | ReadableStream | AsyncIterable<Bytes> | Iterable<Bytes>
 *   | HubSource | Pick<CacheEntry, 'key' | 'url'>} SinglePart */
/** A model: one file, or the files of a split model. @typedef {SinglePart | readonly SinglePart[]} ModelSource */
/** A prompt: raw text, token ids, or messages for the chat template.
 * @typedef {string | ArrayLike<number> | readonly ChatMessage[]} Prompt */
/** A rule for values. expected: completes the error message "`name` must be …"; fault: describes a wrong value for the
 * message, in place of show() (errors.js).
 * @typedef {{ expected: string, fits: (value: any) => boolean,
 *   fault?: (value: any) => string }} Rule */

const MAX_TOKENS = 1 << 20;
/** Maximum number of stop sequences. Each token costs one search per sequence. */
const MAX_STOPS = 1024;
const DEFAULT_MAX_TOKENS = 1024;

/** @param {string} what @param {(value: any) => boolean} is
 * @returns {(min: number, max: number) => Rule & { min: number, max: number }} */
const range = (what, is) => (min, max) => ({
  expected: `${what} between ${min} and ${max}`,
  fits: (value) => is(value) && value >= min && value <= max,
  min,
  max,
});
/** Returns a rule that accepts integers in a range. */
export const integer = range('an integer', Number.isInteger);
const number = range('a number', (value) => typeof value === 'number');
/** Returns a Rule with the default description of wrong values.
 * @param {string} expected completes "`name` must be …" @param {(value: any) => boolean} fits @returns {Rule} */
export const rule = (expected, fits) => ({ expected, fits });

/** @param {string} expected the type with an article, such as "a string" */
const typed = (expected) => rule(expected, (value) => typeof value === expected.split(' ')[1]);

/** Rule that accepts strings. */
export const string = typed('a string');
/** Rule that accepts objects and arrays. checkValue() rejects null, which `fits` accepts. */
export const object = typed('an object');
/** Rule that accepts functions. */
export const callback = typed('a function');
/** Rule that accepts true and false. */
export const boolean = typed('a boolean');
/** Returns a rule that accepts only the given words. @param {string[]} values */
export const oneOf = (...values) => rule(`one of ${values.join(', ')}`, (value) => values.includes(value));
/** @param {string} what */
const address = (what) => rule(`the URL ${what}`, (value) => (string.fits(value) && value !== '') || isA('URL', value));
/** Rule that accepts an AbortSignal. */
export const signal = rule('an AbortSignal', (value) => isA('AbortSignal', value));

/** @type {Record<string, (value: any) => boolean>} */
const CONSTRAINTS = {
  // The contents of a schema are checked when it is converted (schemas.js).
  schema: (value) => /boolean|object|function/.test(typeof value) && value !== null,
  regex: (value) => string.fits(value) || (isA('RegExp', value) && !flagsOf(value)),
  grammar: string.fits,
  choices: (value) => Array.isArray(value) && value.length > 0 && value.every(string.fits),
};
/** Returns the flags of a constraint's regular expression that are not supported, because they change what it matches.
 * @param {RegExp} regex */
const flagsOf = ({ flags }) => flags.replace(/[^mv]/g, '');
const WHITESPACE = ['compact', 'pretty', 'any'];

/** Returns a copy of a value after a round trip through JSON. Throws an Error with the reason if JSON cannot represent
 * all of the value.
 * @param {unknown} value @param {boolean} [plain] whether to refuse all class instances without toJSON(). Those without
 * properties are always refused.
 * @param {(name: string, part: any, holder: any) => void} [check] called for each part */
export function jsonOf(value, plain = false, check) {
  /** @this {any} @param {string} name @param {any} part */
  function checked(name, part) {
    check?.(name, part, this);
    const where = name ? `\`${name}\`` : 'the value';
    const kind = typeof part;
    const odd = /function|symbol|bigint/.test(kind);
    const hasNoJson = odd || (kind === 'number' && !Number.isFinite(part));
    if (hasNoJson) throw flaw(where, odd ? `a ${kind}` : part);
    if (part === undefined && Array.isArray(this)) throw flaw(`item ${name} of an array`, 'undefined');
    const proto = kind === 'object' && part && classOf(part);
    const isInstance = proto && (plain || !Object.keys(part).length);
    if (isInstance) throw flaw(where, `an object of the class ${proto.constructor?.name}`);
    return part;
  }
  try {
    const text = JSON.stringify(value, checked);
    if (text === undefined) throw flaw('the value', 'undefined');
    return JSON.parse(text);
  } catch (cause) {
    if (cause instanceof RangeError) throw flaw('the value', 'nested too deeply', { cause });
    throw cause;
  }
}

/** Returns a JSON copy of a value, for example a tool's result. Throws `bad-option` if JSON cannot
 * represent it.
 * @param {string} name @param {unknown} value */
export function jsonOption(name, value) {
  try {
    return jsonOf(value);
  } catch (cause) {
    throw notJson(name, cause);
  }
}

/** @param {Pick<Rule, 'fits'>} rule */
const optional =
  ({ fits }) =>
  (/** @type {any} */ value) =>
    value === undefined || fits(value);
/** @type {Record<string, (value: any) => boolean>} */
const TOOL = {
  name: (value) => string.fits(value) && /^[\w.-]{1,64}$/.test(value),
  description: optional(string),
  parameters: optional({ fits: (value) => !boolean.fits(value) && CONSTRAINTS.schema(value) }),
  execute: optional(callback),
  strict: (value) => value === null || optional(boolean)(value),
};

/** Converts a tool in OpenAI's form to the package's. @param {any} tool @returns {Tool} */
export function toolOf(tool) {
  const { type, function: described, ...rest } = tool ?? {};
  return type === 'function' && object.fits(described) ? { ...described, ...rest } : tool;
}

/** @param {any} given @param {number} i */
function toolFault(given, i) {
  if (!object.fits(given) || given === null) return `${show(given)} as tool ${i}`;
  const tool = /** @type {any} */ (toolOf(given));
  const unknown = Object.keys(tool).find((key) => !Object.hasOwn(TOOL, key));
  if (unknown !== undefined) return `the key ${show(unknown)} in tool ${i}`;
  const wrong = Object.keys(TOOL).find((key) => !TOOL[key](tool[key]));
  return wrong ? `the ${wrong} ${show(tool[wrong])} in tool ${i}` : '';
}

/** @param {any} tools */
function toolsFault(tools) {
  if (!Array.isArray(tools)) return show(tools);
  const fault = Array.from(tools, toolFault).find(Boolean);
  if (fault) return fault;
  const names = tools.map((tool) => toolOf(tool).name);
  const twice = names.find((name, n) => names.indexOf(name) < n);
  return twice === undefined ? '' : `two tools named ${show(twice)}`;
}

/** @param {any} format */
function formatFault(format) {
  const regex = format?.regex;
  const flags = isA('RegExp', regex) ? flagsOf(regex) : '';
  if (flags) return `a RegExp with the flags ${flags}`;
  return isA('Object', format)
    ? inBraces(Object.entries(format).map(([name, value]) => `${name}: ${show(value)}`))
    : show(format);
}

/** @param {any} format */
function isFormat(format) {
  if (format === 'json') return true;
  if (!object.fits(format)) return false;
  const { whitespace, maxLength, maxItems, maxProperties, ...constraint } = format;
  const bounds = [maxLength, maxItems, maxProperties].filter((bound) => bound !== undefined);
  const [[name, value] = ['', null], ...more] = Object.entries(constraint);
  const spaced = whitespace === undefined || (name === 'schema' && WHITESPACE.includes(whitespace));
  const bounded = bounds.every((bound) => name === 'schema' && Number.isInteger(bound) && bound >= 0);
  return !more.length && spaced && bounded && Object.hasOwn(CONSTRAINTS, name) && CONSTRAINTS[name](value);
}

/** Rules of the options of generate(). @type {Record<string, Rule>} */
export const GENERATE_OPTIONS = {
  maxTokens: integer(0, MAX_TOKENS),
  ...Object.fromEntries(
    Object.entries(SAMPLING).map(([name, { min, max, whole }]) => {
      return [name, (whole ? integer : number)(min, max)];
    }),
  ),
  seed: integer(0, 2 ** 32 - 1),
  logitBias: rule(
    'an object or a Map from at most 1024 token ids to numbers',
    (value) =>
      object.fits(value) &&
      (value.size ?? Object.keys(value).length) <= 1024 &&
      biasEntries(value).every(([id, bias]) => {
        return Number.isInteger(id) && id >= 0 && id < 2 ** 31 && typeof bias === 'number' && bias < Infinity;
      }),
  ),
  stop: rule(`a non-empty string, or an array of at most ${MAX_STOPS} such strings`, (value) => {
    const stops = [value].flat();
    return stops.length <= MAX_STOPS && stops.every((s) => string.fits(s) && s !== '');
  }),
  logprobs: integer(0, 64),
  format: {
    ...rule(
      "'json', { schema }, { regex }, { grammar } or { choices }, where { schema } may have maxLength, maxItems, " +
        'maxProperties and whitespace',
      isFormat,
    ),
    fault: formatFault,
  },
  jumpForward: boolean,
  draft: boolean,
  thinking: rule('true, false or { budget } with an integer >= 0', (value) => {
    return boolean.fits(value) || (Number.isInteger(value.budget) && value.budget >= 0);
  }),
  tools: {
    ...rule(
      'an array of { name, description, parameters, execute } with unique names of letters, digits, _, . and -',
      (value) => !toolsFault(value),
    ),
    fault: toolsFault,
  },
  toolChoice: rule(
    "'auto', 'none', 'required', { name } or { name, everyRound }",
    (value) =>
      ['auto', 'none', 'required'].includes(value) ||
      (value.name === undefined ? value.everyRound === true : string.fits(value.name)),
  ),
  maxRounds: integer(0, 1000),
  signal,
  onPrefillProgress: callback,
};

/** Rules of the options of loadModel(). @type {Record<string, Rule>} */
export const LOAD_OPTIONS = {
  onProgress: callback,
  signal,
  threads: integer(1, MAX_THREADS),
  contextLength: integer(1, 1 << 20),
  variant: oneOf('auto', 'relaxed', 'simd128'),
  quantizeFloats: oneOf('auto', 'keep', 'q8_0'),
  kvType: oneOf('auto', 'f32', 'i16', 'q8_0'),
  sequences: integer(1, MAX_SEQUENCES),
  kvTokens: integer(1, MAX_SEQUENCES << 20),
  rowsOnDisk: rule('auto, true or false', (value) => value === 'auto' || boolean.fits(value)),
  rowsLater: boolean,
  cache: rule(
    'true, false, modelCache or a cache of openCache()',
    (value) => boolean.fits(value) || value instanceof ModelCache,
  ),
  draftModel: rule('a model source', Boolean),
  sha256: rule('64 hexadecimal digits, or an array of such strings', (value) =>
    [value].flat().every((s) => string.fits(s) && /^[0-9a-f]{64}$/i.test(s)),
  ),
  token: rule('ASCII characters without white space', (value) => string.fits(value) && /^[!-~]+$/.test(value)),
  headers: rule('a Headers object, an object of strings, or pairs of strings', (value) => headerPairs(value) !== null),
  restart: boolean,
  chatCacheBytes: integer(0, 2 ** 40),
  baseUrl: address('of a folder'),
  hub: address('of a mirror of Hugging Face'),
};

/** Rule that accepts an ArrayBuffer, a typed array or a DataView. */
export const bytes = rule('an ArrayBuffer or a view of one', (value) => {
  return isA('ArrayBuffer', value) || ArrayBuffer.isView(value);
});

/** Checks options. Throws `bad-option`. Treats undefined as not given, and in options of answers also null, because
 * adapters pass on null.
 * @param {object} options @param {Record<string, Rule>} table */
export function checkOptions(options, table) {
  checkValue('options', options, object);
  const known = Object.keys(table);
  for (const [name, value] of Object.entries(options)) {
    if (!known.includes(name)) throw unknownOption(name, closest(name, known), known.join(', '));
    const isGiven = value !== undefined && !(value === null && table === GENERATE_OPTIONS);
    if (isGiven) checkValue(name, value, table[name]);
  }
}

/** Throws `bad-option` if a value breaks a rule. @param {string} name of an option, or the subject of the message
 * @param {unknown} value @param {Rule} rule */
export function checkValue(name, value, { expected, fits, fault = show }) {
  if (value !== null && fits(value)) return;
  const isSecret = name === 'headers' || name === 'token';
  const got = isSecret ? '' : fault(value);
  const subject = /^\w+$/.test(name) ? `\`${name}\`` : name;
  throw mustBe(subject, expected, got);
}

/** Throws `bad-option` unless `fits` is true. For conditions that depend on more than the value.
 * @param {string} name as in checkValue() @param {unknown} value @param {string} expected completes "`name` must be …"
 * @param {boolean} fits */
export const checkThat = (name, value, expected, fits) => checkValue(name, value, { expected, fits: () => fits });

/** Returns the known option that an unknown one probably means. @param {string} name @param {string[]} known */
function closest(name, known) {
  const plain = (/** @type {string} */ word) => word.toLowerCase().replace(/[^a-z]/g, '');
  return (
    known.find((word) => plain(word) === plain(name)) ??
    known.find((word) => {
      const half = Math.ceil(Math.max(word.length, name.length) / 2);
      return plain(word).slice(0, half) === plain(name).slice(0, half);
    })
  );
}

/** Returns the default sampling options of a model.
 * @param {Record<string, any>} [found] values that the file recommends; those out of range are ignored
 * @returns {SamplingOptions} */
export function defaultsOf(found = {}) {
  const all = Object.entries(SAMPLING).map(([name, { standard }]) => {
    return [name, GENERATE_OPTIONS[name].fits(found[name]) ? found[name] : standard];
  });
  return Object.fromEntries(all);
}

/** Returns a copy of the options that are not undefined or null, which the caller cannot change.
 * @template {object} T @param {T} options @returns {Partial<T>} */
export function given(options) {
  return copied(Object.fromEntries(Object.entries(options).filter(([, value]) => (value ?? null) !== null)));
}

/** Returns a deep copy of arrays and plain objects, in which other values are shared. Does not recurse, because values may
 * be cyclic or deeply nested. Also shares Standard Schemas, whose properties need not be enumerable, and values that
 * cannot be read, such as revoked proxies, which later checks reject.
 * @param {any} value @returns {any} */
export function copied(value) {
  const copies = new Map();
  const copyOf = (/** @type {any} */ part) => {
    try {
      const isPlain = !classOf(part) && !('~standard' in part);
      if (isPlain && !copies.has(part)) copies.set(part, Array.isArray(part) ? [...part] : { ...part });
    } catch {}
    return copies.get(part) ?? part;
  };
  const copy = copyOf(value);
  for (const part of copies.values()) for (const key of Object.keys(part)) part[key] = copyOf(part[key]);
  return copy;
}

/** Returns the prototype of a value, or null for arrays and plain objects. A plain object is recognised by a prototype
 * that itself has none, which also works for objects of other frames. @param {any} value */
function classOf(value) {
  const proto = Array.isArray(value) ? null : Object.getPrototypeOf(value ?? '');
  return proto && Object.getPrototypeOf(proto) && proto;
}

/** @param {string} name */
const samplerName = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Returns the options of generate() in the form that is posted to the worker. Schemas are converted later
 * (schemas.js).
 * @param {GenerateOptions} options @param {SamplingOptions} [defaults] */
export function postable(options, defaults) {
  const { maxTokens = DEFAULT_MAX_TOKENS, logitBias = {}, stop = [], ...rest } = { ...defaults, ...given(options) };
  return {
    maxTokens,
    bias: biasEntries(logitBias),
    stop: [stop].flat(),
    sampler: Object.entries(rest)
      .filter(([name]) => Object.hasOwn(SAMPLING, name))
      .map(([name, value]) => /** @type {[string, number]} */ ([samplerName(name), value])),
    seed: rest.seed ?? crypto.getRandomValues(new Uint32Array(1))[0],
    logprobs: rest.logprobs ?? null,
    format: rest.format ? postableFormat(rest.format) : null,
    jumpForward: rest.jumpForward ?? true,
    draft: rest.draft,
    thinking: typeof rest.thinking === 'object' ? rest.thinking.budget : (rest.thinking ?? null),
    tools: postableTools(rest),
    progress: !!rest.onPrefillProgress,
  };
}

/** Returns the `toolChoice` for an answer that follows the results of tools.
 * @param {GenerateOptions['toolChoice']} choice */
export const nextChoice = (choice) =>
  choice === 'none' || (typeof choice === 'object' && choice.everyRound) ? choice : 'auto';

/** @param {GenerateOptions} options */
function postableTools({ tools = [], toolChoice = 'auto' }) {
  const list = tools.map(toolOf).map(({ name, description, parameters }) => ({ name, description, parameters }));
  const { name } = /** @type {ToolDemand} */ (toolChoice);
  const demanded = name === undefined ? /** @type {const} */ ('required') : { name };
  const choice = typeof toolChoice === 'string' ? toolChoice : demanded;
  const names = list.map(({ name }) => name);
  const missing = name === undefined ? choice === 'required' && !list.length : !names.includes(name);
  if (missing) throw unknownTool(show(name ?? choice), `${names}`);
  if (!list.length || choice === 'none') return null;
  return { list, choice, next: nextChoice(toolChoice) === 'auto' ? /** @type {const} */ ('auto') : choice };
}

/** Returns a format in the form that is posted to the worker. @param {Format} format @returns {PostedFormat} */
export function postableFormat(format) {
  if (format === 'json') return format;
  if ('regex' in format && isA('RegExp', format.regex)) {
    const { source, flags } = /** @type {RegExp} */ (format.regex);
    return { regex: source, flags };
  }
  return { ...format };
}

/** Returns the pairs of token id and value in `logitBias`. @param {Map<number, number> | Record<number, number>} bias
 * @returns {[number, number][]} */
export function biasEntries(bias) {
  const entries = isA('Map', bias) ? [.../** @type {Map<number, number>} */ (bias)] : Object.entries(bias);
  return entries.map(([id, value]) => [/^\d+$/.test(`${id}`) ? Number(id) : NaN, value]);
}

/** Returns pairs of header name and value; null if `headers` are not valid. @param {any} headers */
export function headerPairs(headers) {
  try {
    return /** @type {[string, string][]} */ ([...new Headers(headers)]);
  } catch {
    return null;
  }
}
