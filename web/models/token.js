/**
 * token: asks for a Hugging Face access token when a model needs one. The token lives in its field and
 * in the options of the one load that it is for; it is never stored and never part of an address.
 * @module
 */
import { box, byId, input } from '../shell/dom.js';
import { PageError, statusOf } from '../shell/errors.js';
import { hubAddress } from './presets.js';

/** @typedef {import('./presets.js').Choice} Choice */

/** @type {Choice | null} */
let waiting = null;

/**
 * @param {(choice: Choice) => void} choose
 * @param {(error: unknown) => void} complain
 */
export function setUpToken(choose, complain) {
  byId('token-form', HTMLFormElement).addEventListener('submit', (event) => {
    event.preventDefault();
    const token = input('token').value.trim();
    if (!/^[!-~]+$/.test(token)) {
      complain(new PageError('This is not an access token.', 'It is one long word that begins with hf_.'));
      return input('token').focus();
    }
    const choice = waiting;
    hideToken();
    if (choice) choose({ ...choice, token });
  });
  byId('token-form', HTMLFormElement).addEventListener('reset', hideToken);
}

/** Repository and file on Hugging Face, null for models from elsewhere. @param {Choice['source']} source */
function repository(source) {
  if (typeof source === 'string') return hubAddress(source);
  return 'repo' in source ? source : null;
}

/** Whether a load failed for want of a token that could be given. @param {unknown} error @param {Choice} choice */
export function needsToken(error, choice) {
  return [401, 403].includes(statusOf(error)) && repository(choice.source) !== null;
}

/** @param {Choice} choice   what to load with it */
export function askToken(choice) {
  const from = repository(choice.source);
  if (!from) return;
  waiting = { ...choice, token: undefined };
  byId('token-page', HTMLAnchorElement).href = `https://huggingface.co/${from.repo}`;
  box('token-page').textContent = from.repo;
  box('token-form').hidden = false;
  box('token-form').scrollIntoView({ block: 'nearest' });
  input('token').focus();
}

export function hideToken() {
  waiting = null;
  input('token').value = '';
  box('token-form').hidden = true;
}
