/* logits: implements model.debug.logits() and model.debug.perplexity() in the worker. */
/** @import { Logits, Perplexity } from '../protocol.js' */
/** @import { Context, EvaluationJob } from './jobs.js' */
/** @import { CallRunner } from './runner.js' */
import { wrapped } from '../errors.js';
import { MAX_RESULT_BYTES } from '../protocol.js';
import { noMemoryForLogits, nothingToScore, tooManyIds } from './errors.js';

/** Returns the logits after the last id, or after every id. Fails with `bad-option`, `no-memory` or `not-finite`.
 * @param {Context} context @param {EvaluationJob} job
 * @param {Logits['args']} args @returns {Promise<Logits['value']>} */
export async function logits({ runner, encoder }, job, { ids, all }) {
  const { native } = runner;
  const bytes = ids.length * encoder.size * 4;
  if (all && bytes > MAX_RESULT_BYTES) {
    throw tooManyIds(ids.length, Math.floor(MAX_RESULT_BYTES / encoder.size / 4));
  }
  const out = wrapped(
    () => new Float32Array(all ? bytes / 4 : 0),
    (cause) => noMemoryForLogits(ids.length, cause),
  );
  native.sync(ids);
  if (all) native.call('want_all', 1);
  await runner.settle(job, {
    onRows: (rows, first) => out.set(native.logits(rows), first * encoder.size),
  });
  return all ? out : native.logits();
}

/** Returns the perplexity of a text. Scores each token except the first once, in windows that overlap by half.
 * @param {Context} context @param {EvaluationJob} job @param {Perplexity['args']} args
 * @returns {Promise<Perplexity['value']>} */
export async function perplexity({ runner, encoder, contextLength }, job, { text, window }) {
  const { ids } = await encoder.prompted({ text }, runner.pauses(job));
  const width = Math.min(window || contextLength, contextLength);
  if (ids.length < 2) throw nothingToScore();
  const stride = Math.floor(width / 2);
  let sum = 0;
  let count = 0;
  for (let start = 0, scored = 1; scored < ids.length; start += stride) {
    const end = Math.min(start + width, ids.length);
    sum += await windowLoss(runner, job, ids.slice(start, end), scored - start);
    count += end - scored;
    scored = end;
  }
  const nll = sum / count;
  return { perplexity: Math.exp(nll), nll, tokens: count };
}

/** Returns the sum of -ln p of the ids from index `from` on, evaluated in one window. @param {CallRunner} runner
 * @param {EvaluationJob} job @param {number[]} ids @param {number} from */
async function windowLoss(runner, job, ids, from) {
  const { native } = runner;
  let sum = 0;
  native.sync(ids);
  native.call('want_all', 1);
  await runner.settle(job, {
    onRows(rows, first) {
      for (let row = 0; row < rows; row++) {
        const next = first + row + 1;
        if (next >= from && next < ids.length) sum -= native.logprob(ids[next], row);
        if (Number.isNaN(sum)) native.call('check_logits');
      }
    },
  });
  return sum;
}
