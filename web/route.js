/**
 * route: what the address says is open: a conversation, the list of models, or nothing yet. So that Back and Forward
 * lead through what was seen, and not out of the page.
 * @module
 */

/** @typedef {{ view: 'chat', id: string | null } | { view: 'models' }} Place */

const MODELS = '#/models';

/** @returns {Place} */
export function place() {
  if (location.hash === MODELS) return { view: 'models' };
  const [, id] = /^#\/c\/([\w-]{1,64})$/.exec(location.hash) ?? [];
  return { view: 'chat', id: id ?? null };
}

/** @param {Place} to */
function address(to) {
  const hash = to.view === 'models' ? MODELS : to.id ? `#/c/${to.id}` : '';
  return location.pathname + location.search + hash;
}

/** The address follows what is shown. @param {Place} to @param {boolean} [instead]   no step to come back to */
export function shows(to, instead = false) {
  const next = address(to);
  if (next === location.pathname + location.search + location.hash) return;
  if (instead) history.replaceState(null, '', next);
  else history.pushState(null, '', next);
}

/** @param {(to: Place) => void} go   somebody went Back or Forward, or followed a link */
export function onRoute(go) {
  addEventListener('popstate', () => go(place()));
}
