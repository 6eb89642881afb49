/* jobs: implements generate() in the worker. */
import { ModelError } from '../errors.js';
import { CREDIT } from '../protocol.js';
import { badToken } from './errors.js';
import { utf8 } from './heap.js';
import { TextAssembler } from './text.js';

const FLUSH_MS = 10;

/** @import { FinishReason, FromWorker, GenerateAnswer, GenerateArgs, GenerateResult } from '../protocol.js' */
/** @import { Step, Store, TokenLogprob, ToolCall } from '../protocol.js' */
/** @import { CallReader } from '../tool-calling/reading.js' */
/** @import { Drafter, Drafts } from './drafts.js' */
/** @import { Matcher } from './grammar.js' */
/** @import { CallRunner } from './runner.js' */
/** @import { PromptEncoder } from './prompt-encoder.js' */
/** Exports of js/grammar.js that an answer with a constraint needs. The module is imported on first use.
 * @typedef {typeof import('./constraint.js')
 *   & typeof import('./jump-forward.js')} Constraining */
/** The loaded model and its environment. load: imports a module that is loaded on first use (platform/files.js);
 * store: the store of models and saved chats; chatCacheBytes: limit on the size of all saved chats.
 * @typedef {{ runner: CallRunner, encoder: PromptEncoder, contextLength: number, store?: Store, chatCacheBytes: number,
 *   draftModel?: Drafter, load: (part: string) => Promise<any> }} Context */
/** A call that evaluates. unacked: number of posted steps that the consumer has not read; stalled: resolves at the
 * next ack or abort, or when another call arrives, waits for room in the KV cache or ends; othersWait: returns whether
 * another call waits for its turn or for this room.
 * @typedef {{ id: number, aborted: boolean, unacked: number,
 *   post: (message: FromWorker) => void, stalled: () => Promise<unknown>,
 *   othersWait: () => boolean }} EvaluationJob */

/** @typedef {Awaited<ReturnType<typeof begin>>} Run */
/** @param {Context} context @param {EvaluationJob} job @param {GenerateArgs} args */
async function begin(context, job, args) {
  const start = performance.now();
  const { tools, prompt } = args;
  const { encoder } = context;
  const pause = context.runner.pauses(job);
  const part = args.format || tools ? /** @type {Constraining} */ (await context.load('grammar')) : null;
  const { constraint, begins } = (await part?.constraintOf(encoder, args, pause)) ?? { constraint: null, begins: null };
  const thinking = args.thinking === null ? undefined : args.thinking !== false;
  const formatted = args.format !== null;
  const asked = 'messages' in prompt ? { ...prompt, tools: tools?.list, formatted, thinking } : prompt;
  const { ids, text, cut = 0 } = await encoder.prompted(asked, pause);
  const reader = tools ? await encoder.callReader(formatted ? tools.list : null) : null;
  const thoughts = encoder.thoughtReader(asked, ids, args.thinking);
  const thinks = Boolean(thoughts?.inside || (thoughts && thinking));
  const assembler = new TextAssembler(args.stop);
  const last = cut ? encoder.template.lastBytes(encoder, ids, cut) : new Uint8Array();
  assembler.add(last);
  const { native } = context.runner;
  const matcher = part && constraint ? part.matcherOf(native, constraint, prompt, last) : null;
  const waits = begins || thinks;
  return {
    ...context,
    part,
    job,
    args,
    native,
    prompt: ids,
    marked: text,
    reader,
    thoughts,
    assembler,
    outbox: new Outbox(job, reader),
    tokens: /** @type {number[]} */ ([]),
    logprobs: /** @type {TokenLogprob[]} */ ([]),
    /** Tokens that must follow at the end of a thought. They are appended one by one if log probabilities are
     * requested. */
    due: /** @type {number[]} */ ([]),
    drafts: /** @type {Drafts | null} */ (null),
    /** Whether speculative decoding is possible: each token must depend only on its logits and the constraint. */
    usesDrafts:
      (args.draft ?? context.draftModel) &&
      !(constraint && thinks) &&
      !reader &&
      args.logprobs === null &&
      typeof args.thinking !== 'number',
    reused: 0,
    opening: 0,
    time: { start, prefill: 0, decode: 0, first: 0 },
    begins,
    matcher: waits ? null : matcher,
    /** The matcher, if the constraint applies only after the thoughts or from a tool call on. */
    waiting: waits ? matcher : null,
  };
}

/** Generates one answer and posts its steps. An abort resolves with the answer so far.
 * @param {Context} context @param {EvaluationJob} job @param {GenerateArgs} args @returns {Promise<GenerateAnswer>} */
export async function generate(context, job, args) {
  const run = await begin(context, job, args);
  try {
    return await answer(run);
  } finally {
    run.matcher?.dispose();
    run.waiting?.dispose();
  }
}

/** @param {Run} run @returns {Promise<GenerateAnswer>} */
async function answer(run) {
  const { native, runner, outbox, assembler, args } = run;
  if (await runner.claim?.(run.job, run.prompt, args)) return resultOf(run, 'aborted');
  setSampler(run);
  run.reused = native.sync(run.prompt, args.owner);
  // The sampler needs only the top logits, unless log probabilities are requested.
  if (args.logprobs === null) native.call('want_top', 1);
  if (run.usesDrafts) startDrafts(run);
  await runner.yield();
  const ended = await decode(run).catch((error) => {
    if (error instanceof ModelError && error.code === 'aborted') return /** @type {const} */ ('aborted');
    throw error;
  });
  run.drafts?.drop(run);
  outbox.add({ kind: 'thought', text: run.thoughts?.finish() ?? '', ids: [], forced: false });
  if (ended !== 'stop-sequence') {
    const rest = assembler.add(utf8(run.reader?.end() ?? ''));
    outbox.add({ kind: 'text', text: rest + assembler.end(), ids: [], forced: false });
  }
  outbox.flush();
  // The text that the reader of tool calls held back can contain a stop sequence, too.
  const finishReason = assembler.stopped === null ? ended : 'stop-sequence';
  return { ...resultOf(run, finishReason), ...prefixOf(run, finishReason) };
}

/** Starts speculative decoding once its module is loaded. If the module is missing, decoding is normal.
 * @param {Run} run */
function startDrafts(run) {
  const begin = (/** @type {typeof import('./drafts.js')} */ part) => {
    run.drafts = new part.Drafts([...run.prompt, ...run.tokens], run.draftModel);
  };
  run.load('drafts').then(begin, () => {});
}

/** @param {Run} run */
function setSampler({ native, prompt, args: { sampler, bias, seed } }) {
  native.resetSampler();
  for (const [name, value] of sampler) native.setOption(name, value);
  native.setOption('seed', seed);
  for (const [id, value] of bias) native.call('set_bias', id, value);
  for (const id of prompt) native.accept(id);
}

/** Draws tokens until the answer ends. Evaluates jump-forward tokens in one batch with the drawn token or the prompt.
 * @param {Run} run @returns {Promise<FinishReason>} */
async function decode(run) {
  const { job, outbox, tokens, time, args } = run;
  const opening = jumpForward(run);
  run.drafts?.add(opening.ids);
  run.opening = opening.ids.length;
  let { reason } = opening;
  if (!reason) await prefill(run, opening.ids);
  if (tokens.length) time.first = performance.now() - time.start;
  while (!reason && tokens.length < args.maxTokens) {
    if (job.aborted) return 'aborted';
    if (run.matcher?.finished) return 'stop';
    const forced = run.due.length > 0;
    const id = run.due.shift() ?? draw(run) ?? (await drawAgain(run));
    time.first ||= performance.now() - time.start;
    reason = appendToken(run, id, forced);
    if (reason) break;
    const next = jumpForward(run);
    reason = next.reason;
    if (reason) break;
    const ids = [id, ...next.ids];
    const rest = ids.slice(run.drafts?.add(ids));
    if (!rest.length) continue;
    run.drafts?.drop(run, rest.length);
    await outbox.settle();
    await step(run, rest);
  }
  return reason ?? 'length';
}

/** Appends the end of a thought and jump-forward tokens without sampling. If log probabilities are requested, only adds
 * the end of a thought to `run.due`. Returns the appended tokens, and the reason if the answer ends with them.
 * @param {Run} run */
function jumpForward(run) {
  const { native, part, tokens, thoughts, args } = run;
  const { jumpForward: enabled, logprobs, maxTokens } = args;
  const ids = /** @type {number[]} */ ([]);
  let reason = /** @type {FinishReason | null} */ (null);
  if (tokens.length >= maxTokens || !(thoughts || run.matcher)) return { ids, reason };
  const take = (/** @type {number[]} */ more) => {
    for (const id of more) {
      ids.push(id);
      if ((reason = appendToken(run, id, true))) break;
    }
    return !reason && more.length > 0;
  };
  const waits = run.waiting !== null && !run.begins;
  const due = run.due.length ? [] : (thoughts?.next(waits) ?? []);
  if (logprobs === null) take(due);
  else run.due.push(...due);
  if (waits && thoughts?.done && !thoughts.inside && !run.due.length) run.matcher ??= run.waiting;
  const { matcher } = run;
  if (!part || !matcher || !enabled || logprobs !== null) return { ids, reason };
  while (!reason && take(part.jumpForwardTokens(native, matcher, tokens)));
  return { ids, reason };
}

/** Draws a token. Returns null if drawAgain() must draw it. @param {Run} run */
function draw(run) {
  const { native, part, matcher, waiting, drafts, args } = run;
  const back = drafts?.waiting.length;
  if (matcher) return matcher.draw(args.logprobs !== null, back);
  const id = native.draw(back);
  return part && waiting ? part.withConstraint(run, id) : id;
}

/** Evaluates the last token again and draws a token that the constraint allows, because only the top logits were
 * computed, and the constraint may allow none of their tokens. @param {Run} run */
async function drawAgain(run) {
  const { native, runner, job, prompt, tokens } = run;
  native.call('truncate', prompt.length + tokens.length - 1);
  append(run, [tokens.at(-1) ?? prompt.at(-1) ?? -1]);
  await runner.settle(job);
  return /** @type {Matcher} */ (run.matcher).draw(false);
}

/** Appends a token to the answer. Returns the reason if the answer ends with the token, else null. @param {Run} run
 * @param {number} id
 * @param {boolean} forced @returns {FinishReason | null} */
function appendToken(run, id, forced) {
  const { native, assembler, prompt, reader, tokens, matcher, args } = run;
  // A grammar may require an end token in the middle of a text.
  if ((native.call('is_end', id) || id === reader?.stop) && (!matcher || matcher.complete)) return 'stop';
  record(run, id, forced);
  if (matcher?.accept(id) === false) throw badToken(id);
  if (assembler.stopped !== null) return 'stop-sequence';
  if (matcher?.finished) return 'stop';
  if (tokens.length === args.maxTokens) return 'length';
  return prompt.length + tokens.length > run.contextLength ? 'context' : null;
}

/** Evaluates the prompt. @param {Run} run @param {number[]} opening jump-forward tokens at the beginning of the answer,
 * which are evaluated with the prompt */
async function prefill(run, opening) {
  const { native, runner, job, time, args } = run;
  append(run, opening);
  const total = native.call('pending');
  const report = () => {
    if (!args.progress) return;
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

/** Evaluates the last tokens of the answer together with draft tokens.
 * @param {Run} run @param {number[]} ids the tokens of the answer that are not evaluated yet */
async function step(run, ids) {
  const { runner, job, time, drafts } = run;
  const before = performance.now();
  const draftTokens = (await drafts?.next(run, ids.length)) ?? [];
  append(run, [...ids, ...draftTokens]);
  await runner.settle(job);
  drafts?.evaluated(runner);
  await runner.pause();
  time.decode += performance.now() - before;
}

/** @param {Run} run @param {number[]} ids */
function append({ native, matcher }, ids) {
  for (const id of ids) native.call('append', id);
  matcher?.want();
}

/** @param {Run} run @param {number} id @param {boolean} forced */
function record(run, id, forced) {
  const { native, assembler, outbox, prompt, reader, thoughts, tokens, logprobs, args } = run;
  // Keeps the leading space that some tokenizers insert, because a constrained text must have exactly the bytes that
  // the grammar accepted.
  const before = run.matcher ? id : (tokens.at(-1) ?? prompt.at(-1) ?? -1);
  tokens.push(id);
  native.accept(id);
  const said = args.logprobs === null ? {} : { logprobs: [logprobOf(run, id, before)] };
  logprobs.push(...(said.logprobs ?? []));
  const bytes = native.decode(id, false, before);
  const thought = thoughts?.add(id, bytes);
  if (thought !== undefined) return outbox.add({ kind: 'thought', text: thought, ids: [id], forced, ...said });
  const own = thoughts && !run.matcher ? thoughts.trimmed(bytes) : bytes;
  const text = assembler.add(reader ? utf8(reader.add(id, own)) : own);
  outbox.add({ kind: 'text', text, ids: [id], forced, ...said });
}

/** @param {Run} run @param {number} id @param {number} before @returns {TokenLogprob} */
function logprobOf({ native, encoder, args }, id, before) {
  const bytesOf = (/** @type {number} */ one) => [...native.decode(one, true, before)];
  const top = (args.logprobs ? native.topLogprobs(args.logprobs) : []).map((likely) => ({
    ...likely,
    text: encoder.decode([likely.id], true, before),
    bytes: bytesOf(likely.id),
  }));
  return { id, logprob: native.logprob(id), bytes: bytesOf(id), top };
}

/** @param {Run} run @param {FinishReason} finishReason @returns {GenerateResult} */
function resultOf(run, finishReason) {
  const { prompt, tokens, logprobs, reused, opening, reader, thoughts, args, drafts } = run;
  const { text, stopped } = run.assembler;
  const { prefill, decode, first } = run.time;
  const calls = reader?.completeCalls('messages' in args.prompt ? args.prompt.messages : []) ?? [];
  return {
    text,
    ...(thoughts?.text && { thoughts: thoughts.text }),
    tokens,
    .../** @type {{ finishReason: 'tool-calls', toolCalls: ToolCall[] }} */ ({
      finishReason: finishReason === 'stop' && calls.length ? 'tool-calls' : finishReason,
      ...(reader && { toolCalls: calls }),
    }),
    ...(stopped !== null && { stopSequence: stopped }),
    usage: {
      promptTokens: prompt.length,
      reusedTokens: reused,
      completionTokens: tokens.length,
      ...(thoughts?.tokens && { thoughtTokens: thoughts.tokens }),
    },
    timings: {
      firstTokenMs: first,
      prefillMs: prefill,
      decodeMs: decode,
      prefillTokensPerSecond: rate(prompt.length - reused + opening, prefill),
      decodeTokensPerSecond: rate(tokens.length - opening - 1, decode),
      ...(drafts && { draftedTokens: drafts.drafted, acceptedTokens: drafts.accepted }),
    },
    seed: args.seed,
    ...(args.logprobs !== null && { logprobs }),
  };
}

/** @param {Run} run
 * @param {string} finishReason @returns {Pick<GenerateAnswer, 'prefix' | 'why'>} */
function prefixOf(run, finishReason) {
  if (run.reader || run.marked === undefined) return { why: 'could call tools' };
  return run.encoder.template.prefixOf(run, finishReason);
}

/** @param {number} count @param {number} milliseconds */
function rate(count, milliseconds) {
  return count > 0 && milliseconds > 0 ? (count / milliseconds) * 1000 : 0;
}

/** Collects steps and posts them. Applies back-pressure while the consumer is not reading, unless other calls wait. */
class Outbox {
  #job;
  /** @type {Step[]} */
  #steps = [];
  #flushed = 0;
  #reader;

  /** @param {EvaluationJob} job @param {CallReader | null} reader reads the tool calls in the answer */
  constructor(job, reader) {
    this.#job = job;
    this.#reader = reader;
  }

  /** @param {Step} step */
  add(step) {
    if (step.text !== '' || step.ids.length) this.#steps.push(step);
  }

  flush() {
    this.#flushed = performance.now();
    if (!this.#steps.length) return;
    this.#job.unacked += this.#steps.length;
    const calls = this.#reader?.parsed.calls ?? [];
    this.#job.post({ kind: 'steps', id: this.#job.id, steps: this.#steps, ...(calls.length && { calls }) });
    this.#steps = [];
  }

  /** Posts the steps that are due. Resolves when the consumer is ready for more steps. */
  async settle() {
    const full = () => this.#job.unacked + this.#steps.length >= CREDIT;
    if (full() || performance.now() - this.#flushed > FLUSH_MS) this.flush();
    while (full() && !this.#job.aborted && !this.#job.othersWait()) await this.#job.stalled();
  }
}
