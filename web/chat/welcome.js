/**
 * welcome: the contents of an empty conversation.
 * @module
 */
import { action, el } from '../shell/dom.js';
import { parameters } from '../shell/format.js';
import { parts, t } from '../shell/language.js';
import { actions, state } from '../shell/store.js';

/** Suggested prompts, worded like the storyteller model's training data, so in English in every language. */
const SUGGESTIONS = /** @type {const} */ (['story.dragon', 'story.cat', 'story.mouse']);

/** Returns the contents of an empty conversation for the loaded model, or for none. @returns {(Node | string)[]} */
export function welcome() {
  const { model, choice } = state;
  const choose = action(t('choose-model'), () => actions.changeModel(), 'link');
  if (!model) return [el('strong', t('welcome.no-model')), choose];
  if (!model.info.chatTemplate) return [el('strong', t('welcome.text')), t('welcome.text.about')];
  if (choice?.kind !== 'storyteller') return [el('strong', t('welcome.chat')), t('welcome.chat.about')];
  const suggestions = SUGGESTIONS.map((key) => {
    const text = t(key); // in English, even on right-to-left pages
    const say = action(text, () => actions.say({ text, files: [] }));
    return el('li', { dir: 'auto' }, say);
  });
  return [
    el('strong', t('story.title')),
    el('p', t('story.about', { parameters: parameters(model.info.parameters) })),
    el('ul.suggestions', { ariaLabel: t('suggestions') }, ...suggestions),
    el('p.upgrade', ...parts('story.more', { link: choose })),
  ];
}
