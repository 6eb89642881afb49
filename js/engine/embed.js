/* embed: vectors of texts. Many go through the model together; what becomes of one does not depend on the others. */
/** @import { Context, EvaluationJob } from './jobs.js' */
import { GemmaError, wrapped } from '../errors.js';
import { MAX_RESULT_BYTES } from '../link/protocol.js';
import { aside } from './saving.js';

/** Texts that the engine takes together, at most (gw_pack). */
const MOST_TEXTS = 64;

/** prefixes: one for each text, or one for all; dimensions: numbers that are left of a vector.
 * @typedef {{ texts: string[], prefixes: string[], pooling?: 'mean' | 'last', dimensions?: number, normalize: boolean,
 *   truncate: boolean, progress: boolean }} EmbedArgs */

/** The vectors, one behind the other. @param {Context} context @param {EvaluationJob} job @param {EmbedArgs} args */
export async function embed(context, job, args) {
  const { native } = context.runner, { texts, pooling, progress } = args, { length: total } = texts;
  const full = native.number('n_embd'), width = args.dimensions ?? full;
  const alone = native.number('both_ways') !== 1;
  const out = vectorsFor(total, width), ids = await tokenized(context, job, args);
  const run = async () => {
    for (let done = 0; done < total;) {
      const end = alone ? done + 1 : packEnd(ids, done, context.contextLength), pack = ids.slice(done, end);
      native.pack(pack.flat(), pack.map((text) => text.length), pooling === 'last');
      await context.runner.settle(job);
      pack.forEach((_, i) => {
        out.set(finished(native.vector(i, full).subarray(0, width), args.normalize), (done + i) * width);
      });
      done = end;
      if (progress) job.post({ kind: 'progress', id: job.id, value: { done, total } });
    }
    return out;
  };
  return alone ? aside(context, job, run) : run();
}

/** @param {number} count @param {number} width */
function vectorsFor(count, width) {
  const most = Math.floor(MAX_RESULT_BYTES / width / 4);
  if (count > most) throw new GemmaError('bad-option', 'texts', { expected: `at most ${most}`, got: count });
  return wrapped('no-memory', `vectors of ${count} texts`, () => new Float32Array(count * width));
}

/** All of them, before any is evaluated: one that is too long is refused at once.
 * @param {Context} context @param {EvaluationJob} job @param {EmbedArgs} args */
async function tokenized({ runner, vocabulary, contextLength: most }, job, { texts, prefixes, truncate }) {
  const all = [];
  for (const [i, text] of texts.entries()) {
    if (job.aborted) throw new GemmaError('aborted', 'the call was aborted');
    const ids = await vocabulary.whole((prefixes[i] ?? prefixes[0]) + text, runner.pauses(job));
    if (ids.length > most && !truncate) {
      const name = texts.length > 1 ? `tokens of text ${i}` : 'tokens of the text';
      const expected = `at most ${most}, or truncate: true`;
      throw new GemmaError('context-exceeded', name, { expected, got: ids.length });
    }
    // What marks the end of a text stays.
    all.push(ids.length > most ? [...ids.slice(0, most - 1), vocabulary.eos ?? ids[most - 1]] : ids);
    await runner.pause();
  }
  return all;
}

/** As many texts as fit. @param {number[][]} ids @param {number} start @param {number} most tokens */
function packEnd(ids, start, most) {
  let end = start, tokens = 0;
  while (end < ids.length && end - start < MOST_TEXTS && (tokens += ids[end].length) <= most) end++;
  return end;
}

/** @param {Float32Array} vector @param {boolean} normalize to length 1 */
function finished(vector, normalize) {
  let sum = 0;
  for (const x of vector) sum += x * x;
  const scale = normalize && sum > 0 ? 1 / Math.sqrt(sum) : 1;
  return vector.map((x) => x * scale);
}
