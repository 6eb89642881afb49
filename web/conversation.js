/**
 * conversation: one talk with whatever model is there: sends, edits, retries, stops, steps through versions, and tells
 * the views and the archive what happens. It outlives its model: without one it can be read.
 * Knows the package's chat object, the tree and the transcript; no form, no layout, no storage.
 * @module
 */
import { action, announce } from './dom.js';
import { codeOf } from './errors.js';
import { plural, rate, shortTime } from './format.js';
import { Tree, newId, titleOf } from './tree.js';

/** How often the running numbers change, in milliseconds. */
const STATS_EVERY = 250;

const READING = 'Reading…';

/** @typedef {import('../js/index.js').Model} Model */
/** @typedef {import('../js/generation.js').GenerateResult} GenerateResult */
/** @typedef {import('../js/chat.js').ChatMessage} ChatMessage */
/** @typedef {import('./transcript.js').Answer} Answer */
/** @typedef {import('./tree.js').Said} Said */
/** @typedef {import('./archive.js').Head} Head */
/** @typedef {import('./archive.js').ModelNote} ModelNote */

/** An answer that is being made.
 * @typedef {object} Turn
 * @property {Said} question
 * @property {Said} said
 * @property {Answer} answer
 * @property {string | null} before   the leaf that was shown before, should it come to nothing
 * @property {number} used            tokens of context in use before it
 * @property {number} prompt          and with its message, as far as known
 */

/**
 * @typedef {object} Hooks
 * @property {() => object} options          of the next answer
 * @property {() => string} system           the system prompt of a new conversation
 * @property {() => (Node | string)[]} welcome          what an empty conversation shows
 * @property {(busy: boolean) => void} busy
 * @property {(text: string) => void} edit  put a message back into its field
 * @property {(used: number) => void} used   tokens of context in use
 * @property {(head: Head) => void} begun    it has its first message
 * @property {(now: boolean) => void} changed   keep it; now: a turn has begun or ended
 * @property {(branch: { head: Head, tree: Tree }) => void} branched
 * @property {(error: unknown) => void} lost   the model can no longer be used
 */

export class Conversation {
  /** @type {Model | null} */ #model = null;
  /** @type {ModelNote | undefined} */ #note;
  /** @type {import('./transcript.js').Transcript} */ #transcript;
  /** @type {Hooks} */ #hooks;
  /** @type {ReturnType<Model['chat']> | null} */ #chat = null;
  /** The last answer, and its question, that the chat holds. */
  #held = /** @type {{ answer: string | null, question: string | null }} */ ({ answer: null, question: null });
  /** @type {AbortController | null} */ #abort = null;
  /** @type {Turn | null} */ #turn = null;
  #used = 0;
  /** What came with the answers that this model has made here. @type {Map<string, GenerateResult>} */
  #made = new Map();
  /** @type {Promise<void>} */ #running = Promise.resolve();
  /** A message is being edited: what is sent takes its place. @type {Said | null} */
  #editing = null;
  /** @type {Head | null} */ head = null;
  tree = new Tree();

  /**
   * @param {import('./transcript.js').Transcript} transcript
   * @param {Hooks} hooks
   */
  constructor(transcript, hooks) {
    this.#transcript = transcript;
    this.#hooks = hooks;
    transcript.on = {
      version: (said, step) => this.#step(said, step),
      retry: (said) => this.#retry(said),
      edit: (said) => this.#edit(said),
      branch: (said) => this.#branch(said),
    };
  }

  get busy() {
    return this.#abort !== null;
  }

  /** Another model, or none: the next answer is its. @param {Model | null} model @param {ModelNote} [note] */
  use(model, note) {
    this.#model = model;
    this.#note = note;
    this.#chat = null;
    this.#made.clear();
    this.#count();
  }

  /** This conversation from the archive, null for a new one. @param {{ head: Head, tree: Tree } | null} [kept] */
  async open(kept = null) {
    await this.halt();
    this.#chat = null;
    this.#editing = null;
    this.head = kept?.head ?? null;
    this.tree = kept?.tree ?? new Tree();
    if (this.tree.leaf === null) this.#transcript.clear(this.#hooks.welcome());
    else this.#show();
    this.#count();
  }

  /** What an empty one shows has changed: another model is there. */
  welcome() {
    if (this.tree.leaf === null) this.#transcript.clear(this.#hooks.welcome());
  }

  #show() {
    this.#transcript.show(this.#rows(this.tree.path()));
  }

  /** @param {Said[]} path */
  #rows(path) {
    return path.map((said, i) => {
      const versions = this.tree.versions(said);
      const forgotten = said.role === 'user' && path[i + 1]?.role === 'user';
      return { said, at: versions.indexOf(said), of: versions.length, last: i === path.length - 1, forgotten };
    });
  }

  /** How much of the context what is shown takes. */
  #count() {
    const [model, messages] = [this.#model, this.#messages(this.tree.leaf)];
    this.#used = 0;
    this.#hooks.used(0);
    if (!model || !messages.length) return;
    void model.countTokens(messages).then((used) => {
      if (this.busy || model !== this.#model) return;
      this.#used = used;
      this.#hooks.used(used);
    }, () => {});   // a template that refuses says so when it is asked for an answer
  }

  /** @param {string | null} until */
  #messages(until) {
    const messages = /** @type {import('../js/chat.js').ChatMessage[]} */ (this.tree.messages(until));
    const system = this.head?.system;
    if (!system || !messages.length) return messages;
    return [{ role: /** @type {const} */ ('system'), content: system }, ...messages];
  }

  /** @param {string} text */
  send(text) {
    if (this.busy || !this.#model) return false;
    const instead = this.#editing;
    this.#editing = null;
    const before = this.tree.leaf;
    const parent = instead ? instead.parent : before;
    const question = this.tree.add(parent, 'user', text);
    if (!this.head) this.#begin(text);
    this.#start(question, before);
    return true;
  }

  /** @param {string} text */
  #begin(text) {
    const now = Date.now(), system = this.#hooks.system();
    this.head = { id: newId(), title: titleOf(text), pinned: 0, created: now, updated: now, ...(system && { system }) };
    this.#hooks.begun(this.head);
  }

  /** Another answer; or one to a question that has none. @param {Said} said */
  #retry(said) {
    if (this.#hindered()) return;
    const question = said.role === 'user' ? said : this.tree.get(said.parent);
    if (question) this.#start(question, this.tree.leaf);
  }

  #hindered() {
    if (this.busy) announce('Wait for the answer, or stop it.');
    if (!this.#model) announce('Load a model first.');
    return this.busy || !this.#model;
  }

  /** @param {Said} said */
  #edit(said) {
    if (this.#hindered()) return;
    this.#editing = said;
    this.#hooks.edit(said.text);
  }

  /** What is written next is a message of its own again. */
  leaveEditing() {
    this.#editing = null;
  }

  get editing() {
    return this.#editing !== null;
  }

  /** @param {Said} said @param {number} step */
  #step(said, step) {
    if (this.busy) return;
    const versions = this.tree.versions(said);
    const next = versions[versions.indexOf(said) + step];
    if (!next) return;
    this.tree.choose(next);
    this.#show();
    this.#transcript.focus(next.id, `.versions button:${step < 0 ? 'first' : 'last'}-child:enabled, .versions button:enabled`);
    this.#count();
    this.#hooks.changed(true);
  }

  /** @param {Said} said */
  #branch(said) {
    if (this.busy || !this.head) return;
    const now = Date.now();
    /** @type {Head} */
    const head = { ...this.head, id: newId(), pinned: 0, created: now, updated: now };
    head.title += ' (branch)';
    this.#hooks.branched({ head, tree: this.tree.branch(said.id) });
  }

  /** The answers that are shown, each with what the model was told before it, and what came with it if it was made
   * here: for those who look closer. */
  get answers() {
    const shown = this.tree.path().filter(({ role, text }) => role === 'assistant' && text);
    return shown.map((said) => ({ said, told: this.#told(said), made: this.#made.get(said.id) }));
  }

  /** @param {Said} said @returns {ChatMessage[]} */
  #told({ parent }) {
    const question = /** @type {Said} */ (this.tree.get(parent)), { system } = this.head ?? {};
    const before = /** @type {ChatMessage[]} */ (this.tree.messages(question.parent));
    const lead = system ? [{ role: /** @type {const} */ ('system'), content: system }] : [];
    return [...lead, ...before, { role: 'user', content: question.text }];
  }

  /** Another version of an answer: it begins so, and goes on as the model likes. @param {Said} said
   * @param {string} begin */
  continueFrom(said, begin) {
    const question = this.tree.get(said.parent), model = this.#model;
    if (this.#hindered() || !question || !model) return;
    this.#chat = null;   // it does not have this version
    const told = this.#told(said);
    this.#start(question, this.tree.leaf, (options) => continued(model, told, begin, options));
  }

  /** @param {Said} question @param {string | null} before
   * @param {(options: object) => Source} [source]   of the answer */
  #start(question, before, source = (options) => this.#ask(question, options)) {
    this.tree.leaf = question.id;
    const rows = this.#rows(this.tree.path());
    this.#transcript.show(rows.map((row) => ({ ...row, last: false })));
    const said = this.tree.add(question.id, 'assistant');
    said.model = this.#note?.label;
    if (this.head) Object.assign(this.head, { updated: Date.now(), model: this.#note });
    const answer = this.#transcript.running(said);
    const turn = { question, said, answer, before, used: this.#used, prompt: 0 };
    const abort = this.#abort = new AbortController();
    this.#turn = turn;
    this.#hooks.busy(true);
    this.#hooks.changed(true);
    this.#running = this.#run(turn, source, abort.signal).finally(() => {
      this.#abort = this.#turn = null;
      this.#hooks.busy(false);
      this.#hooks.changed(true);
    });
  }

  /** @param {Turn} turn @param {(options: object) => Source} source @param {AbortSignal} signal */
  async #run(turn, source, signal) {
    const { answer } = turn;
    const onPrefillProgress = (/** @type {{ done: number, total: number }} */ { done, total }) => {
      turn.prompt = Math.max(turn.prompt, turn.used + total);   // a retry evaluates less anew
      this.#hooks.used(turn.prompt);
      if (!answer.text && done < total) answer.waiting(`${READING} ${Math.floor(100 * done / total)} %`);
    };
    try {
      const out = source({ ...this.#hooks.options(), signal, onPrefillProgress });
      await this.#stream(turn, out);
      this.#finish(turn, await out.result());
    } catch (error) {
      this.#failed(turn, error);
    }
  }

  /** The package's chat goes on where it stands; elsewhere a new one takes its place, and the engine keeps what both
   * have in common. @param {Said} question @param {object} options */
  #ask(question, options) {
    if (this.#chat && this.#held.question === question.id) return this.#chat.retry(options);
    let parent = this.tree.get(question.parent);
    while (parent?.role === 'user') parent = this.tree.get(parent.parent);   // unanswered: the chat does not have it
    if (!this.#chat || this.#held.answer !== (parent?.id ?? null)) {
      const messages = this.#messages(question.parent);
      const system = !messages.length && this.head?.system;
      this.#chat = /** @type {Model} */ (this.#model).chat(system ? { system } : { messages });
      this.#held = { answer: parent?.id ?? null, question: null };
    }
    return this.#chat.send(question.text, options);
  }

  /** What was there before stays in the tree. @param {Turn} turn @param {unknown} error */
  #failed({ answer, said, question }, error) {
    said.text = answer.text;
    if (said.text) said.state = 'cut';
    else this.tree.remove(said);
    this.tree.leaf = said.text ? said.id : question.id;
    // A message that is too long is better edited than sent again.
    const help = codeOf(error) === 'context-exceeded' ? action('Edit the message', () => this.#edit(question))
      : action('Try again', () => this.#retry(question));
    answer.fail(error, help);
    if (['worker-failed', 'disposed'].includes(codeOf(error))) this.#hooks.lost(error);
  }

  /** @param {Turn} turn @param {import('../js/generation.js').GenerateResult} result */
  #finish({ said, answer, question, before }, result) {
    const { usage, seed, finishReason } = result;
    Object.assign(said, { text: result.text, stats: summary(result), hint: `seed ${seed}` });
    said.state = finishReason === 'stop' || finishReason === 'stop-sequence' ? 'whole' : 'cut';
    const nothing = finishReason === 'aborted' && result.text === '';
    if (nothing) return this.#cameToNothing(said, answer, before);
    this.#made.set(said.id, result);
    this.#held = { answer: said.id, question: question.id };
    this.#transcript.settled(answer, this.#rows([question, said])[1]);
    this.#used = usage.promptTokens + usage.completionTokens;
    this.#hooks.used(this.#used);
  }

  /** Stopped before its first character: back to the version before, or to a question without an answer.
   * @param {Said} said @param {Answer} answer @param {string | null} before */
  #cameToNothing(said, answer, before) {
    this.tree.remove(said);
    const old = this.tree.get(before);
    if (old?.role === 'assistant' && old.parent === said.parent) this.tree.leaf = before;
    else this.tree.leaf = said.parent;
    if (this.tree.leaf === before) return this.#show();
    this.#transcript.settled(answer, { said, at: 0, of: 1, last: true });
  }

  /** @param {Turn} turn @param {AsyncIterable<string>} out */
  async #stream({ answer, said, prompt }, out) {
    let pieces = 0, first = 0, shown = 0;
    for await (const piece of out) {
      if (!piece) continue;
      const now = performance.now();
      if (!pieces++) first = shown = now;
      answer.add(piece);
      if (now - shown < STATS_EVERY) continue;
      shown = now;
      said.text = answer.text;
      answer.stats(rate((pieces - 1) / ((now - first) / 1000)));
      this.#hooks.used((this.#turn?.prompt ?? prompt) + pieces);
      this.#hooks.changed(false);
    }
  }

  /** What is there of a running answer goes into the tree: the page may be about to go. */
  flush() {
    if (this.#turn) this.#turn.said.text = this.#turn.answer.text;
  }

  stop() {
    this.#abort?.abort();
  }

  /** Stop what runs, and wait until it has. */
  async halt() {
    this.stop();
    await this.#running;
  }
}

/** A generation, or what takes its place.
 * @typedef {AsyncIterable<string> & { result: () => Promise<GenerateResult> }} Source */

/** An answer whose beginning is given.
 * @param {Model} model @param {ChatMessage[]} told @param {string} begin @param {object} options @returns {Source} */
function continued(model, told, begin, options) {
  const started = (async () => {
    const [{ tokens }, kept] = await Promise.all([model.inside(told, { layers: [] }), model.tokenize(begin)]);
    return { kept, out: model.generate([...tokens.map(({ id }) => id), ...kept], options) };
  })();
  return {
    async *[Symbol.asyncIterator]() {
      yield begin;
      yield* (await started).out;
    },
    async result() {
      const { kept, out } = await started, result = await out.result();
      return { ...result, tokens: [...kept, ...result.tokens], text: begin + result.text };
    },
  };
}

/** Why an answer ended, where that is not obvious. @type {Record<string, string>} */
const ENDS = {
  length: 'cut at the maximum of tokens',
  context: 'the context is full: start a new chat',
  aborted: 'stopped',
};

/** The numbers under an answer. @param {import('../js/generation.js').GenerateResult} result */
function summary({ usage, timings, finishReason }) {
  const parts = [plural(usage.completionTokens, 'token')];
  if (timings.decodeTokensPerSecond > 0) parts.push(rate(timings.decodeTokensPerSecond));
  if (timings.firstTokenMs > 0) parts.push(`first after ${shortTime(timings.firstTokenMs)}`);
  if (ENDS[finishReason]) parts.push(ENDS[finishReason]);
  return parts.join(' · ');
}
