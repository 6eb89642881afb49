/* generated: made by tools/release/readme.js from the options in src/run/sampler.c and the JSDoc of
 * js/options.js. Edit these two files instead. */

/**
 * Sampling options of an answer. Defaults are those of Gemma; `model.info.defaults` has those of the model.
 * @typedef {object} SamplingOptions
 * @property {number} [temperature] Divides the logits before a token is drawn. Lower is more predictable; 0 takes the
 *   most likely token. Range: 0 to 100. Default: 1.
 * @property {number} [topK] Draws among this many of the most likely tokens. 0: off. Range: 0 to 4194304. Default:
 *   64.
 * @property {number} [topP] Draws among the most likely tokens whose probabilities add up to this value. 1: off.
 *   Range: 0 to 1. Default: 0.95.
 * @property {number} [minP] Drops tokens whose probability is below this fraction of the highest one. 0: off. Range:
 *   0 to 1. Default: 0.
 * @property {number} [typicalP] Keeps the tokens whose surprisal is closest to the entropy, up to this total
 *   probability. 1: off. Range: 0 to 1. Default: 1.
 * @property {number} [repetitionPenalty] Divides positive logits of tokens in the penalty window by this factor, and
 *   multiplies negative ones. 1: off. Range: 0.01 to 100. Default: 1.
 * @property {number} [frequencyPenalty] Subtracted from a token's logit for each occurrence in the penalty window. 0:
 *   off. Range: -100 to 100. Default: 0.
 * @property {number} [presencePenalty] Subtracted from a token's logit if it occurs in the penalty window. 0: off.
 *   Range: -100 to 100. Default: 0.
 * @property {number} [penaltyWindow] Number of latest tokens, prompt included, to which the penalties apply. 0: no
 *   penalties. Range: 0 to 1048576. Default: 64.
 */

/** Sampling options as data. standard: default, unless the model has its own; whole: whether only
 * integers are accepted. */
export const SAMPLING = {
  temperature: { min: 0, max: 100, standard: 1, whole: false },
  topK: { min: 0, max: 4194304, standard: 64, whole: true },
  topP: { min: 0, max: 1, standard: 0.95, whole: false },
  minP: { min: 0, max: 1, standard: 0, whole: false },
  typicalP: { min: 0, max: 1, standard: 1, whole: false },
  repetitionPenalty: { min: 0.01, max: 100, standard: 1, whole: false },
  frequencyPenalty: { min: -100, max: 100, standard: 0, whole: false },
  presencePenalty: { min: -100, max: 100, standard: 0, whole: false },
  penaltyWindow: { min: 0, max: 1048576, standard: 64, whole: true },
};

/** Flags of the command line, each with the option that it sets. */
export const FLAGS = {
  answer: {
    temperature: 'temperature',
    'top-k': 'topK',
    'top-p': 'topP',
    'min-p': 'minP',
    'typical-p': 'typicalP',
    'repetition-penalty': 'repetitionPenalty',
    'frequency-penalty': 'frequencyPenalty',
    'presence-penalty': 'presencePenalty',
    'penalty-window': 'penaltyWindow',
    'max-tokens': 'maxTokens',
    seed: 'seed',
    stop: 'stop',
    logprobs: 'logprobs',
  },
  load: {
    threads: 'threads',
    context: 'contextLength',
    variant: 'variant',
    'quantize-floats': 'quantizeFloats',
    'kv-type': 'kvType',
    sequences: 'sequences',
    'kv-tokens': 'kvTokens',
    'draft-model': 'draftModel',
    'rows-on-disk': 'rowsOnDisk',
    'rows-later': 'rowsLater',
  },
  serve: {
    name: 'name',
    port: 'port',
    host: 'host',
    'api-key': 'apiKey',
    cors: 'cors',
    'allow-host': 'allowHost',
    queue: 'queue',
    quiet: 'quiet',
  },
};

/** Help text of the command line flags. */
export const HELP = {
  answer: `  --temperature X          Divides the logits before a token is drawn. Lower is more predictable; 0 takes the most
                           likely token. Range: 0 to 100. Default: 1.
  --top-k N                Draws among this many of the most likely tokens. 0: off. Range: 0 to 4194304. Default: 64.
  --top-p X                Draws among the most likely tokens whose probabilities add up to this value. 1: off. Range: 0
                           to 1. Default: 0.95.
  --min-p X                Drops tokens whose probability is below this fraction of the highest one. 0: off. Range: 0 to
                           1. Default: 0.
  --typical-p X            Keeps the tokens whose surprisal is closest to the entropy, up to this total probability. 1:
                           off. Range: 0 to 1. Default: 1.
  --repetition-penalty X   Divides positive logits of tokens in the penalty window by this factor, and multiplies
                           negative ones. 1: off. Range: 0.01 to 100. Default: 1.
  --frequency-penalty X    Subtracted from a token's logit for each occurrence in the penalty window. 0: off. Range:
                           -100 to 100. Default: 0.
  --presence-penalty X     Subtracted from a token's logit if it occurs in the penalty window. 0: off. Range: -100 to
                           100. Default: 0.
  --penalty-window N       Number of latest tokens, prompt included, to which the penalties apply. 0: no penalties.
                           Range: 0 to 1048576. Default: 64.
  --max-tokens N           Maximum number of tokens in the answer. 0 only evaluates the prompt. Default: 1024.
  --seed N                 Seed of the random numbers. The same seed, prompt and options give the same answer, with any
                           number of threads. Default: random; the result reports it.
  --stop TEXT              Ends the answer where one of these texts appears; the text itself is left out.
  --logprobs N             Reports the log probability of each token and of up to this many alternatives at its
                           position. Forced tokens are drawn too. Default: no log probabilities.`,
  load: `  --threads N              Number of threads that compute, including the engine's worker. In browsers, more than one
                           needs cross-origin isolation. Limited to twice the number of cores, or to four if that is
                           more. Default: the number of cores; if that is more than two, a measurement at the end of the
                           load can reduce it.
  --context N              Context length in tokens, at most the model's own. The memory for it is reserved at loading.
                           Default: the model's own, at most 4096.
  --variant auto|relaxed|simd128
                           Build of the engine. auto uses relaxed SIMD where the platform computes it correctly, else
                           simd128. Default: auto.
  --quantize-floats auto|keep|q8_0
                           Treatment of F32, F16 and BF16 matrices. keep leaves them unchanged. q8_0 quantises those
                           whose row length is a multiple of 32, which is faster, smaller and less exact. auto means
                           keep. Default: auto.
  --kv-type auto|f32|i16|q8_0
                           Format of the KV cache. q8_0 takes the least memory, f32 is exact. auto is f32 for models
                           with float weights and for layers with a sliding window, else i16 (16-bit integers). If a few
                           dimensions of a model's keys have outliers, q8_0 changes 1 to 10 % of greedy tokens in long
                           contexts. Default: auto.
  --sequences N            Number of answers that are generated at the same time, in one batch. Each has its own context
                           of --context tokens. Embedding models ignore this option. Default: 1.
  --kv-tokens N            Number of tokens for which the KV cache has room, for all --sequences together; at least
                           --context. Answers share the room for a common beginning of their prompts, and wait for room
                           if there is not enough. Default: --sequences times --context.
  --draft-model TEXT       A smaller model with the same vocabulary, or an assistant trained for this model. It drafts
                           tokens for answers, which stay the same. Its download has the same headers and token, unless
                           it is on another host. Default: none.
  --rows-on-disk auto|true|false
                           Which tables stay on disk: matrices with a row for each token, such as Gemma 4's per-layer
                           embeddings. auto: those of 64 MB or more. true: all. false: none. Rows are read from the
                           cached copy or the file; for other sources, from a temporary file. Answers are the same.
                           Default: auto.
  --rows-later true|false  Whether a model is ready before the tables of --rows-on-disk are downloaded. Meanwhile, calls
                           request the rows that they need. Default: true.`,
  serve: `  --name TEXT              Id by which requests name a model. For several models, repeat the flag in the order of the
                           models. Default: the file's name without its extension.
  --port N                 Port to listen on. 0 picks a free one. Default: 8080.
  --host TEXT              Address to listen on. Only this machine can reach a loopback address; 0.0.0.0 is reachable
                           from the network. Default: 127.0.0.1.
  --api-key TEXT           Key that requests must send as Authorization: Bearer KEY. Prefer the environment variable
                           GEMMA_WASM_API_KEY, because other users of the machine can see arguments. Default: no key.
  --cors TEXT              Origin of web pages that may use the server, such as https://example.com, or * for any. Can
                           be repeated. Default: no web pages.
  --allow-host TEXT        Further host name by which clients may address the server, besides localhost and the value of
                           --host. Can be repeated. Default: none.
  --queue N                Maximum number of requests in progress, waiting ones included. Others get status 429.
                           Default: 64.
  --quiet                  Does not log requests to standard error. Default: false.`,
};
