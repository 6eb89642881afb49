/*
 * protocol: every message between the client, its engine worker and helper threads, and the types of the values in
 * them. Imports no other layer but errors.
 */
/** @import { SamplingOptions } from './generated.js' */
import { ModelError, messageOf, relayed, unexpected } from './errors.js';

// Types of model sources, and of stores of files

/** URLs of the package's files. page: base of relative URLs; baseUrl: the folder of all files (option `baseUrl`);
 * files: URLs by file name, if the entry script registered them.
 * @typedef {{ page?: string, baseUrl?: string, files?: Record<string, string> }} Place */
/** Sizes, limits and delays of downloads. segment: bytes of one range; parallel: maximum number of connections; alone:
 * speed in bytes per millisecond above which one connection requests long ranges instead; share: length of a long range
 * as a share of the file's size, if the file is being cached; most: its length in bytes otherwise; least: its minimum
 * length; spare: its minimum length as a multiple of the bytes that arrive during a request's latency; journal: maximum
 * number of bytes between two journal writes; attempts: maximum number of attempts without progress; backoffMs: first
 * pause between attempts, doubled each time; longestMs: longest pause that a server may request; stallMs: time without
 * data after which a connection has stalled; glanceMs: the same if a complete copy is cached; toldMs: interval of
 * progress reports while no data arrives.
 * @typedef {{ segment: number, parallel: number, alone: number, share: number, least: number, most: number,
 *   spare: number, journal: number, attempts: number, backoffMs: number, longestMs: number,
 *   stallMs: number, glanceMs: number, toldMs: number }} Tuning */
/** A URL of a model file. key: key of the cached copy if the source is an entry of the cache, because the `url` of an
 * entry lacks secrets.
 * @typedef {{ url: string, key?: string, headers?: [string, string][], tuning?: Partial<Tuning> }} UrlSource */
/** A model source that can be posted to the worker. pull: the client has the bytes and sends them on request.
 * @typedef {{ kind: 'url' } & UrlSource | { kind: 'blob', blob: Blob } | { kind: 'path', path: string }
 *   | { kind: 'pull', total?: number }} SourceDescriptor */
/** Exclusive right to store a model.
 * @typedef {object} Lock
 * @property {boolean} lost Whether another tab took the lock because this owner seemed dead.
 * @property {() => void} free Releases the lock.
 */
/** A store of files by name, which `openCache` accepts. The package chooses the names: hexadecimal digits, `-` and
 * `.gguf`, or `c-`, digits, `-` and `.state`.
 * @typedef {object} Store
 * @property {() => Promise<string[]>} list Returns the names of all files.
 * @property {(name: string) => Promise<number>} size Returns the size of a file in bytes, or 0 if it is missing.
 * @property {(name: string, at: number, into: Uint8Array, wanted?: () => boolean) => Promise<number>} read Reads bytes
 *   at an offset and returns their count. Must not write to `into` once `wanted` returns false.
 * @property {(name: string, at: number, bytes: Uint8Array) => Promise<void>} write Writes bytes at an offset. A gap
 *   before them may have any content. Fails if storage is full or another tab has locked the file.
 * @property {(name: string) => Promise<void>} remove Deletes a file.
 * @property {(name: string) => Promise<Lock | undefined>} [lock] Locks the files whose names begin with `name`, so that
 *   only the caller stores them. Returns undefined while another tab or process has the lock.
 * @property {(name: string) => void} [tidy] Removes the lock of a dead owner.
 * @property {(name: string) => Promise<void>} [flush] Makes written bytes survive a crash.
 * @property {(name: string) => Promise<void>} [close] Closes a file that was read or written.
 * @property {() => Promise<StorageUse>} [estimate] Returns how much storage is used.
 * @property {() => Promise<boolean>} [persist] Asks the browser not to clear the storage automatically.
 */
/** How much storage is used.
 * @typedef {object} StorageUse
 * @property {number} [usage] Bytes in use.
 * @property {number} [quota] Bytes that may be used.
 * @property {boolean} [persisted] Whether the browser promises not to clear the storage.
 */

// Types of loads and of loaded models

/** Options of a load. headerOnly: stop after the header, so that only calls without weights work. cache: a folder, the
 * default location (no `folder`), or a store of the client (`remote`). draftModel: files of the draft model, none
 * without one.
 * @typedef {{ variant?: string, threads?: number, contextLength?: number, sha256?: string | readonly string[],
 *   headerOnly?: boolean, cache?: { folder?: string, remote?: boolean },
 *   quantizeFloats?: string, kvType?: string, kvTokens?: number, sequences?: number, rowsOnDisk?: boolean | 'auto',
 *   rowsLater?: boolean, chatCacheBytes?: number, place?: Place, draftModel?: SourceDescriptor[] }} OpenOptions */
/** Information about a load that does not stop it.
 * @typedef {object} Notice
 * @property {string} code `not-cached`, `retry`, `offline`, `changed`, `mended`, `rows-later` or `rows-stopped`.
 * @property {string} message The message, in English.
 */
/** Progress of a load.
 * @typedef {object} Progress
 * @property {'fetch' | 'load' | 'ready' | 'rest'} phase `fetch`: bytes come from the network; `load`: from the cache, a
 *   file or a stream; `ready`: the model can be used (reported once); `rest`: the model can be used, and matrices that
 *   stay on disk (option `rowsOnDisk`) are still being downloaded.
 * @property {number} loaded Bytes read so far.
 * @property {number | undefined} total Bytes of the whole model, once known.
 * @property {number} bytesPerSecond Average rate of the last three seconds.
 * @property {number} fromCache Bytes of `loaded` that came from the cache.
 * @property {Notice} [notice] Notice of an event that does not stop the load, in the first report after it.
 */
/** Properties of a model.
 * @typedef {object} ModelInfo
 * @property {string} architecture Value of `general.architecture` in the file, for example `gemma3`.
 * @property {string} name Name of the model in the file. May be empty.
 * @property {string} quantisation Type of most weights in the layers, for example `Q4_0`.
 * @property {number} parameters Number of weights.
 * @property {number} contextLength Context length in use, in tokens.
 * @property {number} trainedContextLength Longest context length that the file allows, in tokens.
 * @property {number} vocabSize Size of the vocabulary, in tokens.
 * @property {MemoryPlan} memory Bytes reserved for weights, KV cache and scratch space.
 * @property {number} largestContext Longest context that fits into WebAssembly's 4 GB, at most `trainedContextLength`,
 *   in tokens.
 * @property {number} layers Number of layers.
 * @property {number} heads Number of attention heads of each layer.
 * @property {number} width Hidden size: width of the residual stream.
 * @property {EmbeddingInfo | null} embedding Properties of an embedding model ([embeddings](embeddings.md)); null for a
 *   model that generates text.
 * @property {number} threads Number of threads in use, including the engine's worker.
 * @property {boolean} threadsMeasured Whether a measurement chose `threads` (see the option `threads`).
 * @property {number} sequences Maximum number of answers that are generated at the same time (option `sequences`).
 * @property {string} variant Build in use: `simd128` or `relaxed`, with `+threads` for the threaded builds.
 * @property {string} variantReason Why `auto` did not take relaxed SIMD although the platform has it, or which
 *   instructions the kernels avoid because the platform computes them wrongly (docs/reports/processors.md in the
 *   repository). Empty otherwise.
 * @property {boolean} isolated Whether the platform allows threads.
 * @property {string} reason Why there is only one thread, or why no model can be loaded. Empty otherwise.
 * @property {number} fileBytes Size of the file up to the end of the last tensor, in bytes.
 * @property {boolean} chatTemplate Whether the model accepts messages: the file has a chat template, or is a Gemma
 *   model without one.
 * @property {boolean} thinking Whether the option `thinking` can turn thoughts on and off.
 * @property {number | null} bosToken Id of the BOS token (begin of sequence).
 * @property {number[]} endTokens Ids that end an answer.
 * @property {SamplingOptions} defaults Default sampling options: the file's (`general.sampling.*`), those of the
 *   model's family, or Gemma's.
 * @property {'cached' | 'stored' | 'none'} cache `cached`: read from the cache; `stored`: downloaded and added to it;
 *   `none`: not cached (`notices` say why).
 * @property {Notice[]} notices Notices of the load, as in `onProgress`.
 * @property {DraftModelInfo} [draftModel] Properties of the draft model, if there is one.
 */
/** Properties of a draft model (option `draftModel`).
 * @typedef {object} DraftModelInfo
 * @property {string} architecture Value of `general.architecture` in the file.
 * @property {string} name Name of the model in the file. May be empty.
 * @property {string} quantisation Type of most weights in the layers.
 * @property {number} parameters Number of weights.
 * @property {number} contextLength Context length in tokens. Longer contexts are continued without its drafts.
 * @property {number} memory Memory for weights, KV cache and scratch space, in bytes.
 */
/** The result of `perplexity`.
 * @typedef {object} PerplexityResult
 * @property {number} perplexity Perplexity: e to the power of `nll`.
 * @property {number} nll Mean of -ln p over the scored tokens.
 * @property {number} tokens Number of scored tokens.
 */
/** Memory of a model, in bytes.
 * @typedef {object} MemoryPlan
 * @property {number} weights All weights, in memory and on disk.
 * @property {number} resident Weights in memory.
 * @property {number} onDisk Weights that stay on disk, of which single rows are read (option `rowsOnDisk`).
 * @property {number} kv KV cache.
 * @property {number} scratch Buffers for activations.
 * @property {number} total Sum of `resident`, `kv` and `scratch`.
 * @property {number} heap The whole heap, the model included.
 */
/** Properties of an embedding model.
 * @typedef {object} EmbeddingInfo
 * @property {number} dimensions Length of the vectors.
 * @property {'mean' | 'last'} pooling How the vectors of the tokens are combined.
 * @property {boolean} dense Whether the file has the dense layers after the pooling.
 */
/** The header of a model file.
 * @typedef {object} Inspection
 * @property {ModelInfo} info As `model.info`; `memory` is what loading with these options would need.
 * @property {number} version Version of the GGUF format.
 * @property {number} alignment Alignment of tensor data, in bytes.
 * @property {MetadataEntry[]} metadata All entries. Of an array, only the type and the count.
 * @property {TensorInfo[]} tensors All tensors.
 */
/** An entry of the metadata.
 * @typedef {object} MetadataEntry
 * @property {string} key Key, for example `general.name`.
 * @property {string} type GGUF type of the value.
 * @property {unknown} [value] Value; missing for arrays.
 * @property {string} [of] Of an array: type of its elements.
 * @property {number} [count] Of an array: number of elements.
 */
/** A tensor.
 * @typedef {object} TensorInfo
 * @property {string} name Name in the file.
 * @property {string} type GGML type of the elements.
 * @property {number[]} shape Dimensions, innermost first.
 * @property {number} offset Offset in the file, in bytes.
 * @property {number} bytes Size in the file, in bytes.
 * @property {number} [part] Index of the file of a split model, if it is not the first.
 * @property {boolean} [onDisk] Whether it stays on disk (option `rowsOnDisk`).
 */

// Types of prompts and answers

/** A call of a tool.
 * @typedef {object} ToolCall
 * @property {string} id Id of the call.
 * @property {string} name Name of the tool.
 * @property {any} arguments Arguments, valid for the tool's `parameters`.
 * @property {any} [result] Result of `execute`.
 * @property {unknown} [error] Error of `execute`.
 */
/** Properties of a message.
 * @typedef {object} MessageFields
 * @property {'system' | 'developer' | 'user' | 'assistant' | 'model' | 'tool'} role Role of the author. `developer` is
 *   an alias of `system`, `model` of `assistant`. A `tool` message has the result of a call.
 * @property {unknown} content Text, or an array of text parts. The result of a tool may be any JSON.
 * @property {string} [thoughts] Thoughts of an answer. Most chat templates leave them out of later prompts.
 * @property {boolean} [aborted] Whether the answer was aborted.
 * @property {readonly ToolCall[]} [toolCalls] Tool calls of an answer.
 * @property {string} [name] In the result of a tool: name of the tool. Either `name` or `id` is needed.
 * @property {string} [id] In the result of a tool: id of the call.
 * @property {boolean} [prefix] Only in the last message, with the role `assistant`: whether its text is the beginning
 *   of the answer.
 */
/** Properties of a message with the result of a tool.
 * @typedef {object} ResultFields
 * @property {'tool'} role The message has the result of a call.
 * @property {any} content Result: any JSON.
 */
/** Properties of any other message.
 * @typedef {object} TextFields
 * @property {Exclude<MessageFields['role'], 'tool'>} role Role of the author.
 * @property {Content} content Text, or an array of text parts.
 */
/** A message of a conversation. @typedef {MessageFields & (ResultFields | TextFields)} ChatMessage */
/** A part of a message. Other types fail with `bad-option`.
 * @typedef {object} TextPart
 * @property {'text'} type Type of the part.
 * @property {string} text Text. Parts are joined by line breaks.
 * @property {string} [source_lang_code] Language of the text, such as `en`. Only for the chat template of
 *   [TranslateGemma](chat.md#translategemma), whose messages of the user have exactly one part with both codes.
 * @property {string} [target_lang_code] Language to translate the text into, such as `pt-BR`.
 */
/** Content of a message: text, or parts of it. @typedef {string | readonly TextPart[]} Content */
/** A message in its posted form. @typedef {{ role: string, content: any, thoughts?: string, name?: string, id?: string,
 *   toolCalls?: readonly ToolCall[] }} PostedMessage */
/** A tool without its `execute`. @typedef {{ name: string, description?: string, parameters?: any }} ToolSpec */
/** Beginning of a conversation in the KV cache. text: rendered by the chat template, with sentinels around texts that
 * the template did not write (engine/template.js); ids: its tokens; of: fingerprint of engine and model; cut: number
 * of bytes of an incomplete character at the end of `ids`, which `text` lacks. Only continue() reuses a prefix with
 * `cut`.
 * @typedef {{ of: string, text: string, ids: number[], cut?: number }} Prefix */
/** A prompt in its posted form. begin: text that the answer begins with; thought: text that its thoughts begin with;
 * thinking: whether the model thinks, undefined for the template's default;
 * formatted: whether an answer that calls no tools has a format.
 * @typedef {{ text: string } | { ids: number[] } | { messages: PostedMessage[], prefix?: Prefix, begin?: string,
 *   thought?: string, thinking?: boolean, tools?: ToolSpec[], formatted?: boolean }} PostedPrompt */
/** @typedef {'compact' | 'pretty' | 'any'} Whitespace */
/** Limits for strings (characters), arrays (items) and objects (properties) that a schema leaves unbounded.
 * @typedef {{ maxLength?: number, maxItems?: number, maxProperties?: number }} Bounds */
/** A constraint on answers, in its posted form.
 * @typedef {'json' | ({ schema: any, whitespace?: Whitespace } & Bounds)
 *   | { regex: string | RegExp, flags?: string } | { grammar: string }
 *   | { choices: readonly string[] }} PostedFormat */
/** A tool call in an answer that is being generated.
 * @typedef {object} PartialCall
 * @property {string} name Name of the tool.
 * @property {any} arguments Arguments so far.
 * @property {boolean} done Whether the call is complete.
 */
/** Why an answer ended: at an end token (`stop`), at `maxTokens` (`length`), at a text of the option `stop`, by an
 * abort, at the end of the context, or with tool calls.
 * @typedef {'stop' | 'length' | 'stop-sequence' | 'aborted' | 'context' | 'tool-calls'} FinishReason */
/** A token and its log probability.
 * @typedef {object} AlternativeToken
 * @property {number} id Token id.
 * @property {number} logprob Natural logarithm of the probability.
 * @property {string} text Text of the token.
 * @property {number[]} bytes Bytes of the text, which can begin or end inside a character.
 */
/** Log probabilities at one position of an answer.
 * @typedef {object} TokenLogprob
 * @property {number} id Id of the token that was drawn.
 * @property {number} logprob Natural logarithm of its probability.
 * @property {number[]} bytes Bytes of its text, which can begin or end inside a character.
 * @property {AlternativeToken[]} top The most likely tokens, best first.
 */
/** One step of decoding: a drawn token, or a span of tokens that a format left no choice about.
 * @typedef {object} Step
 * @property {'thought' | 'text'} kind Whether the tokens belong to the model's thoughts or to its answer.
 * @property {string} text Text that can be shown since the last step. May be empty.
 * @property {number[]} ids Token ids.
 * @property {boolean} forced Whether a format or the budget of thoughts left no choice about the tokens.
 * @property {TokenLogprob[]} [logprobs] Log probabilities, if requested.
 */
/** Token counts of an answer.
 * @typedef {object} Usage
 * @property {number} promptTokens Tokens of the prompt.
 * @property {number} reusedTokens Tokens of the prompt that the KV cache already had.
 * @property {number} completionTokens Tokens of the answer, thoughts included.
 * @property {number} [thoughtTokens] Tokens of the thoughts, if there are any.
 */
/** Durations of an answer.
 * @typedef {object} Timings
 * @property {number} firstTokenMs Milliseconds from the start of the call in the worker to the first token.
 * @property {number} prefillMs Milliseconds of evaluating the prompt.
 * @property {number} decodeMs Milliseconds of generating the answer.
 * @property {number} prefillTokensPerSecond Tokens of the prompt evaluated per second.
 * @property {number} decodeTokensPerSecond Tokens generated per second.
 * @property {number} [draftedTokens] Number of draft tokens, with the options `draft` or `draftModel`.
 * @property {number} [acceptedTokens] Number of draft tokens that were accepted.
 */
/** The reason why a schema library rejected a value.
 * @typedef {object} Issue
 * @property {string} message The library's message.
 */
/** An answer, whatever its `finishReason`.
 * @template [V=any]
 * @typedef {object} AnswerFields
 * @property {string} text The whole answer, without thoughts.
 * @property {string} [thoughts] Thoughts before the answer ([more](chat.md#thinking)). Missing if there are none.
 * @property {number[]} tokens Token ids of thoughts and answer, without the end token.
 * @property {FinishReason} finishReason Why the answer ended.
 * @property {string} [stopSequence] The stop sequence that ended the answer.
 * @property {Usage} usage Token counts.
 * @property {Timings} timings Durations.
 * @property {number} seed Seed of the random numbers.
 * @property {TokenLogprob[]} [logprobs] One entry per token, if requested. Probabilities are computed from the raw
 *   logits; with a `format`, only from those of the allowed tokens.
 * @property {V} [value] With a `format`, if the answer is complete (`finishReason` is `stop`): its parsed JSON, or its
 *   text if the format is not JSON.
 * @property {Issue[]} [issues] Why a [schema library](formats.md#schema-libraries) refused the value, which is then
 *   missing.
 * @property {ToolCall[]} [toolCalls] Tool calls, with `result` or `error` if `execute` ran.
 * @property {ChatMessage[]} [dropped] In a chat, messages that the policy
 *   [`overflow`](chat.md#when-the-context-is-full) removed before this answer.
 */
/** Properties of an answer that calls tools.
 * @typedef {object} CallingFields
 * @property {'tool-calls'} finishReason The model calls tools.
 * @property {ToolCall[]} toolCalls Tool calls, with `result` or `error` if `execute` ran.
 */
/** Properties of an answer that a stop sequence ended.
 * @typedef {object} StoppedFields
 * @property {'stop-sequence'} finishReason A stop sequence appeared.
 * @property {string} stopSequence The stop sequence that ended the answer.
 */
/** Properties of any other answer.
 * @typedef {object} OtherFields
 * @property {Exclude<FinishReason, 'tool-calls' | 'stop-sequence'>} finishReason Why the answer ended.
 */
/** The result of `generate`. `finishReason` tells whether there are `toolCalls`, and a `stopSequence`.
 * @template [V=any]
 * @typedef {AnswerFields<V> & (CallingFields | StoppedFields | OtherFields)} GenerateResult */
/** @typedef {'auto' | 'required' | { name: string }} PostedChoice */
/** Arguments of `generate` in their posted form. tools: `choice` is the tool choice for the first answer, `next` for
 * answers after results of tools; sampler: names and values of the engine's sampling options; owner: id of the calling
 * chat if it has a saved state: other chats do not reuse tokens that it restored; thinking: null for the template's
 * default, a number for a budget in tokens.
 * @typedef {{ maxTokens: number, bias: [number, number][], stop: string[], sampler: [string, number][], seed: number,
 *   logprobs: number | null, format: PostedFormat | null, jumpForward?: boolean, draft?: boolean, progress: boolean,
 *   tools: { list: ToolSpec[], choice: PostedChoice, next: PostedChoice } | null, thinking: boolean | number | null,
 *   prompt: PostedPrompt, owner?: string }} GenerateArgs */
/** Result of `generate` for a chat. prefix: tokens that the next turn can reuse; why: the reason if there is no prefix.
 * @typedef {GenerateResult & { prefix?: Prefix, why?: string }} GenerateAnswer */

// Types of the other calls to the worker

/** Arguments of `embed`. prefixes: text to put before each input, one per input or one for all; dimensions: length of
 * the truncated vectors.
 * @typedef {{ texts: string[], prefixes: string[], pooling?: 'mean' | 'last', dimensions: number, normalize: boolean,
 *   truncate: boolean, progress: boolean }} EmbedArgs */
/** Arguments of `inside`. positions: null for all, negative ones count from the end; lens: number of tokens of the
 * logit lens at each position.
 * @typedef {{ prompt: PostedPrompt, layers: readonly number[], heads: readonly number[],
 *   positions: readonly number[] | null, lens: number,
 *   norms: boolean }} InsideArgs */
/** A token of the logit lens.
 * @typedef {object} LensToken
 * @property {number} id Token id.
 * @property {string} text Text of the token.
 * @property {number} probability Probability from 0 to 1.
 */
/** Values of one layer.
 * @typedef {object} InsideLayer
 * @property {number} layer Index of the layer.
 * @property {'local' | 'global'} kind Whether its attention has a sliding window (`local`).
 * @property {LensToken[][]} [lens] For each position the most likely tokens, best first.
 * @property {Float32Array} [norms] Norms of the residual stream, three for each position: before the layer, after its
 *   attention, at its end.
 * @property {Record<number, Float32Array>} [attention] Attention weights by head: [positions][tokens].
 */
/** A token of a prompt.
 * @typedef {object} PromptToken
 * @property {number} id Token id.
 * @property {string} text Text of the token.
 */
/** Values of the layers of a model for one prompt.
 * @typedef {object} Inside
 * @property {PromptToken[]} tokens Tokens of the prompt.
 * @property {number[]} positions Positions that were inspected.
 * @property {InsideLayer[]} layers Layers that were inspected.
 */
/** Result of matching one text. refusedAt: offset of the first token that the format refuses, or the text's length if
 * it ends too early.
 * @typedef {{ accepted: boolean, refusedAt?: number }} Verdict */
/** Result of `match`. times: milliseconds of each token mask, including each text's first; first: milliseconds to
 * compile the format and compute the first mask.
 * @typedef {{ compiled: boolean, reason?: string, verdicts: Verdict[], times: number[], first: number }} Matches */

/** Arguments and results of the calls to an open model.
 * @typedef {{ args: { text: string, bos?: boolean, special?: boolean }, value: number[] }} Tokenize
 * @typedef {{ args: { ids: number[], special?: boolean }, value: string }} Detokenize
 * @typedef {{ args: { prompt: PostedPrompt }, value: number }} Count
 * @typedef {{ args: { format: PostedFormat, texts: string[], draft?: number, masks?: boolean, formats?: boolean },
 *   value: Matches }} Match
 * @typedef {{ args: {}, value: number }} HeapBytes
 * @typedef {{ args: {}, value: Omit<Inspection, 'info'> }} Inspect
 * @typedef {{ args: GenerateArgs, value: GenerateAnswer }} Generate
 * @typedef {{ args: { ids: number[], all?: boolean }, value: Float32Array }} Logits
 * @typedef {{ args: { text: string, window?: number },
 *   value: PerplexityResult }} Perplexity
 * @typedef {{ args: { head: Uint8Array, ids: number[], of?: string, owner?: string }, value: Uint8Array }} Save
 * @typedef {{ args: { bytes: Uint8Array, owner?: string }, value: { tokens: number, reason?: string } }} Restore
 * @typedef {{ args: { what: 'put' | 'get' | 'list' | 'remove', name?: string, bytes?: Uint8Array },
 *   value: any }} Stored
 * @typedef {{ tokenize: Tokenize, detokenize: Detokenize, count: Count, heapBytes: HeapBytes, inspect: Inspect,
 *   match: Match, generate: Generate, logits: Logits, perplexity: Perplexity, save: Save, restore: Restore,
 *   stored: Stored, embed: { args: EmbedArgs, value: Float32Array },
 *   inside: { args: InsideArgs, value: Inside } }} Calls */

/** @typedef {{ info: ModelInfo, call: <M extends keyof Calls>(method: M, args: Calls[M]['args'], signal?: AbortSignal,
 *   onEvent?: (event: Event) => void) => Promise<Calls[M]['value']> }} Callable */

// Types of messages between the client, the worker and helper threads

/** @typedef {{ [M in keyof Calls]: { kind: 'call', id: number, method: M, args: Calls[M]['args'] }
 *   }[keyof Calls]} Call */

/** Requests of the worker to the client. pull: the next bytes of a file that the client has (null at its end); the
 * others call the client's store. read: returns at most `most` bytes from offset `at`.
 * @typedef {{ pull: { args: [part: number], value: Uint8Array | null },
 *   read: { args: [name: string, at: number, most: number], value: Uint8Array } }
 *   & { [M in 'list' | 'size' | 'write' | 'remove' | 'flush' | 'close' | 'estimate']: {
 *     args: Parameters<NonNullable<Store[M]>>, value: Awaited<ReturnType<NonNullable<Store[M]>>> } }} Questions */
/** @typedef {{ [M in keyof Questions]: { kind: 'ask', question: number, method: M, args: Questions[M]['args'] }
 *   }[keyof Questions]} Question */
/** The error of a failed request to the client. name: the name of the store's error, such as QuotaExceededError.
 * @typedef {PackedError & { name: string, message: string }} AskedError */

/** Messages of the client to the worker. open: the first message, sent once; abort: aborts a pending call; ack: number
 * of steps that the consumer has read since the last ack; beat: a heartbeat, which the worker returns.
 * @typedef {{ kind: 'open', id: number, source: SourceDescriptor[], options: OpenOptions }} Open
 * @typedef {{ kind: 'answer', question: number, value?: Questions[keyof Questions]['value'],
 *   error?: AskedError }} Answer
 * @typedef {Open | Call | { kind: 'abort', id: number } | { kind: 'ack', id: number, count: number }
 *   | Answer | { kind: 'beat' } | { kind: 'dispose' }} ToWorker */

/** Progress of a call: of a prompt in tokens, of `embed` in texts.
 * @typedef {object} PrefillProgress
 * @property {number} done Number so far.
 * @property {number} total Number in all.
 */
/** Messages of the worker to the client. progress: of a load or a prompt; rest: progress of tables that are downloaded
 * after the load; beat: a heartbeat, also sent during long synchronous work; fatal: the engine cannot be used any more;
 * thread: requests a helper thread that uses this port (browsers); locked: a lock file to remove when the worker has
 * ended (Node); temporary: a temporary file to remove when the worker has ended (browsers).
 * @typedef {{ kind: 'progress', id: number, value: Progress | PrefillProgress }
 *   | { kind: 'steps', id: number, steps: Step[], calls?: PartialCall[] }} Event
 * @typedef {Event | Question | { kind: 'done', id: number, value: ModelInfo | Calls[keyof Calls]['value'] }
 *   | { kind: 'failed' | 'fatal', id: number, error: PackedError } | { kind: 'beat' } | { kind: 'disposed' }
 *   | { kind: 'rest', value: Progress } | { kind: 'thread', port: MessagePort }
 *   | { kind: 'locked', path: string, owner: string } | { kind: 'temporary', name: string }} FromWorker */

/** Messages of the engine worker to a helper thread, which replies to `prepare` with whether it is ready.
 * @typedef {{ kind: 'prepare', module: WebAssembly.Module, memory: WebAssembly.Memory }
 *   | { kind: 'enter', pool: number, index: number, stack: number }} ToThread */

/** Maximum number of bytes in one reply, because Chromium cannot post more. */
export const MAX_RESULT_BYTES = 2 ** 31 - 2 ** 21;
/** Maximum number of threads (GW_MAX_THREADS in src/base/base.h). */
export const MAX_THREADS = 64;
/** Maximum number of answers that are evaluated together (GW_SEQUENCES in src/run/session.h). */
export const MAX_SEQUENCES = 16;
/** Maximum number of steps that the engine generates ahead of the consumer. */
export const CREDIT = 64;

/** @typedef {ReturnType<typeof packError>} PackedError */
/** Returns an error as a plain object, which can be posted. @param {unknown} error */
export function packError(error) {
  const ours = error instanceof ModelError ? error : unexpected(error);
  const { code, message, expected, got, cause = '' } = ours;
  return { code, message, expected, got, cause: messageOf(cause) };
}

/** Returns the ModelError that packError() packed. @param {PackedError} packed */
export function unpackError({ code, message, expected, got, cause }) {
  return relayed(code, message, { expected, got, cause: cause ? new Error(cause) : undefined });
}
