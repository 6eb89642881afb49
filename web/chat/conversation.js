/**
 * conversation: the open conversation: sends and edits messages, retries and stops answers, switches versions. It can
 * be read without a model. Does not access storage.
 * @module
 */
import { action } from '../shell/dom.js';
import { codeOf } from '../shell/errors.js';
import { percent, rate, shortTime, titleOf } from '../shell/format.js';
import { addLater, known, t } from '../shell/language.js';
import { fail, resolve } from '../shell/notices.js';
import { route } from '../shell/route.js';
import { actions, state, update } from '../shell/store.js';
import { takeSettings } from '../settings/settings.js';
import { messagesOf } from './talk.js';
import { welcome } from './welcome.js';
import { Tree, newId, spoken } from '../history/tree.js';

/** Interval of updates to the numbers under a running answer, in milliseconds. */
const STATS_EVERY = 250;

/** @import { Model } from '../../js/index.js' */
/** @import { GenerateResult } from '../../js/protocol.js' */
/** @import { Answer, Transcript, Row } from './transcript.js' */
/** @import { Said } from '../history/tree.js' */
/** @import { Draft } from '../shell/store.js' */
/** @import { Head, ModelNote, Whole } from '../history/archive.js' */

/** @typedef {object} Turn   an answer that is being generated
 * @property {Said} question
 * @property {Said} said
 * @property {Answer} answer
 * @property {string} [begin]         text that the answer must begin with
 * @property {string} [thoughts]      earlier thoughts of an answer that is continued
 * @property {string | null} before   the last message shown before the request
 * @property {number} used            tokens of context in use before the answer
 * @property {number} prompt          tokens of the answer's prompt, as far as known
 */

/** Callbacks of a conversation. changed: the conversation must be saved; now: immediately, because a turn began or
 * ended; branched: the user made a branch.
 * @typedef {{ changed: (now: boolean) => void, branched: (branch: { head: Head, tree: Tree }) => void }} On */

/** The open conversation and its running answer, if there is one. */
export class Conversation {
  /** @type {ModelNote | undefined} */ #note;
  #transcript;
  #talk;
  /** @type {AbortController | null} */ #abort = null;
  /** @type {Turn | null} */ #turn = null;
  /** Tokens of context in use before the running answer. */ #used = 0;
  /** Results of answers that the loaded model has given in this visit. @type {Map<string, GenerateResult>} */
  made = new Map();
  /** @type {Promise<void>} */ #running = Promise.resolve();
  /** The message that is being edited; the next message sent replaces it. @type {Said | null} */
  editing = null;
  /** Whether another tab has added messages that this tab does not show yet. */ #stale = false;
  /** @type {Head | null} */ head = null;
  tree = new Tree();
  on = /** @type {On} */ ({});

  /** @param {Transcript} transcript @param {import('./talk.js').Talk} talk */
  constructor(transcript, talk) {
    this.#transcript = transcript;
    this.#talk = talk;
    transcript.on = {
      version: (said, step) => this.#step(said, step),
      retry: (said) => this.#retry(said),
      edit: (said) => this.#edit(said),
      branch: (said) => this.#branch(said),
      extend: (said) => this.continueFrom(said),
      shorten: (said) => void this.#shorten(said),
    };
  }

  /** Whether an answer is being generated. */
  get busy() {
    return this.#abort !== null;
  }

  #tell() {
    update({ busy: this.busy, id: this.head?.id ?? null, title: this.head?.title ?? '', leaf: this.tree.leaf });
  }

  /** @param {boolean} now */
  #changed(now) {
    if (this.head) this.head.settings = { ...state.settings };
    this.on.changed(now);
  }

  /** Uses another model for later answers. Call settle() first to save the old model's chat.
   * @param {Model | null} model null: no answers can be requested @param {ModelNote} [note] how to load it again */
  use(model, note) {
    this.#note = note;
    if (model) resolve('hindered');
    this.#talk.use(model);
    if (model) void this.#talk.sweep();
    this.made.clear();
    this.#count();
  }

  /** Deletes the saved chats of deleted conversations (Talk.sweep()). */
  sweep() {
    return this.#talk.sweep();
  }

  /** Records the loaded model in the open conversation, so that the next visit loads it again. */
  adopt() {
    if (this.head) {
      this.head.model = this.#note;
      this.on.changed(false);
    }
    if (this.tree.leaf === null) this.#transcript.clear(welcome());
  }

  /** Opens a conversation from the archive; null opens a new one. @param {{ head: Head, tree: Tree } | null} kept */
  async open(kept) {
    await this.halt();
    resolve('hindered');
    this.#talk.leave();
    this.editing = null;
    this.head = kept?.head ?? null;
    this.tree = kept?.tree ?? new Tree();
    // Discards all rows, because messages of two imported conversations can have the same ids.
    this.#transcript.clear(this.tree.leaf === null ? welcome() : []);
    if (this.tree.leaf !== null) this.#show();
    takeSettings(this.head);
    this.#tell();
    this.#count();
  }

  /** Merges the saved version into the open conversation, which another tab may have continued. @param {Whole} kept
   * @param {boolean} [follow]   this tab has no unsaved changes, so it shows what the other tab added */
  join({ head, body }, follow = false) {
    if (head.id !== this.head?.id) return;
    const { title, named, pinned } = head;
    const later = follow && head.updated > this.head.updated;
    Object.assign(this.head, { title, named, pinned });
    update({ title });
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
    if (last) this.tree.choose(last); // also shows later messages, if another tab has added some
    this.#talk.forget(); // the engine's chat may contain an older text of a message
    this.#show();
    this.#tell();
    this.#count();
  }

  #show() {
    this.#transcript.show(this.#rows(this.tree.path()));
  }

  /** @param {Said[]} path @returns {Row[]} */
  #rows(path) {
    const start = path.findIndex(({ id }) => id === this.head?.from);
    const from = Math.max(0, start);
    let model = '';
    return path.map((said, i) => {
      const by = model && said.model !== model ? said.model : '';
      model = said.model || model;
      const versions = this.tree.versions(said);
      const unanswered = said.role === 'user' && path[i + 1]?.role === 'user';
      const excluded = i < from ? 'all' : i === from && i > 0 ? 'before' : '';
      const [last, long] = [i === path.length - 1, path.slice(from + 1).some(({ role }) => role === 'user')];
      return { said, at: versions.indexOf(said), of: versions.length, last, unanswered, excluded, long, by };
    });
  }

  /** Counts the tokens of context that are in use. The next answer shows errors, for example of the chat
   * template. */
  #count() {
    const { leaf } = this.tree;
    const model = this.#talk.model;
    const use = (/** @type {number} */ used) => update({ used: (this.#used = used) });
    use(0);
    if (leaf !== null)
      void this.#talk.count(messagesOf(this.tree, this.head, leaf)).then(
        (used) => !this.busy && model === this.#talk.model && leaf === this.tree.leaf && use(used),
        () => {},
      );
  }

  /** Sends a message, and starts the answer. Returns false if an answer is running or there is no model.
   * @param {Draft} draft */
  send({ text, files }) {
    if (this.busy || !this.#talk.model) return false;
    const instead = this.editing;
    this.editing = null;
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
    const system = state.system.trim();
    const settings = { ...state.settings };
    this.head = { id: newId(), title: titleOf(text), pinned: 0, created: now, updated: now, settings };
    if (system) this.head.system = system;
    takeSettings(this.head); // the system prompt of a conversation with messages cannot be changed
    update({ id: this.head.id, title: this.head.title });
    route.show();
  }

  /** Requests another answer to a question, or the first one. @param {Said} said */
  #retry(said) {
    if (this.#hindered()) return;
    const question = said.role === 'user' ? said : this.tree.get(said.parent);
    if (question) this.#start({ question, before: this.tree.leaf });
  }

  /** Continues the last message if `begin` is its whole text; otherwise adds a version of the answer that begins with
   * `begin`. @param {Said} said @param {string} [begin] */
  continueFrom(said, begin = said.text) {
    const question = this.tree.get(said.parent);
    const before = this.tree.leaf;
    if (this.#hindered() || !question) return;
    const same = begin === said.text && before === said.id ? said : undefined;
    this.#start({ question, before, begin, said: same });
  }

  /** Drops the oldest turns from the prompt until half of the context is free. Then answers the message that did not
   * fit, or continues the answer that was cut off. @param {Said} said */
  async #shorten(said) {
    const { model } = this.#talk;
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
      // If counting fails, the answer fails too and shows the error.
      used = await this.#talk.count([...messagesOf(tree, cut, said.id), ...asked]).catch(() => 0);
      if (used <= contextLength / 2) break;
    }
    // Meanwhile, another conversation may have been opened, or the button of this action pressed again.
    if (this.head !== head || this.#talk.model !== model || this.#hindered()) return;
    if (used >= contextLength) {
      await addLater();
      fail('hindered', t('message.too-long'));
      return;
    }
    head.from = cut.from;
    this.#talk.forget();
    this.#show();
    if (said.role === 'user') this.#retry(said);
    else this.continueFrom(said);
  }

  /** Returns true if no answer can be requested now, and then shows why. */
  #hindered() {
    const { model } = this.#talk;
    if (this.busy) fail('hindered', t('hindered.busy'));
    else if (!model) fail('hindered', t('hindered.model'), modelButton());
    else resolve('hindered');
    return this.busy || !model;
  }

  /** @param {Said} said */
  #edit(said) {
    if (this.#hindered()) return;
    this.editing = said;
    actions.edit({ text: said.text, files: said.files ?? [] });
  }

  /** The last message of the user, empty if there is none. ↑ brings it back. @returns {Draft} */
  get message() {
    const { text = '', files = [] } = this.tree.path().findLast(({ role }) => role === 'user') ?? {};
    return { text, files };
  }

  /** @param {Said} said @param {number} step */
  #step(said, step) {
    if (this.busy) return;
    const versions = this.tree.versions(said);
    const next = versions[versions.indexOf(said) + step];
    if (!next) return;
    this.tree.choose(next);
    this.#show();
    this.#transcript.focusVersions(next.id, step);
    this.#tell();
    this.#count();
    this.#changed(true);
  }

  /** @param {Said} said */
  #branch({ id, parent }) {
    // An answer that was stopped before its first character is not in the tree.
    const last = this.tree.get(id) ? id : parent;
    if (this.busy || !this.head || !last) return;
    const now = Date.now();
    /** @type {Head} */
    const head = { ...this.head, id: newId(), pinned: 0, created: now, updated: now };
    head.title = t('branch.name', { name: head.title });
    this.on.branched({ head, tree: this.tree.branch(last) });
  }

  /** The answers that are shown, each with its prompt and, if the loaded model generated it, its result. */
  get answers() {
    const shown = this.tree.path().filter(({ role, text }) => role === 'assistant' && text);
    return shown.map((said) => ({ said, told: this.#told(said), made: this.made.get(said.id) }));
  }

  /** @param {Said} said */
  #told({ parent }) {
    const question = /** @type {Said} */ (this.tree.get(parent));
    const said = messagesOf(this.tree, this.head, question.id);
    return this.#talk.prompt([...said, { role: 'user', content: spoken(question) }]);
  }

  /** Starts an answer. said: an existing answer to continue in place.
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
    const { thoughts } = said;
    answer.recall(said, !begin);
    if (begin) answer.add(begin);
    const turn = { question, said, answer, begin, thoughts, before, used: this.#used, prompt: 0 };
    const abort = (this.#abort = new AbortController());
    this.#turn = turn;
    this.#tell();
    this.#changed(true);
    this.#running = this.#run(turn, abort.signal).finally(() => {
      this.tree.touch(said);
      this.#abort = this.#turn = null;
      resolve('hindered');
      this.#tell();
      this.#changed(true);
      if (state.used !== this.#used) this.#count(); // the answer failed, or was stopped before its first character
    });
  }

  /** @param {Turn} turn @param {AbortSignal} signal */
  async #run(turn, signal) {
    const { answer } = turn;
    const onPrefillProgress = (/** @type {{ done: number, total: number }} */ { done, total }) => {
      turn.prompt = Math.max(turn.prompt, turn.used + total); // if the call is repeated, `total` is smaller
      update({ used: turn.prompt });
      if (!answer.text && !answer.thoughts.text && done < total)
        answer.waiting(t('reading.share', { share: percent(done / total) }));
    };
    try {
      const { question, begin, thoughts, before } = turn;
      const head = /** @type {Head} */ (this.head);
      const options = { ...actions.sampling(), signal, onPrefillProgress };
      const out = await this.#talk.ask({ tree: this.tree, head, question, begin, thoughts, before }, options);
      await this.#stream(turn, out);
      this.#finish(turn, await out.result());
    } catch (error) {
      this.#failed(turn, error);
    }
  }

  /** @param {Turn} turn @param {unknown} error */
  #failed({ answer, said, question, before }, error) {
    copied(answer, said);
    const begun = said.text || said.thoughts;
    if (begun) said.state = 'cut';
    else this.tree.remove(said);
    const old = begun ? undefined : this.tree.get(before);
    const back = old?.role === 'assistant' && old.parent === question.id;
    this.tree.leaf = begun ? said.id : back ? before : question.id;
    if (back) {
      // shows the previous version of the answer, and the error below it
      this.#show();
      answer = this.#transcript.running(said);
    }
    answer.fail(error, ...this.#remedies(error, begun ? said : question, question));
    if (isDead(error)) actions.lose();
  }

  /** Returns buttons with remedies for an error. A message that is too long can be edited, but not sent again.
   * @param {unknown} error @param {Said} last @param {Said} question */
  #remedies(error, last, question) {
    const again = action(t('try-again'), () => this.#retry(question));
    if (isDead(error)) return [modelButton(), again];
    if (codeOf(error) !== 'context-exceeded') return [again];
    const shorter = action(t('continue.shorter'), () => void this.#shorten(last));
    const edit = action(t('edit.message'), () => this.#edit(question));
    const { long } = this.#rows(this.tree.path(last.id))[0];
    return [...(long ? [shorter] : []), edit, action(t('new-chat'), () => void actions.open(null))];
  }

  /** @param {Turn} turn @param {GenerateResult} result */
  #finish({ said, answer, question, begin = '', thoughts = '', before }, result) {
    const { usage, finishReason } = result;
    copied(answer, said);
    Object.assign(said, { text: begin + result.text, stats: summary(result), hint: details(result) });
    said.state = finishReason === 'stop' || finishReason === 'stop-sequence' ? 'whole' : 'cut';
    said.full = finishReason === 'context';
    const nothing = finishReason === 'aborted' && !result.text && !result.thoughts;
    if (nothing && !begin && !thoughts) return this.#cameToNothing(said, answer, before);
    if (begin || thoughts)
      this.made.delete(said.id); // the result has only the tokens of the continuation
    else this.made.set(said.id, result);
    if (this.head && !nothing) this.#talk.answered(this.head.id, question, said);
    this.#transcript.settled(answer, this.#rows(this.tree.path(said.id)).slice(-1)[0]);
    update({ used: (this.#used = usage.promptTokens + usage.completionTokens) });
  }

  /** Removes an answer that was stopped before its first character: shows the previous version, or the question alone.
   * @param {Said} said @param {Answer} answer @param {string | null} before */
  #cameToNothing(said, answer, before) {
    this.tree.remove(said);
    const old = this.tree.get(before);
    if (old?.role === 'assistant' && old.parent === said.parent) this.tree.leaf = before;
    else this.tree.leaf = said.parent;
    if (this.tree.leaf === before) return this.#show();
    this.#transcript.settled(answer, { said, at: 0, of: 1, last: true });
  }

  /** @param {Turn} turn @param {ReturnType<Model['generate']>} out */
  async #stream({ answer, prompt }, out) {
    let pieces = 0;
    let first = 0;
    let shown = 0;
    for await (const { kind, text } of out.steps()) {
      if (!text) continue;
      const now = performance.now();
      if (!pieces++) first = shown = now;
      if (kind === 'thought') answer.think(text);
      else answer.add(text);
      if (now - shown < STATS_EVERY) continue;
      shown = now;
      this.flush();
      answer.stats(rate((pieces - 1) / ((now - first) / 1000)));
      update({ used: (this.#turn?.prompt ?? prompt) + pieces });
      this.#changed(false);
    }
  }

  /** Copies the running answer into the tree: the page may be about to close. */
  flush() {
    if (!this.#turn) return;
    const { said, answer } = this.#turn;
    copied(answer, said);
    this.tree.touch(said);
  }

  /** Stops the running answer, if there is one. Its text so far stays. */
  stop() {
    this.#abort?.abort();
  }

  /** Resolves when no answer is running. */
  async idle() {
    while (this.busy) await this.#running;
  }

  /** Stops the running answer. Resolves when its end is recorded in the tree. */
  async halt() {
    this.stop();
    await this.#running;
  }

  /** Stops the answer and saves the chat, so that the model can be disposed of. */
  async settle() {
    await this.halt();
    await this.#talk.settled();
  }
}

/** @param {Answer} answer @param {Said} said */
function copied({ text, thoughts }, said) {
  said.text = text;
  if (thoughts.text) Object.assign(said, { thoughts: thoughts.text, thoughtMs: Math.round(thoughts.ms) });
}

/** @param {unknown} error */
const isDead = (error) => ['worker-failed', 'disposed'].includes(codeOf(error));

function modelButton() {
  const load = () => (state.choice ? actions.choose(state.choice) : actions.changeModel());
  return action(t(state.choice ? 'load.reload' : 'choose-model'), load);
}

/** @param {GenerateResult} result */
function summary({ usage, timings, finishReason }) {
  const parts = [t('tokens', { n: usage.completionTokens })];
  if (timings.decodeTokensPerSecond > 0) parts.push(rate(timings.decodeTokensPerSecond));
  if (timings.firstTokenMs > 0) parts.push(t('stats.first', { time: shortTime(timings.firstTokenMs) }));
  return [...parts, known(`end.${finishReason}`)].filter(Boolean).join(' · ');
}

/** @param {GenerateResult} result */
function details({ seed, usage: { promptTokens, reusedTokens } }) {
  const tokens = t('tokens', { n: promptTokens });
  return t('stats.hint', { tokens, new: promptTokens - reusedTokens, seed: String(seed) });
}
