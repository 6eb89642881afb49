/* inside: implements model.debug.inside() in the worker. The engine stops after each part of a layer (gw_want_look),
 * so that this module can read attention weights, norms of the residual stream, and the logit lens. */
/** @import { Inside, InsideArgs, InsideLayer } from '../protocol.js' */
/** @import { Context, EvaluationJob } from './jobs.js' */
/** @import { Engine } from './engine.js' */
import { wrapped } from '../errors.js';
import { MAX_RESULT_BYTES } from '../protocol.js';
import { badPosition, noMemoryForResult, resultTooLarge } from './errors.js';
import { aside } from './saving.js';

const NORMS = 3;
/** Stages at which the engine stops during an inspection (src/api.h): after the attention, and at the end of a
 * layer. */
const LOOK = { BETWEEN: 1, AFTER: 2 };

/** Evaluates a prompt and records the requested values. Fails with `bad-option` or `no-memory`.
 * @param {Context} context @param {EvaluationJob} job @param {InsideArgs} args @returns {Promise<Inside>} */
export async function inside(context, job, args) {
  const { runner, encoder } = context;
  const { native } = runner;
  const { prompt } = args;
  const vectors = native.number('bidirectional') === 1;
  const ids =
    vectors && 'text' in prompt
      ? await encoder.whole(prompt.text, runner.pauses(job))
      : (await encoder.prompted(prompt, runner.pauses(job))).ids;
  const positions = positionsOf(args.positions, ids.length);
  const layers = roomFor(args, positions.length, ids.length);
  const run = async () => {
    if (vectors) native.pack(ids, [ids.length], false);
    else native.sync(ids);
    native.call('want_look');
    await runner.settle(job, { onLook: () => look(context, job, { args, layers, positions, n: ids.length }) });
  };
  if (layers.size) await (vectors ? run() : aside(context, job, run));
  const tokens = ids.map((id, i) => ({ id, text: encoder.decode([id], true, i ? ids[i - 1] : -1) }));
  return { tokens, positions, layers: args.layers.map((layer) => /** @type {InsideLayer} */ (layers.get(layer))) };
}

/** Resolves positions: negative ones count from the end, null means all. Throws `bad-option` for positions outside
 * the prompt. @param {readonly number[] | null} asked @param {number} n number of tokens */
function positionsOf(asked, n) {
  const all = asked ?? Array.from({ length: n }, (_, i) => i);
  return all.map((at) => {
    if (at >= -n && at < n) return at < 0 ? at + n : at;
    throw badPosition(n, at);
  });
}

/** Allocates the results, by layer. Throws `bad-option` if they are too large, `no-memory` if they do not fit into
 * memory. @param {InsideArgs} args @param {number} rows number of positions @param {number} n number of tokens */
function roomFor({ layers, heads, lens, norms }, rows, n) {
  const bytes = layers.length * rows * (heads.length * n + NORMS) * 4;
  if (bytes > MAX_RESULT_BYTES) throw resultTooLarge(bytes, MAX_RESULT_BYTES);
  return wrapped(
    () =>
      new Map(
        layers.map((layer) => {
          /** @type {InsideLayer} */
          const empty = { layer, kind: 'global' };
          if (lens) empty.lens = [];
          if (norms) empty.norms = new Float32Array(NORMS * rows);
          if (heads.length)
            empty.attention = Object.fromEntries(heads.map((head) => [head, new Float32Array(rows * n)]));
          return [layer, empty];
        }),
      ),
    (cause) => noMemoryForResult(bytes, cause),
  );
}

/** @typedef {{ args: InsideArgs, layers: Map<number, InsideLayer>, positions: number[], n: number }} View */
/** @param {Context} context @param {EvaluationJob} job
 * @param {View} view */
async function look({ runner, encoder }, job, { args, layers, positions, n }) {
  const { native } = runner;
  const stage = native.look('stage');
  const at = native.look('layer');
  const first = native.look('first');
  const rows = native.look('rows');
  const layer = layers.get(at);
  const here = positions.flatMap((position, i) => {
    return position >= first && position < first + rows ? [{ i, row: position - first }] : [];
  });
  if (args.norms && here.length) {
    const norms = native.lookAt('norms', rows);
    const next = stage === LOOK.AFTER ? layers.get(at + 1) : undefined;
    for (const { i, row } of here) {
      if (layer?.norms) layer.norms[NORMS * i + stage] = norms[row];
      if (next?.norms) next.norms[NORMS * i] = norms[row];
    }
  }
  if (!layer) return;
  layer.kind = native.look('global') === 1 ? 'global' : 'local';
  for (const { i, row } of here) {
    if (job.aborted) return;
    if (stage === LOOK.BETWEEN) {
      for (const head of args.heads) layer.attention?.[head].set(native.lookAt('attention', n, row, head), i * n);
    }
    if (stage === LOOK.AFTER && layer.lens) layer.lens[i] = likely(native, encoder, row, args.lens);
    await runner.pause();
  }
}

/** @param {Engine} native
 * @param {Context['encoder']} encoder @param {number} row @param {number} count */
function likely(native, encoder, row, count) {
  native.call('look_lens', row);
  return native.topLogprobs(count).map(({ id, logprob }) => {
    return { id, text: encoder.decode([id], true), probability: Math.exp(logprob) };
  });
}
