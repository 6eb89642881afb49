/**
 * welcome: what an empty conversation shows.
 * @module
 */
import { action, el } from '../shell/dom.js';
import { parameters } from '../shell/format.js';
import { actions, state } from '../shell/store.js';

/** In the words of the turns that the storyteller was trained on. */
const SUGGESTIONS = [
  'Tell me a story about a little dragon.',
  'Tell me a story about a cat and a boat.',
  'Tell me a story about a brave mouse.',
];

/** @returns {(Node | string)[]} */
export function welcome() {
  const { model, choice } = state;
  const choose = action('Choose a model…', () => actions.changeModel(), 'link');
  if (!model) return [el('strong', 'No model is loaded'), choose];
  if (!model.info.chatTemplate) {
    return [el('strong', 'Begin a text'), 'This model has not learnt to chat: it continues the text that you write.'];
  }
  if (choice?.kind !== 'storyteller') {
    return [el('strong', 'Ask something'), 'The answer is made here, on this device.'];
  }
  const suggestions = SUGGESTIONS.map((text) =>
    el(
      'li',
      action(text, () => actions.say({ text, files: [] })),
    ),
  );
  return [
    el('strong', 'A tiny storyteller'),
    el(
      'p',
      `This model has ${parameters(model.info.parameters)} parameters and has read children’s stories, nothing else. ` +
        'It makes up little stories, here on this device, and knows nothing about the world.',
    ),
    el('ul.suggestions', { ariaLabel: 'Suggestions' }, ...suggestions),
    el('p.upgrade', 'To talk about anything else, get Gemma 3 1B: a download of 0.7 to 1 GB, once. ', choose),
  ];
}
