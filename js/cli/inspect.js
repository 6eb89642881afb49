/* inspect: the command `gemma-wasm inspect`, which prints the header of a model file. */
import { inspectModel } from '../index.node.js';
import { loadOptions } from './flags.js';
import { linesOf, print } from './output.js';
/** @import { Values } from './flags.js' */

/** Runs `gemma-wasm inspect`. @param {Values} values */
export async function inspect(values) {
  const { info, version, alignment, metadata, tensors } = await inspectModel(values.source, loadOptions(values));
  /** @type {Record<string, { tensors: number, bytes: number }>} */
  const types = {};
  for (const { type, bytes } of tensors) {
    const sum = (types[type] ??= { tensors: 0, bytes: 0 });
    sum.tensors++;
    sum.bytes += bytes;
  }
  const { threads, threadsMeasured, variant, isolated, reason, endTokens, ...file } = info;
  const facts = { ...file, version, alignment, types };
  print(
    values,
    { ...facts, metadata, tensors },
    [
      linesOf(facts),
      '',
      ...metadata.map((m) => `${m.key}: ${m.of ? `${m.count} x ${m.of}` : JSON.stringify(m.value)}`),
      '',
      ...tensors.map((t) => `${t.name}: ${t.type} [${t.shape.join(', ')}]`),
    ].join('\n'),
  );
}
