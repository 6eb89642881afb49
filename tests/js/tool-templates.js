/**
 * Chat templates that accept tools, in the formats of model families: FunctionGemma's (control tokens around
 * declarations, calls and responses, texts between <escape>), Gemma 4's (the same with other tokens, and results inside
 * the message that calls), Llama 3's (JSON in the first question, one call per message, results with the role ipython)
 * and Qwen3's (JSON between tags, like NousResearch's Hermes). Gemma 4's and Qwen3's allow thinking. Also one without
 * tools, which reads the same properties of messages as TranslateGemma's.
 */

/** FunctionGemma's template: the model's turn continues after a tool's result, which follows its call. */
export const FUNCTION_GEMMA = `{%- macro bare(value) -%}
{%- if value is string -%}{{ '<escape>' + value + '<escape>' }}
{%- elif value is boolean -%}{{ 'true' if value else 'false' }}
{%- elif value is none -%}{{ 'null' }}
{%- elif value is mapping -%}{{ '{' }}{%- for key, one in value | dictsort -%}{{ ',' if not loop.first }}{{ key }}:{{ bare(one) }}{%- endfor -%}{{ '}' }}
{%- elif value is iterable -%}{{ '[' }}{%- for one in value -%}{{ ',' if not loop.first }}{{ bare(one) }}{%- endfor -%}{{ ']' }}
{%- else -%}{{ value }}{%- endif -%}
{%- endmacro -%}
{%- macro shape(schema) -%}
{{- '{' }}
{%- if schema.description -%}description:{{ bare(schema.description) }},{%- endif -%}
{%- if schema.enum -%}enum:{{ bare(schema.enum) }},{%- endif -%}
{%- if 'items' in schema -%}items:{{ shape(schema['items']) }},{%- endif -%}
{%- if schema.properties is defined -%}properties:{{ '{' }}{%- for key, one in schema.properties | dictsort -%}{{ ',' if not loop.first }}{{ key }}:{{ shape(one) }}{%- endfor -%}{{ '},' }}{%- endif -%}
{%- if schema.required -%}required:{{ bare(schema.required) }},{%- endif -%}
type:{{ bare((schema.type or 'string') | upper) }}{{ '}' }}
{%- endmacro -%}
{{ bos_token }}
{%- set rest = messages -%}
{%- set first = messages[0] -%}
{%- set told = first.role == 'developer' or first.role == 'system' -%}
{%- if told -%}{%- set rest = messages[1:] -%}{%- endif -%}
{%- if told or tools -%}
{{ '<start_of_turn>developer\n' }}{%- if told -%}{{ first.content | trim }}{%- endif -%}
{%- for tool in tools or [] -%}
{{ '<start_function_declaration>declaration:' + tool.function.name + '{' }}
{%- if tool.function.description -%}description:{{ bare(tool.function.description) }},{%- endif -%}
parameters:{{ shape(tool.function.parameters) }}{{ '}<end_function_declaration>' }}
{%- endfor -%}
{{ '<end_of_turn>\n' }}
{%- endif -%}
{%- set ns = namespace(open=false) -%}
{%- for turn in rest -%}
{%- if turn.role == 'tool' -%}
{%- for one in turn.content -%}
{{ '<start_function_response>response:' + one.name }}
{%- if one.response is mapping -%}{{ bare(one.response) }}{%- else -%}{{ '{value:' }}{{ bare(one.response) }}{{ '}' }}{%- endif -%}
{{ '<end_function_response>' }}
{%- endfor -%}
{%- else -%}
{%- if not ns.open -%}{{ '<start_of_turn>' + ('model' if turn.role == 'assistant' else turn.role) + '\n' }}{%- endif -%}
{{ turn.content | trim }}
{%- for call in turn.tool_calls or [] -%}
{{ '<start_function_call>call:' + call.function.name }}{{ bare(call.function.arguments) }}{{ '<end_function_call>' }}
{%- endfor -%}
{%- set ns.open = turn.tool_calls is defined -%}
{%- if not ns.open -%}{{ '<end_of_turn>\n' }}{%- endif -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt and not ns.open -%}{{ '<start_of_turn>model\n' }}{%- endif -%}
`;

/** Llama 3's template: tools are listed in the first question, as JSON. */
export const LLAMA3 = `{{- bos_token }}
{%- set ns = namespace(told=false) %}
{%- for turn in messages %}
  {%- if turn.role == 'tool' %}
    {{- '<|start_header_id|>ipython<|end_header_id|>\n\n' + turn.content + '<|eot_id|>' }}
  {%- elif turn.tool_calls %}
    {%- if turn.tool_calls | length != 1 %}{{ raise_exception('One call in a message.') }}{%- endif %}
    {%- set call = turn.tool_calls[0].function %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n{"name": "' + call.name + '", "parameters": ' }}
    {{- call.arguments | tojson }}{{- '}<|eot_id|>' }}
  {%- else %}
    {{- '<|start_header_id|>' + turn.role + '<|end_header_id|>\n\n' }}
    {%- if tools and turn.role == 'user' and not ns.told %}
      {%- set ns.told = true %}
      {{- 'Given these functions, answer with JSON for a call of the one that serves the question best.\n'
        + 'The form is {"name": function name, "parameters": dictionary of arguments}.\n\n' }}
      {%- for tool in tools %}{{- tool | tojson(indent=4) }}{{- '\n\n' }}{%- endfor %}
    {%- endif %}
    {{- (turn.content | trim) + '<|eot_id|>' }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}
`;

/** Qwen3's template: tools are listed in the system message. The results of a turn form one user message. */
export const QWEN3 = `{%- set rest = messages %}
{%- if tools %}
  {{- '<|im_start|>system\n' }}
  {%- if messages[0].role == 'system' %}{{- messages[0].content + '\n\n' }}{%- set rest = messages[1:] %}{%- endif %}
  {{- '# Tools\n\nYou may call functions. Their signatures:\n<tools>' }}
  {%- for tool in tools %}{{- '\n' }}{{- tool | tojson }}{%- endfor %}
  {{- '\n</tools>\n\nA call is a JSON object within <tool_call></tool_call> tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n' }}
{%- endif %}
{%- for turn in rest %}
  {%- if turn.role == 'tool' %}
    {%- if loop.first or rest[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
    {{- '\n<tool_response>\n' + turn.content + '\n</tool_response>' }}
    {%- if loop.last or rest[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\n' }}{%- endif %}
  {%- else %}
    {{- '<|im_start|>' + turn.role + '\n' + turn.content }}
    {%- for call in turn.tool_calls or [] %}
      {%- if not loop.first or turn.content %}{{- '\n' }}{%- endif %}
      {{- '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}{{- call.function.arguments | tojson }}{{- '}\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\n' }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}
`;

/** A template like Gemma 4 E2B's: it omits the thoughts of answers before the last question, a tool's result follows
 * its call in the model's own turn, and with thinking a thought follows the result. tests/vectors/gemma4-chat.md
 * compares it with the original. */
export const GEMMA4 = `{%- macro bare(value, quoted=true) -%}
  {%- if value is string -%}{{ '<|"|>' + value + '<|"|>' }}
  {%- elif value is boolean -%}{{ 'true' if value else 'false' }}
  {%- elif value is none -%}{{ 'null' }}
  {%- elif value is mapping -%}
    {{- '{' -}}
    {%- for key, one in value | dictsort -%}
      {{- ',' if not loop.first -}}{{- '<|"|>' + key + '<|"|>' if quoted else key -}}:{{- bare(one, quoted) -}}
    {%- endfor -%}
    {{- '}' -}}
  {%- elif value is iterable -%}
    {{- '[' -}}{%- for one in value -%}{{- ',' if not loop.first -}}{{- bare(one, quoted) -}}{%- endfor -%}{{- ']' -}}
  {%- else -%}{{ value }}{%- endif -%}
{%- endmacro -%}
{%- macro described(schema) -%}
  {{- '{' -}}
  {%- if schema['description'] -%}description:<|"|>{{ schema['description'] }}<|"|>,{%- endif -%}
  {%- if schema['type'] == 'string' and schema['enum'] -%}enum:{{ bare(schema['enum']) }},{%- endif -%}
  {%- if schema['properties'] is mapping -%}properties:{ {{- fields(schema['properties']) -}} },{%- endif -%}
  {%- if schema['required'] -%}required:{{ bare(schema['required']) }},{%- endif -%}
  type:<|"|>{{ schema['type'] | upper }}<|"|>}
{%- endmacro -%}
{%- macro fields(properties) -%}
  {%- for key, one in properties | dictsort -%}{{- ',' if not loop.first }}{{ key }}:{{ described(one) }}{%- endfor -%}
{%- endmacro -%}
{%- macro spoken(text) -%}
  {%- set ns = namespace(text='') -%}
  {%- for part in text.split('<channel|>') -%}
    {%- if '<|channel>' in part -%}{%- set ns.text = ns.text + part.split('<|channel>')[0] -%}
    {%- else -%}{%- set ns.text = ns.text + part -%}{%- endif -%}
  {%- endfor -%}
  {{- ns.text | trim -}}
{%- endmacro -%}
{{- bos_token -}}
{%- set thinks = enable_thinking | default(false) -%}
{%- set ns = namespace(rest=messages, asked=-1, last='', before='') -%}
{%- set told = messages[0]['role'] in ['system', 'developer'] -%}
{%- if thinks or tools or told -%}
  {{- '<|turn>system\n' -}}
  {%- if thinks -%}{{- '<|think|>\n' -}}{%- endif -%}
  {%- if told -%}{{- messages[0]['content'] | trim -}}{%- set ns.rest = messages[1:] -%}{%- endif -%}
  {%- for tool in tools or [] -%}
    {%- set its = tool['function'] -%}
    {{- '<|tool>declaration:' + its['name'] + '{description:<|"|>' + its['description'] + '<|"|>' -}}
    {%- if its['parameters'] -%},parameters:{{ described(its['parameters']) }}{%- endif -%}
    {{- '}<tool|>' -}}
  {%- endfor -%}
  {{- '<turn|>\n' -}}
{%- endif -%}
{%- for turn in ns.rest -%}{%- if turn['role'] == 'user' -%}{%- set ns.asked = loop.index0 -%}{%- endif -%}{%- endfor -%}
{%- for turn in ns.rest -%}
  {%- set role = 'model' if turn['role'] == 'assistant' else turn['role'] -%}
  {%- if not (role == 'model' and ns.before == 'model') -%}{{- '<|turn>' + role + '\n' -}}{%- endif -%}
  {%- set ns.before = role -%}
  {%- set ns.last = '' -%}
  {%- if turn['reasoning_content'] and loop.index0 > ns.asked -%}
    {{- '<|channel>thought\n' + turn['reasoning_content'] + '\n<channel|>' -}}
  {%- endif -%}
  {%- for call in turn['tool_calls'] or [] -%}
    {{- '<|tool_call>call:' + call['function']['name'] -}}{{- bare(call['function']['arguments'], false) -}}{{- '<tool_call|>' -}}
    {%- set ns.last = 'call' -%}
  {%- endfor -%}
  {%- for result in turn['tool_responses'] or [] -%}
    {{- '<|tool_response>response:' + result['name'] -}}
    {%- if result['response'] is mapping -%}{{- bare(result['response'], false) -}}
    {%- else -%}{{- '{value:' -}}{{- bare(result['response'], false) -}}{{- '}' -}}{%- endif -%}
    {{- '<tool_response|>' -}}
    {%- set ns.last = 'result' -%}
  {%- endfor -%}
  {%- if role == 'model' -%}{{- spoken(turn['content']) -}}{%- else -%}{{- turn['content'] | trim -}}{%- endif -%}
  {%- set next = ns.rest[loop.index0 + 1] if not loop.last else none -%}
  {%- if ns.last == 'call' -%}{{- '<|tool_response>' -}}
  {%- elif role == 'model' and next and next['role'] == 'assistant' -%}
  {%- elif ns.last != 'result' or turn['content'] or next -%}{{- '<turn|>\n' -}}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt and ns.last == '' -%}{{- '<|turn>model\n' -}}
{%- elif add_generation_prompt and ns.last == 'result' and thinks -%}{{- '<|channel>thought\n' -}}{%- endif -%}
`;

/** A template like that of Gemma 4's larger models: without thinking, an answer begins with an empty thought. */
export const GEMMA4_LARGE = GEMMA4.replace(
  "ns.last == '' -%}{{- '<|turn>model\n' -}}",
  "ns.last == '' -%}{{- '<|turn>model\n' -}}{%- if not thinks -%}{{- '<|channel>thought\n<channel|>' -}}{%- endif -%}",
);

/** A template like GEMMA4, but with thinking on, the prompt begins the thought, because random weights would not begin
 * one. */
export const GEMMA4_OPEN = GEMMA4.replace(
  "ns.last == '' -%}{{- '<|turn>model\n' -}}",
  "ns.last == '' -%}{{- '<|turn>model\n' -}}{%- if thinks -%}{{- '<|channel>thought\n' -}}{%- endif -%}",
);

/** A template with tools as in QWEN3, and with thinking, which can be turned off. Thoughts after the last question stay
 * in the prompt. */
export const QWEN3_THINKING = QWEN3.replace(
  '{%- for turn in rest %}',
  `{%- set ns = namespace(asked=-1) %}
{%- for turn in rest %}{%- if turn.role == 'user' %}{%- set ns.asked = loop.index0 %}{%- endif %}{%- endfor %}
{%- for turn in rest %}`,
)
  .replace(
    "{{- '<|im_start|>' + turn.role + '\n' + turn.content }}",
    `{{- '<|im_start|>' + turn.role + '\n' }}
    {%- if turn.role == 'assistant' and turn.reasoning_content and loop.index0 > ns.asked %}
      {{- '<think>\n' + turn.reasoning_content.strip('\n') + '\n</think>\n\n' }}
    {%- endif %}
    {{- turn.content.split('</think>')[-1].lstrip('\n') if turn.role == 'assistant' else turn.content }}`,
  )
  .replace(
    "{{- '<|im_start|>assistant\n' }}",
    `{{- '<|im_start|>assistant\n' }}
  {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}`,
  );

/** A template that reads messages like TranslateGemma's: the only part of each message of the user has language codes,
 * which select names of languages. It refuses strings and system messages. */
export const TRANSLATE_GEMMA = `{%- set languages = { 'de': 'German', 'en': 'English', 'fr': 'French', 'pt-BR': 'Portuguese' } -%}
{{ bos_token }}
{%- if messages[0]['role'] != 'user' -%}{{ raise_exception('the first message must be a prompt of the user') }}{%- endif -%}
{%- for message in messages -%}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}{{ raise_exception('roles must alternate') }}{%- endif -%}
{%- if message['role'] == 'assistant' -%}
{%- if message['content'] is not string -%}{{ raise_exception('an answer must be a string') }}{%- endif -%}
{{ '<start_of_turn>model\\n' }}{{ message['content'] | trim }}
{%- elif message['role'] == 'user' -%}
{%- if message['content'] is string or message['content'] is not iterable or message['content'] | length != 1 -%}
{{ raise_exception('a question must be exactly one part with language codes') }}
{%- endif -%}
{%- set content = message['content'][0] -%}
{%- set source = content['source_lang_code'] | replace('_', '-') -%}
{%- set target = content['target_lang_code'] | replace('_', '-') -%}
{%- if source not in languages or target not in languages -%}{{ raise_exception('unknown language') }}{%- endif -%}
{{ '<start_of_turn>user\\nTranslate ' + languages[source] + ' (' + source + ') into ' + languages[target] + ' (' + target + '), '
   'without comments.\\n' }}
{%- if content['type'] == 'text' -%}{{ 'The ' + languages[source] + ' text:\\n\\n\\n' + content['text'] | trim }}
{%- else -%}{{ raise_exception('no pictures') }}{%- endif -%}
{%- else -%}{{ raise_exception('unknown role') }}{%- endif -%}
{{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}`;
