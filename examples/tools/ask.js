import { loadModel } from 'gemma-wasm';

const MODEL = { repo: 'ggml-org/gemma-3-1b-it-GGUF', file: 'gemma-3-1b-it-Q4_K_M.gguf' };
/** 'auto': the model may call a tool. 'required': the model must call one. */
const TOOL_CHOICE = 'auto';

const number = { type: 'number' };
const OPERATIONS = {
  add: (a, b) => a + b,
  subtract: (a, b) => a - b,
  multiply: (a, b) => a * b,
  divide: (a, b) => a / b,
};
const CALCULATOR = {
  name: 'calculate',
  description: 'Calculates with two numbers.',
  parameters: {
    type: 'object',
    properties: { operation: { enum: Object.keys(OPERATIONS) }, a: number, b: number },
    required: ['operation', 'a', 'b'],
    additionalProperties: false,
  },
  execute({ operation, a, b }) {
    const result = OPERATIONS[operation](a, b);
    if (!Number.isFinite(result)) throw new Error(`${a} ${operation} ${b} has no finite result.`);
    console.log(`${operation}(${a}, ${b}) = ${result}`);
    return { result };
  },
};

const controller = new AbortController();
const { signal } = controller;
process.once('SIGINT', () => controller.abort());

function onProgress({ phase, loaded, total = 0 }) {
  if (phase === 'rest') return; // the model can be used while the rest is downloaded
  process.stderr.write(`\rLoading: ${Math.round((100 * loaded) / total) || 0} %${phase === 'ready' ? '\n' : ''}`);
}

async function ask(question) {
  const model = await loadModel(MODEL, { signal, onProgress });
  try {
    const chat = model.chat({ tools: [CALCULATOR], toolChoice: TOOL_CHOICE, maxTokens: 300, maxRounds: 4 });
    for await (const piece of chat.send(question, { signal })) process.stdout.write(piece);
    console.log();
  } finally {
    await model.dispose();
  }
}

try {
  await ask(process.argv[2] ?? 'What is 17 % of 480?');
} catch (error) {
  if (!signal.aborted) console.error(error.message);
  process.exitCode = 1;
}
if (signal.aborted) console.error('Stopped.');
