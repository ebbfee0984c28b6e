#!/usr/bin/env python3
"""Requests that combine what clients combine, generated from tables, in all routes and several ways to write calls.

usage: tests/api_blackbox/combinations.py [--met build/release/met] [--model FILE] [--requests N] [--seed N]

Judges are the official clients (every object and event is read by them), `jsonschema`, and the answer itself in the other
form: each request is asked whole and streamed, and must give the same. A refusal is a 400 of one sentence in both. A call
that was forced, a strict tool's and a form hold to their schema unless a limit or a stop cut them. The packages are those
of sdk.py.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import sys

import sdk
from serving import ROOT, Server

TEMPLATE = ROOT / "tests" / "api_blackbox" / "chatml_tools.jinja"
THINK = "{%- if add_generation_prompt and enable_thinking is not false -%}{{- '<think>\\n' -}}{%- endif -%}\n"
# name, how calls are written, whether the template opens a thought
SERVERS = [("hermes", "hermes", False), ("thinking", "hermes", True), ("tags", "qwen3_coder", True), ("pythonic", "pythonic", False), ("channels", "harmony", False)]

TOOLS = {
    "get_weather": {"type": "object", "properties": {"city": {"enum": ["Oslo", "Paris"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["city"], "additionalProperties": False},
    "add": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": ["integer", "null"]}, "neg": {"type": "boolean"}}, "required": ["a", "b"]},
    "note": {"type": "object", "properties": {"text": {"type": "string", "maxLength": 12}, "tags": {"type": "array", "items": {"type": "string", "maxLength": 4}, "maxItems": 2}}, "required": ["text", "tags"]},
    "nested": {"type": "object", "properties": {"at": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"enum": [1, "two", None]}}, "required": ["x", "y"]}, "d": {"type": "string", "format": "date"}}, "required": ["at", "d"]},
    "pick": {"type": "object", "properties": {"v": {"anyOf": [{"type": "string", "pattern": "^[a-c]{2,3}$"}, {"type": "integer", "maximum": 99}]}}, "required": ["v"]},
    "kinds": {"anyOf": [{"properties": {"k": {"const": "n"}, "x": {"type": "integer"}}, "required": ["k", "x"]}, {"properties": {"k": {"const": "s"}, "x": {"type": "string", "maxLength": 5}}, "required": ["k", "x"]}]},
    "refused": {"type": "object", "properties": {"u": {"type": "array", "uniqueItems": True}}, "required": ["u"]},
}
SCHEMAS = [
    {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "n": {"type": "integer", "minimum": 0, "maximum": 50}}, "required": ["name", "n"], "additionalProperties": False},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
    {"enum": ["red", 3, None]},
    {"type": "object", "properties": {"d": {"type": "string", "format": "date"}, "e": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}}, "required": ["d", "e"]},
    {"type": "string", "pattern": "^[A-Z][a-z]{2,6} [0-9]{2}$"},
    {"contains": {"type": "integer"}},
]
PROMPTS = ["Name three rivers.", "What is the weather in Oslo and in Paris?", "Say \"hi\" in JSON: {\"a\": 1}", "2+2? <tool_call>", "émoji 🙂 and é?"]
MOST = [1, 2, 5, 16, 60, 90, 90]
FORMS = [({"regex": "[0-9]{3}-[a-f]{2}"}, "[0-9]{3}-[a-f]{2}"), ({"choice": ["Oslo", "Oslo is"]}, "Oslo( is)?"), ({"grammar": 'root ::= "a" [bc]{2,4} "."?'}, r"a[bc]{2,4}\.?")]
# chance, members: each that is drawn joins the body
SAMPLING = [(.2, {"n": 2}), (.25, {"logprobs": True, "top_logprobs": 2}), (.1, {"stop": ["."]}), (.06, {"stop": "}"}), (.06, {"stop": [" ", "\""]}),
            (.1, {"min_tokens": 3}), (.06, {"logit_bias": {"28": -100, "314": 5}}), (.06, {"ignore_eos": True}), (.06, {"echo": True}),
            (.06, {"stop_token_ids": [28]}), (.06, {"repetition_penalty": 1.2}), (.05, {"bad_words": ["the"]}), (.05, {"return_token_ids": True}),
            (.04, {"include_stop_str_in_output": True}), (.03, {"allowed_token_ids": [28, 314, 1000]})]
THINKING = [(.2, {"chat_template_kwargs": {"enable_thinking": False}}), (.5, {"thinking_token_budget": 4}), (.15, {"reasoning_effort": "low"}), (.15, {"include_reasoning": False})]


def joined(rng, table):
    body = {}
    for chance, members in table:
        if rng.random() < chance:
            body |= members
    return body


def named_tools(rng):
    return rng.sample(list(TOOLS), rng.choice([1, 2, 3])) if rng.random() < .7 else []


class Chat:
    def body(self, rng, thinks):
        body = {"messages": [{"role": "user", "content": rng.choice(PROMPTS)}], "max_tokens": rng.choice(MOST), "temperature": 0}
        names = named_tools(rng)
        if names:
            body["tools"] = [{"type": "function", "function": {"name": n, "parameters": TOOLS[n]} | rng.choice([{}, {"strict": True}])} for n in names]
            body |= rng.choice([{}, {"tool_choice": "auto"}, {"tool_choice": "none"}] + 2 * [{"tool_choice": "required"}, {"tool_choice": {"type": "function", "function": {"name": names[0]}}}])
            body |= rng.choice([{}, {"parallel_tool_calls": True}, {"parallel_tool_calls": False}])
        if rng.random() < .35:
            body |= rng.choice([{"response_format": {"type": "json_object"}}, {"structured_outputs": rng.choice(FORMS)[0]}]
                               + 2 * [{"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": rng.choice(SCHEMAS)}}}])
        return body | joined(rng, SAMPLING) | (joined(rng, THINKING) if thinks else {})

    def whole(self, clients, body):
        return clients.post("/v1/chat/completions", body, clients.chat_type)

    def streamed(self, clients, body):
        state = clients.chat_state()
        for chunk in clients.events("/v1/chat/completions", body | {"stream_options": {"include_usage": True}}, clients.chunk_type):
            state.handle_chunk(chunk)
        return state.current_completion_snapshot.to_dict()

    def shown(self, answer):
        """What both forms must share, a choice a row."""
        def message(m):
            calls = [(c["function"]["name"], c["function"]["arguments"]) for c in m.get("tool_calls") or []]
            return m.get("content") or "", m.get("reasoning_content") or m.get("reasoning") or "", calls
        logprobs = lambda c: [(t["token"], round(t["logprob"], 3)) for t in (c.get("logprobs") or {}).get("content") or []]
        return [(*message(c["message"]), c["finish_reason"], logprobs(c)) for c in answer["choices"]], answer["usage"]["completion_tokens"]

    def answers(self, body, answer):
        """(calls with parsed tools, text, whether it ended by itself, forced) for each choice."""
        choice = body.get("tool_choice")
        cut = any(name in body for name in ("stop", "stop_token_ids"))
        forced = bool(body.get("tools")) and (choice == "required" or isinstance(choice, dict))
        for text, _, calls, finish, _ in self.shown(answer)[0]:
            yield calls, text, finish != "length" and not cut, forced

    def strict(self, body):
        return {t["function"]["name"] for t in body.get("tools", []) if t["function"].get("strict")}

    def form(self, body):
        form = body.get("response_format", {})
        if form.get("type") == "json_object":
            return {"type": "object"}
        return form.get("json_schema", {}).get("schema")

    def pattern(self, body):
        return next((pattern for form, pattern in FORMS if form == body.get("structured_outputs")), None)


class Responses(Chat):
    def body(self, rng, thinks):
        body = {"input": rng.choice(PROMPTS), "max_output_tokens": rng.choice(MOST), "temperature": 0, "store": False}
        names = named_tools(rng)
        if names:
            body["tools"] = [{"type": "function", "name": n, "parameters": TOOLS[n], "strict": rng.random() < .5} for n in names]
            body |= rng.choice([{}, {"tool_choice": "none"}, {"tool_choice": "required"}, {"tool_choice": {"type": "function", "name": names[0]}}])
            body |= rng.choice([{}, {"parallel_tool_calls": False}])
        if rng.random() < .35:
            body["text"] = {"format": {"type": "json_schema", "name": "x", "schema": rng.choice(SCHEMAS)}}
        return body | (joined(rng, THINKING[1:3]) if thinks else {})

    def whole(self, clients, body):
        return clients.post("/v1/responses", body, clients.response_type)

    def streamed(self, clients, body):
        last, pieces = None, {}
        for number, event in enumerate(clients.events("/v1/responses", body, clients.response_event)):
            last = event.to_dict()
            assert last["sequence_number"] == number, f"event {number} has the number {last['sequence_number']}"
            if last["type"].endswith(".delta"):
                pieces.setdefault((last["output_index"], last["type"][:-6]), []).append(last["delta"])
            if last["type"] in ("response.output_text.done", "response.function_call_arguments.done"):
                whole = last.get("text", last.get("arguments"))
                assert "".join(pieces.get((last["output_index"], last["type"][:-5]), [])) == whole, f"deltas of {whole!r}"
        assert last["type"] in ("response.completed", "response.incomplete"), last["type"]
        return last["response"]

    def shown(self, answer):
        items = [{k: v for k, v in item.items() if k not in ("id", "call_id")} for item in answer["output"]]
        return items, answer["status"], answer["usage"]["output_tokens"]

    def answers(self, body, answer):
        choice = body.get("tool_choice")
        calls = [(i["name"], i["arguments"]) for i in answer["output"] if i["type"] == "function_call"]
        text = "".join(part["text"] for i in answer["output"] if i["type"] == "message" for part in i["content"])
        yield calls, text, answer["status"] == "completed", bool(body.get("tools")) and (choice == "required" or isinstance(choice, dict))

    def strict(self, body):
        return {t["name"] for t in body.get("tools", []) if t["strict"]}

    def form(self, body):
        return body.get("text", {}).get("format", {}).get("schema")


class Messages(Chat):
    def body(self, rng, thinks):
        body = {"messages": [{"role": "user", "content": rng.choice(PROMPTS)}], "max_tokens": rng.choice(MOST), "temperature": 0}
        names = named_tools(rng)
        if names:
            body["tools"] = [{"name": n, "input_schema": {"type": "object"} | TOOLS[n]} | rng.choice([{}, {"strict": True}]) for n in names]
            body |= rng.choice([{}, {"tool_choice": {"type": "none"}}, {"tool_choice": {"type": "any"}},
                                {"tool_choice": {"type": "tool", "name": names[0], "disable_parallel_tool_use": True}}])
        if rng.random() < .35:
            body["output_config"] = {"format": {"type": "json_schema", "schema": rng.choice(SCHEMAS)}}
        return body | joined(rng, [(.2, {"stop_sequences": ["."]})]) | (joined(rng, THINKING[1:2]) if thinks else {})

    def whole(self, clients, body):
        return clients.post("/v1/messages", body, clients.message_type)

    def streamed(self, clients, body):
        snapshot, kinds, buffers = None, [], {}
        for event in clients.events("/v1/messages", body, clients.message_event):
            kinds.append(event.type)
            snapshot = clients.accumulate_event(event=event, current_snapshot=snapshot, json_bufs=buffers)
        assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"], kinds
        return snapshot.to_dict()

    def shown(self, answer):
        cut = answer["stop_reason"] in ("max_tokens", "stop_sequence")  # the input of a cut call has no whole form
        kept = ("type", "text", "thinking", "name") + (() if cut else ("input",))
        return [{k: v for k, v in b.items() if k in kept} for b in answer["content"]], answer["stop_reason"], answer["usage"]["output_tokens"]

    def answers(self, body, answer):
        calls = [(b["name"], json.dumps(b["input"])) for b in answer["content"] if b["type"] == "tool_use"]
        text = "".join(b["text"] for b in answer["content"] if b["type"] == "text")
        forced = bool(body.get("tools")) and body.get("tool_choice", {}).get("type") in ("any", "tool")
        yield calls, text, answer["stop_reason"] in ("end_turn", "tool_use"), forced

    def strict(self, body):
        return {t["name"] for t in body.get("tools", []) if t.get("strict")}

    def form(self, body):
        return body.get("output_config", {}).get("format", {}).get("schema")


class Refused(Exception):
    pass


class Clients:
    """The packages' own types over a plain connection, so that bodies may be wrong."""

    def __init__(self, port):
        import anthropic.lib.streaming._messages as messages
        import httpx2
        from anthropic.types import Message, RawMessageStreamEvent
        from openai.lib.streaming.chat import ChatCompletionStreamState
        from openai.types.chat import ChatCompletion, ChatCompletionChunk
        from openai.types.responses import Response, ResponseStreamEvent
        from pydantic import TypeAdapter
        self.http = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=120)
        self.chat_type, self.chunk_type, self.chat_state = TypeAdapter(ChatCompletion), TypeAdapter(ChatCompletionChunk), ChatCompletionStreamState
        self.response_type, self.response_event = TypeAdapter(Response), TypeAdapter(ResponseStreamEvent)
        self.message_type, self.message_event = TypeAdapter(Message), TypeAdapter(RawMessageStreamEvent)
        self.accumulate_event = messages.accumulate_event

    def ask(self, path, body):
        answer = self.http.post(path, json=body, headers={"anthropic-version": "2023-06-01"} if path == "/v1/messages" else {})
        if answer.status_code == 200:
            return answer.text
        error = answer.json()["error"]
        assert answer.status_code == 400 and error["message"] and "\n" not in error["message"], f"{answer.status_code} {error}"
        raise Refused(error["message"])

    def post(self, path, body, kind):
        answer = json.loads(self.ask(path, body))
        kind.validate_python(answer)
        return answer

    def events(self, path, body, kind):
        for block in self.ask(path, body | {"stream": True}).strip().split("\n\n"):
            data = block[block.index("data: ") + 6:] if "data: " in block else ""
            if data in ("", "[DONE]"):
                continue
            event = json.loads(data)
            if event.get("error"):  # of a request that leaves no token, which shows as it goes
                assert event["error"]["type"] == "invalid_request_error", data
                raise Refused(event["error"]["message"])
            if event.get("type") != "ping":
                yield kind.validate_python(event)


def check_schema(schema, text, what):
    import jsonschema
    checker = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    problem = next((e.message for e in checker.iter_errors(json.loads(text))), None)
    assert problem is None, f"{what} {text[:200]}: {problem}"


def check_answer(route, body, answer):
    choice = body.get("tool_choice")
    for calls, text, ended, forced in route.answers(body, answer):
        assert not (calls and choice in ("none", {"type": "none"})), f"calls though tool_choice is none: {calls}"
        assert len(calls) <= 1 or body.get("parallel_tool_calls") is not False, f"parallel: {calls}"
        if not ended:
            continue
        assert calls or not forced, f"no call: {text!r:.200}"
        for name, arguments in calls:
            if forced or name in route.strict(body):
                check_schema(TOOLS[name], arguments, name)
        if not calls and route.form(body) is not None:
            check_schema(route.form(body), text, "form")
        if not calls and route.pattern(body) is not None:
            assert re.fullmatch(route.pattern(body), text), f"form: {text!r}"


def outcome(ask):
    try:
        return ask(), None
    except Refused as refusal:
        return None, str(refusal)


def fault_of(clients, route, body):
    """What is wrong with the answers to one body; nothing where nothing is."""
    try:
        whole, refusal = outcome(lambda: route.whole(clients, body))
        streamed, streamed_refusal = outcome(lambda: route.streamed(clients, body))
        assert refusal == streamed_refusal, f"refused: {refusal} / streamed: {streamed_refusal}"
        if whole is not None:
            check_answer(route, body, whole)
            assert route.shown(whole) == route.shown(streamed), f"{route.shown(whole)} / streamed: {route.shown(streamed)}"
        return None
    except Exception as problem:  # of any kind: the run goes on and tells which body it was
        return f"{type(problem).__name__}: {str(problem)[:900]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--met", default=ROOT / "build" / "release" / "met", type=pathlib.Path)
    parser.add_argument("--model", default=ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf", type=pathlib.Path)
    parser.add_argument("--requests", default=20, type=int, help="for each server, each asked in both forms")
    parser.add_argument("--seed", default=5, type=int)
    options = parser.parse_args()
    for what in (options.met, options.model):
        if not what.exists():
            print(f"combinations: skipped, {what} is absent")
            return 0
    if pathlib.Path(sys.prefix) != ROOT / "build" / "sdk-venv":
        python = sdk.python_with_clients()
        os.execv(python, [str(python), *sys.argv])
    thinking = ROOT / "build" / "combinations.jinja"
    thinking.write_text(TEMPLATE.read_text() + THINK)
    faults = 0
    for name, parser_name, thinks in SERVERS:
        flags = ("--max-seq-len", "2048", "--chat-template", thinking if thinks else TEMPLATE, "--tool-call-parser", parser_name)
        with Server(options.met, options.model, *flags) as server, concurrent.futures.ThreadPoolExecutor(4) as pool:
            clients = Clients(server.port)
            rng = random.Random(f"{options.seed} {name}")
            asked = [(route, route.body(rng, thinks)) for route in rng.choices([Chat(), Responses(), Messages()], [3, 1, 1], k=options.requests)]
            for (route, body), fault in zip(asked, pool.map(lambda one: fault_of(clients, *one), asked)):
                if fault:
                    faults += 1
                    print(f"{name}, {type(route).__name__}: {fault}\n  {json.dumps(body)}")
    print(f"combinations: {options.requests * len(SERVERS)} requests in two forms, {faults} wrong")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
