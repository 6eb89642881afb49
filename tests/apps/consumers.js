/* consumers: apps that check the package with TypeScript and package linters. Each is a command that must exit with
 * status 0. */
/** @import { App } from './examples.js' */
import { readFileSync } from 'node:fs';
import { at } from '../../tools/support/proc.js';

/** Every type that docs/ names. */
const TYPES = `CacheEntry Capabilities Chat ChatMessage ChatOptions EmbedOptions ErrorCode ErrorDetails
  FinishReason Format GenerateOptions GenerateResult Generation HeaderList HubSource Inside
  InsideOptions Inspection LoadOptions Match Model ModelCache ModelInfo ModelSource Notice Progress
  Prompt Restored Step Store TokenLogprob Tool ToolCall`.split(/\s+/);
const USE = `import { CODES, ModelError, inspectModel, loadModel, modelCache, openCache, probe } from 'gemma-wasm';
import type { ${TYPES.join(', ')} } from 'gemma-wasm';
export type All = [${TYPES.join(', ')}];
export const asked: [LoadOptions, GenerateOptions, ChatOptions, ErrorDetails] = [{ threads: 2 }, { topK: 1 }, {}, {}];
export const load = () => loadModel('x');   // its type is written out by name
export const known = (error: ModelError): ErrorCode => error.code;
export const caches = [modelCache, openCache('e')];
export class Assistant {
  #chat: Chat;
  constructor(model: Model) { this.#chat = model.chat({ system: 'b' }); }
  async ask(text: string, signal?: AbortSignal) {
    const answer = this.#chat.send(text, { maxTokens: 4, signal });
    for await (const piece of answer) piece.toUpperCase();
    const { text: all, finishReason }: GenerateResult = await answer.result();
    const why: FinishReason = finishReason;
    return { all, why, can: probe().threads.toFixed(), codes: Object.keys(CODES) };
  }
}
export async function look(source: ModelSource): Promise<ModelInfo> {
  const { tensors } = await inspectModel(source);
  if (tensors[0].shape.length > 4) throw new ModelError('bad-shape', 'x');
  // @ts-expect-error: there is no such option
  await loadModel(source, { thread: 2 });
  return (await loadModel(source)).info;
}
`;
const SEARCH = `import { openIndex } from 'gemma-wasm/search';
import type { Hit, Item, SearchIndex, SearchOptions } from 'gemma-wasm/search';
export const options: SearchOptions = { dimensions: 4 };
export async function nearest(item: Item): Promise<Hit[]> {
  const index: SearchIndex = await openIndex(options);
  await index.add(item);
  return index.query(item.vector, { count: 1 });
}
`;
const ISOLATE = `import { isolate } from 'gemma-wasm/isolate';
export const isolated: Promise<boolean> = isolate();
`;
const SHARED = `import { SharedModel, loadModel } from 'gemma-wasm/shared';
export const shared: Promise<SharedModel> = loadModel('x');
`;
const STRICT = {
  strict: true,
  skipLibCheck: false,
  skipDefaultLibCheck: true, // checks the package's types, but not TypeScript's own
  declaration: true,
  outDir: 'out',
  exactOptionalPropertyTypes: false,
};

const AI_SDK = `import type { EmbeddingModelV4, LanguageModelV4, ProviderV4 } from '@ai-sdk/provider';
import { useChat } from '@ai-sdk/react';
import { DirectChatTransport, ToolLoopAgent, generateText, tool, type ChatTransport, type UIMessage } from 'ai';
import { GemmaWasmChatTransport, createGemmaWasm, gemmaWasm, type GemmaWasmDataParts } from 'gemma-wasm/ai-sdk';
import { z } from 'zod';
export const model = gemmaWasm({ repo: 'a/b', quant: 'Q4_0' }, { contextLength: 1024 });
export const all: [LanguageModelV4, EmbeddingModelV4, ProviderV4] =
  [model, gemmaWasm.embeddingModel('x'), createGemmaWasm({ models: { small: 'x' } })];
type Message = UIMessage<unknown, GemmaWasmDataParts>;
const agent = new ToolLoopAgent({ model, tools: { add: tool({ inputSchema: z.object({ a: z.number() }) }) } });
export const transport: ChatTransport<Message> =
  new GemmaWasmChatTransport({ model, transport: new DirectChatTransport({ agent }) });
export const text = async () => (await generateText({ model, prompt: 'x' })).text;
export function Chat() {
  const onData = (part: { type: string }) => void part.type;
  const { messages } = useChat<Message>({ transport, onData });
  return messages.flatMap(({ parts }) => parts.map((part) => (part.type === 'text' ? part.text : '')));
}
// @ts-expect-error: there is no such option
gemmaWasm('x', { thread: 2 });
// @ts-expect-error: models are typed and have no such method
model.doNothing();
`;

/** Entry points of the package without a CommonJS version. */
const MODULES_ONLY = Object.entries(JSON.parse(readFileSync(at('package.json'), 'utf8')).exports)
  .filter(([, targets]) => typeof targets === 'object' && !JSON.stringify(targets).includes('"require"'))
  .map(([name]) => name);
const NODE = { module: 'nodenext', target: 'es2022', lib: ['es2022'], types: ['node'] };
/** Properties of apps that run a linter of packages. */
const LINTER = { files: {}, check: true, quick: true };
const ATTW = { ...LINTER, folder: 'attw', packages: { '@arethetypeswrong/cli': '0.18.5' } };
/** Flags of the linter attw for output that can be shown in a log. */
const PLAIN = ['--no-emoji', '-f', 'ascii'];

/** @param {object} options @param {string[]} files */
const config = (options, files) => JSON.stringify({ compilerOptions: { ...STRICT, ...options }, files });

/** Checks types in a page with a bundler's resolution, and in Node without the DOM's types, as ES module and CommonJS.
 * @param {string} version @returns {App} */
function typescript(version) {
  const [major, minor] = version.split('.');
  const projects = ['dom', 'node', 'cjs'];
  return {
    name: `typescript-${major}.${minor}`,
    title: `TypeScript ${version}`,
    packages: { typescript: version, '@types/node': '20.19.43' },
    check: true,
    quick: version === '5.9.3',
    files: {
      'use.ts': USE,
      'search.ts': SEARCH,
      'isolate.ts': ISOLATE,
      'shared.ts': SHARED,
      'use.cts': USE,
      'search.cts': SEARCH,
      'dom.json': config(
        {
          module: 'esnext',
          moduleResolution: 'bundler',
          target: 'es2022',
          types: [],
          lib: ['es2022', 'dom', 'dom.iterable'],
        },
        ['use.ts', 'search.ts', 'isolate.ts', 'shared.ts'],
      ),
      'node.json': config(NODE, ['use.ts', 'search.ts']),
      'cjs.json': config(NODE, ['use.cts', 'search.cts']),
    },
    run: ['sh', '-c', projects.map((name) => `tsc -p ${name}.json`).join(' && ')],
  };
}

/** @type {App[]} */
export const CONSUMERS = [
  ...['5.0.4', '5.4.5', '5.9.3', '6.0.3', '7.0.2'].map(typescript),
  {
    ...LINTER,
    name: 'publint',
    title: 'publint 0.3.25',
    packages: { publint: '0.3.25' },
    run: ['publint', 'package.tgz', '--strict'],
  },
  {
    ...ATTW,
    name: 'attw',
    title: 'Are the types wrong? 0.18.5',
    run: ['attw', 'package.tgz', '--exclude-entrypoints', './storyteller.gguf', ...MODULES_ONLY, ...PLAIN],
  },
  {
    ...ATTW,
    name: 'attw-modules',
    title: 'Are the types wrong? 0.18.5, entries without CommonJS',
    run: ['attw', 'package.tgz', '--profile', 'esm-only', '--entrypoints', ...MODULES_ONLY, ...PLAIN],
  },
  {
    name: 'ai-sdk-types',
    title: 'TypeScript 5.9.3, gemma-wasm/ai-sdk with AI SDK 7.0.173',
    packages: {
      typescript: '5.9.3',
      '@types/node': '20.19.43',
      ai: '7.0.173',
      '@ai-sdk/provider': '4.0.38',
      '@ai-sdk/react': '4.0.177',
      '@types/react': '19.3.0',
      react: '19.3.1',
      zod: '4.6.7',
    },
    check: true,
    files: {
      'ai-sdk.ts': AI_SDK,
      'tsconfig.json': config(
        { module: 'esnext', moduleResolution: 'bundler', target: 'es2022', skipLibCheck: true, types: [] },
        ['ai-sdk.ts'],
      ),
    },
    run: ['tsc', '-p', 'tsconfig.json'],
  },
];
