import { StringOutputParser } from '@langchain/core/output_parsers';
import { ChatPromptTemplate } from '@langchain/core/prompts';
import { ChatOpenAI } from '@langchain/openai';
import { loadModel } from 'gemma-wasm';
import { createHandler } from 'gemma-wasm/openai';
import { z } from 'zod';

const MODEL = { repo: 'ggml-org/gemma-3-270m-it-GGUF', file: 'gemma-3-270m-it-Q8_0.gguf' };
const Person = z.object({ name: z.string().max(40), age: z.number().int().min(0).max(120), city: z.string().max(40) });

const controller = new AbortController();
const { signal } = controller;
process.once('SIGINT', () => controller.abort());

function onProgress({ phase, loaded, total = 0 }) {
  if (phase === 'rest') return; // the model can be used while the rest is downloaded
  process.stderr.write(`\rLoading: ${Math.round((100 * loaded) / total) || 0} %${phase === 'ready' ? '\n' : ''}`);
}

async function describe(text) {
  const model = await loadModel(MODEL, { signal, onProgress });
  try {
    const configuration = { baseURL: 'http://local/v1', fetch: createHandler(model) }; // no request leaves this process
    const gemma = new ChatOpenAI({ model: 'gemma', apiKey: 'none', configuration, maxTokens: 100 });
    const prompt = ChatPromptTemplate.fromMessages([['human', 'Tell this in one sentence: {text}']]);
    const stream = await prompt.pipe(gemma).pipe(new StringOutputParser()).stream({ text }, { signal });
    for await (const piece of stream) process.stdout.write(piece);
    console.log();
    const person = gemma.withStructuredOutput(Person, { name: 'person', method: 'jsonSchema' });
    console.log(JSON.stringify(await person.invoke(`Who is this? ${text}`, { signal })));
  } finally {
    await model.dispose();
  }
}

try {
  await describe(process.argv[2] ?? 'Maria Silva, 34, is a nurse in Porto.');
} catch (error) {
  if (!signal.aborted) console.error(error.message);
  process.exitCode = 1;
}
if (signal.aborted) console.error('Stopped.');
