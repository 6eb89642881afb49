/**
 * Evaluates llama.cpp's greedy tokens with this engine, and records what it would choose. Runs in Node (greedy-node.js)
 * or in a page (tools/bench/drivers/greedy.js).
 *
 * @typedef {{ prompt: number[], ids: number[], seconds: number[], margins: number[] }} Led
 *   llama.cpp's choices (ids), its second best ids (seconds), and the differences of their logits (margins)
 * @typedef {{ chosen: number[], generated: number[], margins: number[], nmse?: number, variant: string }} Followed
 *   chosen: this engine's choices after llama.cpp's tokens; generated: its tokens on its own; margins: its logits of
 *   llama.cpp's best ids minus those of llama.cpp's second best
 */

/** Returns the ids of the greatest and of the second greatest logit, the lower id first on ties, and their difference.
 * @param {Float32Array} row @returns {{ id: number, second: number, margin: number }} */
export function choice(row) {
  let id = 0;
  let second = -1;
  for (let i = 1; i < row.length; i++) {
    if (row[i] > row[id]) [second, id] = [id, i];
    else if (second < 0 || row[i] > row[second]) second = i;
  }
  return { id, second, margin: row[id] - row[second] };
}

/** Evaluates llama.cpp's greedy ids with this engine. `onRow` receives the logits and the index of each step.
 * @param {typeof import('../../js/model.js').loadModel} loadModel @param {string} source
 * @param {import('../../js/options.js').LoadOptions} options @param {Led} led
 * @param {(row: Float32Array, k: number) => void} [onRow] @returns {Promise<Followed>} */
export async function follow(loadModel, source, options, { prompt, ids, seconds }, onRow) {
  const model = await loadModel(source, options);
  const chosen = [];
  const margins = [];
  try {
    for (let k = 0; k < ids.length; k++) {
      const row = await model.debug.logits([...prompt, ...ids.slice(0, k)]);
      chosen.push(choice(row).id);
      margins.push(row[ids[k]] - row[seconds[k]]);
      onRow?.(row, k);
    }
    const { tokens } = await model.generate(prompt, { temperature: 0, maxTokens: ids.length }).result();
    return { chosen, generated: tokens, margins, variant: model.info.variant };
  } finally {
    await model.dispose();
  }
}
