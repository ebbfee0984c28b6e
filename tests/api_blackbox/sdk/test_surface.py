"""What else the official clients offer: asynchronous clients, beta resources, runners, parsers, and what is refused."""
import asyncio
import json
from typing import Literal

import anthropic
import openai
import pytest
from pydantic import BaseModel

ASK = [{"role": "user", "content": "Name three rivers."}]
GREEDY = {"temperature": 0}


class Verdict(BaseModel):
    answer: Literal["yes", "no"]


class City(BaseModel):
    """The weather of a city."""
    name: Literal["Oslo", "Paris"]


# ---- openai

def test_asynchronous_client(base_url, oai, model):
    async def work():
        async with openai.AsyncOpenAI(base_url=base_url + "/v1", api_key=oai.api_key, max_retries=0, timeout=60) as client:
            chunks = [c async for c in await client.chat.completions.create(model=model, messages=ASK, max_tokens=8, temperature=0, stream=True)]
            async with client.responses.stream(model=model, input=ASK, max_output_tokens=16, temperature=0) as stream:
                kinds = [event.type async for event in stream]
            plain = await asyncio.gather(*(client.chat.completions.create(model=model, messages=ASK, max_tokens=8, temperature=0) for _ in range(3)))
            return chunks, kinds, [p.choices[0].message.content for p in plain]
    chunks, kinds, plain = asyncio.run(work())
    assert {"".join(c.choices[0].delta.content or "" for c in chunks)} == set(plain)
    assert kinds[0] == "response.created" and kinds[-1] in ("response.completed", "response.incomplete")


def test_lines_of_a_streaming_response(oai, model):
    with oai.chat.completions.with_streaming_response.create(model=model, messages=ASK, max_tokens=3, stream=True) as response:
        lines = [line for line in response.iter_lines() if line]
    assert lines[-1] == "data: [DONE]" and all(json.loads(line[6:])["object"] == "chat.completion.chunk" for line in lines[:-1])


def test_structure_beside_tools_in_a_stream(oai, model):
    with oai.chat.completions.stream(model=model, messages=ASK, tools=[openai.pydantic_function_tool(City)], response_format=Verdict,
                                     max_tokens=64, temperature=0) as stream:
        kinds = {event.type for event in stream}
        message = stream.get_final_completion().choices[0].message
    assert "chunk" in kinds
    assert isinstance(message.parsed, Verdict) or isinstance(message.tool_calls[0].function.parsed_arguments, City)


def test_responses_parse_with_tools(oai, model):
    got = oai.responses.parse(model=model, input=ASK, tools=[openai.pydantic_function_tool(City)], tool_choice="required",
                              max_output_tokens=64, temperature=0)
    call = next(item for item in got.output if item.type == "function_call")
    assert isinstance(call.parsed_arguments, City)
    with oai.responses.stream(model=model, input=ASK, tools=[openai.pydantic_function_tool(City)], tool_choice="required",
                              max_output_tokens=64, temperature=0) as stream:
        final = stream.get_final_response()
    assert isinstance(next(item for item in final.output if item.type == "function_call").parsed_arguments, City)


def test_beta_responses(oai, model):
    made = oai.beta.responses.create(model=model, input="Name three rivers.", max_output_tokens=16)
    assert oai.beta.responses.retrieve(made.id).id == made.id
    assert [i.type for i in oai.beta.responses.input_items.list(made.id)] == ["message"]
    assert oai.beta.responses.input_tokens.count(model=model, input="Name three rivers.").input_tokens == made.usage.input_tokens


def test_completion_stream_with_usage(oai, model):
    chunks = list(oai.completions.create(model=model, prompt="One two", max_tokens=4, n=2, stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 8
    assert {c.choices[0].index for c in chunks[:-1]} == {0, 1}


def test_best_of_beyond_the_batch_is_refused_under_its_own_name(oai, model):
    with pytest.raises(openai.BadRequestError, match="best_of is 8") as caught:
        oai.completions.create(model=model, prompt="One two", best_of=8, max_tokens=1)
    assert caught.value.param == "best_of"


def test_ignore_eos_holds_beside_a_strict_tool(oai, model):
    tool = {"type": "function", "function": {"name": "f", "strict": True, "parameters": {"type": "object", "properties": {}}}}
    answer = oai.chat.completions.create(model=model, messages=[{"role": "user", "content": "Say hello."}], tools=[tool],
                                         temperature=0, max_tokens=60, extra_body={"ignore_eos": True})
    assert (answer.choices[0].finish_reason, answer.usage.completion_tokens) == ("length", 60)


def test_allowed_ids_do_not_forbid_what_the_server_forces(oai, model):
    """The server bounds reasoning at 12 tokens and closes it with tokens that the request does not name."""
    answer = oai.chat.completions.create(model=model, messages=[{"role": "user", "content": "Say hello."}], temperature=0, max_tokens=30,
                                         extra_body={"enable_thinking": True, "allowed_token_ids": [28, 29, 30]})
    assert answer.usage.completion_tokens == 30 and answer.choices[0].message.content


def test_a_request_that_leaves_no_token_is_the_clients_fault(oai, model):
    with pytest.raises(openai.BadRequestError, match="no token is allowed to follow"):
        oai.chat.completions.create(model=model, messages=[{"role": "user", "content": "Hi."}], max_tokens=8,
                                    extra_body={"guided_regex": "[ab]+", "allowed_token_ids": [28, 29]})


def test_suffix_needs_a_model_that_fills_in(oai, model):
    with pytest.raises(openai.BadRequestError) as caught:
        oai.completions.create(model=model, prompt="def add(", suffix="    return a + b", max_tokens=4)
    assert caught.value.param == "suffix"


def test_images_are_refused_by_place(oai, claude, model):
    picture = "data:image/png;base64,iVBORw0KGgo="
    for ask in (lambda: oai.chat.completions.create(model=model, messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": picture}}]}]),
                lambda: oai.responses.create(model=model, input=[{"role": "user", "content": [{"type": "input_image", "image_url": picture, "detail": "auto"}]}])):
        with pytest.raises(openai.BadRequestError, match="image") as caught:
            ask()
        assert caught.value.param
    with pytest.raises(anthropic.BadRequestError, match="image"):
        claude.messages.create(model=model, max_tokens=4, messages=[{"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}]}])


REFUSED = {
    "embeddings": lambda c: c.embeddings.create(model="m", input="a"),
    "moderations": lambda c: c.moderations.create(input="a"),
    "files": lambda c: c.files.list(),
    "file": lambda c: c.files.retrieve("file-1"),
    "upload of a file": lambda c: c.files.create(file=b"{}", purpose="batch"),
    "batches": lambda c: c.batches.list(),
    "batch": lambda c: c.batches.create(input_file_id="f", endpoint="/v1/responses", completion_window="24h"),
    "images": lambda c: c.images.generate(prompt="a"),
    "speech": lambda c: c.audio.speech.create(input="a", model="m", voice="alloy"),
    "transcription": lambda c: c.audio.transcriptions.create(file=b"a", model="m"),
    "vector stores": lambda c: c.vector_stores.list(),
    "vector store": lambda c: c.vector_stores.retrieve("vs_1"),
    "fine tuning": lambda c: c.fine_tuning.jobs.list(),
    "fine tuning job": lambda c: c.fine_tuning.jobs.retrieve("ft_1"),
    "uploads": lambda c: c.uploads.create(bytes=1, filename="f", mime_type="a/b", purpose="batch"),
    "assistants": lambda c: c.beta.assistants.list(),
    "threads": lambda c: c.beta.threads.create(),
    "thread": lambda c: c.beta.threads.retrieve("thread_1"),
    "evals": lambda c: c.evals.list(),
    "containers": lambda c: c.containers.list(),
    "skills": lambda c: c.skills.list(),
    "videos": lambda c: c.videos.list(),
    "compaction": lambda c: c.responses.compact(model="m", input="a"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_served_says_so(oai, name):
    with pytest.raises(openai.InternalServerError, match="not supported") as caught:
        REFUSED[name](oai)
    assert caught.value.status_code == 501


def test_models_stay(oai, model):
    with pytest.raises(openai.APIStatusError, match="not allowed") as caught:
        oai.models.delete(model)
    assert caught.value.status_code == 405


# ---- anthropic

def test_claude_parse(claude, model):
    got = claude.messages.parse(model=model, messages=ASK, max_tokens=64, output_format=Verdict, extra_body=GREEDY)
    assert isinstance(got.parsed_output, Verdict)
    with claude.messages.stream(model=model, messages=ASK, max_tokens=64, output_format=Verdict, extra_body=GREEDY) as stream:
        assert isinstance(stream.get_final_message().parsed_output, Verdict)
    assert isinstance(claude.beta.messages.parse(model=model, messages=ASK, max_tokens=64, output_format=Verdict, extra_body=GREEDY).parsed_output, Verdict)


def test_claude_tool_runner(claude, model):
    asked = []

    @anthropic.beta_tool
    def get_weather(city: Literal["Oslo", "Paris"]) -> str:
        """Weather of a city."""
        asked.append(city)
        return "sunny"

    runner = claude.beta.messages.tool_runner(model=model, messages=ASK, tools=[get_weather], tool_choice={"type": "any"}, max_tokens=64,
                                              max_iterations=2, extra_body=GREEDY)
    answers = list(runner)
    assert len(answers) == 2 and set(asked) <= {"Oslo", "Paris"} and asked
    streamed = claude.beta.messages.tool_runner(model=model, messages=ASK, tools=[get_weather], tool_choice={"type": "any"}, max_tokens=64,
                                                max_iterations=1, stream=True, extra_body=GREEDY)
    for stream in streamed:
        assert stream.get_final_message().stop_reason == "tool_use"


def test_claude_beta_messages(claude, model):
    got = claude.beta.messages.create(model=model, messages=ASK, max_tokens=4, betas=["context-management-2025-06-27"])
    assert got.content[0].type == "text"
    assert claude.beta.messages.count_tokens(model=model, messages=ASK).input_tokens == got.usage.input_tokens + (got.usage.cache_read_input_tokens or 0)
    with claude.beta.messages.stream(model=model, messages=ASK, max_tokens=4) as stream:
        assert "".join(stream.text_stream) == stream.get_final_text()


def test_claude_models(claude, model):
    listed = list(claude.models.list(limit=1))
    assert [m.id for m in listed] == [model] and listed[0].type == "model" and listed[0].display_name and listed[0].created_at.year > 2000
    assert claude.models.retrieve(model).id == model and claude.beta.models.retrieve(model).id == model
    with pytest.raises(anthropic.NotFoundError):
        claude.models.retrieve("no-such-model")


def test_claude_asynchronous_client(base_url, claude, model):
    async def work():
        async with anthropic.AsyncAnthropic(base_url=base_url, api_key=claude.api_key, max_retries=0, timeout=60) as client:
            async with client.messages.stream(model=model, messages=ASK, max_tokens=8, extra_body=GREEDY) as stream:
                text = "".join([t async for t in stream.text_stream])
            return text, (await client.messages.create(model=model, messages=ASK, max_tokens=8, extra_body=GREEDY)).content[0].text
    text, plain = asyncio.run(work())
    assert text == plain


CLAUDE_REFUSED = {
    "batches": lambda c: c.messages.batches.list(),
    "batch": lambda c: c.messages.batches.create(requests=[{"custom_id": "a", "params": {"model": "m", "max_tokens": 1, "messages": ASK}}]),
    "one batch": lambda c: c.messages.batches.retrieve("b"),
    "end of a batch": lambda c: c.messages.batches.cancel("b"),
    "results": lambda c: c.messages.batches.results("b"),
    "no batch": lambda c: c.messages.batches.delete("b"),
    "files": lambda c: c.beta.files.list(),
    "skills": lambda c: c.beta.skills.list(),
    "agents": lambda c: c.beta.agents.list(),
    "sessions": lambda c: c.beta.sessions.list(),
}


@pytest.mark.parametrize("name", CLAUDE_REFUSED)
def test_claude_what_is_not_served_says_so(claude, name):
    with pytest.raises(anthropic.InternalServerError, match="not supported") as caught:
        CLAUDE_REFUSED[name](claude)
    assert caught.value.status_code == 501 and caught.value.body["type"] == "error"
