/* embeddings: implements the endpoint POST /v1/embeddings. */
/** @import { Context } from './context.js' */
import { tokensToEmbed, wrongField } from './errors.js';
import { field, fieldsOf, required } from './options.js';

/** Options of embed() that requests may contain besides OpenAI's fields. */
const EXTRAS = ['task', 'title', 'prompt', 'pooling', 'normalize', 'truncate'];
const KNOWN = ['model', 'input', 'encoding_format', 'dimensions', ...EXTRAS];
const isFormat = (/** @type {any} */ value) => value === 'float' || value === 'base64';

/** Handles POST /v1/embeddings. @param {Context} context */
export async function embeddings(context) {
  const body = fieldsOf(context.body, KNOWN);
  required(body, 'input');
  const input = textsOf(body.input);
  const encoding = field(
    body,
    'encoding_format',
    '`float` or `base64`',
    isFormat,
    /** @type {'float' | 'base64'} */ ('float'),
  );
  const { id, model } = await context.models.get(body.model);
  const extras = Object.fromEntries(EXTRAS.map((name) => [name, body[name]]));
  const { signal } = context;
  const vectors = await model.embed(input, { ...extras, dimensions: body.dimensions, signal });
  const counts = await Promise.all(input.map((text) => model.countTokens(text, { signal })));
  const tokens = counts.reduce((sum, count) => sum + count, 0);
  return Response.json({
    object: 'list',
    data: vectors.map((vector, index) => ({
      object: 'embedding',
      index,
      embedding: encoding === 'base64' ? base64Of(vector) : [...vector],
    })),
    model: id,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  });
}

/** @param {any} input @returns {string[]} */
function textsOf(input) {
  const list = Array.isArray(input) ? input : [input];
  if (list.some((one) => typeof one === 'number' || Array.isArray(one))) {
    throw tokensToEmbed();
  }
  if (list.length && list.every((one) => typeof one === 'string' && one)) return list;
  throw wrongField('input', 'a non-empty string, or an array of such strings', input);
}

/** Returns a vector's little-endian floats in Base64, the form that OpenAI's clients request by default.
 * @param {Float32Array} vector */
function base64Of({ buffer, byteOffset, byteLength }) {
  return btoa(String.fromCharCode(...new Uint8Array(buffer, byteOffset, byteLength)));
}
