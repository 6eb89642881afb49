/**
 * storyteller: the small model that comes with the page, where whoever serves the page has put it:
 * tools/build/page.js then leaves a <meta name="storyteller"> behind. Says what it is, and is not.
 * @module
 */
import { action, el } from '../shell/dom.js';
import { parameters } from '../shell/format.js';

/** In the words of the turns that it was trained on. */
const SUGGESTIONS = [
  'Tell me a story about a little dragon.',
  'Tell me a story about a cat and a boat.',
  'Tell me a story about a brave mouse.',
];

/** The settings of the stories in its model card. */
export const STORY_SETTINGS = { temperature: 0.7, topK: 40 };

/** @returns {import('./presets.js').Choice | null} null: this page comes without */
export function storyteller() {
  const found = document.querySelector('meta[name="storyteller"]');
  if (!(found instanceof HTMLMetaElement) || !found.content) return null;
  return {
    source: new URL(found.content, document.baseURI).href,
    label: 'Storyteller',
    bytes: Number(found.dataset.bytes) || undefined,
    sha256: found.dataset.sha256, // a host may send an error page, or the model of another version
    kind: 'storyteller',
  };
}

/** Whether to fetch it unasked: not for people who have asked their browser to save data. */
export function mayFetch() {
  const { connection } = /** @type {{ connection?: { saveData?: boolean } }} */ (navigator);
  return !connection?.saveData;
}

/**
 * What an empty conversation with it shows.
 * @param {number} size   parameters
 * @param {{ say: (text: string) => void, more: () => void }} on
 */
export function storytellerWelcome(size, { say, more }) {
  return [
    el('strong', {}, 'A tiny storyteller'),
    el(
      'p',
      {},
      `This model has ${parameters(size)} parameters and has read children’s stories, nothing else. ` +
        'It makes up little stories, here on this device, and knows nothing about the world.',
    ),
    el(
      'ul',
      { className: 'suggestions', ariaLabel: 'Suggestions' },
      ...SUGGESTIONS.map((text) =>
        el(
          'li',
          {},
          action(text, () => say(text)),
        ),
      ),
    ),
    el(
      'p',
      { className: 'upgrade' },
      'To talk about anything else, get Gemma 3 1B: a download of 0.7 to 1 GB, once. ',
      action('Choose a model…', more, 'link'),
    ),
  ];
}
