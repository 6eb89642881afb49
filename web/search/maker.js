/**
 * maker: the model whose vectors a search compares: EmbeddingGemma, if it is on this device or the user downloads it;
 * otherwise the model that answers.
 * @module
 */
import { loadModel } from '../../js/index.js';
import { PageError } from '../shell/errors.js';
import { modelsHere } from '../models/stored.js';

/** @import { Model } from '../../js/index.js' */
/** A model that embeds. own: only the search uses it; key: name of the index with its vectors.
 * @typedef {{ model: Model, label: string, own: boolean, key: string }} Maker */

/** @typedef {{ source: any, label: string }} Wanted */

export const EMBEDDER = {
  source: { repo: 'ggml-org/embeddinggemma-300M-GGUF', file: 'embeddinggemma-300M-Q8_0.gguf' },
  label: 'EmbeddingGemma',
  bytes: 334e6,
};

/** Returns a model that is completely stored here and has “embed” in its address, or null if there is none.
 * @returns {Promise<Wanted | null>} */
export async function embedderHere() {
  const all = (await modelsHere()).filter(({ complete }) => complete);
  const found = all.find(({ choice }) => /embed/i.test(JSON.stringify(choice.source)))?.choice;
  const ours = found && JSON.stringify(found.source) === JSON.stringify(EMBEDDER.source);
  return found ? { source: found.source, label: ours ? EMBEDDER.label : found.label } : null;
}

/** Describes a loaded model as one that embeds. Its key is the same for the same file.
 * @param {Model} model @param {string} label @param {boolean} own @returns {Maker} */
export function makerOf(model, label, own) {
  const { name, architecture, quantisation, parameters, fileBytes } = model.info;
  const facts = [architecture, name ?? '', quantisation, parameters, fileBytes];
  return {
    model,
    label,
    own,
    key: facts
      .join('-')
      .replace(/[^\w.-]+/g, '_')
      .slice(0, 100),
  };
}

/** Loads an embedding model. Throws a PageError if the model is of another kind.
 * @param {Wanted} wanted @param {AbortSignal} signal
 * @param {(done: number, total?: number) => void} onProgress   called with numbers of bytes
 * @returns {Promise<Maker>} */
export async function loadMaker({ source, label }, signal, onProgress) {
  const model = await loadModel(source, { signal, onProgress: ({ loaded, total }) => onProgress(loaded, total) });
  if (model.info.embedding) return makerOf(model, label, true);
  await model.dispose();
  throw new PageError('search.not-made');
}
