/**
 * sw: the page's service worker. It stores the files of one version of the page, so that the page opens without a
 * network, and adds the headers of cross-origin isolation, which some hosts cannot send. It handles no other requests.
 *
 * A proxy or captive portal can answer a request for a script with a web page and status 200. So every file is compared
 * with the SHA-256 digest that tools/build/site.js recorded, before it is stored and when it is read, because storage
 * can be damaged.
 *
 * A new version is installed beside the old one, whose tabs still get their files, and activated when all the files
 * that it needs are stored. Files are named by their content, so that versions share them.
 * @module
 */
import { features } from '../../js/platform/features.js';
import { isolated } from '../../js/platform/isolation.js';
import { cacheOf, cachesOf } from './versions.js';

/** Base64 SHA-256 digests by file name. @typedef {Record<string, string>} Digests */
/** Files of this version. page: the digest of the document; needed: stored at installation; later: stored when the page
 * is open; onUse: stored when requested, except the engine, which is needed; types: media types by file extension.
 * @typedef {{ version: string, page: string, needed: Digests, later: Digests, onUse: Digests,
 *   types: Record<string, string> }} Site */

const scope = /** @type {any} */ (globalThis);
/** @type {Site} */
const site = scope.site;
const { version, types } = site;
const needed = Object.keys(site.needed);
const later = Object.keys(site.later);
const onUse = Object.keys(site.onUse);
const HOME = new URL('./', location.href).href;
const OURS = cacheOf(HOME, version);
/** Name of the document, whose address is HOME itself. */
const PAGE = '';
/** @type {Digests} */
const digests = { [PAGE]: site.page, ...site.needed, ...site.later, ...site.onUse };

/** @param {string} name */
const addressOf = (name) => HOME + name;

/** Returns the engine's files for this browser, with and without threads, the more likely one first. */
function engine() {
  const build = features().relaxed ? 'relaxed' : 'simd128';
  const several = navigator.hardwareConcurrency > 1;
  const both = onUse.filter((name) => name.includes(`gemma-${build}-`));
  return both.sort((a, b) => (Number(a.includes('-threads-')) - Number(b.includes('-threads-'))) * (several ? -1 : 1));
}

/** Returns the module that scans vectors for the document search, whose first use may be offline. */
const scan = () => onUse.filter((name) => /\/gemma-simd128-(?!threads)/.test(name));

/** Returns a response with a file's bytes and media type; undefined if the bytes are not this version's. Files of other
 * versions, for their tabs, pass unchecked: their digests are unknown.
 * @param {string} name @param {Response} response */
async function verified(name, response) {
  if (!Object.hasOwn(digests, name)) return response;
  const bytes = await response.arrayBuffer().catch(() => null); // null: the response was cut off
  if (!bytes) return undefined;
  const sum = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  if (btoa(String.fromCharCode(...sum)) !== digests[name]) return undefined;
  const headers = new Headers(response.headers);
  headers.set('Content-Type', types[/\.\w+$/.exec(name)?.[0] ?? '.html']); // a host may send a wrong media type
  return new Response(bytes, { headers });
}

/** Returns the stored copy of a file, from any version's cache. Skips copies that fail verification.
 * @param {string} name @returns {Promise<Response | undefined>} */
async function kept(name) {
  const others = (await caches.keys()).filter((one) => one.startsWith(cachesOf(HOME)) && one !== OURS);
  for (const cacheName of [OURS, ...others]) {
    const response = await caches.match(addressOf(name), { cacheName, ignoreVary: true });
    const right = response && (await verified(name, response));
    if (right) return right;
  }
  return undefined;
}

/** Fetches a file; undefined if the host sends other bytes. The second request bypasses the browser's HTTP cache, which
 * may hold a wrong answer for a year. @param {string} name */
async function fetched(name) {
  for (const cache of /** @type {RequestCache[]} */ ([name === PAGE ? 'no-cache' : 'default', 'reload'])) {
    const right = await verified(name, await fetch(addressOf(name), { cache }));
    if (right) return right;
  }
  return undefined;
}

/** @param {Cache} cache @param {string} name */
async function keep(cache, name) {
  const right = (await kept(name)) ?? (await fetched(name));
  if (!right)
    throw new Error(
      `Cannot store ${addressOf(name)}: the bytes are not those of version ${version}. ` +
        'Upload the whole site again, and turn off anything that rewrites its files.',
    );
  await cache.put(addressOf(name), right);
}

async function install() {
  const cache = await caches.open(OURS);
  const first = [PAGE, ...needed, engine()[0]].map((name) => keep(cache, name));
  await Promise.all(first);
  for (const name of [...later, ...onUse]) {
    const right = await kept(name);
    if (right) await cache.put(addressOf(name), right).catch(() => {}); // no room: the file can be fetched again
  }
  await scope.skipWaiting();
}

async function keepRest() {
  const cache = await caches.open(OURS);
  for (const name of new Set([...later, ...engine(), ...scan()])) {
    // A stored file was verified, and is verified again when it is read, so a visit does not hash it.
    if (!(await cache.match(addressOf(name), { ignoreVary: true }))) await keep(cache, name);
  }
}

/** @param {Request} request   passed on unchanged: a captive portal may redirect a navigation to another origin */
async function page(request) {
  const known = await caches.match(addressOf(PAGE), { cacheName: OURS, ignoreVary: true });
  return isolated((known && (await verified(PAGE, known))) || (await fetch(request)));
}

/** @param {any} event @param {string} name */
async function asset(event, name) {
  const known = await kept(name);
  if (known) return isolated(known);
  const url = addressOf(name);
  const ours = Object.hasOwn(digests, name);
  /** @param {Response | undefined} right */
  const store = async (right) => right && (await caches.open(OURS)).put(url, right);
  // The page shows the progress of a model and checks its digest itself, so it gets the bytes as they arrive.
  if (!ours || name.endsWith('.gguf')) {
    const response = await fetch(url, { cache: 'no-cache' }); // fetches the whole file, even for a range request
    if (ours)
      event.waitUntil(
        verified(name, response.clone())
          .then(store)
          .catch(() => {}),
      );
    return isolated(response);
  }
  const right = await fetched(name);
  if (!right) return new Response(null, { status: 502, statusText: 'The file differs from that of this version' });
  event.waitUntil(store(right.clone()).catch(() => {}));
  return isolated(right);
}

/** Deletes versions that no tab has open. Does nothing while a tab has no lock, because it may have any version. */
async function tidy() {
  const stored = await caches.keys(); // listed first, so that a version that is installed meanwhile is kept
  const { held = [] } = await navigator.locks.query();
  const open = held.map(({ name }) => name).filter((name) => name?.startsWith(cachesOf(HOME)));
  const windows = await scope.clients.matchAll({ type: 'window', includeUncontrolled: true });
  const { installing, waiting } = scope.registration;
  if (installing || waiting || open.length < windows.length) return;
  for (const name of stored) {
    if (name.startsWith(cachesOf(HOME)) && name !== OURS && !open.includes(name)) await caches.delete(name);
  }
}

/** Claims the open tabs, and tells them the version that a reload gets. */
async function takeOver() {
  await scope.clients.claim();
  for (const client of await scope.clients.matchAll({ type: 'window' })) client.postMessage({ version });
}

scope.addEventListener('install', (/** @type {any} */ event) => event.waitUntil(install()));
scope.addEventListener('activate', (/** @type {any} */ event) => event.waitUntil(takeOver()));
scope.addEventListener('message', (/** @type {any} */ event) => {
  event.source.postMessage({ version });
  event.waitUntil(
    tidy()
      .then(keepRest)
      .catch(() => {}),
  ); // tidy() first, because it frees space. Without a network, a later visit stores the files.
});
scope.addEventListener('fetch', (/** @type {any} */ event) => {
  const { request } = event;
  const [url] = request.url.split(/[?#]/);
  if (request.method !== 'GET' || !url.startsWith(HOME)) return;
  const name = url.slice(HOME.length);
  if (name.startsWith('assets/')) event.respondWith(asset(event, name));
  else if (request.mode === 'navigate' && ['', 'index.html'].includes(name)) event.respondWith(page(request));
});
