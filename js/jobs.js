/* jobs: the calls that evaluate: generate, logits, perplexity. The host runs one at a time. */
import { GemmaError } from './errors.js';
import { CREDIT } from './protocol.js';
import { TextAssembler } from './text.js';

const FLUSH_MS = 10;
const MAX_RESULT_BYTES = 2 ** 31;

/** @import { Runner } from './runner.js' */
/** @import { Prompt, Vocabulary } from './vocabulary.js' */
/** @typedef {{ runner: Runner, vocabulary: Vocabulary, contextLength: number }} Context */
/** unacked: pieces that the consumer has not taken; stalled: until something changed.
 * @typedef {{ id: number, aborted: boolean, unacked: number,
 *   post: (kind: string, fields: object) => void, stalled: () => Promise<unknown>,
 *   othersWait: () => boolean }} EvaluationJob */
/** @typedef {{ id: number, logprob: number,
 *   top: { id: number, logprob: number, text: string }[] }} TokenLogprob */

/** @typedef {ReturnType<import('./options.js').postable> & { prompt: Prompt }} GenerateArgs */

/** @param {Context} context @param {EvaluationJob} job @param {GenerateArgs} args */
export const generate = (context, job, args) => new Generator(context, job, args).run();

class Generator {
  #vocabulary;
  #contextLength;
  #native;
  #runner;
  #job;
  #args;
  #assembler;
  #outbox;
  /** @type {number[]} */
  #prompt = [];
  /** @type {number[]} */
  #tokens = [];
  /** @type {TokenLogprob[]} */
  #logprobs = [];
  #reused = 0;
  #time = { start: performance.now(), prefill: 0, decode: 0, first: 0 };

  /** @param {Context} context @param {EvaluationJob} job @param {GenerateArgs} args */
  constructor({ runner, vocabulary, contextLength }, job, args) {
    this.#vocabulary = vocabulary;
    this.#contextLength = contextLength;
    this.#runner = runner;
    this.#native = runner.native;
    this.#job = job;
    this.#args = args;
    this.#assembler = new TextAssembler(args.stop);
    this.#outbox = new Outbox(job);
  }

  async run() {
    const { ids, text } = this.#vocabulary.ids(this.#args.prompt);
    this.#prompt = ids;
    this.#setSampler();
    this.#reused = this.#native.sync(ids);
    await this.#runner.breathe();
    const finishReason = await this.#decode().catch((error) => {
      if (error instanceof GemmaError && error.code === 'aborted') return 'aborted';
      throw error;
    });
    if (finishReason !== 'stop-sequence') this.#outbox.add(this.#assembler.end());
    this.#outbox.flush();
    return { ...this.#result(finishReason), prefix: this.#prefix(text, finishReason) };
  }

  #setSampler() {
    const { sampler, bias, seed } = this.#args;
    this.#native.resetSampler();
    for (const [name, value] of sampler) this.#native.setOption(name, value);
    this.#native.setOption('seed', seed);
    for (const [id, value] of bias) this.#native.call('set_bias', id, value);
    for (const id of this.#prompt) this.#native.accept(id);
  }

  async #decode() {
    const { maxTokens } = this.#args;
    await this.#prefill();
    while (this.#tokens.length < maxTokens) {
      if (this.#job.aborted) return 'aborted';
      const id = this.#native.draw();
      this.#time.first ||= performance.now() - this.#time.start;
      if (this.#native.call('is_end', id)) return 'stop';
      this.#take(id);
      if (this.#assembler.stopped !== null) return 'stop-sequence';
      if (this.#tokens.length === maxTokens) break;
      if (this.#prompt.length + this.#tokens.length > this.#contextLength) return 'context';
      await this.#outbox.settle();
      await this.#step(id);
    }
    return 'length';
  }

  async #prefill() {
    const total = this.#native.call('pending');
    const report = () => {
      if (!this.#args.progress) return;
      const done = total - this.#native.call('pending');
      this.#job.post('progress', { value: { done, total } });
    };
    report();
    const before = performance.now();
    try {
      await this.#runner.settle(this.#job, { onSlice: report });
    } finally {
      this.#time.prefill = performance.now() - before;
    }
  }

  /** @param {number} id */
  async #step(id) {
    const before = performance.now();
    this.#native.call('append', id);
    await this.#runner.settle(this.#job);
    await this.#runner.pause();
    this.#time.decode += performance.now() - before;
  }

  /** @param {number} id */
  #take(id) {
    this.#tokens.push(id);
    this.#native.accept(id);
    if (this.#args.logprobs !== null) this.#logprobs.push(this.#measure(id, this.#args.logprobs));
    this.#outbox.add(this.#assembler.add(this.#native.decode(id, false)));
  }

  /** @param {number} id @param {number} count @returns {TokenLogprob} */
  #measure(id, count) {
    const top = (count ? this.#native.topLogprobs(count) : [])
      .map((likely) => ({ ...likely, text: this.#vocabulary.decode([likely.id], true) }));
    return { id, logprob: this.#native.logprob(id), top };
  }

  /** @param {string} finishReason */
  #result(finishReason) {
    const { prefill, decode, first } = this.#time;
    const { text, stopped } = this.#assembler;
    const promptTokens = this.#prompt.length, completionTokens = this.#tokens.length;
    return {
      text,
      tokens: this.#tokens,
      finishReason,
      ...(stopped !== null && { stopSequence: stopped }),
      usage: { promptTokens, reusedTokens: this.#reused, completionTokens },
      timings: {
        firstTokenMs: first,
        prefillMs: prefill,
        decodeMs: decode,
        prefillTokensPerSecond: rate(promptTokens - this.#reused, prefill),
        decodeTokensPerSecond: rate(completionTokens - 1, decode),
      },
      seed: this.#args.seed,
      ...(this.#args.logprobs !== null && { logprobs: this.#logprobs }),
    };
  }

  /** What the next turn may build on; without white space at the end, which templates trim.
   * @param {string | undefined} prompt seamed text @param {string} finishReason
   * @returns {import('./template.js').Prefix | undefined} */
  #prefix(prompt, finishReason) {
    const { text, incomplete } = this.#assembler;
    if (prompt === undefined || finishReason === 'stop-sequence' || incomplete) return undefined;
    const answer = text.trim();
    const tokens = this.#tokens.slice();
    let { length } = text;
    while (length > answer.length && tokens.length) {
      length -= this.#vocabulary.decode(tokens.splice(-1)).length;
    }
    if (!text.startsWith(answer) || length !== answer.length) return undefined;
    const { template } = this.#vocabulary;
    return { text: prompt + template.protect(answer), ids: [...this.#prompt, ...tokens] };
  }
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
    this.#job.post('pieces', { pieces: this.#pieces });
    this.#pieces = [];
  }

  async settle() {
    const full = () => this.#job.unacked + this.#pieces.length >= CREDIT;
    if (full() || performance.now() - this.#flushed > FLUSH_MS) this.flush();
    while (full() && !this.#job.aborted && !this.#job.othersWait()) await this.#job.stalled();
  }
}

/** @param {Context} context @param {EvaluationJob} job
 * @param {{ ids: number[], all: boolean }} args @returns {Promise<Float32Array>} */
export async function logits({ runner, vocabulary }, job, { ids, all }) {
  const { native } = runner;
  const bytes = ids.length * vocabulary.size * 4;
  if (all && bytes > MAX_RESULT_BYTES) {
    const most = Math.floor(MAX_RESULT_BYTES / vocabulary.size / 4);
    throw new GemmaError('bad-option', 'logits of all ids', { expected: `at most ${most}`, got: ids.length });
  }
  const out = new Float32Array(all ? ids.length * vocabulary.size : 0);
  native.sync(ids);
  if (all) native.call('want_all', 1);
  await runner.settle(job, {
    onRows: (rows, first) => out.set(native.logits(rows), first * vocabulary.size),
  });
  return all ? out : native.logits();
}

/** Each token but the BOS is scored once, in windows that overlap by half.
 * @param {Context} context @param {EvaluationJob} job @param {{ text: string, window: number }} args */
export async function perplexity({ runner, vocabulary, contextLength }, job, { text, window }) {
  const ids = vocabulary.encode(text, { bos: true });
  const width = Math.min(window || contextLength, contextLength);
  if (ids.length < 2) {
    throw new GemmaError('bad-option', 'text', { expected: 'at least one token to score' });
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
