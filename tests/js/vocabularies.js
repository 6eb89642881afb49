/* vocabularies: a test model's vocabulary on this thread, as the worker has it: of a file's header, without weights. */
import { Vocabulary } from '../../js/engine/vocabulary.js';
import { bareEngine } from './bare-engine.js';
import { testModel } from './models.js';

/** @type {Map<string, Promise<Vocabulary>>} */
const known = new Map();

/** @param {string} name */
export function vocabularyOf(name) {
  const made =
    known.get(name) ??
    testModel(name)
      .then((path) => bareEngine(path))
      .then(
        (engine) =>
          new Vocabulary(
            engine,
            (part) => import(`../../js/${part}.js`),
            () => {},
          ),
      );
  known.set(name, made);
  return made;
}
