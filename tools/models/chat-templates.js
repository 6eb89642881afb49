/**
 * Chat templates of test models, in the format of each model family. They were written for this project, and take the
 * usual variables (bos_token, messages, add_generation_prompt).
 */

/** Gemma 3: the system text is part of the first user turn. Content may be a list of { type: 'text', text } parts. */
export const GEMMA3 = `{{ bos_token }}
{%- set turns = messages -%}
{%- set lead = '' -%}
{%- if messages and messages[0]['role'] == 'system' -%}
  {%- set turns = messages[1:] -%}
  {%- if messages[0]['content'] is string -%}
    {%- set lead = messages[0]['content'] + '\n\n' -%}
  {%- else -%}
    {%- set lead = messages[0]['content'][0]['text'] + '\n\n' -%}
  {%- endif -%}
{%- endif -%}
{%- for turn in turns -%}
  {%- if (turn['role'] == 'user') != (loop.index0 % 2 == 0) -%}
    {{ raise_exception('Roles must alternate: user, assistant, user, assistant ...') }}
  {%- endif -%}
  {{ '<start_of_turn>' + ('model' if turn['role'] == 'assistant' else turn['role']) + '\n' }}
  {%- if loop.first -%}{{ lead }}{%- endif -%}
  {%- if turn['content'] is string -%}
    {{ turn['content'] | trim }}
  {%- else -%}
    {%- for part in turn['content'] -%}
      {%- if part['type'] == 'text' -%}{{ part['text'] | trim }}{%- endif -%}
    {%- endfor -%}
  {%- endif -%}
  {{ '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}
`;

/** Gemma 1 and 2: the turns of Gemma 3, without system messages. */
const GEMMA = `{{ bos_token }}
{%- if messages and messages[0]['role'] == 'system' -%}{{ raise_exception('System role not supported') }}{%- endif -%}
{%- for turn in messages -%}
  {%- if (turn['role'] == 'user') != (loop.index0 % 2 == 0) -%}
    {{ raise_exception('Roles must alternate: user, assistant, user, assistant ...') }}
  {%- endif -%}
  {{ '<start_of_turn>' + ('model' if turn['role'] == 'assistant' else turn['role']) + '\n' }}
  {{- turn['content'] | trim }}
  {{- '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}
`;

/** Gemma 4: differs from Gemma 3 in its turn tokens, and has a system turn. */
const GEMMA4 = `{{- bos_token -}}
{%- for turn in messages -%}
  {{- '<|turn>' + ('model' if turn['role'] == 'assistant' else turn['role']) + '\n' -}}
  {{- turn['content'] | trim -}}
  {{- '<turn|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|turn>model\n' -}}{%- endif -%}
`;

/** Llama 3: a header names the role of each turn. */
const LLAMA3 = `{{- bos_token }}
{%- for turn in messages %}
  {{- '<|start_header_id|>' + turn['role'] + '<|end_header_id|>\n\n' + (turn['content'] | trim) + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}
`;

/** Granite: a header names the role of each turn. */
const GRANITE = `{%- for turn in messages %}
  {{- '<|start_of_role|>' + turn['role'] + '<|end_of_role|>' + turn['content'] + '<|end_of_text|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_of_role|>assistant<|end_of_role|>' }}{%- endif %}
`;

/** ChatML, the format of SmolLM2 and SmolLM3. */
const CHATML = `{%- for turn in messages -%}
  {{ '<|im_start|>' + turn['role'] + '\n' + turn['content'] + '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}
`;

/** Qwen3's ChatML: thoughts of earlier answers are omitted, and thinking can be switched off. */
const QWEN3 = `{%- for turn in messages %}
  {%- set content = turn['content'] %}
  {%- if turn['role'] == 'assistant' and '</think>' in content %}
    {%- set content = content.split('</think>')[-1].lstrip('\n') %}
  {%- endif %}
  {{- '<|im_start|>' + turn['role'] + '\n' + content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
  {{- '<|im_start|>assistant\n' }}
  {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}
`;

/** Phi-4-mini: turns without line breaks. */
const PHI4 = `{%- for turn in messages -%}
  {{ '<|' + turn['role'] + '|>' + turn['content'] + '<|end|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- else -%}{{ eos_token }}{%- endif -%}
`;

/** Chooses a chat template: for Gemma 3 and embedding models by the architecture, for others by the tokenizer.
 * @param {string} architecture @param {string} tokenizer
 * @returns {string | null} the chat template; null for models without one */
export function chatTemplateOf(architecture, tokenizer) {
  if (architecture === 'gemma-embedding') return null;
  if (architecture === 'gemma3') return GEMMA3;
  if (tokenizer === 'gemma') return GEMMA;
  if (tokenizer === 'gemma4') return GEMMA4;
  if (tokenizer === 'smollm' || tokenizer === 'smaug-bpe') return CHATML;
  return { 'gpt-4o': PHI4, 'llama-bpe': LLAMA3, dbrx: GRANITE, qwen2: QWEN3 }[tokenizer] ?? null;
}
