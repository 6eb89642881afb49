import { loadModel } from 'gemma-wasm';

const MODEL = { repo: 'ggml-org/gemma-3-270m-it-GGUF', file: 'gemma-3-270m-it-Q8_0.gguf' };
const SCHEMA = {
  type: 'object',
  properties: {
    name: { type: 'string', maxLength: 60 },
    age: { type: 'integer', minimum: 0, maximum: 130 },
    city: { type: 'string', maxLength: 60 },
  },
  required: ['name', 'age', 'city'],
  additionalProperties: false,
};

const controller = new AbortController();
const { signal } = controller;
process.once('SIGINT', () => controller.abort());

function onProgress({ phase, loaded, total = 0 }) {
  if (phase === 'rest') return; // the model can be used while the rest is downloaded
  process.stderr.write(`\rLoading: ${Math.round((100 * loaded) / total) || 0} %${phase === 'ready' ? '\n' : ''}`);
}

async function extract(text) {
  const model = await loadModel(MODEL, { signal, onProgress });
  try {
    const messages = [{ role: 'user', content: `Extract the person's name, age and city as JSON:\n\n${text}` }];
    const options = { format: { schema: SCHEMA }, temperature: 0, maxTokens: 300, signal };
    const { value, finishReason } = await model.generate(messages, options).result();
    if (finishReason !== 'stop') throw new Error(`The answer is incomplete (${finishReason}).`);
    return value;
  } finally {
    await model.dispose();
  }
}

try {
  console.log(JSON.stringify(await extract(process.argv[2] ?? 'Maria Silva, 34, is a nurse in Porto.'), null, 2));
} catch (error) {
  console.error(signal.aborted ? 'Stopped.' : error.message);
  process.exitCode = 1;
}
