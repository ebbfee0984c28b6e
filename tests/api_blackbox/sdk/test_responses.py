"""Responses and Conversations through the official openai client."""
import re
import time
from typing import Literal

import openai
import pytest
from pydantic import BaseModel

TOOL = {"type": "function", "name": "get_weather", "strict": True,
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Oslo", "Paris"]}}, "required": ["city"],
                       "additionalProperties": False}}


class Verdict(BaseModel):
    answer: Literal["yes", "no"]


def ended(oai, response):
    """Polls a background response until it has ended."""
    deadline = time.monotonic() + 60
    while response.status in ("queued", "in_progress") and time.monotonic() < deadline:
        time.sleep(0.05)
        response = oai.responses.retrieve(response.id)
    return response


def test_create_and_chain(oai, model):
    first = oai.responses.create(model=model, input="Name three rivers.", max_output_tokens=16, temperature=0, instructions="Be short.")
    assert first.object == "response" and first.output_text and first.status in ("completed", "incomplete")
    assert first.usage.total_tokens == first.usage.input_tokens + first.usage.output_tokens
    second = oai.responses.create(model=model, input="And three more.", previous_response_id=first.id, max_output_tokens=16)
    assert second.previous_response_id == first.id and second.usage.input_tokens > first.usage.input_tokens
    assert oai.responses.retrieve(second.id).output_text == second.output_text
    assert [i.type for i in oai.responses.input_items.list(first.id)] == ["message"]
    assert oai.responses.input_tokens.count(model=model, input="Name three rivers.", instructions="Be short.").input_tokens \
        == first.usage.input_tokens
    oai.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        oai.responses.retrieve(first.id)


def test_stream(oai, model):
    events = list(oai.responses.create(model=model, input="Name three rivers.", max_output_tokens=16, temperature=0, stream=True))
    assert [e.sequence_number for e in events] == list(range(len(events)))
    assert events[0].type == "response.created" and events[-1].type in ("response.completed", "response.incomplete")
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert text == events[-1].response.output_text


def test_stream_helper(oai, model):
    with oai.responses.stream(model=model, input="Say yes or no.", max_output_tokens=64, temperature=0, text_format=Verdict) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_response()
    assert "response.output_text.delta" in kinds and isinstance(final.output_parsed, Verdict)
    assert oai.responses.retrieve(final.id).output_text == final.output_text  # what was streamed is stored


def test_parse(oai, model):
    got = oai.responses.parse(model=model, input="Say yes or no.", text_format=Verdict, max_output_tokens=64, temperature=0)
    assert isinstance(got.output_parsed, Verdict)


def test_tools(oai, model):
    got = oai.responses.create(model=model, input="How is Oslo?", tools=[TOOL], tool_choice="required", max_output_tokens=64, temperature=0)
    call = next(item for item in got.output if item.type == "function_call")
    assert call.name == "get_weather" and call.status == "completed"
    after = oai.responses.create(model=model, previous_response_id=got.id, tools=[TOOL], max_output_tokens=16,
                                 input=[{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}])
    assert after.status in ("completed", "incomplete")


def test_tools_stream_helper(oai, model):
    with oai.responses.stream(model=model, input="How is Oslo?", tools=[TOOL], tool_choice="required", max_output_tokens=64,
                              temperature=0) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_response()
    assert {"response.function_call_arguments.delta", "response.function_call_arguments.done"} <= kinds
    assert any(item.type == "function_call" for item in final.output)


def test_custom_tool(oai, model):
    tool = {"type": "custom", "name": "set_date", "format": {"type": "grammar", "syntax": "regex", "definition": "20[0-9]{2}-0[1-9]"}}
    with oai.responses.stream(model=model, input="March 2024.", tools=[tool], tool_choice={"type": "custom", "name": "set_date"},
                              max_output_tokens=64, temperature=0) as stream:
        told = "".join(event.delta for event in stream if event.type == "response.custom_tool_call_input.delta")
        final = stream.get_final_response()
    call = next(item for item in final.output if item.type == "custom_tool_call")
    assert call.name == "set_date" and re.fullmatch(tool["format"]["definition"], call.input) and told == call.input
    after = oai.responses.create(model=model, previous_response_id=final.id, tools=[tool], tool_choice="none", max_output_tokens=8,
                                 input=[{"type": "custom_tool_call_output", "call_id": call.call_id, "output": "done"}])
    assert after.status in ("completed", "incomplete")
    with pytest.raises(openai.BadRequestError, match="lark"):
        oai.responses.create(model=model, input="a", tools=[{**tool, "format": {"type": "grammar", "syntax": "lark", "definition": "start: \"a\""}}])


def test_item_reference(oai, model):
    first = oai.responses.create(model=model, input="Name three rivers.", max_output_tokens=8, temperature=0)
    whole = [{"role": "user", "content": "Name three rivers."}, {"role": "assistant", "content": first.output_text}]
    after = {"role": "user", "content": "And one more."}
    referred = [{"type": "item_reference", "id": item.id} for item in [*oai.responses.input_items.list(first.id), *first.output]]
    counts = [oai.responses.input_tokens.count(model=model, input=[*items, after]).input_tokens for items in (whole, referred)]
    assert counts[0] == counts[1]
    with pytest.raises(openai.NotFoundError):
        oai.responses.create(model=model, input=[{"type": "item_reference", "id": "msg_none"}])


def test_background(oai, model):
    made = oai.responses.create(model=model, input="Name three rivers.", max_output_tokens=16, background=True)
    assert made.background and made.status in ("queued", "in_progress", "completed", "incomplete")
    assert ended(oai, made).status in ("completed", "incomplete")


def test_background_cancel(oai, model):
    made = oai.responses.create(model=model, input="Tell a long story.", max_output_tokens=1500, background=True,
                                extra_body={"ignore_eos": True})
    assert oai.responses.cancel(made.id).status == "cancelled"
    assert oai.responses.retrieve(made.id).status == "cancelled"


def test_background_stream_is_taken_up_again(oai, model):
    seen, made = [], None
    for event in oai.responses.create(model=model, input="Name three rivers.", max_output_tokens=24, background=True, stream=True):
        seen.append(event.sequence_number)
        if event.type == "response.created":
            made = event.response.id
        if len(seen) == 4:
            break
    rest = list(oai.responses.retrieve(made, stream=True, starting_after=seen[-1]))
    assert [e.sequence_number for e in rest] == list(range(seen[-1] + 1, seen[-1] + 1 + len(rest)))
    assert rest[-1].type in ("response.completed", "response.incomplete")


def test_background_stream_helper(oai, model):
    with oai.responses.stream(model=model, input="Name three rivers.", max_output_tokens=16, background=True) as stream:
        created = next(iter(stream)).response.id
        last = [event.type for event in stream][-1]
    assert last in ("response.completed", "response.incomplete")
    with oai.responses.stream(response_id=created, starting_after=1) as again:
        assert [event.type for event in again][-1] == last


def test_conversation(oai, model):
    made = oai.conversations.create(metadata={"topic": "rivers"}, items=[{"type": "message", "role": "user", "content": "Hello."}])
    got = oai.responses.create(model=model, conversation=made.id, input="Name three rivers.", max_output_tokens=16)
    assert got.conversation.id == made.id
    items = list(oai.conversations.items.list(made.id, order="asc"))
    assert [i.role for i in items] == ["user", "user", "assistant"]
    assert oai.conversations.items.retrieve(items[0].id, conversation_id=made.id).id == items[0].id
    assert len(oai.conversations.items.create(made.id, items=[{"role": "user", "content": "More."}]).data) == 1
    oai.conversations.items.delete(items[0].id, conversation_id=made.id)
    assert len(list(oai.conversations.items.list(made.id, limit=1))) == 3  # pages of one
    assert oai.conversations.update(made.id, metadata={"topic": "seas"}).metadata == {"topic": "seas"}
    assert oai.conversations.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError):
        oai.conversations.retrieve(made.id)


def test_reasoning(oai, model):
    got = oai.responses.create(model=model, input="Think.", max_output_tokens=40, temperature=0, reasoning={"effort": "low"},
                               extra_body={"enable_thinking": True})
    assert got.output[0].type == "reasoning" and got.usage.output_tokens_details.reasoning_tokens > 0


@pytest.mark.parametrize("changes, error", [
    ({"model": "no-such-model"}, openai.NotFoundError),
    ({"previous_response_id": "resp_none"}, openai.BadRequestError),
    ({"conversation": "conv_none"}, openai.NotFoundError),
    ({"max_output_tokens": 0}, openai.BadRequestError),
    ({"input": [{"type": "function_call_output", "call_id": "none", "output": "x"}]}, openai.BadRequestError),
], ids=["model", "previous", "conversation", "range", "orphan output"])
def test_errors(oai, model, changes, error):
    with pytest.raises(error) as caught:
        oai.responses.create(**({"model": model, "input": "Hi.", "max_output_tokens": 16} | changes))
    assert caught.value.body["message"]
