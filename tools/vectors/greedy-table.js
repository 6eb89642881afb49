/**
 * greedy-table: formats the results of greedy.js and greedy.py as lines of a table.
 *
 * @typedef {import('./greedy-follow.js').Followed & { version: string }} Run
 * @typedef {{ choices: number[], llamaNmse: number, oursNmse: number, margins: number[] }} Truth
 *   Results of float64 arithmetic; margins: as in Followed
 * @typedef {{ name: string, types: string, bytes: number, llama: string, led: import('./greedy-follow.js').Led,
 *   runs: Record<string, Run>, truth?: Truth }} Recorded
 */

/** llama.cpp's choice is clear if its two largest logits differ by more. Only clear choices are compared. */
export const CLEAR = 1e-3;

const COLUMNS = [
  'model',
  'types of matrices',
  'bytes',
  'where',
  'equal of',
  'clear ones that differ: step (margin)',
  'alone, equal up to',
  'different ids',
  'smallest, median margin',
  'largest change of a margin',
  'NMSE',
];

const headOf = (/** @type {string[]} */ columns) =>
  `| ${columns.join(' | ')} |\n|${columns.map(() => '---').join('|')}|`;
export const HEAD = headOf(COLUMNS);
const HEAD_TRUTH = headOf([
  'model',
  "llama.cpp's choices that are float64's",
  "this engine's",
  "llama.cpp's NMSE",
  "this engine's",
  'step: the three margins where they differ',
]);

/** Returns the length of the common beginning of two lists of ids, -1 if it is all of a.
 * @param {number[]} a @param {number[]} b */
const together = (a, b) => a.findIndex((id, k) => id !== b[k]);

/** Returns the line of a run. It `failed` if a clear choice differs from llama.cpp's. Without a run, the cells of this
 * engine are empty. @param {Recorded} record @param {string} place @param {Run | null} run */
export function row({ name, types, bytes, led: { ids, margins } }, place, run) {
  const sorted = [...margins].sort((a, b) => a - b);
  const wrong = run ? ids.flatMap((id, k) => (run.chosen[k] !== id && margins[k] > CLEAR ? [k] : [])) : [];
  const equal = run && ids.filter((id, k) => run.chosen[k] === id).length;
  const until = run ? together(ids, run.generated) : 0;
  const change = run && Math.max(...run.margins.map((m, k) => Math.abs(m - margins[k])));
  const cells = [
    name,
    types,
    bytes,
    run ? `${run.version}, ${run.variant}` : place,
    run ? `${equal} of ${ids.length}` : '',
    wrong.map((k) => `${k} (${margins[k].toPrecision(2)})`).join(', '),
    until < 0 ? 'the end' : run ? until : '',
    new Set(ids).size,
    `${sorted[0].toPrecision(2)}, ${sorted[ids.length >> 1].toPrecision(2)}`,
    change?.toPrecision(2) ?? '',
    run?.nmse?.toExponential(1) ?? '',
  ];
  return { text: `| ${cells.join(' | ')} |`, failed: wrong.length > 0 };
}

/** @param {Recorded} record */
function truthRow({ name, led: { ids, margins }, truth, runs }) {
  if (!truth) return [];
  const { node } = runs;
  const same = (/** @type {number[]} */ list) => truth.choices.filter((id, k) => list[k] === id).length;
  const differ = ids.flatMap((id, k) =>
    node.chosen[k] === id
      ? []
      : [
          `${k}: ${margins[k].toPrecision(2)}, ` +
            `${truth.margins[k].toPrecision(2)}, ${node.margins[k].toPrecision(2)}`,
        ],
  );
  const cells = [
    name,
    same(ids),
    same(node.chosen),
    truth.llamaNmse.toExponential(1),
    truth.oursNmse.toExponential(1),
    differ.join('; '),
  ];
  return [`| ${cells.join(' | ')} |`];
}

/** Returns the text of tests/vectors/greedy.md.
 * @param {Recorded[]} records @param {Readonly<Record<string, import('../models/make-model.js').ModelSpec>>} presets */
export function document(records, presets) {
  const constants = records
    .filter(({ name }) => presets[name])
    .map(({ name }) => `${name}: ${presets[name].loud} loud rows, branch ${presets[name].branch}`);
  return `# Greedy tokens of whole models at true shapes, beside llama.cpp

Presets of \`tools/models/make-model.js\`, random weights (${constants.join('; ')}).
A fixed prompt of 12 ids; llama.cpp (${[...new Set(records.map((r) => r.llama))].join('; ')}, 2 threads, default settings)
chooses 32 tokens; this engine (2 threads, default settings) evaluates the same ids and should choose the same where
llama.cpp's two best logits are more than ${CLEAR} apart. "Alone": the number of ids that \`generate()\` produces from the
prompt before one differs from llama.cpp's. A change of a margin: the difference between the engines in the distance of
llama.cpp's two best logits. NMSE: between all logits of the two engines, mean of the steps.

${HEAD}
${records.flatMap((r) => Object.entries(r.runs).map(([place, run]) => row(r, place, run).text)).join('\n')}

Neither engine multiplies quantised matrices exactly: each rounds their inputs, to 8 bits if the weights have 4, and
rounds differently. The reference is float64 arithmetic on the dequantised weights, for the same ids
(\`tools/vectors/greedy.py\`). Where the engines differ: the margin between llama.cpp's best and second in llama.cpp, in
float64 and this engine (simd128). If it is below 0, the second is better.

${HEAD_TRUTH}
${records.flatMap(truthRow).join('\n')}

Made by \`tools/vectors/greedy.js\` (all presets; then \`greedy.py\`; then \`--write\`).
`;
}
