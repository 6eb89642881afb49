/* cases: the fault-injection and soak tests, which run.js starts. The fields of a case:
 *   sides    where it runs: Node or browsers
 *   inject   where faults occur: server, store, client, data at rest (inject.js), process (place.js), input, nothing
 *   rules    names of the rules in rules.js that must hold
 *   count    number of runs, or of the things that `unit` names
 *   module   file whose run() is called with `options`, by default named like the case
 *   table    for --write: document, table, and number of leading cells that identify a row */

/** Arguments of a case's run(): `first` is the number of its first run, `kind` a pattern for the names of faults.
 * Functions given to `after` are called at the end, even of a run that fails, the last one first.
 * @typedef {{ side: import('./place.js').Side, count: number, seed: number, first: number, kind: string,
 *   after: (end: () => unknown) => void }} Run */
/** @typedef {{ counts: Record<string, any>, broken?: string[], rows?: unknown[][], table?: Case['table'] }} Result */
/** @typedef {{ module?: string, sides: string[], inject: string, rules: string, count: number, unit?: string,
 *   options?: object, kind?: string, table?: [page: string, name: string, keys: number] }} Case */

const BROWSERS = ['chromium', 'firefox'];
const PAGES = [...BROWSERS, 'webkit'];
const HERE = ['node', ...BROWSERS];
const LOADS = 'server, store, client, data at rest';

/** Returns a case of rows.js, with weights of Gemma 4 E2B or E4B (3.35 and 5.15 GB) on disk.
 * @param {string} way a key of WAYS in rows.js @param {number} keys number of leading cells that identify a row
 * @param {Omit<Case, 'sides'>} rest
 * @returns {Case} */
const rows = (way, keys, rest) => ({
  module: 'rows',
  sides: BROWSERS,
  ...rest,
  options: { way },
  table: ['reports/rows.md', way, keys],
});

/** @type {Record<string, Case>} */
export const CASES = {
  faults: {
    sides: ['node', ...PAGES],
    inject: LOADS,
    rules: 'time coded copy next',
    count: 2000,
  },
  // The case `waits` measures how long calls take, and how long without a progress event, with default timeouts.
  waits: {
    module: 'faults',
    sides: ['node'],
    inject: LOADS,
    rules: 'time coded copy next',
    count: 50,
    kind: 'silent|never answers|pause|late$|slowly',
    options: { usual: true },
  },
  kills: {
    sides: HERE,
    inject: 'process',
    rules: 'copy next',
    count: 100,
    table: ['reports/lost.md', 'kills', 2],
  },
  // The case `kills-large` kills downloads of 720 MB, and measures the bytes fetched twice.
  'kills-large': {
    module: 'kills',
    sides: HERE,
    inject: 'process',
    rules: 'copy next',
    count: 5,
    options: { large: true },
    table: ['reports/lost.md', 'kills', 2],
  },
  deaths: {
    sides: PAGES,
    inject: 'process',
    rules: 'time coded next',
    count: 100,
    table: ['reports/lost.md', 'deaths', 1],
  },
  tabs: {
    sides: BROWSERS,
    inject: 'process',
    rules: 'coded next',
    count: 20,
    unit: 'handovers among 2, 4 and 8 tabs each',
    table: ['reports/lost.md', 'tabs', 2],
  },
  copies: {
    sides: HERE,
    inject: 'client',
    rules: 'time coded copy next',
    count: 500,
    table: ['reports/faults.md', 'copies', 2],
  },
  bits: {
    module: 'flipping',
    sides: ['node'],
    inject: 'data at rest',
    rules: 'coded copy next',
    count: 10_000,
    unit: 'bits of a stored model',
    options: { copies: true },
  },
  flips: {
    module: 'flipping',
    sides: ['node'],
    inject: 'data at rest',
    rules: 'coded',
    count: 5000,
    unit: 'bits each of index files, saved chats and journals',
  },
  'rows-cold': rows('cold', 2, { inject: 'nothing', rules: '', count: 200, unit: 'tokens' }),
  'rows-early': rows('early', 1, { inject: 'nothing', rules: 'next', count: 16, unit: 'tokens' }),
  'rows-large': rows('large', 1, { inject: 'nothing', rules: 'memory', count: 16, unit: 'tokens' }),
  'rows-torn': rows('torn', 1, { inject: 'process', rules: 'next', count: 1 }),
  'rows-faults': {
    sides: HERE,
    inject: `${LOADS}, process`,
    rules: 'time coded copy next',
    count: 400,
    table: ['reports/rows.md', 'faults', 3],
  },
  soak: {
    sides: HERE,
    inject: 'nothing',
    rules: 'coded copy memory',
    count: 120,
    unit: 'minutes',
    table: ['reports/faults.md', 'soak', 1],
  },
  aborts: {
    sides: HERE,
    inject: 'client',
    rules: 'coded next',
    count: 50,
    unit: 'moments',
    table: ['reports/limits.md', 'aborts', 3],
  },
  visitor: {
    sides: PAGES,
    inject: 'process',
    rules: 'next',
    count: 20,
    unit: 'reloads, and a quarter as many kills',
    table: ['reports/page.md', 'visitor', 1],
  },
  drafts: {
    sides: ['node'],
    inject: 'nothing',
    rules: 'coded',
    count: 500,
    unit: 'prompts',
  },
  head: {
    sides: ['node'],
    inject: 'nothing',
    rules: '',
    count: 500,
    unit: 'seeds',
  },
  many: {
    sides: BROWSERS,
    inject: 'nothing',
    rules: '',
    count: 500,
    unit: 'conversations',
    table: ['reports/page.md', 'many', 1],
  },
  handles: {
    sides: ['chromium'],
    inject: 'nothing',
    rules: '',
    count: 6000,
    unit: 'calls',
    table: ['reports/limits.md', 'handles', 1],
  },
  serve: {
    sides: ['node'],
    inject: 'client',
    rules: 'coded next memory',
    count: 10_000,
    unit: 'requests, and a tenth as many disconnects',
    table: ['reports/serve.md', 'serve', 1],
  },
  formats: {
    module: 'hostile-formats',
    sides: ['node'],
    inject: 'input',
    rules: 'time coded next memory',
    count: 20_000,
    unit: 'formats with each vocabulary',
  },
  schemas: {
    module: '../js/answers',
    sides: ['node'],
    inject: 'input',
    rules: 'coded',
    count: 200,
    unit: 'schemas, ten answers of each model',
    options: { bounded: true },
  },
  answers: {
    module: '../js/answers',
    sides: ['node'],
    inject: 'input',
    rules: 'coded',
    count: 2000,
    unit: 'answers under schemas without bounds',
  },
};
