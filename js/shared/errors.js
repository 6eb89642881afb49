/* errors: the errors of models that tabs share. */
import { ModelError } from '../errors.js';

/** @param {string} why a clause */
export const cannotShare = (why) =>
  new ModelError('cannot-share', `Tabs cannot share a model here: ${why}. Use loadModel() of 'gemma-wasm'.`);

/** @param {string} kind of the source */
export const cannotShareSource = (kind) =>
  new ModelError(
    'unsupported-source',
    `Tabs cannot share a source of the kind ${kind}. Use a URL, { repo, file } or an entry of modelCache.list().`,
  );

export const loadFailed = () =>
  new ModelError('disposed', 'The shared model could not be loaded. Call loadModel() again.');

/** @param {string} method */
export const stillLoading = (method) =>
  new ModelError('bad-state', `Cannot call ${method}(): the shared model is still loading. Try again.`);

export const ownerGone = () =>
  new ModelError('worker-failed', 'The tab that ran the engine was closed, or does not respond. Repeat the call.');

export const engineMoved = () =>
  new ModelError('worker-failed', 'The engine was restarted, or runs in another tab. Repeat the call.');

/** @param {number[]} expected token ids @param {number[]} [got] missing if the answer ended */
export const otherAnswer = (expected, got) =>
  new ModelError(
    'worker-failed',
    `The restarted engine gave a different answer: ${got ? `token ${got}` : 'the end'} instead of` +
      ` token ${expected}. Repeat the call.`,
  );
