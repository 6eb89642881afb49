"""openai-python: makes calls with OpenAI's Python client, following its README and helpers.md, to a server that offers
the models chat (its chat template supports tools), story (writes sensible text) and embed. openai-python.js starts the
server.

    python openai-python.py http://127.0.0.1:8080/v1 KEY
"""

import asyncio
import json
import sys
import traceback

import httpx2
import openai
from openai import AsyncOpenAI, OpenAI, pydantic_function_tool
from pydantic import BaseModel, Field

URL, KEY = sys.argv[1:3]
client = OpenAI(base_url=URL, api_key=KEY, max_retries=0, timeout=120)
aclient = AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0, timeout=120)
CALLS = []
USER = [{"role": "user", "content": "Tell me a story about a cat."}]
STORY = {"model": "story", "messages": USER, "seed": 7, "max_tokens": 12}
SENTENCE = {**STORY, "max_tokens": 200, "temperature": 0, "stop": "."}
WILD = {"temperature": 2, "top_p": 1, "max_tokens": 400}
INTEGER = {"type": "integer", "minimum": -99, "maximum": 99}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds two numbers",
        "parameters": {
            "type": "object",
            "properties": {"a": INTEGER, "b": INTEGER},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}
FLAT_ADD = {"type": "function", **ADD["function"]}
BY_NAME = {"type": "function", "function": {"name": "add"}}
PERSON = {
    "type": "object",
    "properties": {"name": {"enum": ["Tom", "Lily"]}, "age": {"type": "integer", "minimum": 1, "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
SCHEMA_FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}


class Person(BaseModel):
    name: str = Field(max_length=8)
    age: int = Field(ge=1, le=99)


class Add(BaseModel):
    """Adds two numbers."""

    a: int = Field(ge=-99, le=99)
    b: int = Field(ge=-99, le=99)


def call(f):
    CALLS.append(f)
    return f


def is_person(value):
    assert set(value) == {"name", "age"} and 1 <= value["age"] <= 99, value


def fails(error, f, *parts):
    """Asserts that f() raises the error and that its message contains the parts."""
    try:
        f()
    except error as caught:
        for part in parts:
            assert part in str(caught), str(caught)
        return caught
    raise AssertionError(f"{error.__name__} was not raised")


# Chat completions


def complete(**options):
    """Returns the completion of STORY, with these options replaced."""
    return client.chat.completions.create(**{**STORY, **options})


def answer(**options):
    return complete(**options).choices[0].message.content


@call
def chat_has_the_shape_of_openai():
    done = complete()
    assert done.object == "chat.completion" and done.model == "story" and done.id.startswith("chatcmpl-")
    assert done.choices[0].message.role == "assistant" and done.choices[0].finish_reason == "length"
    assert done.usage.completion_tokens == 12
    assert done.usage.total_tokens == done.usage.prompt_tokens + 12


@call
def chat_with_a_developer_message():
    messages = [{"role": "developer", "content": "Be brief."}, *USER]
    assert answer(messages=messages)


@call
def chat_with_a_system_message():
    messages = [{"role": "system", "content": "Be brief."}, *USER]
    assert answer(messages=messages)


@call
def chat_with_content_parts():
    messages = [{"role": "user", "content": [{"type": "text", "text": "Tell me a story about a cat."}]}]
    assert answer(messages=messages) == answer()


@call
def chat_of_several_turns():
    first = complete().choices[0].message
    messages = [*USER, first, {"role": "user", "content": "Tell me more."}]
    assert answer(messages=messages)


@call
def chat_seed_repeats():
    texts = [answer(seed=seed) for seed in (3, 3, 4)]
    assert texts[0] == texts[1] != texts[2]


@call
def chat_temperature_zero():
    assert answer(seed=1, temperature=0) == answer(seed=2, temperature=0)


@call
def chat_top_p():
    assert answer(top_p=0.1)


@call
def chat_stop():
    done = client.chat.completions.create(**{**SENTENCE, "stop": ["."]})
    assert "." not in done.choices[0].message.content and done.choices[0].finish_reason == "stop"


@call
def chat_stop_text():
    done = client.chat.completions.create(**SENTENCE)
    assert "." not in done.choices[0].message.content


@call
def chat_max_completion_tokens():
    done = client.chat.completions.create(model="story", messages=USER, max_completion_tokens=3)
    assert done.usage.completion_tokens == 3


@call
def chat_several_choices():
    done = complete(n=3)
    assert [choice.index for choice in done.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in done.choices}) > 1


@call
def chat_logprobs():
    done = complete(logprobs=True, top_logprobs=3)
    content = done.choices[0].logprobs.content
    assert len(content) == 12 and all(len(token.top_logprobs) == 3 for token in content)
    assert "".join(token.token for token in content) == done.choices[0].message.content
    assert all(token.logprob <= 0 for token in content)


@call
def chat_logit_bias():
    assert answer(logit_bias={"300": 100}) != answer()


@call
def chat_penalties():
    assert answer(frequency_penalty=1, presence_penalty=1)


@call
def chat_user_and_metadata_are_ignored():
    assert complete(user="me", metadata={"a": "b"}).choices


@call
def chat_extra_body_top_k():
    assert answer(seed=1, extra_body={"top_k": 1}) == answer(seed=2, extra_body={"top_k": 1})


@call
def chat_json_object():
    done = client.chat.completions.create(model="chat", messages=USER, response_format={"type": "json_object"}, **WILD)
    if done.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(done.choices[0].message.content), dict)


@call
def chat_json_schema():
    done = client.chat.completions.create(model="story", messages=USER, response_format=SCHEMA_FORMAT)
    is_person(json.loads(done.choices[0].message.content))


@call
def chat_parse_pydantic():
    done = client.chat.completions.parse(model="story", messages=USER, response_format=Person)
    assert isinstance(done.choices[0].message.parsed, Person)


@call
def chat_beta_parse_pydantic():
    done = client.beta.chat.completions.parse(model="story", messages=USER, response_format=Person)
    assert isinstance(done.choices[0].message.parsed, Person)


@call
def chat_parse_cut_off():
    fails(
        openai.LengthFinishReasonError,
        lambda: client.chat.completions.parse(model="story", messages=USER, response_format=Person, max_tokens=2),
    )


@call
def chat_with_raw_response():
    raw = client.chat.completions.with_raw_response.create(**STORY)
    assert raw.headers["content-type"].startswith("application/json") and raw.status_code == 200
    assert raw.parse().choices[0].message.content


@call
def chat_with_streaming_response():
    with client.chat.completions.with_streaming_response.create(**STORY) as response:
        assert json.loads("".join(response.iter_text()))["object"] == "chat.completion"


@call
def chat_request_id():
    assert complete()._request_id.startswith("req_")


@call
def chat_with_options():
    assert client.with_options(timeout=60, max_retries=1).chat.completions.create(**STORY).choices


@call
def chat_default_headers_and_query():
    other = OpenAI(base_url=URL, api_key=KEY, default_headers={"x-mine": "1"}, default_query={"q": "1"})
    assert other.chat.completions.create(**STORY).choices


@call
def chat_with_an_own_http_client():
    with OpenAI(base_url=URL, api_key=KEY, http_client=openai.DefaultHttpxClient(timeout=60)) as other:
        assert other.chat.completions.create(**STORY).choices


@call
def chat_reasoning_effort():
    done = client.chat.completions.create(model="story", messages=USER, max_tokens=4, reasoning_effort="none")
    assert done.choices[0].message.content


# Streams


def joined(stream):
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


@call
def stream_equals_the_whole():
    assert joined(complete(stream=True)) == answer()


@call
def stream_chunks():
    chunks = list(complete(stream=True))
    assert len({chunk.id for chunk in chunks}) == 1 and chunks[0].object == "chat.completion.chunk"
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[-1].choices[0].finish_reason == "length"


@call
def stream_usage():
    chunks = list(complete(stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 12
    assert all(chunk.usage is None for chunk in chunks[:-1])


@call
def stream_logprobs():
    chunks = complete(stream=True, logprobs=True)
    assert sum(len(c.choices[0].logprobs.content) for c in chunks if c.choices and c.choices[0].logprobs) == 12


@call
def stream_several_choices():
    chunks = list(complete(stream=True, n=2))
    assert {choice.index for chunk in chunks for choice in chunk.choices} == {0, 1}


@call
def stream_left_early():
    with complete(max_tokens=1500, stream=True) as stream:
        for _ in stream:
            break
    assert complete().choices


@call
def stream_helper_events():
    with client.chat.completions.stream(**SENTENCE) as stream:
        kinds = {event.type for event in stream}
        done = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert done.choices[0].message.content == client.chat.completions.create(**SENTENCE).choices[0].message.content


@call
def stream_helper_until_done():
    with client.chat.completions.stream(**SENTENCE) as stream:
        assert stream.until_done().get_final_completion().choices[0].message.content


@call
def stream_helper_parses():
    with client.chat.completions.stream(model="story", messages=USER, response_format=Person) as stream:
        done = stream.until_done().get_final_completion()
    assert isinstance(done.choices[0].message.parsed, Person)


@call
def stream_raw_response():
    with client.chat.completions.with_streaming_response.create(**STORY, stream=True) as response:
        lines = [line for line in response.iter_lines() if line]
    assert lines[-1] == "data: [DONE]" and all(line.startswith("data: ") for line in lines)


# Tools


def use_tool(**options):
    return client.chat.completions.create(**{"model": "chat", "messages": USER, "tools": [ADD], **options})


def added(message):
    assert message.tool_calls, message
    arguments = json.loads(message.tool_calls[0].function.arguments)
    assert message.tool_calls[0].function.name == "add" and set(arguments) == {"a", "b"}
    return message.tool_calls[0]


@call
def tool_required():
    done = use_tool(tool_choice="required", **WILD)
    added(done.choices[0].message)


@call
def tool_by_name():
    done = use_tool(tool_choice=BY_NAME, **WILD)
    assert len(done.choices[0].message.tool_calls) == 1 and added(done.choices[0].message)


@call
def tool_none():
    done = use_tool(tool_choice="none", max_tokens=8)
    assert not done.choices[0].message.tool_calls


@call
def tool_auto():
    assert use_tool(tool_choice="auto", max_tokens=8)


@call
def tool_not_parallel():
    done = use_tool(tool_choice="required", parallel_tool_calls=False, **WILD)
    assert len(done.choices[0].message.tool_calls) == 1
    assert done.choices[0].finish_reason == "tool_calls"


@call
def tool_results():
    message = use_tool(tool_choice=BY_NAME, **WILD).choices[0].message
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "5"}
    done = use_tool(messages=[*USER, message, result], tool_choice="none", max_tokens=8)
    assert done.choices[0].message.role == "assistant"


@call
def tool_stream():
    stream = use_tool(tool_choice="required", stream=True, **WILD)
    parts = [call for chunk in stream if chunk.choices for call in chunk.choices[0].delta.tool_calls or []]
    assert parts[0].id and parts[0].function.name == "add"
    arguments = "".join(part.function.arguments or "" for part in parts if part.index == 0)
    assert set(json.loads(arguments)) == {"a", "b"}


@call
def tool_parse_pydantic():
    done = client.chat.completions.parse(
        model="chat", messages=USER, tools=[pydantic_function_tool(Add)], tool_choice="required", **WILD
    )
    assert isinstance(done.choices[0].message.tool_calls[0].function.parsed_arguments, Add)


@call
def tool_stream_helper():
    tools = [pydantic_function_tool(Add)]
    with client.chat.completions.stream(
        model="chat", messages=USER, tools=tools, tool_choice="required", **WILD
    ) as stream:
        kinds = {event.type for event in stream}
        done = stream.get_final_completion()
    assert "tool_calls.function.arguments.delta" in kinds and "tool_calls.function.arguments.done" in kinds
    assert isinstance(done.choices[0].message.tool_calls[0].function.parsed_arguments, Add)


# Completions, embeddings, models


@call
def completion():
    done = client.completions.create(model="story", prompt="Once upon a", max_tokens=1, temperature=0)
    assert done.object == "text_completion" and done.choices[0].text == " time"


@call
def completion_of_several_prompts():
    done = client.completions.create(model="story", prompt=["Once", "The"], max_tokens=2)
    assert [choice.index for choice in done.choices] == [0, 1]


@call
def completion_of_ids():
    assert client.completions.create(model="story", prompt=[2, 300, 301], max_tokens=2).usage.prompt_tokens == 3


@call
def completion_stream():
    arguments = {"model": "story", "prompt": "Once upon a", "max_tokens": 6, "seed": 1}
    stream = client.completions.create(**arguments, stream=True)
    text = "".join(chunk.choices[0].text for chunk in stream if chunk.choices)
    assert text == client.completions.create(**arguments).choices[0].text


@call
def completion_echo():
    done = client.completions.create(model="story", prompt="Once upon a", max_tokens=1, echo=True)
    assert done.choices[0].text.startswith("Once upon a")


@call
def completion_logprobs():
    done = client.completions.create(model="story", prompt="Once upon a", max_tokens=3, logprobs=2)
    assert len(done.choices[0].logprobs.tokens) == 3 and len(done.choices[0].logprobs.top_logprobs) == 3


@call
def completion_stop():
    done = client.completions.create(model="story", prompt="Once", max_tokens=200, stop=".", temperature=0)
    assert "." not in done.choices[0].text and done.choices[0].finish_reason == "stop"


@call
def embedding():
    done = client.embeddings.create(model="embed", input="a cat")
    assert len(done.data[0].embedding) > 10 and done.usage.prompt_tokens > 1
    assert abs(sum(x * x for x in done.data[0].embedding) - 1) < 1e-3


@call
def embedding_of_several_texts():
    done = client.embeddings.create(model="embed", input=["a cat", "a dog"])
    assert [one.index for one in done.data] == [0, 1]


@call
def embedding_encodings_agree():
    one, other = (
        client.embeddings.create(model="embed", input="a cat", encoding_format=encoding).data[0].embedding
        for encoding in ("float", "base64")
    )
    assert isinstance(other, str) or list(one) == list(other)


@call
def embedding_dimensions():
    assert len(client.embeddings.create(model="embed", input="a cat", dimensions=16).data[0].embedding) == 16


@call
def models_list():
    assert [model.id for model in client.models.list()] == ["chat", "story", "embed"]


@call
def models_page():
    assert client.models.list().data[0].object == "model"


@call
def models_retrieve():
    assert client.models.retrieve("story").owned_by == "gemma-wasm"


# Responses


@call
def response_text():
    done = client.responses.create(model="story", input="Tell me a story.", max_output_tokens=16)
    assert done.object == "response" and done.output_text and done.status in ("completed", "incomplete")


@call
def response_instructions_and_messages():
    done = client.responses.create(model="story", instructions="Be brief.", input=USER, max_output_tokens=16)
    assert done.output[0].type == "message" and done.output_text


@call
def response_stream():
    kinds = [e.type for e in client.responses.create(model="story", input="Hi", max_output_tokens=16, stream=True)]
    assert kinds[0] == "response.created" and "response.output_text.delta" in kinds
    assert kinds[-1] in ("response.completed", "response.incomplete")


@call
def response_stream_helper():
    with client.responses.stream(model="story", input="Hi", max_output_tokens=16) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert stream.get_final_response().output_text == text


@call
def response_parse():
    done = client.responses.parse(model="story", input="A person", text_format=Person)
    assert isinstance(done.output_parsed, Person)


@call
def response_function_call():
    done = client.responses.create(
        model="chat", input="Add 2 and 3", tools=[FLAT_ADD], tool_choice="required", max_output_tokens=400
    )
    found = [item for item in done.output if item.type == "function_call"]
    assert found and set(json.loads(found[0].arguments)) == {"a", "b"}


@call
def response_previous():
    first = client.responses.create(model="story", input="Tell me a story.", max_output_tokens=16)
    second = client.responses.create(
        model="story", input="More.", previous_response_id=first.id, max_output_tokens=16
    )
    assert second.previous_response_id == first.id and second.usage.input_tokens > first.usage.input_tokens


@call
def response_retrieve():
    first = client.responses.create(model="story", input="Tell me a story.", max_output_tokens=16)
    assert client.responses.retrieve(first.id).output_text == first.output_text
    client.responses.delete(first.id)
    fails(openai.NotFoundError, lambda: client.responses.retrieve(first.id))


# Errors


@call
def error_wrong_key():
    other = OpenAI(base_url=URL, api_key="wrong", max_retries=0)
    error = fails(openai.AuthenticationError, lambda: other.models.list())
    assert error.status_code == 401 and error.code == "invalid_api_key"


@call
def error_unknown_model():
    error = fails(openai.NotFoundError, lambda: client.chat.completions.create(model="none", messages=USER))
    assert error.code == "model_not_found" and error.param == "model"


@call
def error_unknown_model_retrieved():
    fails(openai.NotFoundError, lambda: client.models.retrieve("none"))


@call
def error_value_out_of_range():
    error = fails(openai.BadRequestError, lambda: complete(top_p=7))
    assert error.param == "top_p" and error.type == "invalid_request_error"


@call
def error_unknown_parameter():
    fails(openai.BadRequestError, lambda: complete(extra_body={"colour": "red"}), "colour")


@call
def error_missing_messages():
    fails(openai.BadRequestError, lambda: client.post("/chat/completions", body={"model": "story"}, cast_to=object))


@call
def error_context_exceeded():
    messages = [{"role": "user", "content": "word " * 5000}]
    error = fails(
        openai.BadRequestError, lambda: client.chat.completions.create(model="story", messages=messages)
    )
    assert error.code == "context_length_exceeded"


@call
def error_image():
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    fails(
        openai.BadRequestError,
        lambda: client.chat.completions.create(model="story", messages=[{"role": "user", "content": [part]}]),
    )


@call
def error_unsupported_endpoint():
    fails(openai.NotFoundError, lambda: client.images.generate(prompt="a cat"))


@call
def error_in_a_stream_is_raised_before_it():
    fails(openai.BadRequestError, lambda: complete(top_p=7, stream=True))


@call
def error_timeout():
    arguments = {**STORY, "max_tokens": 1500, "logit_bias": {"1": -100, "5": -100}}
    fails(openai.APITimeoutError, lambda: client.with_options(timeout=0.05).chat.completions.create(**arguments))


@call
def error_body_too_large():
    messages = [{"role": "user", "content": "x" * (17 << 20)}]
    error = fails(openai.APIStatusError, lambda: client.chat.completions.create(model="story", messages=messages))
    assert error.status_code == 413


# Requests for which OpenAI's Python client has no method


@call
def undocumented_endpoint():
    reply = client.get("/models", cast_to=httpx2.Response)
    assert reply.status_code == 200 and reply.json()["object"] == "list"


# The asynchronous client


@call
async def async_chat():
    assert (await aclient.chat.completions.create(**STORY)).choices[0].message.content


@call
async def async_stream():
    stream = await aclient.chat.completions.create(**STORY, stream=True)
    text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
    assert text == answer()


@call
async def async_stream_helper():
    async with aclient.chat.completions.stream(**SENTENCE) as stream:
        async for _ in stream:
            pass
        assert (await stream.get_final_completion()).choices[0].message.content


@call
async def async_many_at_a_time():
    all_done = await asyncio.gather(*(aclient.chat.completions.create(**{**STORY, "seed": i}) for i in range(12)))
    assert all(done.choices[0].message.content for done in all_done)


@call
async def async_cancelled():
    arguments = {**STORY, "max_tokens": 1500, "logit_bias": {"1": -100, "5": -100}}
    task = asyncio.create_task(aclient.chat.completions.create(**arguments))
    await asyncio.sleep(0.1)
    task.cancel()
    try:
        await task
        raise AssertionError("not cancelled")
    except asyncio.CancelledError:
        pass
    assert (await aclient.chat.completions.create(**STORY)).choices


@call
async def async_embeddings():
    assert len((await aclient.embeddings.create(model="embed", input=["a", "b"])).data) == 2


@call
async def async_models():
    assert [model.id async for model in aclient.models.list()] == ["chat", "story", "embed"]


@call
async def async_parse():
    done = await aclient.chat.completions.parse(model="story", messages=USER, response_format=Person)
    assert isinstance(done.choices[0].message.parsed, Person)


@call
async def async_responses():
    assert (await aclient.responses.create(model="story", input="Hi", max_output_tokens=16)).output_text


async def main():
    failed = 0
    for f in CALLS:
        try:
            result = f()
            if asyncio.iscoroutine(result):
                await result
        except Exception:
            failed += 1
            print(f"{f.__name__} failed:\n{traceback.format_exc()}")
    print(f"openai {openai.__version__} for Python: {len(CALLS) - failed} of {len(CALLS)} calls passed")
    return failed


sys.exit(1 if asyncio.run(main()) else 0)
