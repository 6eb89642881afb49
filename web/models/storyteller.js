/**
 * storyteller: the storyteller model, a small model that comes with the page, if the page was built with it:
 * tools/build/page.js then adds a <meta name="storyteller">.
 * @module
 */
import { t } from '../shell/language.js';

/** The sampling settings that the storyteller's model card names for stories. */
export const STORY_SETTINGS = { temperature: 0.7, topK: 40 };

/** Returns the choice of the storyteller model.
 * @returns {import('../shell/store.js').Choice | null} null: the page comes without it */
export function storyteller() {
  const found = document.querySelector('meta[name="storyteller"]');
  if (!(found instanceof HTMLMetaElement) || !found.content) return null;
  return {
    source: new URL(found.content, document.baseURI).href,
    label: t('storyteller'),
    bytes: Number(found.dataset.bytes) || undefined,
    sha256: found.dataset.sha256, // checked, because a host may send an error page or another version's model
    kind: 'storyteller',
  };
}

/** Returns whether to fetch the storyteller model automatically: not if the browser is set to save data. */
export function mayFetch() {
  const { connection } = /** @type {{ connection?: { saveData?: boolean } }} */ (navigator);
  return !connection?.saveData;
}
