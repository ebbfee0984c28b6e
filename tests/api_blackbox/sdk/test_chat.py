"""Chat and completions through the official openai client."""
import json
import re
import time
import urllib.request
from typing import Literal

import openai
import pytest
from pydantic import BaseModel

ASK = [{"role": "user", "content": "Name three rivers."}]
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "strict": True,
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Oslo", "Paris"]}}, "required": ["city"],
                   "additionalProperties": False}}}


class Verdict(BaseModel):
    answer: Literal["yes", "no"]
    certain: bool


class City(BaseModel):
    """The weather of a city."""
    name: Literal["Oslo", "Paris"]


def test_plain(oai, model):
    got = oai.chat.completions.create(model=model, messages=ASK, max_completion_tokens=8, temperature=0)
    assert got.object == "chat.completion" and got.choices[0].message.role == "assistant"
    assert got.choices[0].finish_reason == "length" and got.usage.completion_tokens == 8
    assert got.usage.total_tokens == got.usage.prompt_tokens + 8
    assert got._request_id


def test_many_choices_with_logprobs(oai, model):
    got = oai.chat.completions.create(model=model, messages=ASK, max_tokens=4, n=2, logprobs=True, top_logprobs=3, seed=1)
    assert [c.index for c in got.choices] == [0, 1]
    for choice in got.choices:
        assert len(choice.logprobs.content) == 4 and all(len(e.top_logprobs) == 3 for e in choice.logprobs.content)


def test_stream_equals_plain(oai, model):
    plain = oai.chat.completions.create(model=model, messages=ASK, max_tokens=12, temperature=0)
    chunks = list(oai.chat.completions.create(model=model, messages=ASK, max_tokens=12, temperature=0, stream=True,
                                              stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == plain.choices[0].message.content
    assert len({c.id for c in chunks}) == 1
    for usage in (plain.usage, chunks[-1].usage):
        assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (plain.usage.prompt_tokens, 12, plain.usage.prompt_tokens + 12)
        assert usage.time_to_first_token_ms > 0 and usage.completion_tokens_details.reasoning_tokens == 0


def test_stream_helper(oai, model):
    text = oai.chat.completions.create(model=model, messages=ASK, max_tokens=12, temperature=0).choices[0].message.content
    stop = text.split()[3]  # the helper takes an answer that its limit cut for an error
    with oai.chat.completions.stream(model=model, messages=ASK, max_tokens=12, temperature=0, stop=stop) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert final.choices[0].message.content == text[:text.index(stop)] and final.choices[0].finish_reason == "stop"


def test_raw_and_streaming_response(oai, model):
    raw = oai.chat.completions.with_raw_response.create(model=model, messages=ASK, max_tokens=2)
    assert raw.headers["x-request-id"] and raw.parse().usage.completion_tokens == 2
    with oai.chat.completions.with_streaming_response.create(model=model, messages=ASK, max_tokens=2) as streamed:
        assert json.loads(streamed.read())["object"] == "chat.completion"


def test_closing_a_stream_leaves_the_connection_pool_usable(oai, model):
    stream = oai.chat.completions.create(model=model, messages=ASK, max_tokens=200, stream=True)
    next(iter(stream))
    stream.close()
    assert oai.chat.completions.create(model=model, messages=ASK, max_tokens=1).choices


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}], ids=["required", "named"])
def test_tools(oai, model, choice):
    got = oai.chat.completions.create(model=model, messages=ASK, tools=[WEATHER], tool_choice=choice, max_tokens=64, temperature=0)
    call = got.choices[0].message.tool_calls[0]
    assert got.choices[0].finish_reason == "tool_calls" and call.function.name == "get_weather"
    assert json.loads(call.function.arguments)["city"] in ("Oslo", "Paris")
    answered = ASK + [got.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    assert oai.chat.completions.create(model=model, messages=answered, tools=[WEATHER], max_tokens=4).choices


def test_tools_stream_helper(oai, model):
    with oai.chat.completions.stream(model=model, messages=ASK, tools=[openai.pydantic_function_tool(City)], tool_choice="required",
                                     max_tokens=64, temperature=0) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert "tool_calls.function.arguments.delta" in kinds and "tool_calls.function.arguments.done" in kinds
    assert isinstance(final.choices[0].message.tool_calls[0].function.parsed_arguments, City)


def test_custom_tool(oai, model):
    tool = {"type": "custom", "custom": {"name": "run", "description": "runs a command", "format": {"type": "grammar", "grammar": {
        "syntax": "regex", "definition": "(ls|cat) [a-z]{1,8}"}}}}
    asked = dict(model=model, messages=ASK, tools=[tool], tool_choice="required", max_tokens=64, temperature=0)
    got = oai.chat.completions.create(**asked)
    call = got.choices[0].message.tool_calls[0]
    assert call.type == "custom" and re.fullmatch("(ls|cat) [a-z]{1,8}", call.custom.input)
    told = ""
    for chunk in oai.chat.completions.create(**asked, stream=True):
        for part in chunk.choices[0].delta.tool_calls or []:
            told += part.custom["input"]
    assert told == call.custom.input
    answered = ASK + [got.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "a"}]
    assert oai.chat.completions.create(model=model, messages=answered, tools=[tool], max_tokens=4).choices


def test_schema_with_choices(oai, model):
    schema = {"type": "object", "properties": {"v": {"enum": ["a", "b"]}}, "required": ["v"], "additionalProperties": False}
    got = oai.chat.completions.create(model=model, messages=ASK, n=2, temperature=1.0, max_tokens=64, response_format={
        "type": "json_schema", "json_schema": {"name": "s", "schema": schema, "strict": True}})
    assert len(got.choices) == 2
    assert all(json.loads(choice.message.content)["v"] in ("a", "b") for choice in got.choices)


def test_parse(oai, model):
    got = oai.chat.completions.parse(model=model, messages=ASK, response_format=Verdict, max_tokens=64, temperature=0)
    assert isinstance(got.choices[0].message.parsed, Verdict)


def test_parse_with_tools(oai, model):
    got = oai.chat.completions.parse(model=model, messages=ASK, tools=[openai.pydantic_function_tool(City)], tool_choice="required",
                                     max_tokens=64, temperature=0)
    assert isinstance(got.choices[0].message.tool_calls[0].function.parsed_arguments, City)


def test_parse_cut_by_length(oai, model):
    with pytest.raises(openai.LengthFinishReasonError):
        oai.chat.completions.parse(model=model, messages=ASK, response_format=Verdict, max_tokens=2)


def test_parse_stream(oai, model):
    with oai.chat.completions.stream(model=model, messages=ASK, response_format=Verdict, max_tokens=64, temperature=0) as stream:
        parsed = [event.parsed for event in stream if event.type == "content.done"]
    assert len(parsed) == 1 and isinstance(parsed[0], Verdict)


def test_json_object(oai, model):
    got = oai.chat.completions.create(model=model, messages=ASK, response_format={"type": "json_object"}, max_tokens=400,
                                      temperature=0, extra_body={"repetition_penalty": 1.2})
    if got.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(got.choices[0].message.content), dict)


def test_reasoning(oai, model):
    got = oai.chat.completions.create(model=model, messages=ASK, max_tokens=40, temperature=0, extra_body={"enable_thinking": True})
    message = got.choices[0].message
    assert message.reasoning_content and "<think>" not in message.reasoning_content + message.content
    assert got.usage.completion_tokens_details.reasoning_tokens > 0


def test_stored(oai, model):
    made = oai.chat.completions.create(model=model, messages=ASK, max_tokens=4, store=True, metadata={"suite": "sdk"})
    assert oai.chat.completions.retrieve(made.id).choices == made.choices
    assert [c.id for c in oai.chat.completions.list(metadata={"suite": "sdk"})] == [made.id]
    assert [m.content for m in oai.chat.completions.messages.list(made.id)] == [ASK[0]["content"]]
    assert oai.chat.completions.update(made.id, metadata={"suite": "new"}).metadata == {"suite": "new"}
    assert oai.chat.completions.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError):
        oai.chat.completions.retrieve(made.id)


def test_completions(oai, model):
    got = oai.completions.create(model=model, prompt=["One two three", "Red green"], max_tokens=5, temperature=0, logprobs=2, echo=True)
    assert [c.index for c in got.choices] == [0, 1] and got.choices[1].text.startswith("Red green")
    assert len(got.choices[0].logprobs.tokens) == len(got.choices[0].logprobs.text_offset)
    chunks = list(oai.completions.create(model=model, prompt="One two three", max_tokens=5, temperature=0, stream=True))
    assert "One two three" + "".join(c.choices[0].text for c in chunks) == got.choices[0].text
    assert chunks[-1].choices[0].finish_reason == "length"


def test_models(oai, model):
    assert oai.models.retrieve(model).id == model


@pytest.mark.parametrize("changes, error, param", [
    ({"model": "no-such-model"}, openai.NotFoundError, "model"),
    ({"temperature": 9}, openai.BadRequestError, "temperature"),
    ({"messages": []}, openai.BadRequestError, "messages"),
    ({"n": 0}, openai.BadRequestError, "n"),
    ({"messages": [{"role": "user", "content": "word " * 3000}]}, openai.BadRequestError, "messages"),
], ids=["model", "range", "empty", "n", "context"])
def test_errors(oai, model, changes, error, param):
    with pytest.raises(error) as caught:
        oai.chat.completions.create(**({"model": model, "messages": ASK, "max_tokens": 4} | changes))
    assert caught.value.param == param and caught.value.body["message"] and caught.value.request_id
    with pytest.raises(error):
        oai.chat.completions.create(**({"model": model, "messages": ASK, "max_tokens": 4, "stream": True} | changes))


def test_other_errors(base_url, oai):
    with openai.OpenAI(base_url=base_url + "/v1", api_key="wrong", max_retries=0) as stranger, pytest.raises(openai.AuthenticationError):
        stranger.models.list()
    with pytest.raises(openai.InternalServerError) as caught:
        oai.embeddings.create(model="any", input="text")
    assert caught.value.status_code == 501


def test_ignore_eos_holds_beside_the_servers_bound_on_reasoning(oai, model):
    answer = oai.chat.completions.create(model=model, messages=ASK, max_tokens=200, extra_body={"ignore_eos": True})
    assert (answer.choices[0].finish_reason, answer.usage.completion_tokens) == ("length", 200)


def test_timeout_of_the_client_frees_the_server(base_url, oai, model):
    with pytest.raises(openai.APITimeoutError):
        oai.with_options(timeout=0.15).chat.completions.create(
            model=model, messages=ASK, max_tokens=1500, extra_body={"ignore_eos": True})
    assert oai.chat.completions.create(model=model, messages=ASK, max_tokens=1).choices
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        page = urllib.request.urlopen(base_url + "/metrics").read().decode()
        running = next(line for line in page.splitlines() if line.startswith("vllm:num_requests_running"))
        if float(running.split()[-1]) == 0:
            return
    pytest.fail("the abandoned request still runs")
