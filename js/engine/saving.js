/* saving: saves and restores the session's state of a chat (token ids, KV cache and sampler; src/run/state.h) as bytes,
 * in slices, so that the worker can receive messages between them. */
/** @import { Context, EvaluationJob } from './jobs.js' */
/** @import { ModelError } from '../errors.js' */
/** @import { Restore, Save, Store, Stored } from '../protocol.js' */
import { ChatFiles } from '../download/chat-cache.js';
import { abortError, wrapped } from '../errors.js';
import { noChatCache, noMemoryForSaved, notEvaluated } from './errors.js';

/** Returns `head` followed by the session's state after the ids. Evaluates the ids first if the session has other ids
 * by now. Returns only `head` if there are no ids, or if the ids belong to another model. @param {Context} context
 * @param {EvaluationJob} job @param {Save['args']} args @returns {Promise<Save['value']>} */
export async function save({ runner, contextLength }, job, { head, ids: all, of, owner = '' }) {
  const { native } = runner;
  const ids = all.slice(0, contextLength); // an answer that filled the context has one id too many
  if (!ids.length || ![undefined, native.stateName].includes(of)) return head;
  const isOthers = native.restoredFor && native.restoredFor !== owner;
  if (isOthers || !native.saves(ids)) {
    native.sync(ids, owner);
    await runner.settle(job);
    if (!native.saves(ids)) throw notEvaluated();
  }
  return headAndState(runner, job, head);
}

/** @param {Context['runner']} runner @param {EvaluationJob} job @param {Uint8Array} head */
async function headAndState(runner, job, head) {
  const { native } = runner;
  const size = head.length + native.savedBytes;
  const bytes = wrapped(
    () => new Uint8Array(size),
    (cause) => noMemoryForSaved(size, cause),
  );
  bytes.set(head);
  let at = head.length;
  for (let part; (part = native.saveNext()).length; at += part.length) {
    bytes.set(part, at);
    await runner.pause();
    if (job.aborted) throw abortError();
  }
  return bytes;
}

/** Returns a copy of the session's state, or null if the state is empty or there is no memory for a copy.
 * @param {Context['runner']} runner @param {EvaluationJob} job */
async function stateOf(runner, job) {
  try {
    return runner.native.saves([]) ? await headAndState(runner, job, new Uint8Array()) : null;
  } catch (error) {
    if (/** @type {ModelError} */ (error).code === 'no-memory') return null;
    throw error;
  }
}

/** Calls f, which may change the session's state, and then restores the state. @template T @param {Context} context
 * @param {EvaluationJob} job @param {() => Promise<T>} f @returns {Promise<T>} */
export async function aside(context, job, f) {
  const bytes = await stateOf(context.runner, job);
  const owner = context.runner.native.restoredFor;
  try {
    return await f();
  } finally {
    // If the restore fails, the next turn evaluates the conversation again.
    if (bytes) await restore(context, { aborted: false }, { bytes, owner }).catch(() => {});
  }
}

/** Restores a state of the session. Returns the number of tokens in the KV cache. If the state does not fit the model,
 * returns 0 and a reason.
 * @param {Context} context @param {{ aborted: boolean }} job @param {Restore['args']} args
 * @returns {Promise<Restore['value']>} */
export async function restore(context, job, { bytes, owner = '' }) {
  const { runner } = context;
  const { native } = runner;
  native.restoredFor = owner;
  try {
    native.call('restore', bytes.length);
    for (let at = 0, more = 1; more; await runner.pause()) {
      const room = native.stateRoom();
      const part = bytes.subarray(at, at + room.length);
      room.set(part);
      more = native.call('restore_commit', job.aborted ? 0 : part.length);
      at += part.length;
    }
    return { tokens: native.call('position') };
  } catch (error) {
    if (job.aborted) throw abortError();
    const { code, message } = /** @type {ModelError} */ (error);
    if (code === 'no-memory' && runner.makeRoom?.()) return restore(context, job, { bytes, owner });
    if (code !== 'bad-saved') throw error;
    return { tokens: 0, reason: message };
  }
}

/** One ChatFiles per store, so that the operations of a store run one after the other.
 * @type {WeakMap<Store, ChatFiles>} */
const known = new WeakMap();

/** @param {Context} context */
function chatFilesOf({ runner: { native }, store, chatCacheBytes }) {
  if (!store) throw noChatCache();
  const files =
    known.get(store) ??
    new ChatFiles(store, {
      engine: native.stateName,
      limit: chatCacheBytes,
      hash: (text) => native.hash(text),
    });
  known.set(store, files);
  return files;
}

/** Reads or writes the chat cache. Fails with `bad-state` if the model was loaded without a cache.
 * @param {Context} context @param {Stored['args']} args @param {{ aborted: boolean }} job @returns {Promise<any>} */
export async function stored(context, { what, name = '', bytes = new Uint8Array() }, job) {
  const files = chatFilesOf(context);
  const pause = context.runner.pauses(job);
  if (what === 'put') return files.put(name, bytes, pause);
  if (what === 'get') return files.get(name, pause);
  return what === 'list' ? files.list() : files.remove(name || undefined);
}
