"""chat: writes tests/vectors/gemma4-chat.json: conversations that transformers rendered with Gemma 4's chat templates.

    pip install transformers==5.23.0 jinja2
    python3 tools/vectors/chat.py E2B.jinja 31B.jinja    # tests/vectors/gemma4-chat.md names them
"""
import hashlib
import json
import sys
from pathlib import Path

from transformers.utils.chat_template_utils import render_jinja_template

OUT = Path(__file__).parents[2] / 'tests/vectors/gemma4-chat.json'
ADD = {'name': 'add', 'description': 'Adds two numbers', 'parameters': {
    'type': 'object', 'required': ['a', 'b'],
    'properties': {'b': {'type': 'integer', 'description': 'the second'}, 'a': {'type': 'integer'}}}}
FIND = {'name': 'find-place', 'description': '', 'parameters': {
    'type': 'object', 'required': ['where'], 'properties': {
        'where': {'type': 'object', 'description': 'a place', 'required': ['city'], 'properties': {
            'city': {'type': 'string'}, 'Kind': {'type': 'string', 'enum': ['town', 'a "b"']}}},
        'sure': {'type': 'boolean'}}}}
SYSTEM = {'role': 'system', 'content': ' Be brief.\n'}
ASK = {'role': 'user', 'content': '  What is 2 + 3?\n'}
NEXT = {'role': 'user', 'content': 'And 4?'}


def answer(content, **more):
    return {'role': 'assistant', 'content': content, **more}


def call(key, name, **arguments):
    return {'id': key, 'name': name, 'arguments': arguments}


def result(key, name, content):
    return {'role': 'tool', 'id': key, 'name': name, 'content': content}


ONE = [answer('', thoughts='I add.', toolCalls=[call('a', 'add', b=3, a=2)]), result('a', 'add', {'sum': 5, 'ok': True})]
TWO = [answer('', toolCalls=[call('b', 'add', a=-1, b=0), call('c', 'find-place', where={'city': 'É "x"', 'Kind': 'town'})]),
       result('b', 'add', 'minus one'), result('c', 'find-place', {'list': [1, 'two', None, {'k': 0.5}], 'B': '', 'a': {}})]
CONVERSATIONS = [
    ([ASK], []),
    ([SYSTEM, ASK], []),
    ([ASK, answer(' Five. ', thoughts='2 + 3 is 5'), NEXT], []),
    ([SYSTEM, ASK, answer('a <|channel>thought\nb<channel|> c'), NEXT, answer('Nine.'), ASK], []),
    ([ASK], [ADD, FIND]),
    ([SYSTEM, ASK, *ONE], [ADD]),
    ([ASK, *TWO], [ADD, FIND]),
    ([ASK, *ONE, *TWO], [ADD, FIND]),
    ([ASK, *ONE, answer('Five.', thoughts='done'), NEXT], [ADD]),
    ([ASK, *ONE, answer('Five.'), NEXT, *TWO, answer('Nine.'), ASK], [ADD, FIND]),
]


def standard(messages):
    """Converts messages for transformers. As in Google's documentation, a message with calls also has their results."""
    out = []
    for message in messages:
        content = message['content']
        if message['role'] == 'tool':
            out[-1].setdefault('tool_responses', []).append({'name': message['name'], 'response': content})
            continue
        calls = [{'id': c['id'], 'type': 'function', 'function': {'name': c['name'], 'arguments': c['arguments']}}
                 for c in message.get('toolCalls', [])]
        more = {'reasoning_content': message['thoughts']} if 'thoughts' in message else {}
        out.append({'role': message['role'], 'content': content, **more, **({'tool_calls': calls} if calls else {})})
    return out


def rendered(template, messages, tools, thinking):
    functions = [{'type': 'function', 'function': tool} for tool in tools] or None
    return render_jinja_template([standard(messages)], tools=functions, chat_template=template,
                                 add_generation_prompt=True, enable_thinking=thinking, bos_token='<bos>')[0][0]


templates = {name: Path(path).read_text() for name, path in zip(['e2b', 'large'], sys.argv[1:3], strict=True)}
rows = [{'messages': messages, 'tools': tools, 'thinking': thinking,
         **{name: rendered(template, messages, tools, thinking) for name, template in templates.items()}}
        for messages, tools in CONVERSATIONS for thinking in (False, True)]
digests = {name: hashlib.sha256(template.encode()).hexdigest() for name, template in templates.items()}
OUT.write_text(json.dumps({'templates': digests, 'rows': rows}, ensure_ascii=False, indent=1) + '\n')
