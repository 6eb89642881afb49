/**
 * store: the state of the page in one object, the order of its phases, and the actions that parts of the page call on
 * each other. Only update() and enter() change the state; functions registered with watch() are called after a change.
 *
 * No library: views of the static HTML mostly set a text, stream Markdown or move the focus. lit-html would add 3.2 KB
 * and signals-core 2.1 KB (compressed) to the first load, this file adds 0.4 KB.
 * @module
 */

/** Phase of the page. opening: deciding what to show; picking: only the model chooser is shown; loading: no model can
 * answer meanwhile; ready: a model answers; reading: a conversation without a model.
 * @typedef {'opening' | 'picking' | 'loading' | 'ready' | 'reading'} Phase */

/** The phases that may follow each phase, besides itself. @type {Record<Phase, Phase[]>} */
const NEXT = {
  opening: ['picking', 'loading', 'reading'],
  picking: ['loading', 'reading'],
  loading: ['ready', 'picking', 'reading'],
  ready: ['loading', 'picking', 'reading'],
  reading: ['loading', 'picking'],
};

/**
 * A model to load.
 * @typedef {object} Choice
 * @property {string | File | File[] | { repo: string, file: string, revision?: string }} source
 * @property {string} label
 * @property {string} [file]   its file name, if the label is another one
 * @property {number} [bytes]
 * @property {string} [sha256]
 * @property {string} [token]   for Hugging Face
 * @property {number} [contextLength]   instead of the one in the form
 * @property {boolean} [anyway]   load it although it seems too large
 * @property {'storyteller' | 'stored'} [kind]   storyteller: comes with the page; stored: on this device
 */

/**
 * @typedef {object} State
 * @property {Phase} phase
 * @property {boolean} busy            an answer is being generated
 * @property {string | null} id        the open conversation; null: a new one
 * @property {string} title            title of the open conversation
 * @property {string | null} leaf      the last message shown; null: none
 * @property {number} used             tokens of context in use
 * @property {boolean} stored          conversations are stored for the next visit
 * @property {string} saved            the conversation whose engine state was saved last
 * @property {import('../../js/index.js').Model | null} model   the loaded model
 * @property {Choice | null} choice    source of the loaded model, or of the last one
 * @property {Choice | null} coming    the model that is being loaded
 * @property {boolean} behind          the storyteller model answers during a load
 * @property {boolean} models          the model chooser covers the page
 * @property {Choice | null} gated     the model that waits for an access token
 * @property {boolean} refused         the browser stored less than it had offered
 * @property {string} panel            the open side panel; '': none
 * @property {boolean} library         the list of conversations is open
 * @property {Record<string, string>} settings   settings of answers that differ from the defaults
 * @property {Record<string, number>} recommended   the model's own defaults
 * @property {string} system           the system prompt
 * @property {boolean} isolatedNext    the next visit will have threads, though this one has none
 */

/** @type {Readonly<State>} */
export const state = {
  phase: 'opening',
  busy: false,
  id: null,
  title: '',
  leaf: null,
  used: 0,
  stored: false,
  saved: '',
  model: null,
  choice: null,
  coming: null,
  behind: false,
  models: false,
  gated: null,
  refused: false,
  panel: '',
  library: false,
  settings: {},
  recommended: {},
  system: '',
  isolatedNext: false,
};

/** @type {{ names: (keyof State)[], show: () => void }[]} */
const watchers = [];

/** Calls a function whenever one of the named values of the state has changed. @param {(keyof State)[]} names
 * @param {() => void} show */
export function watch(names, show) {
  watchers.push({ names, show });
}

/** Changes the state, then calls the functions that watch a changed value, in the order of their registration.
 * @param {Partial<State>} news */
export function update(news) {
  const changed = /** @type {(keyof State)[]} */ (Object.keys(news)).filter((name) => news[name] !== state[name]);
  Object.assign(state, news);
  for (const { names, show } of watchers) if (names.some((name) => changed.includes(name))) show();
}

/** Changes the phase. Throws if the phase may not follow the current one.
 * @param {Phase} phase @param {Partial<State>} [news]   other changes at the same time */
export function enter(phase, news) {
  if (phase !== state.phase && !NEXT[state.phase].includes(phase)) {
    throw new Error(`page: ${phase} cannot follow ${state.phase}`);
  }
  update({ ...news, phase });
}

/** @typedef {{ temperature: number, topK: number, topP: number, maxTokens: number, seed?: number,
 *   thinking?: false | { budget: number } }} Sampling */
/** A message that is being written. editing: id of the earlier message that it replaces; before: the draft of the next
 * message, meanwhile.
 * @typedef {{ text: string, files: { name: string, text: string }[], editing?: string, before?: Draft }} Draft */

/**
 * Actions of the page, each set by the part that implements it.
 * @typedef {object} Actions
 * @property {(choice: Choice) => void} choose     loads a model
 * @property {() => void} changeModel              opens the model chooser
 * @property {() => void} lose                     handles a model that has failed for good
 * @property {(id: string | null) => Promise<void>} open   opens a conversation; null: a new one
 * @property {() => void} rest                     loads or shows a model after a conversation was opened
 * @property {() => Sampling} sampling             returns the options of the next answer
 * @property {(draft: Draft) => void} say          sends a message, keeps the draft
 * @property {(draft: Draft) => void} edit         puts an earlier message into the field
 * @property {(draft: Draft) => void} ask          adds a question and texts to the draft
 * @property {() => void} focus                    focuses the message field, unless the user types elsewhere
 */

export const actions = /** @type {Actions} */ ({});

/** Returns a function to call when a request starts. That function returns another one, which tells whether the
 * request is still the latest. */
export function latest() {
  let calls = 0;
  return () => {
    const mine = ++calls;
    return () => mine === calls;
  };
}
