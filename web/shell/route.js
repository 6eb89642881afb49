/**
 * route: the address names the open conversation and says whether the model chooser covers it. Back and Forward move
 * through the visited conversations, and Back closes the chooser.
 * @module
 */
import { state } from './store.js';

/** @typedef {{ id: string | null, models: boolean }} Place */

class Route {
  /** Changes of the address that wait until history.back() is done; null if it is not running.
   * @type {(() => void)[] | null} */
  #waiting = null;

  /** Returns the conversation that the address names, and whether the model chooser covers it. @returns {Place} */
  get place() {
    const [, id, models] = /^#(?:\/c\/([\w-]{1,64}))?(\/models)?$/.exec(location.hash) ?? [];
    return { id: id ?? null, models: Boolean(models) };
  }

  /** @param {{ instead?: boolean } & Partial<Place>} [how]   instead: replaces the history entry */
  show({ instead = false, id = state.id, models = state.models } = {}) {
    if (this.#waiting) return void this.#waiting.push(() => this.show({ instead, id, models }));
    const hash = (id ? `/c/${id}` : '') + (models ? '/models' : '');
    const next = location.pathname + location.search + (hash && `#${hash}`);
    if (next === location.pathname + location.search + location.hash) return;
    if (instead) history.replaceState(history.state, '', next);
    else history.pushState({ over: models }, '', next);
  }

  /** Updates the address after the model chooser was closed. If opening it added a history entry, goes back, so that
   * Back does not open it again. */
  leave() {
    if (this.#waiting) return void this.#waiting.push(() => this.leave());
    if (!this.place.models) return;
    if (!history.state?.over) return this.show({ instead: true });
    const { id } = state;
    this.#waiting = [() => this.show({ id })]; // another conversation may have been opened behind the chooser
    history.back();
  }

  /** @param {(to: Place) => void} go   after Back, Forward or a link */
  follow(go) {
    addEventListener('popstate', () => {
      const waiting = this.#waiting;
      this.#waiting = null;
      if (!waiting) return go(this.place);
      for (const one of waiting) one();
    });
  }
}

export const route = new Route();
