/**
 * sw: the page's service worker. It keeps the files of one version of the page and answers with them, so that the page
 * opens without a network, and gives them the headers of isolation, which not every host can. Nothing else goes through
 * it: no model but the one that comes with the page, no other host.
 *
 * A new version is installed beside the old one and takes over at once; tabs of the old one still get its files, and
 * are told. tools/build-site.js makes the list of files; they are named by their content, so what two versions have in
 * common is fetched once.
 * @module
 */
import { features } from '../js/platform/features.js';
import { isolated } from '../js/platform/isolation.js';
import { cacheOf, cachesOf } from './versions.js';

/** needed: before the first answer; later: kept when the page is open; onUse: when they are asked for, but the engine.
 * @typedef {{ version: string, needed: string[], later: string[], onUse: string[] }} Site */

const scope = /** @type {any} */ (globalThis);
/** @type {Site} */
const { version, needed, later, onUse } = scope.site;
const HOME = new URL('./', location.href).href;
const OURS = cacheOf(HOME, version);

/** @param {string} name */
const addressOf = (name) => HOME + name;

/** The engine of this browser, with threads and without: first the one that is likelier. */
function engine() {
  const build = features().relaxed ? 'relaxed' : 'simd128',
    several = navigator.hardwareConcurrency > 1;
  const both = onUse.filter((name) => name.includes(`gemma-${build}-`));
  return both.sort((a, b) => (Number(a.includes('-threads-')) - Number(b.includes('-threads-'))) * (several ? -1 : 1));
}

/** What a search in texts scans vectors with, in every browser: who never searched may want to without a network. */
const scan = () => onUse.filter((name) => /\/gemma-simd128-(?!threads)/.test(name));

/** In any version. @param {string} url @returns {Promise<Response | undefined>} */
const kept = (url) => caches.match(url, { ignoreVary: true });

async function install() {
  const cache = await caches.open(OURS);
  const first = [...needed, engine()[0]].map((name) => keep(cache, addressOf(name)));
  const known = [...later, ...onUse].map(async (name) => {
    const response = await kept(addressOf(name));
    if (response) await cache.put(addressOf(name), response);
  });
  await Promise.all([keepPage(cache), ...first, ...known]);
  await scope.skipWaiting();
}

/** What can wait until the page is open. */
async function keepRest() {
  const cache = await caches.open(OURS);
  for (const name of [...later, ...new Set([...engine(), ...scan()])]) {
    if (!(await cache.match(addressOf(name), { ignoreVary: true }))) await keep(cache, addressOf(name));
  }
}

/** @param {Cache} cache @param {string} url */
async function keep(cache, url) {
  const response = (await kept(url)) ?? (await fetch(url));
  if (response.status !== 200) throw new Error(`${url}: status ${response.status}`);
  await cache.put(url, response);
}

/** The document: while a host takes over a new version, it may still give the old one. @param {Cache} cache */
async function keepPage(cache) {
  const response = await fetch(HOME, { cache: 'no-cache' });
  const text = await response.clone().text();
  if (!text.includes(version)) throw new Error(`${HOME} is not version ${version} yet`);
  await cache.put(HOME, response);
}

async function page() {
  const response = await caches.match(HOME, { cacheName: OURS, ignoreVary: true });
  return isolated(response ?? (await fetch(HOME)));
}

/** @param {any} event @param {string} url */
async function asset(event, url) {
  const known = await kept(url);
  if (known) return isolated(known);
  const response = await fetch(url); // whole, whatever part of it was asked for
  if (response.status === 200) {
    const copy = response.clone();
    event.waitUntil(
      caches
        .open(OURS)
        .then((cache) => cache.put(url, copy))
        .catch(() => {}),
    );
  }
  return isolated(response);
}

/** Versions go that no tab has open. One that does not hold its lock yet may have any. */
async function tidy() {
  const { installing, waiting } = scope.registration;
  const { held = [] } = await navigator.locks.query();
  const open = held.map(({ name }) => name).filter((name) => name?.startsWith(cachesOf(HOME)));
  const windows = await scope.clients.matchAll({ type: 'window', includeUncontrolled: true });
  if (installing || waiting || open.length < windows.length) return;
  for (const name of await caches.keys()) {
    if (name.startsWith(cachesOf(HOME)) && name !== OURS && !open.includes(name)) await caches.delete(name);
  }
}

/** The open tabs of this page hear which version they would get now. */
async function takeOver() {
  await scope.clients.claim();
  for (const client of await scope.clients.matchAll({ type: 'window' })) client.postMessage({ version });
}

scope.addEventListener('install', (/** @type {any} */ event) => event.waitUntil(install()));
scope.addEventListener('activate', (/** @type {any} */ event) => event.waitUntil(takeOver()));
scope.addEventListener('message', (/** @type {any} */ event) => {
  event.source.postMessage({ version });
  event.waitUntil(keepRest().then(tidy, () => {})); // offline: another time
});
scope.addEventListener('fetch', (/** @type {any} */ event) => {
  const { request } = event,
    [url] = request.url.split(/[?#]/);
  if (request.method !== 'GET' || !url.startsWith(HOME)) return;
  const name = url.slice(HOME.length);
  if (name.startsWith('assets/')) event.respondWith(asset(event, url));
  else if (request.mode === 'navigate' && ['', 'index.html'].includes(name)) event.respondWith(page());
});
