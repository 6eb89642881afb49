/**
 * app: connects the parts of the page and decides in which order they start. Imports only js/index.js of the
 * package.
 * @module
 */
import { Composer } from './chat/composer.js';
import { Conversation } from './chat/conversation.js';
import { Follow } from './chat/follow.js';
import { Keeper } from './chat/keeper.js';
import { Openings } from './chat/openings.js';
import { Talk } from './chat/talk.js';
import { Transcript } from './chat/transcript.js';
import { Library } from './history/library.js';
import { recall } from './history/storage.js';
import { Loads } from './models/loads.js';
import { offerStoryteller, setUpPicker } from './models/picker.js';
import { setUpStored, showStored } from './models/stored.js';
import { reasonBeforeLoad, showThreadsHint } from './models/threads.js';
import { setUpToken } from './models/token.js';
import { setUpOffline } from './offline/offline.js';
import { setUpPanels } from './panels.js';
import { setUpSettings } from './settings/settings.js';
import { setUpShortcuts } from './settings/shortcuts.js';
import { setUpTheme } from './settings/theme.js';
import { box, button, onClick, underDialog, whenIdle } from './shell/dom.js';
import { addLater, speak, t } from './shell/language.js';
import { showNotices } from './shell/notices.js';
import { route } from './shell/route.js';
import { actions, state, update, watch } from './shell/store.js';

// The style sheet reads these data attributes of the page. Tests read `kept`.
watch(['phase', 'behind', 'leaf', 'busy', 'library', 'panel', 'saved'], () => {
  const { phase, behind, leaf, busy, library, panel, saved } = state;
  const inChat = behind || (phase === 'loading' && leaf !== null);
  const shown = { state: phase, behind, inChat, busy, library: library ? 'open' : 'closed', panel, kept: saved };
  Object.assign(document.body.dataset, shown);
});
watch(['title'], () => {
  document.title = [state.title, 'gemma-wasm'].filter(Boolean).join(' · ');
});
watch(['model', 'choice'], () => {
  if (!state.model || !state.choice) return;
  const { label, file = label } = state.choice;
  box('model-name').textContent = label;
  Object.assign(button('change-model'), {
    title: t('model.change.title', { name: file }),
    ariaLabel: t('model.change.label', { name: label }),
  });
});

await speak([recall('language', ''), ...navigator.languages]);

const follow = new Follow(box('scroller'), box('latest'));
const library = new Library();
const conversation = new Conversation(new Transcript(box('log'), follow), new Talk(library));
const keeper = new Keeper(conversation, library);
const openings = new Openings(conversation, keeper, new Composer(conversation, keeper, follow), library);
const loads = new Loads(conversation, openings);

setUpTheme();
setUpSettings(() => keeper.settings());
setUpPicker();
setUpStored();
setUpToken();
setUpPanels(conversation);
setUpShortcuts();
onClick('new-chat', () => void actions.open(null));
onClick('settings-close', () => update({ panel: '' }));
onClick('print', () => print());
onClick('shape-open', async () => {
  await addLater();
  (await import('./chat/shape.js')).shape.open();
});
document.querySelector('.skip')?.addEventListener('click', (event) => {
  event.preventDefault(); // the skip link must not replace the conversation's hash
  box('main').focus();
});
addEventListener('keydown', (event) => {
  if (event.key !== 'Escape' || event.isComposing || underDialog()) return;
  if (!loads.cancel()) conversation.stop();
});
route.follow(({ id, models }) => {
  if (models) loads.show();
  else if (state.models) loads.leave();
  if (id !== openings.id) void openings.open(id, { instead: true });
});

async function start() {
  const offline = setUpOffline();
  showThreadsHint();
  await library.start();
  await keeper.recover();
  offerStoryteller();
  const { id, models } = route.place;
  await openings.open(id, { instead: true });
  if (models) route.show({ models, instead: true });
  const kept = await showStored();
  await offline;
  if (!globalThis.crossOriginIsolated) await addLater(); // loads the notice about running on one thread
  showNotices('thread-notice', [reasonBeforeLoad()]);
  await loads.first(new URLSearchParams(location.search), kept.length > 0);
  whenIdle(() => void addLater());
}

void start();
