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
  "llama.cpp's choices equal to float64's",
  "this engine's",
  "llama.cpp's NMSE",
  "this engine's",
  'step: the three margins where they differ',
]);

/** Returns how many ids the lists a and b have in common at the beginning, or -1 if b begins with all of a.
 * @param {number[]} a @param {number[]} b */
const together = (a, b) => a.findIndex((id, k) => id !== b[k]);

/** Returns the line of a run. `failed`: whether a clear choice differs from llama.cpp's. Without a run, the cells of
 * this engine are empty. @param {Recorded} record @param {string} place @param {Run | null} run */
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
  return `# Greedy tokens of models with real shapes, compared with llama.cpp

The models are presets of \`tools/models/make-model.js\` with random weights (${constants.join('; ')}; \`ModelSpec\` in
\`tools/models/architectures.js\` explains these words).
From a fixed prompt of 12 ids, llama.cpp (${[...new Set(records.map((r) => r.llama))].join('; ')}, 2 threads, default settings) greedily chooses 32 tokens. This engine (2 threads,
default settings) evaluates the same ids. A choice is clear if llama.cpp's two largest logits differ by more than ${CLEAR}. This difference is the margin of
the choice. Clear choices should be the same in both engines. The columns are:

- "equal of": number of steps with the same choice; then the clear choices that differ, with their margins.
- "alone, equal up to": number of ids that this engine's \`generate()\` produces from the prompt before one differs from
  llama.cpp's.
- "different ids": number of distinct ids among the 32.
- "largest change of a margin": largest difference between the margins in the two engines, for the same two ids.
- "NMSE": between all logits of the two engines ([parity.md](parity.md#reference)), averaged over the steps.

${HEAD}
${records.flatMap((r) => Object.entries(r.runs).map(([place, run]) => row(r, place, run).text)).join('\n')}

Neither engine multiplies quantised matrices exactly: each rounds the inputs of the products, in different ways, for
example to 8 bits for 4-bit weights. The next table therefore compares both with float64 arithmetic on the dequantised
weights, for the same ids (\`tools/vectors/greedy.py\`). For each step where the engines choose differently, it shows the
margin (llama.cpp's largest logit minus its second largest) of the same two ids in llama.cpp, in float64 and in this
engine (simd128). A negative margin means that the second id has the larger logit there.

${HEAD_TRUTH}
${records.flatMap(truthRow).join('\n')}

Made by \`tools/vectors/greedy.js\` for all presets, then \`greedy.py\`, then \`greedy.js --write\`.
`;
}
