/* embed: implements model.embed() in the worker. Evaluates several texts in one batch; the vector of a text does not
 * depend on the other texts. */
/** @import { EmbedArgs } from '../protocol.js' */
/** @import { Context, EvaluationJob } from './jobs.js' */
import { abortError, wrapped } from '../errors.js';
import { MAX_RESULT_BYTES } from '../protocol.js';
import { noMemoryForVectors, textTooLong, tooManyTexts, vectorNotFinite } from './errors.js';
import { POOLING } from './info.js';
import { aside } from './saving.js';

/** Returns the vectors of all texts, concatenated. Fails with `bad-option`, `context-exceeded`, `no-memory` or
 * `not-finite`.
 * @param {Context} context @param {EvaluationJob} job @param {EmbedArgs} args */
export async function embed(context, job, args) {
  const { native } = context.runner;
  const { dimensions: width } = args;
  const out = vectorsFor(args.texts.length, width);
  const ids = await tokenized(context, job, args);
  const fill = () =>
    packs(context, job, args, ids, (vector, i) => {
      out.set(finished(vector.subarray(0, width), args.normalize, i), i * width);
    });
  await (native.number('bidirectional') === 1 ? fill() : aside(context, job, fill));
  return out;
}

/** Evaluates texts in batches.
 * @param {Context} context @param {EvaluationJob} job @param {EmbedArgs} args @param {number[][]} ids of all texts
 * @param {(vector: Float32Array, i: number) => void} take receives the vector of text i */
async function packs({ runner }, job, { pooling, progress }, ids, take) {
  const { native } = runner;
  const last = (pooling ?? POOLING[native.number('pooling')]) === 'last';
  const width = native.number('n_embd');
  const total = ids.length;
  const room = { texts: native.number('pack_texts'), ids: native.number('pack_ids') };
  for (let done = 0; done < total; ) {
    const end = packEnd(ids, done, room);
    const pack = ids.slice(done, end);
    native.pack(
      pack.flat(),
      pack.map((text) => text.length),
      last,
    );
    await runner.settle(job);
    pack.forEach((_, i) => take(native.vector(i, width), done + i));
    done = end;
    if (progress) job.post({ kind: 'progress', id: job.id, value: { done, total } });
  }
}

/** @param {number} count @param {number} width */
function vectorsFor(count, width) {
  const most = Math.floor(MAX_RESULT_BYTES / width / 4);
  if (count > most) throw tooManyTexts(count, most);
  return wrapped(
    () => new Float32Array(count * width),
    (cause) => noMemoryForVectors(count, cause),
  );
}

/** Returns the token ids of all texts. Tokenizes all texts before any evaluation, so that a text that is too long is
 * rejected immediately. @param {Context} context @param {EvaluationJob} job @param {EmbedArgs} args */
async function tokenized({ runner, encoder, contextLength: most }, job, { texts, prefixes, truncate }) {
  const all = [];
  for (const [i, text] of texts.entries()) {
    if (job.aborted) throw abortError();
    const ids = await encoder.whole((prefixes[i] ?? prefixes[0]) + text, runner.pauses(job));
    if (ids.length > most && !truncate) throw textTooLong(i, ids.length, most);
    // A truncated text keeps its end token.
    all.push(ids.length > most ? [...ids.slice(0, most - 1), encoder.eos ?? ids[most - 1]] : ids);
    await runner.pause();
  }
  return all;
}

/** Returns the index after the last text of the batch that begins with text `start`. A batch has at least one text.
 * @param {number[][]} ids @param {number} start @param {{ texts: number, ids: number }} room limits of a batch */
function packEnd(ids, start, room) {
  let end = start + 1;
  let tokens = ids[start].length;
  while (end < ids.length && end - start < room.texts && (tokens += ids[end].length) <= room.ids) end++;
  return end;
}

/** Returns the vector of a text, scaled to length 1 if `normalize` is set. Throws `not-finite` if the evaluation
 * overflowed.
 * @param {Float32Array} vector @param {boolean} normalize @param {number} i index of the text */
function finished(vector, normalize, i) {
  let sum = 0;
  for (const x of vector) sum += x * x;
  if (!Number.isFinite(sum)) throw vectorNotFinite(i);
  const scale = normalize && sum > 0 ? 1 / Math.sqrt(sum) : 1;
  return vector.map((x) => x * scale);
}
