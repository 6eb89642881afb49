/**
 * token: asks for a Hugging Face access token when a model needs one. The token is passed to one load only; it is never
 * stored and never part of an address.
 * @module
 */
import { box, button, byId, input, onSubmit } from '../shell/dom.js';
import { PageError, statusOf } from '../shell/errors.js';
import { actions, state, update, watch } from '../shell/store.js';
import { showTrouble } from './chooser.js';
import { hubAddress } from './presets.js';

/** @import { Choice } from '../shell/store.js' */

/** Connects the form, which shows while `state.gated` is set. Called once. */
export function setUpToken() {
  onSubmit('token-form', () => {
    const token = input('token').value.trim();
    if (!/^[!-~]+$/.test(token)) {
      showTrouble(new PageError('token.wrong'));
      return input('token').focus();
    }
    if (state.gated) actions.choose({ ...state.gated, token });
  });
  box('token-form').addEventListener('reset', () => {
    update({ gated: null });
    const back = button('back');
    (back.hidden ? box('main') : back).focus(); // the focused button is hidden now
  });
  watch(['gated'], show);
}

/** @param {Choice['source']} source */
function repository(source) {
  if (typeof source === 'string') return hubAddress(source);
  return 'repo' in source ? source : null;
}

/** Returns whether a load failed because a file on Hugging Face needs an access token.
 * @param {unknown} error @param {Choice} choice */
export function needsToken(error, choice) {
  return [401, 403].includes(statusOf(error)) && repository(choice.source) !== null;
}

/** Asks for an access token, with which the model is then loaded.
 * @param {Choice} choice   what to load with the token */
export function askToken(choice) {
  update({ gated: { ...choice, token: undefined } });
}

function show() {
  const { gated } = state;
  const from = gated && repository(gated.source);
  box('token-form').hidden = !from;
  input('token').value = '';
  if (!from) return;
  byId('token-page', HTMLAnchorElement).href = `https://huggingface.co/${from.repo}`;
  box('token-page').textContent = from.repo;
  box('token-form').scrollIntoView({ block: 'nearest' });
  input('token').focus();
}
