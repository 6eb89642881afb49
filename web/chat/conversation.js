/**
 * conversation: one talk with whatever model is there: sends, edits, retries, stops, steps through versions, and tells
 * the views and the archive what happens. It outlives its model: without one it can be read.
 * Knows the talk with the model, the tree and the transcript; no form, no layout, no storage.
 * @module
 */
import { action } from '../shell/dom.js';
import { codeOf } from '../shell/errors.js';
import { count, plural, rate, shortTime } from '../shell/format.js';
import { fail, resolve } from '../shell/notices.js';
import { messagesOf } from './talk.js';
import { Tree, newId, spoken, titleOf } from '../history/tree.js';

/** How often the running numbers change, in milliseconds. */
const STATS_EVERY = 250;

const READING = 'Reading…';

/** @typedef {import('../../js/index.js').Model} Model */
/** @typedef {import('../../js/protocol.js').GenerateResult} GenerateResult */
/** @typedef {import('../../js/options.js').ChatMessage} ChatMessage */
/** @typedef {import('./transcript.js').Answer} Answer */
/** @typedef {import('../history/tree.js').Said} Said */
/** @typedef {import('../history/archive.js').Draft} Draft */
/** @typedef {import('../history/archive.js').Head} Head */
/** @typedef {import('../history/archive.js').ModelNote} ModelNote */

/** An answer that is being made.
 * @typedef {object} Turn
 * @property {Said} question
 * @property {Said} said
 * @property {Answer} answer
 * @property {string} [begin]         what it begins with
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
 * @property {(draft: Draft) => void} edit  put a message back into its field
 * @property {() => void} anew               begin a new conversation
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
  /** @type {import('./talk.js').Talk} */ #talk;
  /** @type {AbortController | null} */ #abort = null;
  /** @type {Turn | null} */ #turn = null;
  #used = 0;
  /** What came with the answers that this model has made here. @type {Map<string, GenerateResult>} */
  #made = new Map();
  /** @type {Promise<void>} */ #running = Promise.resolve();
  /** A message is being edited: what is sent takes its place. @type {Said | null} */
  #editing = null;
  /** Another tab has said something that is not shown yet. */ #stale = false;
  /** @type {Head | null} */ head = null;
  tree = new Tree();

  /**
   * @param {import('./transcript.js').Transcript} transcript
   * @param {import('./talk.js').Talk} talk
   * @param {Hooks} hooks
   */
  constructor(transcript, talk, hooks) {
    this.#transcript = transcript;
    this.#talk = talk;
    this.#hooks = hooks;
    transcript.on = {
      version: (said, step) => this.#step(said, step),
      retry: (said) => this.#retry(said),
      edit: (said) => this.#edit(said),
      branch: (said) => this.#branch(said),
      goOn: (said) => this.continueFrom(said),
      shorten: (said) => void this.#shorten(said),
      anew: () => hooks.anew(),
    };
  }

  get busy() {
    return this.#abort !== null;
  }

  /** Another model, or none: the next answer is its. @param {Model | null} model @param {ModelNote} [note] */
  use(model, note) {
    this.#model = model;
    this.#note = note;
    if (model) resolve('hindered');
    this.#talk.use(model);
    this.#made.clear();
    this.#count();
  }

  /** This conversation from the archive, null for a new one. @param {{ head: Head, tree: Tree } | null} [kept] */
  async open(kept = null) {
    await this.halt();
    resolve('hindered');
    this.#talk.leave();
    this.#editing = null;
    this.head = kept?.head ?? null;
    this.tree = kept?.tree ?? new Tree();
    // Conversations that came from files may have messages of the same ids.
    this.#transcript.clear(this.tree.leaf === null ? this.#hooks.welcome() : []);
    if (this.tree.leaf !== null) this.#show();
    this.#count();
  }

  /** What is kept of it, where another tab may have gone on. @param {import('../history/archive.js').Whole} kept
   * @param {boolean} [follow]   nothing was said here since: what was said there next is shown here */
  join({ head, body }, follow = false) {
    if (head.id !== this.head?.id) return;
    const { title, named, pinned } = head;
    const later = follow && head.updated > this.head.updated;
    Object.assign(this.head, { title, named, pinned });
    this.#stale = this.tree.join(body.said) || this.#stale;
    if (!this.#stale || this.busy) return;
    this.#stale = false;
    if (later) {
      this.head.updated = head.updated;
      const { leaf } = this.tree;
      const on = this.tree.path(body.leaf);
      if (leaf === null || on.some(({ id }) => id === leaf)) this.tree.leaf = body.leaf;
    }
    const last = this.tree.get(this.tree.leaf);
    if (last) this.tree.choose(last); // with what was said there behind it
    this.#talk.shorten(); // what its chat has may be another text by now
    this.#show();
    this.#count();
  }

  /** What an empty one shows has changed: another model is there. */
  welcome() {
    if (this.tree.leaf === null) this.#transcript.clear(this.#hooks.welcome());
  }

  #show() {
    this.#transcript.show(this.#rows(this.tree.path()));
  }

  /** @param {Said[]} path @returns {import('./transcript.js').Row[]} */
  #rows(path) {
    const from = Math.max(
      0,
      path.findIndex(({ id }) => id === this.head?.from),
    );
    return path.map((said, i) => {
      const versions = this.tree.versions(said);
      const forgotten = said.role === 'user' && path[i + 1]?.role === 'user';
      const untold = i < from ? 'all' : i === from && i > 0 ? 'before' : '';
      const [last, long] = [i === path.length - 1, path.slice(from + 1).some(({ role }) => role === 'user')];
      return { said, at: versions.indexOf(said), of: versions.length, last, forgotten, untold, long };
    });
  }

  /** How much of the context what is shown takes. */
  #count() {
    const { leaf } = this.tree;
    const model = this.#model;
    this.#used = 0;
    this.#hooks.used(0);
    if (leaf !== null)
      void this.#talk.count(messagesOf(this.tree, this.head, leaf)).then(
        (used) => {
          if (this.busy || model !== this.#model) return;
          this.#used = used;
          this.#hooks.used(used);
        },
        () => {},
      ); // a template that refuses says so when it is asked for an answer
  }

  /** @param {Draft} draft */
  send({ text, files }) {
    if (this.busy || !this.#model) return false;
    const instead = this.#editing;
    this.#editing = null;
    const before = this.tree.leaf;
    const parent = instead ? instead.parent : before;
    const question = this.tree.add(parent, 'user', text);
    if (files.length) question.files = files;
    if (!this.head) this.#begin(text || files[0].name);
    this.#start({ question, before });
    return true;
  }

  /** @param {string} text */
  #begin(text) {
    const now = Date.now();
    const system = this.#hooks.system();
    this.head = { id: newId(), title: titleOf(text), pinned: 0, created: now, updated: now, ...(system && { system }) };
    this.#hooks.begun(this.head);
  }

  /** Another answer; or one to a question that has none. @param {Said} said */
  #retry(said) {
    if (this.#hindered()) return;
    const question = said.role === 'user' ? said : this.tree.get(said.parent);
    if (question) this.#start({ question, before: this.tree.leaf });
  }

  /** Goes on with an answer: in its place where its own text is the beginning and nothing follows it; else from the
   * given text on, as another version. @param {Said} said @param {string} [begin] */
  continueFrom(said, begin = said.text) {
    const question = this.tree.get(said.parent);
    const before = this.tree.leaf;
    if (this.#hindered() || !question) return;
    const same = begin === said.text && before === said.id ? said : undefined;
    this.#start({ question, before, begin, said: same });
  }

  /** The model is told less: without the oldest turns, so many that half of its context is free. Then it answers what
   * had no place, or goes on with what was cut. @param {Said} said */
  async #shorten(said) {
    const model = this.#model;
    const { head, tree } = this;
    if (this.#hindered() || !model || !head) return;
    const path = this.tree.path(said.id);
    const questions = path.filter(({ role }, i) => role === 'user' && i > 0);
    const asked = said.role === 'user' ? [{ role: /** @type {const} */ ('user'), content: spoken(said) }] : [];
    const { contextLength } = model.info;
    let used = contextLength;
    let cut = head;
    for (const { id } of questions.slice(questions.findIndex(({ id }) => id === head.from) + 1)) {
      cut = { ...head, from: id };
      used = await this.#talk.count([...messagesOf(tree, cut, said.id), ...asked]);
      if (used <= contextLength / 2) break;
    }
    // Meanwhile another one may have been opened, or the same have been pressed again.
    if (this.head !== head || this.#model !== model || this.#hindered()) return;
    if (used >= contextLength) {
      fail('hindered', 'The last message alone is too long for the context of this model. Shorten it.');
      return;
    }
    head.from = cut.from;
    this.#talk.shorten();
    this.#show();
    if (said.role === 'user') this.#retry(said);
    else this.continueFrom(said);
  }

  /** Whether no answer can be asked for now; says why. */
  #hindered() {
    if (this.busy) fail('hindered', 'Another answer is being written. Wait for it, or stop it.');
    else if (!this.#model) fail('hindered', 'No model is loaded. Load one to get an answer.');
    else resolve('hindered');
    return this.busy || !this.#model;
  }

  /** @param {Said} said */
  #edit(said) {
    if (this.#hindered()) return;
    this.#editing = said;
    this.#hooks.edit({ text: said.text, files: said.files ?? [] });
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
    this.#transcript.focus(
      next.id,
      `.versions button:${step < 0 ? 'first' : 'last'}-child:enabled, .versions button:enabled`,
    );
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

  /** @param {Said} said */
  #told({ parent }) {
    const question = /** @type {Said} */ (this.tree.get(parent));
    const said = messagesOf(this.tree, this.head, question.id);
    return this.#talk.prompt([...said, { role: 'user', content: spoken(question) }]);
  }

  /** said: the answer that goes on, in its place.
   * @param {{ question: Said, before: string | null, begin?: string, said?: Said }} asked */
  #start({ question, before, begin, said = this.tree.add(question.id, 'assistant', begin) }) {
    const rows = this.#rows(this.tree.path(question.id));
    this.#transcript.show(rows.map((row) => ({ ...row, last: false })));
    this.tree.leaf = said.id;
    this.tree.touch(said);
    said.state = 'partial';
    said.model = this.#note?.label;
    if (this.head) Object.assign(this.head, { updated: Date.now(), model: this.#note });
    const answer = this.#transcript.running(said);
    if (begin) answer.add(begin);
    const turn = { question, said, answer, begin, before, used: this.#used, prompt: 0 };
    const abort = (this.#abort = new AbortController());
    this.#turn = turn;
    this.#hooks.busy(true);
    this.#hooks.changed(true);
    this.#running = this.#run(turn, abort.signal).finally(() => {
      this.tree.touch(said);
      this.#abort = this.#turn = null;
      resolve('hindered');
      this.#hooks.busy(false);
      this.#hooks.changed(true);
    });
  }

  /** @param {Turn} turn @param {AbortSignal} signal */
  async #run(turn, signal) {
    const { answer } = turn;
    const onPrefillProgress = (/** @type {{ done: number, total: number }} */ { done, total }) => {
      turn.prompt = Math.max(turn.prompt, turn.used + total); // a retry evaluates less anew
      this.#hooks.used(turn.prompt);
      if (!answer.text && done < total) answer.waiting(`${READING} ${Math.floor((100 * done) / total)} %`);
    };
    try {
      const { question, begin, before } = turn;
      const head = /** @type {Head} */ (this.head);
      const options = { ...this.#hooks.options(), signal, onPrefillProgress };
      const { out } = await this.#talk.ask({ tree: this.tree, head, question, begin, before }, options);
      await this.#stream(turn, out);
      this.#finish(turn, await out.result());
    } catch (error) {
      this.#failed(turn, error);
    }
  }

  /** What was there before stays in the tree. @param {Turn} turn @param {unknown} error */
  #failed({ answer, said, question, before }, error) {
    said.text = answer.text;
    if (said.text) said.state = 'cut';
    else this.tree.remove(said);
    const old = said.text ? undefined : this.tree.get(before);
    const back = old?.role === 'assistant' && old.parent === question.id;
    this.tree.leaf = said.text ? said.id : back ? before : question.id;
    if (back) {
      // the version before is there, and the error below it
      this.#show();
      answer = this.#transcript.running(said);
    }
    answer.fail(error, ...this.#remedies(error, said.text ? said : question, question));
    if (['worker-failed', 'disposed'].includes(codeOf(error))) this.#hooks.lost(error);
  }

  /** What may help. A message that is too long is better edited than sent again.
   * @param {unknown} error @param {Said} last @param {Said} question */
  #remedies(error, last, question) {
    if (codeOf(error) !== 'context-exceeded') return [action('Try again', () => this.#retry(question))];
    const shorter = action('Continue without the oldest turns', () => void this.#shorten(last));
    const edit = action('Edit the message', () => this.#edit(question));
    const { long } = this.#rows(this.tree.path(last.id))[0];
    return [...(long ? [shorter] : []), edit, action('New chat', () => this.#hooks.anew())];
  }

  /** @param {Turn} turn @param {import('../../js/protocol.js').GenerateResult} result */
  #finish({ said, answer, question, begin = '', before }, result) {
    const { usage, finishReason } = result;
    Object.assign(said, { text: begin + result.text, stats: summary(result), hint: details(result) });
    said.state = finishReason === 'stop' || finishReason === 'stop-sequence' ? 'whole' : 'cut';
    said.full = finishReason === 'context';
    const nothing = finishReason === 'aborted' && result.text === '';
    if (nothing && !begin) return this.#cameToNothing(said, answer, before);
    if (begin)
      this.#made.delete(said.id); // these are not all of its tokens
    else this.#made.set(said.id, result);
    if (this.head && !nothing) this.#talk.answered(this.head.id, question, said);
    this.#transcript.settled(answer, this.#rows(this.tree.path(said.id)).slice(-1)[0]);
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
    let pieces = 0;
    let first = 0;
    let shown = 0;
    for await (const piece of out) {
      if (!piece) continue;
      const now = performance.now();
      if (!pieces++) first = shown = now;
      answer.add(piece);
      if (now - shown < STATS_EVERY) continue;
      shown = now;
      this.flush();
      answer.stats(rate((pieces - 1) / ((now - first) / 1000)));
      this.#hooks.used((this.#turn?.prompt ?? prompt) + pieces);
      this.#hooks.changed(false);
    }
  }

  /** What is there of a running answer goes into the tree: the page may be about to go. */
  flush() {
    if (!this.#turn) return;
    const { said, answer } = this.#turn;
    said.text = answer.text;
    this.tree.touch(said);
  }

  stop() {
    this.#abort?.abort();
  }

  /** When no answer runs any more. */
  async idle() {
    while (this.busy) await this.#running;
  }

  /** Stop what runs, and wait until it has. */
  async halt() {
    this.stop();
    await this.#running;
  }

  /** The model is about to go: what it has of this is kept. */
  async settle() {
    await this.halt();
    await this.#talk.settled();
  }
}

/** Why an answer ended, where that is not obvious. @type {Record<string, string>} */
const ENDS = {
  length: 'cut at the maximum of tokens',
  context: 'the context is full',
  aborted: 'stopped',
};

/** The numbers under an answer. @param {import('../../js/protocol.js').GenerateResult} result */
function summary({ usage, timings, finishReason }) {
  const parts = [plural(usage.completionTokens, 'token')];
  if (timings.decodeTokensPerSecond > 0) parts.push(rate(timings.decodeTokensPerSecond));
  if (timings.firstTokenMs > 0) parts.push(`first after ${shortTime(timings.firstTokenMs)}`);
  if (ENDS[finishReason]) parts.push(ENDS[finishReason]);
  return parts.join(' · ');
}

/** What is seldom wanted. @param {import('../../js/protocol.js').GenerateResult} result */
function details({ seed, usage: { promptTokens, reusedTokens } }) {
  return `prompt: ${plural(promptTokens, 'token')}, ${count(promptTokens - reusedTokens)} of them new · seed ${seed}`;
}
