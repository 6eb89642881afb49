/**
 * talk: the engine's chat behind a conversation. Continues it if possible; otherwise begins another one, and the engine
 * reuses the common prefix. While the model is idle, the chat's state is saved, so that nothing is evaluated again
 * after a reload.
 * @module
 */
import { codeOf } from '../shell/errors.js';
import { update } from '../shell/store.js';
import { spoken } from '../history/tree.js';

/** @import { Model } from '../../js/index.js' */
/** @import { ChatMessage } from '../../js/protocol.js' */
/** @import { Head } from '../history/archive.js' */
/** @import { Said, Tree } from '../history/tree.js' */

/** A request for an answer. begin: text that the answer must begin with; thoughts: earlier thoughts of an answer that
 * is continued; before: id of the last message shown.
 * @typedef {{ tree: Tree, head: Head, question: Said, begin?: string, thoughts?: string,
 *   before: string | null }} Asked */

/** A chat is saved after this idle time, in milliseconds. */
const KEEP_AFTER = 1000;
const NAME = 'page ';

/** Returns the messages of a prompt, with the system prompt of the conversation first.
 * @param {Tree} tree @param {Head | null} head @param {string | null} until id of the last message; null: none
 * @returns {ChatMessage[]} */
export function messagesOf(tree, head, until) {
  const messages = /** @type {ChatMessage[]} */ (tree.messages(until, head?.from));
  return head?.system ? [{ role: 'system', content: head.system }, ...messages] : messages;
}

/** Returns messages as one text, for a model without a chat template. @param {ChatMessage[]} messages */
function textOf(messages) {
  const said = messages.filter(({ role }) => role !== 'system');
  return said.map(({ role, content }, i) => (i && role === 'user' ? '\n' : '') + content).join('');
}

/** @param {ChatMessage[]} a @param {ChatMessage[]} b */
function same(a, b) {
  return a.length === b.length && a.every(({ role, content }, i) => role === b[i].role && content === b[i].content);
}

/** The chat of the loaded model that belongs to the open conversation. */
export class Talk {
  /** @type {Model | null} */ model = null;
  /** @type {ReturnType<Model['chat']> | null} */ #chat = null;
  /** Ids of the last answer and question in the engine's chat. */
  #held = /** @type {{ answer: string | null, question: string | null }} */ ({ answer: null, question: null });
  /** Id of the conversation whose saved chat was looked up. */
  #restored = '';
  /** Id of the conversation whose chat will be saved when the model is idle. */
  #waiting = '';
  #timer = 0;
  /** @type {AbortController | null} */ #saving = null;
  /** @type {Promise<void>} */ #kept = Promise.resolve();
  #library;

  /** @param {import('../history/library.js').Library} library */
  constructor(library) {
    this.#library = library;
    addEventListener('visibilitychange', () => document.visibilityState === 'hidden' && this.#keepNow());
  }

  /** Uses another model. Chats that are being saved are lost: call settled() first. @param {Model | null} model */
  use(model) {
    this.#saving?.abort();
    this.leave(false);
    this.model = model;
  }

  /** Leaves the current conversation, because another one is opened. @param {boolean} [keep] saves the chat of the
   * current conversation, if it has changed */
  leave(keep = true) {
    if (keep) this.#keepNow();
    this.forget();
    this.#restored = '';
  }

  /** Makes the next request begin a new chat. */
  forget() {
    clearTimeout(this.#timer);
    this.#chat = null;
    this.#waiting = '';
    this.#held = { answer: null, question: null };
  }

  /** Returns the number of tokens that messages take as a prompt; 0 without a model. Rejects as countTokens() does.
   * @param {ChatMessage[]} messages */
  async count(messages) {
    if (!this.model || !messages.length) return 0;
    return this.model.countTokens(this.prompt(messages));
  }

  /** Returns the prompt for messages: a single text if the model has no chat template.
   * @param {ChatMessage[]} messages */
  prompt(messages) {
    return this.model?.info.chatTemplate ? messages : textOf(messages);
  }

  /** Starts an answer, from the existing chat if possible. There must be a model.
   * @param {Asked} asked @param {object} options   of generate() or send() */
  async ask(asked, options) {
    const model = /** @type {Model} */ (this.model);
    const { tree, head, question, begin, thoughts, before } = asked;
    clearTimeout(this.#timer);
    this.#saving?.abort();
    const said = messagesOf(tree, head, question.id); // excludes the question, which is unanswered
    const user = { role: /** @type {const} */ ('user'), content: spoken(question) };
    if (!model.info.chatTemplate) return model.generate(textOf([...said, user]) + (begin ?? ''), options);
    if (!this.#chat) await this.#restore(asked);
    const chat = this.#chat;
    // An answer with thoughts is continued as the last message.
    const more = { ...options, prefix: thoughts ? undefined : begin };
    if (chat && this.#held.question === question.id && (!thoughts || this.#held.answer === before)) {
      return begin === undefined ? chat.retry(options) : chat.continue(more);
    }
    const answer = answeredBefore(tree, question);
    if (begin !== undefined) {
      const answer = { role: /** @type {const} */ ('assistant'), content: begin, thoughts };
      this.#chat = model.chat({ messages: [...said, user, ...(thoughts ? [answer] : [])] });
      this.#held = { answer: '', question: null };
      return this.#chat.continue(more);
    }
    if (!this.#chat || this.#held.answer !== answer) this.#chat = model.chat({ messages: said });
    this.#held = { answer, question: null };
    return this.#chat.send(user.content, options);
  }

  /** Records that the engine's chat now ends with an answer. @param {string} id   of the conversation
   * @param {Said} question @param {Said} said */
  answered(id, question, said) {
    this.#held = { answer: said.id, question: question.id };
    if (!this.#chat) return;
    this.#waiting = id;
    this.#timer = window.setTimeout(() => this.#keepNow(), KEEP_AFTER);
  }

  #isKept(/** @type {string} */ id) {
    const { archive } = this.#library;
    return archive.kept && archive.has(id);
  }

  #keepNow() {
    clearTimeout(this.#timer);
    if (this.#waiting) this.#kept = this.#keep(this.#waiting);
    this.#waiting = '';
  }

  /** Resolves when the chat is saved, so that the model can be disposed of. */
  async settled() {
    this.#keepNow();
    await this.#kept;
  }

  /** @param {string} id */
  async #keep(id) {
    const [model, chat] = [this.model, this.#chat];
    const { signal } = (this.#saving = new AbortController());
    try {
      if (!model || !chat || !(await this.#isKept(id))) return;
      await model.chatCache.put(NAME + id, await chat.save({ signal }), { signal });
      update({ saved: id });
    } catch {
      // Saving failed: there is no store or no space, or another answer was requested. The conversation will be
      // evaluated again after a reload.
    }
  }

  /** Restores the saved state of a conversation, if it matches the shown messages. @param {Asked} asked */
  async #restore({ tree, head, question, before }) {
    const model = /** @type {Model} */ (this.model);
    if (this.#restored === head.id) return;
    this.#restored = head.id;
    try {
      const saved = await model.chatCache.get(NAME + head.id);
      if (!saved) return;
      const chat = model.chat({ saved });
      await chat.restored;
      const answer = [before, answeredBefore(tree, question)]
        .map((id) => tree.get(id))
        .find((one) => one?.role === 'assistant' && same(chat.messages, messagesOf(tree, head, one.id)));
      // If no answer matches, the chat was saved with other versions of the messages, so another chat begins.
      if (!answer) return;
      this.#chat = chat;
      this.#held = { answer: answer.id, question: answer.parent };
    } catch (error) {
      if (codeOf(error) === 'worker-failed') throw error; // after other errors, a chat is made from the messages
    }
  }

  /** Deletes the saved states of conversations that were deleted. */
  async sweep() {
    await this.#kept; // waits: the conversation whose chat is being saved may be deleted
    if (!this.#library.archive.kept) return;
    const states = this.model?.chatCache;
    try {
      for (const { name } of (await states?.list()) ?? []) {
        if (name.startsWith(NAME) && !(await this.#isKept(name.slice(NAME.length)))) await states?.delete(name);
      }
    } catch {
      // Deleting failed: there is no store, or another tab has locked it. The next call tries again.
    }
  }
}

/** Returns the last answer before a question; skips questions without an answer.
 * @param {Tree} tree @param {Said} question */
function answeredBefore(tree, question) {
  let parent = tree.get(question.parent);
  while (parent?.role === 'user') parent = tree.get(parent.parent);
  return parent?.id ?? null;
}
