/**
 * words: what docs/api.md says of options and fields beyond the short JSDoc of the package, whose bytes
 * are counted. Names, types, ranges and the sampler's defaults are not here: they come from the code.
 */
import { postable } from '../../../js/options.js';

/** Per option: meaning; default where no table of the code has it; what its number counts.
 * @type {Record<string, Record<string, { meaning: string, standard?: string, unit?: string }>>} */
export const OPTIONS = {
  LoadOptions: {
    onProgress: { meaning: 'called while the model is read' },
    signal: { meaning: 'ends loading, at any time, with the code `aborted`' },
    threads: {
      meaning: "threads that compute, the engine's own included; more than one only where memory can be shared",
      standard: 'all cores',
      unit: 'threads',
    },
    contextLength: {
      meaning: 'how much text the model can look back on; its memory is reserved while loading',
      standard: "the model's own, at most 4096",
      unit: 'tokens',
    },
    variant: {
      meaning: 'the build of the engine; `auto` takes relaxed SIMD where it is, else simd128',
      standard: 'auto',
    },
    quantizeFloats: {
      meaning:
        'matrices that the file has as F32, F16 or BF16: `keep` them, or pack them as `q8_0` where ' +
        'rows are whole blocks of 32, which is faster, smaller and less exact; `auto` keeps them',
      standard: 'auto',
    },
    kvType: {
      meaning:
        'how keys and values of the context are kept: `q8_0` takes the least memory, `f32` loses nothing; ' +
        '`auto` is `f32` in files of floats; in others `i16`, integers of 16 bits, where all positions are kept, else `f32`. ' +
        'In long contexts with outlying channels `q8_0` changes one greedy token in ten to a hundred',
      standard: 'auto',
    },
    cache: { meaning: 'keep what is downloaded, and use what was kept: `true` means `modelCache`', standard: 'true' },
    chatCacheBytes: {
      meaning: 'what conversations in [`stateCache`](chat.md#keep-it-for-the-next-visit) may take together',
      standard: '1 GiB',
      unit: 'bytes',
    },
    restart: {
      meaning:
        'when the worker dies, have another one load the model, and repeat the calls that had given ' +
        'nothing ([more](errors.md#when-the-engine-dies))',
      standard: 'false',
    },
    sha256: { meaning: 'of the whole source, checked while it is read; a difference is `sha256-mismatch`' },
    token: { meaning: "an access token for the model's host, sent as a header; kept nowhere" },
    headers: { meaning: 'of requests for the model' },
    hub: {
      meaning: 'a mirror of Hugging Face, in its place for sources with a `repo`',
      standard: 'https://huggingface.co',
    },
    baseUrl: {
      meaning:
        "the folder with the package's files (worker, threads, wasm), where they do not lie beside the " +
        'script that imports it: an address, in Node also a path. See [hosting.md](hosting.md#files)',
    },
  },
  GenerateOptions: {
    maxTokens: {
      meaning: 'the answer ends here at the latest; 0 only evaluates the prompt',
      standard: String(postable({}).maxTokens),
      unit: 'tokens',
    },
    temperature: {
      meaning:
        'logits are divided by it before the draw: lower is more predictable; 0 always takes the most ' +
        'likely token',
    },
    topK: { meaning: 'draw among so many of the most likely tokens; 0: off', unit: 'tokens' },
    topP: {
      meaning: 'draw among the most likely tokens that together reach this probability; 1: off',
      unit: 'probability',
    },
    minP: { meaning: 'leave out tokens less likely than this share of the most likely one; 0: off', unit: 'share' },
    typicalP: {
      meaning: 'keep the tokens whose surprise is nearest to the expected one, up to this probability; 1: off',
      unit: 'probability',
    },
    repetitionPenalty: {
      meaning: 'logits of tokens seen before are divided by it if positive, multiplied if not; 1: off',
      unit: 'factor',
    },
    frequencyPenalty: { meaning: "taken from a token's logit for each time it was seen; 0: off", unit: 'logits' },
    presencePenalty: { meaning: "taken from a token's logit if it was seen at all; 0: off", unit: 'logits' },
    penaltyWindow: { meaning: 'how far back the penalties look, into the prompt too; 0: no penalties', unit: 'tokens' },
    seed: { meaning: 'the same seed, prompt and options give the same answer', standard: 'random, told in the result' },
    logitBias: {
      meaning: 'added to the logits of single tokens, by id; `-Infinity` bans one; at most 1024 of them',
      unit: 'logits',
    },
    stop: { meaning: 'text that ends the answer; it is not part of it' },
    logprobs: {
      meaning:
        'the result has the log probability of each token and, at most, of so many others; 0 of the token ' +
        'alone; turns `jumpForward` off',
      unit: 'tokens',
    },
    format: {
      meaning:
        'the shape that the answer is held to ([formats](formats.md)): JSON, JSON of a schema, a regular ' +
        'expression, a grammar, or one of some texts',
    },
    jumpForward: {
      meaning: 'take what a `format` leaves no choice about without asking the model for each token',
      standard: 'true',
    },
    tools: { meaning: 'what the model may call ([tools](tools.md)); with a prompt of messages' },
    toolChoice: {
      meaning:
        '`auto`: words or calls, as the model likes; `required`: calls; `{ name }`: one call of that ' +
        'tool; `none`: as if there were no tools',
      standard: 'auto',
    },
    maxRounds: {
      meaning:
        'in a chat: so many answers that call may be answered by `execute` before the model must be asked ' +
        'again by you',
      standard: '8',
      unit: 'answers',
    },
    signal: { meaning: 'ends the answer; the result says `aborted` and has the text so far' },
    onPrefillProgress: { meaning: 'called while the prompt is evaluated, with tokens `done` and in `total`' },
  },
};

/** Per field.
 * @type {Record<string, Record<string, string>>} */
export const FIELDS = {
  Progress: {
    phase: '`fetch`: from the network; `load`: from elsewhere; `ready`: the model can be used (once, last)',
    loaded: 'bytes so far',
    total: 'bytes in all, once known',
    bytesPerSecond: 'over the last three seconds',
    fromCache: 'bytes of `loaded` that were not fetched: the cache had them',
    notice: 'something to know that does not stop the load, in the report of the moment: see below',
  },
  Inspection: {
    info: 'as `model.info`; its `memory` is what loading with these options would take',
    version: 'of the GGUF format',
    alignment: 'of tensor data, in bytes',
    metadata: 'every key; of arrays only type and count',
    tensors: 'every tensor, with the innermost dimension first; offset and size in bytes of the file',
  },
  ModelInfo: {
    architecture: "the file's, one of the table in the README",
    name: 'as the file says; may be empty',
    quantisation: 'the type that holds most weights of the layers',
    parameters: 'how many numbers the weights are',
    contextLength: 'tokens that fit, as loaded',
    trainedContextLength: "tokens, the file's own",
    vocabSize: 'tokens',
    memory: 'bytes, as reserved; `heap`: of the whole heap with it',
    largestContext: "tokens for which there are addresses, at most the file's own",
    layers: 'how many',
    heads: "of each layer's attention",
    width: 'numbers of the residual stream, and of a vector of a text',
    embedding:
      'of a model that makes vectors of texts ([embeddings](embeddings.md)): how many numbers, how tokens are put together, ' +
      'and whether the file has the dense layers behind; `null` for those that go on with texts',
    threads: "in use, the engine's own included",
    variant: '`simd128` or `relaxed`, with `+threads` in the threaded builds',
    variantReason:
      'why `auto` did not take relaxed here though the platform has it, or what its kernels do without: ' +
      'what the platform computes wrongly (docs/reports/processors.md of the repository); empty when all is well',
    isolated: 'whether threads are possible here',
    reason: 'why there is one thread only, or why no model can be loaded; empty otherwise',
    fileBytes: 'up to the end of the last tensor',
    chatTemplate: 'whether messages are taken: the file has a template, or is a Gemma without one',
    bosToken: 'id that begins a text',
    endTokens: 'ids at which an answer ends',
    cache: '`cached`: the cache had it; `stored`: the cache has it now; `none`: neither (`notices` say why)',
    notices: 'what came up while it was loaded, as in `onProgress`',
  },
  GenerateResult: {
    text: 'the whole answer',
    tokens: 'ids drawn, without the one that ends an answer',
    finishReason: 'see below',
    stopSequence: 'the one of `stop` that was met',
    usage: 'in tokens; `reusedTokens` is the part of the prompt that was ' + 'evaluated before and not again',
    timings: 'milliseconds, and tokens per second; `firstTokenMs` is from the start of the call in the worker',
    seed: 'the one given, or the one that was chosen',
    value:
      'with a `format`, of an answer that is whole (`finishReason` is `stop`): what its JSON says; the text, where the ' +
      'format is none of JSON',
    issues:
      'why a [schema library](formats.md#schema-libraries) refused the value: `{ message }` each; there is no `value` then',
    toolCalls:
      'with `tools`: what was called, `{ id, name, arguments }`, and `result` or `error` where `execute` gave one',
    logprobs:
      'one per token, if asked for: `{ id, logprob, top: [{ id, logprob, text }] }`, natural logarithms of the raw ' +
      "logits' probabilities; with a `format` among the tokens that were allowed",
  },
  Capabilities: {
    variant: 'the build that `auto` takes; null if none can run: no SIMD, or no workers (service and shared workers)',
    simd: 'the platform has WebAssembly SIMD: nothing runs without',
    relaxed: 'it has relaxed SIMD too',
    isolated: 'memory can be shared between threads',
    threads: 'that `loadModel` would use',
    reason: 'why there is one thread only, or why no model can be loaded; empty otherwise',
    memory: 'bytes that the device has, as far as it tells: browsers round, and stop at 8 GB, some say nothing',
  },
  ChatMessage: {
    role: '`model` is the same as `assistant`, `developer` as `system`; `tool`: a result',
    content: 'text; the result of a tool may be any JSON',
    aborted: 'an answer that was cut short',
    toolCalls: 'what an answer called, `{ id, name, arguments }`',
    name: 'of a result: of what was called',
    id: 'of a result: of the call; either will do',
  },
};

/** The meaning of each error code. @type {Record<import('../../../js/errors.js').ErrorCode, string>} */
export const MEANINGS = {
  'bad-magic': 'Not a GGUF file.',
  'bad-version': 'A GGUF version other than 2 and 3.',
  truncated: 'The bytes end too early.',
  'bad-count': 'An impossible number of things.',
  'bad-metadata': 'A metadata value is impossible.',
  'missing-key': 'A metadata key is missing.',
  'unsupported-architecture': 'Models that cannot be run.',
  'unsupported-type': 'A tensor type that cannot be read.',
  'bad-shape': 'A tensor has another shape than the metadata say.',
  'tensor-range': 'A tensor outside the file or over another.',
  'missing-tensor': 'A tensor is missing.',
  duplicate: 'A key or a tensor is there twice.',
  'missing-tokenizer': 'The file holds no vocabulary.',
  'bad-tokenizer': 'The vocabulary contradicts itself.',
  'bad-split': 'Not the parts of one split model.',
  'not-finite': 'Weights, logits or vectors are NaN or infinite.',
  'sha256-mismatch': 'The bytes are not those that `sha256` names.',
  'read-error': 'A file, Blob, stream or iterator failed.',
  'template-error': 'The chat template refused the messages, or failed.',
  'bad-saved': 'A saved conversation is damaged.',
  'network-error': 'The server could not be reached.',
  'http-error': 'The server answered with an error status.',
  'source-changed': 'The file on the server changed while it was read.',
  'bad-option': 'An option is unknown, out of range, or not possible here.',
  'bad-token': 'A token id is outside the vocabulary.',
  'bad-format': 'Answers cannot be constrained to this format.',
  'format-too-complex': 'The format takes too much work to compile.',
  'context-exceeded': 'The prompt is longer than the context.',
  'unsupported-source': 'The model source cannot be read here.',
  'not-generative': 'The model only embeds texts; it cannot generate any.',
  'no-chat-template': 'The file has no chat template, so the model takes no messages.',
  'no-memory': 'There is not enough memory.',
  'engine-fault': 'The engine computes wrong results on this platform.',
  'unsupported-variant': 'This engine variant cannot run here.',
  'unsupported-platform': 'The platform has no WebAssembly SIMD, or forbids WebAssembly.',
  'engine-missing': 'A file of the package could not be loaded: a .wasm file, or a part of the JavaScript.',
  'worker-failed': 'The worker that runs the engine died or froze.',
  'cannot-share': 'Tabs cannot share a model here.',
  'cache-failed': 'The model cache could not be read or changed.',
  'cache-corrupt': 'The cached copy is corrupt and could not be downloaded again.',
  'index-failed': 'A search index could not be read or changed.',
  'bad-state': 'The call is not possible now.',
  aborted: 'The `AbortSignal` fired before there was a result.',
  disposed: 'The model was disposed of.',
};
