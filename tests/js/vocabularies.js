/* vocabularies: loads a test model's vocabulary on this thread from a file's header, without weights, as the worker
 * does. */
import { PromptEncoder } from '../../js/engine/prompt-encoder.js';
import { bareEngine } from './bare-engine.js';
import { testModel } from './models.js';

/** @type {Map<string, Promise<PromptEncoder>>} */
const known = new Map();

/** Returns the encoder of a test model. It is made once per process, and never freed. @param {string} name */
export function vocabularyOf(name) {
  const made =
    known.get(name) ??
    testModel(name)
      .then((path) => bareEngine(path))
      .then(
        (engine) =>
          new PromptEncoder(
            engine,
            (part) => import(`../../js/${part}.js`),
            () => {},
          ),
      );
  known.set(name, made);
  return made;
}
