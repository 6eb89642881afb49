/** exceptions: the tests of web-platform-tests that do not pass, and why. */

/** A test that does not pass. `file`: part of its path. `test`: its name; without it, all tests of the file.
 * `varies`: the test passes or fails by chance.
 * @typedef {{ file: string, test?: string, reason: string, varies?: boolean }} Exception */

const KNOWS = 'Depends on the answer: the test expects the model to repeat the prompt or to know a fact.';
const UNBOUNDED = 'Depends on the answer: the expression is unbounded, and the answer may end before it matches.';

/** @type {Exception[]} */
export const EXCEPTIONS = [
  {
    file: 'context/destroyed',
    reason: 'Uses the `LanguageModel` of an empty frame. This package installs it only in the window that loads it.',
  },
  {
    file: 'prompt-empty-input',
    test: 'LanguageModel.prompt() allows empty or coerced inputs',
    reason: `${KNOWS} The tests of \`prompt/empty-inputs\` cover the other inputs.`,
  },
  {
    file: 'language-model-quota-exceeded',
    reason:
      'Expects that a system message takes as many tokens as a user message. Here it takes more, because an empty user message follows ' +
      'it, which many chat templates require. The draft specification leaves the number to the implementation.',
  },
  { file: 'simple-question', reason: KNOWS, varies: true },
  {
    file: 'context/usage-initial-prompt',
    reason: `${KNOWS} The assertions about the usage pass.`,
    varies: true,
  },
  ...['email', 'csv-row', 'list', 'url'].map((name) => ({ file: `regex/${name}`, reason: UNBOUNDED, varies: true })),
];

/** @type {{ files: RegExp, reason: string }[]} */
export const SKIPPED = [
  { files: /multimodal/, reason: 'Images and sounds are not supported.' },
  {
    files: /tool-use/,
    reason:
      'The tests expect that the page answers tool calls. In the draft specification, tools have an `execute` function; `tests/js/prompt-api.test.js` covers them.',
  },
];
