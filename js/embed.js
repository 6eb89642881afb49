/* embed: implements model.embed() outside the worker, with the models' prompts for tasks. Loaded on first use. See
 * docs/embeddings.md. */
/** @import { Callable, Event, ModelInfo, PrefillProgress } from './protocol.js' */
/** @import { Rule } from './options.js' */
import {
  boolean,
  callback,
  checkOptions,
  checkThat,
  checkValue,
  integer,
  oneOf,
  rule,
  signal,
  string,
} from './options.js';

/** Prompts of Qwen3-Embedding: the text before each input, by task (from its model card).
 * @type {Record<string, string>} */
const QWEN3 = {
  query: 'Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:',
  document: '',
};
/** Prompts of EmbeddingGemma: the text before each input, by task (from its model card).
 * @type {Record<string, string>} */
const GEMMA = {
  query: 'task: search result | query: ',
  document: 'title: none | text: ',
  similarity: 'task: sentence similarity | query: ',
  classification: 'task: classification | query: ',
  clustering: 'task: clustering | query: ',
  code: 'task: code retrieval | query: ',
  question: 'task: question answering | query: ',
  fact: 'task: fact checking | query: ',
};

/** Purpose of the vectors.
 * @typedef {'query' | 'document' | 'similarity' | 'classification' | 'clustering' | 'code' | 'question' | 'fact'} Task */

/** Options of `embed`. A value out of range fails with `bad-option`.
 * @typedef {object} EmbedOptions
 * @property {Task} [task] Purpose of the vectors, for models trained with one prompt per task. Default: no prompt.
 * @property {string | readonly string[]} [title] Title of the document, or one for each. Only with the task `document`.
 * @property {string} [prompt] Text before each input, instead of a task's prompt.
 * @property {number} [dimensions] Length to which vectors are truncated. Default: the model's `width`.
 * @property {boolean} [normalize] Scales vectors to length 1. Default: true.
 * @property {boolean} [truncate] Cuts texts that are longer than the context, which otherwise fail with
 *   `context-exceeded`. Default: false.
 * @property {'mean' | 'last'} [pooling] How token vectors are combined into one. Required for models that are not made
 *   for embedding. Default: as the file says.
 * @property {AbortSignal} [signal] Aborts the call, which then fails with `aborted`.
 * @property {(progress: PrefillProgress) => void} [onProgress] Called after each text.
 */

const texts = rule('a string, or an array of strings', (value) => {
  return typeof value === 'string' || (Array.isArray(value) && value.every((text) => typeof text === 'string'));
});

/** @type {Record<string, Rule>} */
const OPTIONS = {
  task: oneOf(...Object.keys(GEMMA)),
  title: texts,
  prompt: string,
  normalize: boolean,
  truncate: boolean,
  pooling: oneOf('mean', 'last'),
  signal,
  onProgress: callback,
};

/** Implements model.embed(). @param {Callable} model @param {string | readonly string[]} input
 * @param {EmbedOptions} options
 * @returns {Promise<any>} */
export async function embed(model, input, options) {
  checkValue('input', input, texts);
  const list = [input].flat();
  const { width: most } = model.info;
  checkOptions(options, { ...OPTIONS, dimensions: integer(1, most) });
  checkKind(model.info, options);
  const { normalize = true, truncate = false, dimensions = most, pooling, signal, onProgress } = options;
  const args = {
    texts: list,
    prefixes: prefixesOf(model.info.architecture, list, options),
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
  const all = await model.call('embed', args, signal, onEvent);
  const vectors = list.map((_, i) => all.slice(i * dimensions, (i + 1) * dimensions));
  return Array.isArray(input) ? vectors : vectors[0];
}

/** Throws `bad-option` if `pooling` or `task` do not suit the model. A model that is not made for embedding needs
 * `pooling` and has no tasks.
 * @param {ModelInfo} info @param {EmbedOptions} options */
function checkKind({ embedding, architecture }, { pooling, task }) {
  if (embedding) {
    checkValue('pooling', pooling ?? embedding.pooling, oneOf(embedding.pooling));
    return checkValue('task', task ?? 'query', oneOf(...Object.keys(promptsOf(architecture))));
  }
  const models = `${architecture} models`;
  checkThat('pooling', pooling, `'mean' or 'last', since ${models} are not made for embedding`, pooling !== undefined);
  checkThat('task', task, `left out, since ${models} have no tasks: pass \`prompt\` instead`, task === undefined);
}

/** @param {string} architecture */
const promptsOf = (architecture) => (architecture === 'qwen3' ? QWEN3 : GEMMA);

/** @param {string} architecture @param {readonly string[]} list @param {EmbedOptions} options */
function prefixesOf(architecture, list, { task, title, prompt }) {
  if (prompt !== undefined) {
    checkThat('prompt', prompt, 'passed without `task` and `title`', task === undefined && title === undefined);
    return [prompt];
  }
  if (title === undefined) return [task ? promptsOf(architecture)[task] : ''];
  const mayHaveTitle = task === 'document' && architecture !== 'qwen3';
  checkThat('title', title, "passed with the task 'document' of EmbeddingGemma only", mayHaveTitle);
  const fits = !Array.isArray(title) || title.length === list.length;
  checkThat('title', title, `a string, or an array of ${list.length} strings, one for each text`, fits);
  return [title].flat().map((one) => `title: ${one || 'none'} | text: `);
}
