/* jobs: the calls that evaluate: generate, logits, perplexity. The host runs one at a time. */
import { GemmaError, wrapped } from '../errors.js';
import { CREDIT } from '../link/protocol.js';
import { strip } from './template.js';
import { TextAssembler } from './text.js';

const FLUSH_MS = 10;
/** In one answer: Chromium posts no more. */
const MAX_RESULT_BYTES = 2 ** 31 - 2 ** 21;

/** @import { FinishReason, GenerateResult } from '../generation.js' */
/** @import { FromWorker, Logits, Perplexity } from '../link/protocol.js' */
/** @import { Runner } from './runner.js' */
/** @import { Prompt, Vocabulary } from './vocabulary.js' */
/** @typedef {{ runner: Runner, vocabulary: Vocabulary, contextLength: number }} Context */
/** unacked: pieces that the consumer has not taken; stalled: until something changed.
 * @typedef {{ id: number, aborted: boolean, unacked: number,
 *   post: (message: FromWorker) => void, stalled: () => Promise<unknown>,
 *   othersWait: () => boolean }} EvaluationJob */
/** @typedef {{ id: number, logprob: number,
 *   top: { id: number, logprob: number, text: string }[] }} TokenLogprob */

/** @typedef {ReturnType<import('../options.js').postable> & { prompt: Prompt }} GenerateArgs */
/** prefix: what the next turn of a conversation may build on.
 * @typedef {GenerateResult & { prefix?: import('./template.js').Prefix }} GenerateAnswer */

/** One answer under way. @typedef {ReturnType<typeof begin>} Run */
/** @param {Context} context @param {EvaluationJob} job @param {GenerateArgs} args */
function begin(context, job, args) {
  const start = performance.now();
  const { ids, text } = context.vocabulary.ids(args.prompt);
  return {
    ...context, job, args, native: context.runner.native, prompt: ids, seamed: text,
    assembler: new TextAssembler(args.stop), outbox: new Outbox(job),
    tokens: /** @type {number[]} */ ([]), logprobs: /** @type {TokenLogprob[]} */ ([]),
    reused: 0, time: { start, prefill: 0, decode: 0, first: 0 },
  };
}

/** @param {Context} context @param {EvaluationJob} job @param {GenerateArgs} args @returns {Promise<GenerateAnswer>} */
export async function generate(context, job, args) {
  const run = begin(context, job, args);
  const { native, runner, outbox, assembler } = run;
  setSampler(run);
  run.reused = native.sync(run.prompt);
  if (args.logprobs === null) native.call('want_top', 1);
  await runner.breathe();
  const finishReason = await decode(run).catch((error) => {
    if (error instanceof GemmaError && error.code === 'aborted') return /** @type {const} */ ('aborted');
    throw error;
  });
  if (finishReason !== 'stop-sequence') outbox.add(assembler.end());
  outbox.flush();
  return { ...resultOf(run, finishReason), prefix: prefixOf(run, finishReason) };
}

/** @param {Run} run */
function setSampler({ native, prompt, args: { sampler, bias, seed } }) {
  native.resetSampler();
  for (const [name, value] of sampler) native.setOption(name, value);
  native.setOption('seed', seed);
  for (const [id, value] of bias) native.call('set_bias', id, value);
  for (const id of prompt) native.accept(id);
}

/** @param {Run} run @returns {Promise<FinishReason>} */
async function decode(run) {
  const { native, job, assembler, outbox, prompt, tokens, time, args: { maxTokens } } = run;
  await prefill(run);
  while (tokens.length < maxTokens) {
    if (job.aborted) return 'aborted';
    const id = native.draw();
    time.first ||= performance.now() - time.start;
    if (native.call('is_end', id)) return 'stop';
    take(run, id);
    if (assembler.stopped !== null) return 'stop-sequence';
    if (tokens.length === maxTokens) break;
    if (prompt.length + tokens.length > run.contextLength) return 'context';
    await outbox.settle();
    await step(run, id);
  }
  return 'length';
}

/** @param {Run} run */
async function prefill({ native, runner, job, time, args: { progress } }) {
  const total = native.call('pending');
  const report = () => {
    if (!progress) return;
    job.post({ kind: 'progress', id: job.id, value: { done: total - native.call('pending'), total } });
  };
  report();
  const before = performance.now();
  try {
    await runner.settle(job, { onSlice: report });
  } finally {
    time.prefill = performance.now() - before;
  }
}

/** @param {Run} run @param {number} id */
async function step({ native, runner, job, time }, id) {
  const before = performance.now();
  native.call('append', id);
  await runner.settle(job);
  await runner.pause();
  time.decode += performance.now() - before;
}

/** The last of some tokens behind a prompt, -1 if there is none. @param {number[]} tokens @param {number[]} prompt */
function lastOf(tokens, prompt) {
  return tokens.at(-1) ?? prompt.at(-1) ?? -1;
}

/** @param {Run} run @param {number} id */
function take({ native, vocabulary, assembler, outbox, prompt, tokens, logprobs, args }, id) {
  const before = lastOf(tokens, prompt);
  tokens.push(id);
  native.accept(id);
  if (args.logprobs !== null) {
    const top = (args.logprobs ? native.topLogprobs(args.logprobs) : [])
      .map((likely) => ({ ...likely, text: vocabulary.decode([likely.id], true, before) }));
    logprobs.push({ id, logprob: native.logprob(id), top });
  }
  outbox.add(assembler.add(native.decode(id, false, before)));
}

/** @param {Run} run @param {FinishReason} finishReason @returns {GenerateResult} */
function resultOf({ assembler: { text, stopped }, prompt, tokens, logprobs, reused, time, args }, finishReason) {
  const { prefill, decode, first } = time;
  return {
    text,
    tokens,
    finishReason,
    ...(stopped !== null && { stopSequence: stopped }),
    usage: { promptTokens: prompt.length, reusedTokens: reused, completionTokens: tokens.length },
    timings: {
      firstTokenMs: first,
      prefillMs: prefill,
      decodeMs: decode,
      prefillTokensPerSecond: rate(prompt.length - reused, prefill),
      decodeTokensPerSecond: rate(tokens.length - 1, decode),
    },
    seed: args.seed,
    ...(args.logprobs !== null && { logprobs }),
  };
}

/** What the next turn may build on; without white space at the end, which templates trim.
 * @param {Run} run @param {string} finishReason @returns {import('./template.js').Prefix | undefined} */
function prefixOf({ assembler: { text, incomplete }, vocabulary, seamed, prompt, tokens }, finishReason) {
  if (seamed === undefined || finishReason === 'stop-sequence' || incomplete) return undefined;
  const answer = strip(text);
  const kept = tokens.slice();
  let { length } = text;
  while (length > answer.length && kept.length) {
    const last = kept.splice(-1);
    length -= vocabulary.decode(last, false, lastOf(kept, prompt)).length;
  }
  if (!text.startsWith(answer) || length !== answer.length) return undefined;
  return { text: seamed + vocabulary.template.protect(answer), ids: [...prompt, ...kept] };
}

/** @param {number} count @param {number} milliseconds */
function rate(count, milliseconds) {
  return count > 0 && milliseconds > 0 ? count / milliseconds * 1000 : 0;
}

/** Waits while the consumer is behind, unless other calls wait. */
class Outbox {
  #job;
  /** @type {string[]} */
  #pieces = [];
  #flushed = 0;

  /** @param {EvaluationJob} job */
  constructor(job) {
    this.#job = job;
  }

  /** @param {string} piece */
  add(piece) {
    if (piece !== '') this.#pieces.push(piece);
  }

  flush() {
    this.#flushed = performance.now();
    if (!this.#pieces.length) return;
    this.#job.unacked += this.#pieces.length;
    this.#job.post({ kind: 'pieces', id: this.#job.id, pieces: this.#pieces });
    this.#pieces = [];
  }

  async settle() {
    const full = () => this.#job.unacked + this.#pieces.length >= CREDIT;
    if (full() || performance.now() - this.#flushed > FLUSH_MS) this.flush();
    while (full() && !this.#job.aborted && !this.#job.othersWait()) await this.#job.stalled();
  }
}

/** @param {Context} context @param {EvaluationJob} job
 * @param {Logits['args']} args @returns {Promise<Logits['value']>} */
export async function logits({ runner, vocabulary }, job, { ids, all }) {
  const { native } = runner;
  const bytes = ids.length * vocabulary.size * 4;
  if (all && bytes > MAX_RESULT_BYTES) {
    const most = Math.floor(MAX_RESULT_BYTES / vocabulary.size / 4);
    throw new GemmaError('bad-option', 'logits of all ids', { expected: `at most ${most}`, got: ids.length });
  }
  const out = wrapped('no-memory', `logits of ${ids.length} ids`, () => new Float32Array(all ? bytes / 4 : 0));
  native.sync(ids);
  if (all) native.call('want_all', 1);
  await runner.settle(job, {
    onRows: (rows, first) => out.set(native.logits(rows), first * vocabulary.size),
  });
  return all ? out : native.logits();
}

/** Each token but the BOS is scored once, in windows that overlap by half.
 * @param {Context} context @param {EvaluationJob} job @param {Perplexity['args']} args
 * @returns {Promise<Perplexity['value']>} */
export async function perplexity({ runner, vocabulary, contextLength }, job, { text, window }) {
  const { ids } = vocabulary.ids({ text });
  const width = Math.min(window || contextLength, contextLength);
  if (ids.length < 2) {
    throw new GemmaError('bad-option', 'text', { expected: 'at least one token to score', got: 'none' });
  }
  const stride = Math.floor(width / 2);
  let sum = 0;
  let count = 0;
  for (let start = 0, scored = 1; scored < ids.length; start += stride) {
    const end = Math.min(start + width, ids.length);
    sum += await windowLoss(runner, job, ids.slice(start, end), scored - start);
    count += end - scored;
    scored = end;
  }
  const nll = sum / count;
  return { perplexity: Math.exp(nll), nll, tokens: count };
}

/** Sum of -log p of ids[from ..] in one window. @param {Runner} runner @param {EvaluationJob} job
 * @param {number[]} ids @param {number} from */
async function windowLoss(runner, job, ids, from) {
  const { native } = runner;
  let sum = 0;
  native.sync(ids);
  native.call('want_all', 1);
  await runner.settle(job, {
    onRows(rows, first) {
      for (let row = 0; row < rows; row++) {
        const next = first + row + 1;
        if (next >= from && next < ids.length) sum -= native.logprob(ids[next], row);
      }
    },
  });
  return sum;
}
