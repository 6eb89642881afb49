/* embed: what Model.embed() takes, and the prompts that EmbeddingGemma's card gives each task. Loaded when it is first
 * used. docs/embeddings.md explains it. */
/** @import { Callable, Event, ModelInfo, PrefillProgress } from './protocol.js' */
/** @import { Rule } from './options.js' */
import { unlessAborted } from './rpc/signals.js';
import { boolean, callback, checkOptions, checkValue, integer, oneOf, rule, signal, string } from './options.js';

/** What stands before a text. @type {Record<string, string>} */
const PROMPTS = {
  query: 'task: search result | query: ',
  document: 'title: none | text: ',
  similarity: 'task: sentence similarity | query: ',
  classification: 'task: classification | query: ',
  clustering: 'task: clustering | query: ',
  code: 'task: code retrieval | query: ',
  question: 'task: question answering | query: ',
  fact: 'task: fact checking | query: ',
};

/** title: of the document, or of each. prompt: in place of a task's.
 * @typedef {'query' | 'document' | 'similarity' | 'classification' | 'clustering' | 'code' | 'question' | 'fact'} Task
 * @typedef {{ task?: Task, title?: string | readonly string[], prompt?: string, dimensions?: number, normalize?: boolean,
 *   truncate?: boolean, pooling?: 'mean' | 'last', signal?: AbortSignal,
 *   onProgress?: (progress: { done: number, total: number }) => void }} EmbedOptions */

const texts = rule('a string, or an array of strings', (value) => {
  return typeof value === 'string' || (Array.isArray(value) && value.every((text) => typeof text === 'string'));
});

/** @type {Record<string, Rule>} */
const OPTIONS = {
  task: oneOf(...Object.keys(PROMPTS)),
  title: texts,
  prompt: string,
  normalize: boolean,
  truncate: boolean,
  pooling: oneOf('mean', 'last'),
  signal,
  onProgress: callback,
};

/** @param {Callable} model @param {string | readonly string[]} input @param {EmbedOptions} options @returns {Promise<any>} */
export async function embed(model, input, options) {
  checkValue('input', input, texts);
  const list = [input].flat();
  const { width: most } = model.info;
  checkOptions(options, { ...OPTIONS, dimensions: integer(1, most) });
  checkKind(model.info, options);
  const { normalize = true, truncate = false, dimensions = most, pooling, signal, onProgress } = options;
  const args = {
    texts: list,
    prefixes: prefixesOf(list, options),
    pooling,
    dimensions,
    normalize,
    truncate,
    progress: onProgress !== undefined,
  };
  const onEvent = (/** @type {Event} */ event) => {
    if (event.kind === 'progress') onProgress?.(/** @type {PrefillProgress} */ (event.value));
  };
  if (!list.length) return [];
  // Does not wait for the engine, which may be in the middle of a long text.
  const all = await unlessAborted(model.call('embed', args, signal, onEvent), signal);
  const vectors = list.map((_, i) => all.slice(i * dimensions, (i + 1) * dimensions));
  return Array.isArray(input) ? vectors : vectors[0];
}

/** Models that make vectors say how; others must be told. @param {ModelInfo} info @param {EmbedOptions} options */
function checkKind({ embedding, architecture }, { pooling, task }) {
  if (embedding) {
    return checkValue(
      'pooling',
      pooling ?? 'mean',
      rule("'mean', which the file says", (value) => value === 'mean'),
    );
  }
  checkValue('pooling', pooling, rule(`'mean' or 'last', for ${architecture} is not made for vectors`, Boolean));
  checkValue(
    'task',
    task,
    rule(`none, for ${architecture} knows no tasks; or a prompt`, (one) => one === undefined),
  );
}

/** @param {readonly string[]} list @param {EmbedOptions} options */
function prefixesOf(list, { task, title, prompt }) {
  if (prompt !== undefined) {
    checkValue(
      'prompt',
      prompt,
      rule('either a prompt or a task', () => task === undefined && title === undefined),
    );
    return [prompt];
  }
  if (title === undefined) return [task ? PROMPTS[task] : ''];
  checkValue(
    'title',
    title,
    rule("the task 'document'", () => task === 'document'),
  );
  const fits = !Array.isArray(title) || title.length === list.length;
  checkValue(
    'title',
    title,
    rule(`one, or ${list.length}`, () => fits),
  );
  return [title].flat().map((one) => `title: ${one || 'none'} | text: `);
}
