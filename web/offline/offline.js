/**
 * offline: the page's side of its service worker (sw.js), if the page was built with one: tools/build/site.js then adds
 * a <meta name="offline">. Without a service worker the page works online only.
 * @module
 */
import { reloadOnce } from '../../js/platform/isolation.js';
import { action, box, el } from '../shell/dom.js';
import { t } from '../shell/language.js';
import { state, update } from '../shell/store.js';
import { cacheOf } from './versions.js';

/** Longest time that a first visit waits for the page's files, in milliseconds. */
const LONGEST_MS = 4000;
/** Minimum time between checks for a new version, in milliseconds. */
const ASK_EVERY_MS = 3600_000;

/** Registers the service worker before anything is loaded, so that it stores all files fetched later. Its headers
 * enable threads, but only after a reload: the first visit reloads the page while there is nothing to lose. */
export async function setUpOffline() {
  const meta = document.querySelector('meta[name="offline"]');
  /** @type {ServiceWorkerContainer | undefined} */
  const workers = navigator.serviceWorker; // undefined in insecure contexts and some private windows
  if (!(meta instanceof HTMLMetaElement) || !workers) return;
  const version = meta.dataset.version ?? '';
  const home = new URL('./', document.baseURI).href;
  workers.addEventListener('message', ({ data }) => {
    if (data.version !== version) offerReload();
  });
  workers.startMessages();
  const registration = await workers.register(meta.content).catch(() => null);
  if (!registration) return;
  const first = !registration.active;
  await new Promise((held) => {
    void navigator.locks.request(cacheOf(home, version), { mode: 'shared' }, () => {
      held(true);
      return new Promise(() => {}); // the lock is held while this page is open
    });
  });
  askForNews(registration);
  update({ isolatedNext: !workers.controller && (!first || (await taken(workers, registration))) });
  const untouched = state.phase === 'opening';
  if (untouched && workers.controller && !globalThis.crossOriginIsolated) await reloadOnce();
  registration.active?.postMessage('open');
}

/** Waits, up to LONGEST_MS, until the service worker controls this page; returns false if its installation failed.
 * @param {ServiceWorkerContainer} workers @param {ServiceWorkerRegistration} registration
 * @returns {Promise<boolean>} */
function taken(workers, { installing, waiting, active }) {
  box('keeping').hidden = false;
  return new Promise((done) => {
    const worker = installing ?? waiting ?? active;
    const failed = () => {
      if (!worker || worker.state === 'redundant') done(false);
    };
    worker?.addEventListener('statechange', failed);
    failed();
    workers.addEventListener('controllerchange', () => done(true));
    setTimeout(() => done(true), LONGEST_MS);
  });
}

/** @param {ServiceWorkerRegistration} registration */
function askForNews(registration) {
  let asked = Date.now();
  addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'hidden' || Date.now() - asked < ASK_EVERY_MS) return;
    asked = Date.now();
    registration.update().catch(() => {}); // fails without a network
  });
}

/** Offers to reload the page for a new version. The style sheet hides the offer while an answer or a download runs. */
function offerReload() {
  const place = box('update');
  const later = action(
    t('later'),
    () => {
      place.hidden = true;
    },
    'quiet small',
  );
  place.replaceChildren(
    el('span', t('new-version')),
    action(t('reload'), () => location.reload(), 'small'),
    later,
  );
  place.hidden = false;
}
