"""Messages through the official anthropic client."""
import json

import anthropic
import pytest

GREEDY = {"temperature": 0}  # no argument of this client
ASK = [{"role": "user", "content": "Name three rivers."}]
TOOL = {"name": "get_weather", "description": "Weather of a city",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Oslo", "Paris"]}}, "required": ["city"]}}


def test_plain(claude, model):
    got = claude.messages.create(model=model, messages=ASK, max_tokens=8, extra_body=GREEDY, system="Be short.")
    assert got.type == "message" and got.role == "assistant" and got.content[0].type == "text"
    assert got.stop_reason == "max_tokens" and got.usage.output_tokens == 8 and got._request_id


def test_stream(claude, model):
    plain = claude.messages.create(model=model, messages=ASK, max_tokens=12, extra_body=GREEDY)
    events = list(claude.messages.create(model=model, messages=ASK, max_tokens=12, extra_body=GREEDY, stream=True))
    kinds = [e.type for e in events]
    assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"]
    assert "".join(e.delta.text for e in events if e.type == "content_block_delta") == plain.content[0].text
    assert events[-2].usage.output_tokens == plain.usage.output_tokens


def test_stream_helper(claude, model):
    with claude.messages.stream(model=model, messages=ASK, max_tokens=12, extra_body=GREEDY) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert final.content[0].text == text and final.stop_reason == "max_tokens" and final.usage.input_tokens > 0


def test_stop_sequence(claude, model):
    text = claude.messages.create(model=model, messages=ASK, max_tokens=16, extra_body=GREEDY).content[0].text
    stop = text.split()[3]
    got = claude.messages.create(model=model, messages=ASK, max_tokens=16, extra_body=GREEDY, stop_sequences=[stop])
    assert got.stop_reason == "stop_sequence" and got.stop_sequence == stop and stop not in got.content[0].text


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "get_weather"}], ids=["any", "named"])
def test_tools(claude, model, choice):
    got = claude.messages.create(model=model, messages=ASK, tools=[TOOL], tool_choice=choice, max_tokens=64, extra_body=GREEDY)
    use = next(b for b in got.content if b.type == "tool_use")
    assert got.stop_reason == "tool_use" and use.name == "get_weather" and use.input["city"] in ("Oslo", "Paris")
    after = ASK + [{"role": "assistant", "content": got.content},
                   {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "sunny"}]}]
    assert claude.messages.create(model=model, messages=after, tools=[TOOL], max_tokens=4).content


def test_tools_stream_helper(claude, model):
    with claude.messages.stream(model=model, messages=ASK, tools=[TOOL], tool_choice={"type": "any"}, max_tokens=64, extra_body=GREEDY) as stream:
        partial = "".join(e.partial_json for e in stream if e.type == "input_json")
        final = stream.get_final_message()
    assert json.loads(partial) == next(b for b in final.content if b.type == "tool_use").input


def test_thinking(claude, model):
    asked = dict(model=model, messages=ASK, max_tokens=1100, extra_body=GREEDY, stop_sequences=["."],
                 thinking={"type": "enabled", "budget_tokens": 1024})
    got = claude.messages.create(**asked)
    assert [b.type for b in got.content][0] == "thinking" and got.content[0].thinking
    with claude.messages.stream(**asked) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_message()
    assert "thinking" in kinds and final.content[0].thinking == got.content[0].thinking
    after = ASK + [{"role": "assistant", "content": got.content}, {"role": "user", "content": "More."}]
    assert claude.messages.create(model=model, messages=after, max_tokens=4).content


def test_count_tokens(claude, model):
    counted = claude.messages.count_tokens(model=model, messages=ASK, system="Be short.", tools=[TOOL]).input_tokens
    assert counted == claude.messages.create(model=model, messages=ASK, system="Be short.", tools=[TOOL], max_tokens=1).usage.input_tokens


@pytest.mark.parametrize("changes, error", [
    ({"model": "no-such-model"}, anthropic.NotFoundError),
    ({"extra_body": {"temperature": 9}}, anthropic.BadRequestError),
    ({"messages": []}, anthropic.BadRequestError),
    ({"max_tokens": -1}, anthropic.BadRequestError),
], ids=["model", "range", "empty", "tokens"])
def test_errors(claude, model, changes, error):
    with pytest.raises(error) as caught:
        claude.messages.create(**({"model": model, "messages": ASK, "max_tokens": 4} | changes))
    assert caught.value.body["type"] == "error" and caught.value.body["error"]["type"] and caught.value.request_id


def test_other_errors(base_url, claude, model):
    with anthropic.Anthropic(base_url=base_url, api_key="wrong", max_retries=0) as stranger, pytest.raises(anthropic.AuthenticationError):
        stranger.messages.create(model=model, messages=ASK, max_tokens=1)
    with pytest.raises(anthropic.APITimeoutError):
        claude.with_options(timeout=0.002).messages.create(
            model=model, messages=ASK, max_tokens=1500)
