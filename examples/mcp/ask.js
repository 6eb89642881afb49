import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { loadModel } from 'gemma-wasm';
import { mcpTools } from 'gemma-wasm/mcp';

const MODEL = { repo: 'ggml-org/gemma-3-1b-it-GGUF', file: 'gemma-3-1b-it-Q4_K_M.gguf' };
/** 'auto': the model may call a tool. 'required': the model must call one. */
const TOOL_CHOICE = 'auto';
const SERVER = { command: process.execPath, args: ['server.js'] };

const controller = new AbortController();
const { signal } = controller;
process.once('SIGINT', () => controller.abort());

function onProgress({ phase, loaded, total = 0 }) {
  if (phase === 'rest') return; // the model can be used while the rest is downloaded
  process.stderr.write(`\rLoading: ${Math.round((100 * loaded) / total) || 0} %${phase === 'ready' ? '\n' : ''}`);
}

async function ask(question) {
  const client = new Client({ name: 'example', version: '1.0.0' });
  await client.connect(new StdioClientTransport(SERVER));
  const model = await loadModel(MODEL, { signal, onProgress });
  try {
    const { tools, skipped } = await mcpTools(client, { model, unsupported: 'skip', signal });
    for (const { name, reason } of skipped) console.error(`Without the tool ${name}: ${reason}`);
    const chat = model.chat({ tools, toolChoice: TOOL_CHOICE, maxTokens: 300, maxRounds: 4 });
    const answer = chat.send(question, { signal });
    for await (const piece of answer) process.stdout.write(piece);
    const { toolCalls = [] } = await answer.result();
    for (const { name, arguments: args, result, error } of toolCalls) {
      console.log(`\n${name}(${JSON.stringify(args)}) = ${error ?? JSON.stringify(result) ?? 'not run'}`);
    }
  } finally {
    await model.dispose();
    await client.close();
  }
}

try {
  await ask(process.argv[2] ?? 'How many kettles are in stock?');
} catch (error) {
  if (!signal.aborted) console.error(error.message);
  process.exitCode = 1;
}
if (signal.aborted) console.error('Stopped.');
