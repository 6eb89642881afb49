/**
 * route: what the address says is open: a conversation or none yet, and whether the models lie over it. So that Back
 * and Forward lead through what was seen, and not out of the page; Back closes the models, on phones too.
 * @module
 */

/** @typedef {{ id: string | null, models: boolean }} Place */

/** @returns {Place} */
export function place() {
  const [, id, models] = /^#(?:\/c\/([\w-]{1,64}))?(\/models)?$/.exec(location.hash) ?? [];
  return { id: id ?? null, models: Boolean(models) };
}

/** @param {Place} to */
function address({ id, models }) {
  const hash = (id ? `/c/${id}` : '') + (models ? '/models' : '');
  return location.pathname + location.search + (hash && `#${hash}`);
}

/** While the page itself takes a step back, which takes its time: what is to be done then.
 * @type {(() => void)[] | null} */
let leaving = null;

/** The address follows what is shown. @param {Place} to @param {boolean} [instead]   no step to come back to */
export function shows(to, instead = false) {
  if (leaving) return void leaving.push(() => shows(to, instead));
  const next = address(to);
  if (next === location.pathname + location.search + location.hash) return;
  if (instead) history.replaceState(history.state, '', next);
  else history.pushState({ over: to.models }, '', next);
}

/** The models are closed: where opening them was a step, that is taken back, so that Back does not open them again.
 * @param {Place} to */
export function leaves(to) {
  if (leaving) return void leaving.push(() => leaves(to));
  if (!place().models) return;
  if (!history.state?.over) return shows(to, true);
  leaving = [() => shows(to)]; // something else may have been opened behind them
  history.back();
}

/** @param {(to: Place) => void} go   somebody went Back or Forward, or followed a link */
export function onRoute(go) {
  addEventListener('popstate', () => {
    const waiting = leaving;
    leaving = null;
    if (!waiting) return go(place());
    for (const one of waiting) one();
  });
}
