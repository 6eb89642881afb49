/**
 * llama-grammar: times grammar masks in native llama.cpp (one thread, Gemma's vocabulary): the time of a random token
 * under a schema's grammar minus that without a grammar. node-llama-cpp drops unknown keywords of schemas.
 */
import { testModel } from '../../tests/js/models.js';
import { nothing } from './grammar-judges.js';
import { install, startLlama } from './peers.js';
import { median } from './table.js';

/** @typedef {import('./grammar-judges.js').Case} Case */
/** @typedef {import('./grammar-judges.js').Found} Found */

const TOKENS = 25;
const FREE = 60;

async function opened() {
  await install(['native']);
  const { bindings, llama } = await startLlama(1);
  const model = await llama.loadModel({ modelPath: await testModel('gemma-vocab-tiny'), gpuLayers: 0 });
  const context = await model.createContext({ contextSize: 512, threads: 1 });
  return { bindings, llama, model, sequence: context.getSequence() };
}

/** Installs llama.cpp if it is missing (network), and starts it. `end` stops it.
 * @returns {Promise<{ judge: (one: Case) => Promise<Found>, end: () => Promise<void> }>} */
export async function llamaGrammar() {
  const { bindings, llama, model, sequence } = await opened();
  /** @param {number} most @param {any} [grammarEvaluationState] */
  const walk = async (most, grammarEvaluationState) => {
    await sequence.clearHistory();
    const random = { temperature: 1, seed: 7, topK: 0, topP: 1, grammarEvaluationState };
    const times = [];
    const tokens = sequence.evaluate([2, 506], random);
    while (times.length < most) {
      const before = performance.now();
      if ((await tokens.next()).done) break;
      times.push(performance.now() - before);
    }
    return times;
  };
  await walk(FREE);
  const free = Number(median(await walk(FREE)));
  return {
    async judge({ name, schema }) {
      const found = nothing();
      const before = performance.now();
      try {
        const grammar = new bindings.LlamaJsonSchemaGrammar(llama, schema);
        const compiling = performance.now() - before;
        const state = new bindings.LlamaGrammarEvaluationState({ model, grammar });
        const masks = (await walk(TOKENS, state)).map((ms) => ms - free);
        found.times.compiling.push(compiling);
        found.times.first.push(compiling + masks[0]);
        found.times.masks.push(...masks);
        found.accepted = 1;
      } catch (error) {
        found.failed = 1;
        found.said.push(`${name}: ${error}`);
      }
      return found;
    },
    end: () => llama.dispose(),
  };
}
