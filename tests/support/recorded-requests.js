/* recorded-requests: requests that Continue and Open WebUI send to servers of OpenAI's API. Fields, their order and
 * their values are those of the programs' source code; the texts are not. */

/** A recorded request. `origin`: repository, file and function, with the commit if known; `answer`: form of the
 * response that the program reads.
 * @typedef {{ origin: string, path: string, answer: 'chat' | 'chunks' | 'texts' | 'vectors' | 'response' |
 *   'events', body: Record<string, any> }} RecordedRequest */

const CONTINUE = 'continuedev/continue';
const WEBUI = 'open-webui/open-webui, backend/open_webui';

const FILE_ARGUMENTS = {
  type: 'object',
  required: ['filepath'],
  properties: { filepath: { type: 'string', description: 'The path of the file, relative to the workspace' } },
};
const CLOCK_ARGUMENTS = { type: 'object', properties: { timezone: { type: 'string' } }, required: ['timezone'] };

/** @type {Record<string, RecordedRequest>} */
export const REQUESTS = {
  'Continue: a chat': {
    origin: `${CONTINUE}@0228b89, core/llm/openaiTypeConverters.ts, toChatBody; modifyChatBody of the OpenAI adapter`,
    path: 'chat/completions',
    answer: 'chunks',
    body: {
      messages: [
        { role: 'system', content: 'You are a programming assistant.' },
        { role: 'user', content: 'What does this function do?' },
      ],
      model: 'local',
      max_tokens: 16,
      temperature: 0.5,
      stream: true,
      stream_options: { include_usage: true },
    },
  },
  'Continue: the agent, after a tool ran': {
    origin: `${CONTINUE}@0228b89, core/llm/openaiTypeConverters.ts, toChatMessage and toChatBody`,
    path: 'chat/completions',
    answer: 'chunks',
    body: {
      messages: [
        { role: 'system', content: 'You are in agent mode.' },
        { role: 'user', content: 'Read the readme.' },
        {
          role: 'assistant',
          content: ' ',
          tool_calls: [
            { id: 'call_1', type: 'function', function: { name: 'read_file', arguments: '{"filepath":"README.md"}' } },
          ],
        },
        { role: 'tool', content: '# A title', tool_call_id: 'call_1' },
      ],
      model: 'local',
      max_tokens: 16,
      stream: true,
      tools: [
        { type: 'function', function: { name: 'read_file', description: 'Reads a file', parameters: FILE_ARGUMENTS } },
        {
          type: 'function',
          function: { name: 'list', description: 'Lists files', parameters: { type: 'object', properties: {} } },
        },
      ],
      stream_options: { include_usage: true },
    },
  },
  'Continue: a completion while typing': {
    origin: `${CONTINUE}@0069b94, core/llm/llms/OpenAI.ts, _legacystreamComplete; a template of AutocompleteTemplate.ts`,
    path: 'completions',
    answer: 'texts',
    body: {
      model: 'local',
      max_tokens: 16,
      temperature: 0.01,
      stream: true,
      stop: [
        ...['<|endoftext|>', '<|fim_prefix|>', '<|fim_middle|>', '<|fim_suffix|>', '<|fim_pad|>', '<|repo_name|>'],
        ...['<|file_sep|>', '<|im_start|>', '<|im_end|>', '/src/', '#- coding: utf-8', '```'],
      ],
      prompt: '<|fim_prefix|>function add(a, b) {\n  return <|fim_suffix|>\n}<|fim_middle|>',
    },
  },
  'Continue: the index of a code base': {
    origin: `${CONTINUE}@023111d, packages/openai-adapters/src/apis/OpenAI.ts, embed; the client adds the encoding`,
    path: 'embeddings',
    answer: 'vectors',
    body: { input: ['function one() {}', 'function two() {}'], model: 'embedder', encoding_format: 'base64' },
  },
  'Continue: the Responses API': {
    origin: `${CONTINUE}@2c7aaf3, packages/openai-adapters/src/apis/openaiResponses.ts, toResponsesParams`,
    path: 'responses',
    answer: 'events',
    body: {
      model: 'local',
      input: [
        { type: 'message', role: 'developer', content: [{ text: 'You are in agent mode.', type: 'input_text' }] },
        { type: 'message', role: 'user', content: [{ text: 'Read the readme.', type: 'input_text' }] },
        {
          type: 'message',
          role: 'assistant',
          content: [{ text: 'I will read it.', type: 'output_text', annotations: [] }],
          id: 'msg_0000',
          status: 'completed',
        },
        { type: 'function_call', call_id: 'call_1', name: 'read_file', arguments: '{"filepath":"README.md"}' },
        { type: 'function_call_output', call_id: 'call_1', output: '# A title' },
      ],
      stream: true,
      tools: [
        { type: 'function', name: 'read_file', description: 'Reads a file', parameters: FILE_ARGUMENTS, strict: null },
      ],
      temperature: 0.5,
      max_output_tokens: 16,
      parallel_tool_calls: false,
    },
  },
  'Open WebUI: a chat with all its settings': {
    origin: `${WEBUI}/routers/openai.py, generate_chat_completion; utils/payload.py, apply_model_params_to_body_openai`,
    path: 'chat/completions',
    answer: 'chunks',
    body: {
      stream: true,
      model: 'local',
      messages: [
        { role: 'system', content: 'Answer in one sentence.' },
        { role: 'user', content: 'Hello' },
        { role: 'assistant', content: 'Hi! How can I help?' },
        { role: 'user', content: [{ type: 'text', text: 'Tell me a story.' }] },
      ],
      stream_options: { include_usage: true },
      temperature: 0.8,
      top_p: 0.9,
      min_p: 0.05,
      max_tokens: 16,
      frequency_penalty: 0.1,
      presence_penalty: 0.1,
      seed: 42,
      stop: ['\n\n\n'],
      logit_bias: { 300: -100 },
    },
  },
  'Open WebUI: the title of a chat': {
    origin: `${WEBUI}/routers/tasks.py@074d488, generate_title; routers/openai.py renames max_completion_tokens`,
    path: 'chat/completions',
    answer: 'chat',
    body: {
      model: 'local',
      messages: [
        { role: 'user', content: '### Task:\nSuggest a title.\n<chat_history>\nUSER: Hello\n</chat_history>' },
      ],
      stream: false,
      max_tokens: 1000,
    },
  },
  'Open WebUI: native function calling': {
    origin: `${WEBUI}/utils/middleware.py, process_chat_payload and the loop over tool calls`,
    path: 'chat/completions',
    answer: 'chunks',
    body: {
      stream: true,
      model: 'local',
      messages: [
        { role: 'user', content: 'What time is it in Paris?' },
        {
          role: 'assistant',
          content: '',
          tool_calls: [
            {
              id: 'call_1',
              type: 'function',
              index: 0,
              function: { name: 'time', arguments: '{"timezone": "Europe/Paris"}' },
            },
          ],
        },
        { role: 'tool', tool_call_id: 'call_1', content: '{"time": "12:00"}' },
      ],
      max_tokens: 16,
      tools: [
        { type: 'function', function: { name: 'time', description: 'Tells the time', parameters: CLOCK_ARGUMENTS } },
      ],
    },
  },
  'Open WebUI: the Responses API, with items of an earlier answer': {
    origin: `${WEBUI}/routers/openai.py, convert_to_responses_payload and _normalize_stored_item`,
    path: 'responses',
    answer: 'events',
    body: {
      stream: true,
      model: 'local',
      temperature: 0.8,
      input: [
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'What time is it in Paris?' }] },
        {
          type: 'reasoning',
          id: 'r_1',
          status: 'completed',
          attributes: { type: 'reasoning_content' },
          content: [{ type: 'output_text', text: 'I need a clock.' }],
          summary: null,
          started_at: 1764000000.5,
          ended_at: 1764000001.5,
          duration: 1,
        },
        {
          type: 'function_call',
          id: 'fc_1',
          call_id: 'call_1',
          name: 'time',
          arguments: '{"timezone": "Europe/Paris"}',
        },
        { type: 'function_call_output', call_id: 'call_1', output: [{ type: 'input_text', text: '12:00' }] },
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'It is noon.' }] },
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Thanks!' }] },
      ],
      instructions: 'Answer in one sentence.',
      max_output_tokens: 16,
      tools: [{ type: 'function', name: 'time', description: 'Tells the time', parameters: CLOCK_ARGUMENTS }],
    },
  },
  'Open WebUI: vectors of a document': {
    origin: `${WEBUI}/retrieval/utils.py, agenerate_openai_batch_embeddings`,
    path: 'embeddings',
    answer: 'vectors',
    body: { input: ['The first part.', 'The second part.', 'The third part.'], model: 'embedder' },
  },
};
