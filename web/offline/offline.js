/**
 * offline: the page's side of its service worker (sw.js), where whoever built the page put one: tools/build/site.js
 * leaves a <meta name="offline"> behind. Without one, and in browsers and windows that have none, the page works as it
 * is.
 * @module
 */
import { reloadOnce } from '../../js/platform/isolation.js';
import { action, box, el } from '../shell/dom.js';
import { cacheOf } from './versions.js';

/** A first visit waits for the page's files, which it needs anyway, no longer than this. */
const LONGEST_MS = 4000;
/** How often a page that stays open asks for a new version. */
const ASK_EVERY_MS = 3600_000;

/** Whether the service worker will answer when this page is opened again, as it did not this time. */
let comes = false;

/** @returns {ServiceWorkerContainer | undefined} none where the page is not to be trusted, or private */
const container = () => navigator.serviceWorker;

/** Before anything is loaded: what is fetched from then on is kept, and with the service worker's headers the page has
 * threads. For that it is loaded once more, the first time: nothing is lost as yet. */
export async function setUpOffline() {
  const meta = document.querySelector('meta[name="offline"]');
  const workers = container();
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
      return new Promise(() => {}); // as long as this page is open
    });
  });
  askForNews(registration);
  comes = !workers.controller && (!first || (await taken(workers, registration)));
  const untouched = document.body.dataset.state === 'opening';
  if (untouched && workers.controller && !globalThis.crossOriginIsolated) await reloadOnce();
  registration.active?.postMessage('open');
}

/** Until the service worker has its files and answers for this page, or long enough; gives false if it cannot.
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
    registration.update().catch(() => {}); // offline
  });
}

/** The style hides it while an answer or a download runs. */
function offerReload() {
  const place = box('update');
  const later = action(
    'Later',
    () => {
      place.hidden = true;
    },
    'quiet small',
  );
  place.replaceChildren(
    el('span', {}, 'A new version is here.'),
    action('Reload', () => location.reload(), 'small'),
    later,
  );
  place.hidden = false;
}

/** Whether the next visit to this page will be isolated though this one is not. */
export const isolatedNextTime = () => comes;
