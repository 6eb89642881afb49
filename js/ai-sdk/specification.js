/*
 * specification: the parts of the AI SDK's provider specification v4 that this adapter uses. The types are structural
 * because `@ai-sdk/provider` is a dependency of `ai`, which strict package managers hide from this package: an import
 * that does not resolve would turn every model into `any`. tests/js/ai-sdk.test.js checks them against the real types.
 */

/** A warning that a requested feature is not supported.
 * @typedef {{ type: 'unsupported', feature: string, details?: string }} WarningV4 */
/** Options or metadata by provider. @typedef {Record<string, Record<string, any>>} ProviderOptionsV4 */
/** A message of a prompt. Further properties of a part depend on its `type`.
 * @typedef {{ role: string, content: string | readonly { type: string }[] }} MessageV4 */
/** A tool that a call offers.
 * @typedef {{ type: string, name: string, description?: string, inputSchema?: any }} ToolV4 */
/** Options of `doGenerate` and `doStream`.
 * @typedef {object} CallOptionsV4
 * @property {readonly MessageV4[]} prompt Messages.
 * @property {number} [maxOutputTokens] Maximum number of tokens in the answer. Default: 1024.
 * @property {number} [temperature] As in `generate`.
 * @property {readonly string[]} [stopSequences] Texts that end the answer.
 * @property {number} [topP] As in `generate`.
 * @property {number} [topK] As in `generate`.
 * @property {number} [presencePenalty] As in `generate`.
 * @property {number} [frequencyPenalty] As in `generate`.
 * @property {{ type: string, schema?: any }} [responseFormat] Text, or JSON with or without a schema.
 * @property {number} [seed] Seed of the random numbers.
 * @property {readonly ToolV4[]} [tools] Tools that the model may call.
 * @property {{ type: string, toolName?: string }} [toolChoice] Whether the model calls a tool. Default: auto.
 * @property {AbortSignal} [abortSignal] Aborts the call.
 * @property {string} [reasoning] Reasoning effort.
 * @property {ProviderOptionsV4} [providerOptions] Further options of `generate`, under `gemmaWasm`.
 */

/** Why an answer ended. raw: `finishReason` of generate().
 * @typedef {{ unified: 'stop' | 'length' | 'tool-calls' | 'error' | 'other', raw: string }} FinishReasonV4 */
/** A number of tokens. @typedef {number | undefined} CountV4 */
/** Token counts, undefined if the answer failed.
 * @typedef {{ inputTokens: { total: CountV4, noCache: CountV4, cacheRead: CountV4, cacheWrite: undefined },
 *   outputTokens: { total: CountV4, text: CountV4, reasoning: CountV4 } }} UsageV4 */
/** A call of a tool. @typedef {{ type: 'tool-call', toolCallId: string, toolName: string, input: string }} ToolCallV4 */
/** A part of an answer. @typedef {{ type: 'text' | 'reasoning', text: string } | ToolCallV4} ContentV4 */
/** Identification of an answer. @typedef {{ id: string, timestamp: Date, modelId: string }} ResponseV4 */
/** The result of `doGenerate`.
 * @typedef {object} GenerateResultV4
 * @property {ContentV4[]} content Parts of the answer.
 * @property {FinishReasonV4} finishReason Why the answer ended.
 * @property {UsageV4} usage Token counts.
 * @property {ProviderOptionsV4} providerMetadata Seed, durations, stop sequence and log probabilities, under `gemmaWasm`.
 * @property {ResponseV4} response Identification of the answer.
 * @property {WarningV4[]} warnings Features that are not supported.
 */
/** A part of a streamed answer.
 * @typedef {{ type: 'stream-start', warnings: WarningV4[] }
 *   | { type: 'response-metadata' } & ResponseV4
 *   | { type: 'text-start' | 'text-end' | 'reasoning-start' | 'reasoning-end' | 'tool-input-end', id: string }
 *   | { type: 'text-delta' | 'reasoning-delta' | 'tool-input-delta', id: string, delta: string }
 *   | { type: 'tool-input-start', id: string, toolName: string }
 *   | ToolCallV4
 *   | { type: 'error', error: unknown }
 *   | { type: 'finish', usage: UsageV4, finishReason: FinishReasonV4, providerMetadata?: ProviderOptionsV4 }} StreamPartV4 */
/** The result of `doStream`. @typedef {{ stream: ReadableStream<StreamPartV4> }} StreamResultV4 */

/** Options of `doEmbed`.
 * @typedef {object} EmbedCallV4
 * @property {string[]} values Texts to embed.
 * @property {number} [dimensions] Length of the vectors. Default: the model's.
 * @property {AbortSignal} [abortSignal] Aborts the call.
 * @property {ProviderOptionsV4} [providerOptions] Further options of `embed`, under `gemmaWasm`.
 */
/** The result of `doEmbed`.
 * @typedef {object} EmbedResultV4
 * @property {number[][]} embeddings A vector for each text.
 * @property {{ tokens: number }} usage Number of tokens of the texts, without the prompt of `task`.
 * @property {WarningV4[]} warnings Always empty.
 */

export {};
