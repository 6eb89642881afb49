/**
 * measure: measures each side of the benchmark in the same order and with the same clock: load, warm-up, prefill,
 * decode. Runs in pages and in Node. A side provides `run`, which evaluates a prompt and greedily generates `tokens`
 * tokens after the first one.
 *
 * @typedef {object} Timing
 * @property {number} promptTokens number of evaluated tokens, without cached ones
 * @property {number} promptMs     time until the first token
 * @property {number} tokens       number of tokens drawn after the first one
 * @property {number} tokensMs     time for these tokens
 *
 * @typedef {object} Prompt
 * @property {number[]} ids
 * @property {string} text         of about as many tokens, for sides that do not accept ids
 *
 * @typedef {object} Opened
 * @property {(prompt: Prompt, tokens: number) => Promise<Timing>} run
 * @property {Record<string, unknown>} facts   facts that the side reports
 * @property {boolean} [keepsPrefix]           whether a prompt that continues the last one reuses its KV cache
 * @property {Opened['run']} [sample]          like `run`, with the default sampling options
 * @property {() => Promise<number | undefined>} [rows] time of a step of 4 tokens, divided by that of a step of 1
 *
 * @typedef {object} Job
 * @property {string} driver
 * @property {string} model          URL, or path for sides without fetch
 * @property {string} peers          folder of the peers' packages
 * @property {number} threads
 * @property {number} contextLength
 * @property {number[]} prefill      lengths of prompts to time, ascending
 * @property {number} longest        skips prompts that would take more seconds at the speed of the previous prompt
 * @property {number[]} contexts     context lengths at which decoding is timed
 * @property {number} tokens         number of tokens to draw at each context length
 * @property {number} seed           seed of the prompts
 * @property {boolean} turn          also time a new message after a history, if the side keeps prefixes
 * @property {boolean} [rows]        also time steps of 4 tokens
 * @property {string} [variant]
 *
 * @typedef {object} Sample
 * @property {number} loadMs
 * @property {Record<string, number>} prefill   tokens/s by prompt length
 * @property {Record<string, number>} decode    tokens/s by context length; the mean if a length occurs twice
 * @property {number} [sampled]                 tokens/s of decode with the default sampling options
 * @property {number} [rows]                    see Opened
 * @property {number} [turnMs]                  time until the first token of a new turn
 * @property {Record<string, unknown>} facts
 * @property {number} [memory]                  peak in bytes
 * @property {number} [seconds]                 duration of the whole measurement
 */
import { randoms } from '../../tests/support/random.js';

const WARM_UP = { prompt: 32, tokens: 4 };
/** Numbers of tokens with which a turn of a conversation is timed: an evaluated history, then a new message. */
export const TURN = { history: 1000, message: 20 };
/** Prompts are drawn from IDS token ids that begin at FIRST_ID: ordinary tokens in every test model. */
const FIRST_ID = 300;
const IDS = 700;
/** Words that are one token each in Gemma's vocabulary, with the space before them. */
const WORDS = (
  'the of and to in is that for it as was with be by on not he his but at are this have from or had an ' +
  'they which one you were all her she there would their we him been has when who will no more if out so up'
).split(' ');

/** Returns a random prompt. Different seeds give different first tokens, so that no cached prefix shortens prefill.
 * @param {number} length @param {number} seed @returns {Prompt} */
export function makePrompt(length, seed) {
  const next = randoms(seed);
  const ids = Array.from({ length }, () => FIRST_ID + next(IDS));
  const words = Array.from({ length: Math.max(1, length - 1) }, () => ` ${WORDS[next(WORDS.length)]}`);
  return { ids, text: words.join('') };
}

/** @param {number} count @param {number} ms */
const perSecond = (count, ms) => (count / ms) * 1000;

/**
 * Loads the model in a runtime and measures it. Throws if the runtime generates fewer than half of the requested
 * tokens.
 * @param {(job: Job) => Promise<Opened>} open
 * @param {Job} job
 * @returns {Promise<Sample>}
 */
export async function measure(open, job) {
  let seed = job.seed;
  const before = performance.now();
  const { run, sample: draw, rows, facts, keepsPrefix } = await open(job);
  const loadMs = performance.now() - before;
  await run(makePrompt(WARM_UP.prompt, seed++), WARM_UP.tokens);
  /** @type {Sample} */
  const sample = { loadMs, prefill: {}, decode: {}, facts };
  let seconds = 0; // seconds per token of the previous prompt
  for (const length of job.prefill) {
    if (length * seconds > job.longest) continue;
    const timing = await run(makePrompt(length, seed++), 0);
    sample.prefill[length] = perSecond(timing.promptTokens, timing.promptMs);
    seconds = timing.promptMs / 1000 / timing.promptTokens;
  }
  for (const context of job.contexts) {
    const timing = await run(makePrompt(Math.max(1, context), seed++), job.tokens);
    if (timing.tokens < job.tokens / 2)
      throw new Error(`The runtime generated only ${timing.tokens} tokens instead of ${job.tokens}.`);
    const rate = perSecond(timing.tokens, timing.tokensMs);
    sample.decode[context] = context in sample.decode ? (sample.decode[context] + rate) / 2 : rate;
  }
  if (draw) {
    const timing = await draw(makePrompt(WARM_UP.prompt, seed++), job.tokens);
    sample.sampled = perSecond(timing.tokens, timing.tokensMs);
  }
  if (job.rows) sample.rows = await rows?.();
  if (job.turn && keepsPrefix) sample.turnMs = await timeTurn(run, seed++);
  return sample;
}

/** @param {Opened['run']} run @param {number} seed */
async function timeTurn(run, seed) {
  const history = makePrompt(TURN.history, seed);
  await run(history, 0);
  const message = makePrompt(TURN.message, seed + 1);
  const whole = { ids: [...history.ids, ...message.ids], text: history.text + message.text };
  return (await run(whole, 0)).promptMs;
}
