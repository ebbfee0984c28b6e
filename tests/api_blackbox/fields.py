#!/usr/bin/env python3
"""Every request field of the official `openai` and `anthropic` packages, and of vLLM and llama.cpp by name, against `met serve`.

usage: tests/api_blackbox/fields.py [--met build/release/met] [--model FILE]

Each field has one verdict here: it works, it is neutral (the text is the same with it), or it is refused with a 400 whose
`param` names it. A field of the packages without a verdict fails; so does one that the server no longer reads, because
then its name stands in `x-met-ignored-fields`. The packages are those of sdk.py.
"""
import argparse
import importlib
import json
import os
import pathlib
import sys
import typing
import urllib.error
import urllib.request

import sdk
from serving import ROOT, Server

MESSAGES = [{"role": "user", "content": "Hi."}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
FLAT_TOOL = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
CLAUDE_TOOL = {"name": "f", "input_schema": {"type": "object", "properties": {}}}


class Works:
    """`value` is taken; `wrong` is refused by name, which shows that the field is read. `rest`: members that it needs."""
    def __init__(self, value, wrong=None, **rest):
        self.value, self.wrong, self.rest = value, wrong, rest


class Neutral(Works):
    """The same, and the text does not depend on it."""


class Refused:
    def __init__(self, value, **rest):
        self.value, self.rest = value, rest


class Wire:
    """Not a member of the body: the package sends it elsewhere."""


CHAT = {
    "messages": Works(MESSAGES, "x"), "model": Works(None, 5), "frequency_penalty": Works(0.5, "x"), "presence_penalty": Works(0.5, "x"),
    "temperature": Works(0, "x"), "top_p": Works(0.5, "x"), "logit_bias": Works({"5": 1}, "x"), "seed": Works(1, "x"), "n": Works(2, 0),
    "max_tokens": Works(1, 0), "max_completion_tokens": Works(1, 0), "stop": Works(["a"], 5), "logprobs": Works(True, 5),
    "top_logprobs": Works(2, 21, logprobs=True), "stream": Works(True, 5), "stream_options": Works({"include_usage": True}, 5, stream=True),
    "reasoning_effort": Works("low", "vast"), "response_format": Works({"type": "json_object"}, {"type": "xml"}), "store": Works(True, 5),
    "metadata": Works({"a": "b"}, 5), "tools": Works([TOOL], 5), "tool_choice": Works("none", "x", tools=[TOOL]),
    "parallel_tool_calls": Works(False, 5), "functions": Works([TOOL["function"]], 5), "function_call": Works("none", 5),
    "modalities": Works(["text"], ["audio"]), "verbosity": Neutral("low", "vast"), "service_tier": Neutral("auto", "golden"),
    "user": Neutral("u", 5), "safety_identifier": Neutral("u", 5), "prompt_cache_key": Neutral("u", 5),
    "prompt_cache_retention": Neutral("24h", 5), "prompt_cache_options": Neutral({"mode": "implicit"}, 5),
    "prediction": Neutral({"type": "content", "content": "x"}, 5), "audio": Refused({"voice": "alloy", "format": "wav"}),
    "web_search_options": Refused({"search_context_size": "low"}), "moderation": Refused({"mode": "score"}),
}
COMPLETION = {name: CHAT[name] for name in ("model", "frequency_penalty", "presence_penalty", "temperature", "top_p", "logit_bias", "seed",
                                            "n", "stop", "stream", "stream_options", "user")} | {
    "prompt": Works(["a", "b"], 5), "max_tokens": Works(1, -1), "best_of": Works(2, 0), "echo": Works(True, 5), "logprobs": Works(2, 21),
    "suffix": Refused("the end"),
}
RESPONSES = {name: CHAT[name] for name in ("model", "temperature", "top_p", "metadata", "parallel_tool_calls", "stream", "user",
                                           "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options",
                                           "service_tier")} | {
    "input": Works([{"role": "user", "content": "Hi."}], 5), "instructions": Works("Be brief.", 5), "store": Works(False, 5),
    "max_output_tokens": Works(1, 0), "max_tool_calls": Neutral(1, 0), "background": Works(True, 5), "truncation": Works("auto", "x"),
    "include": Works(["message.output_text.logprobs"], ["x"]), "top_logprobs": Works(2, 21), "text": Works({"verbosity": "low"}, 5),
    "reasoning": Works({"effort": "low"}, 5), "tools": Works([FLAT_TOOL], 5), "tool_choice": Works("none", "x", tools=[FLAT_TOOL]),
    "stream_options": Neutral({"include_obfuscation": False}, 5, stream=True), "previous_response_id": Works(None, "resp_none"),
    "conversation": Works(None, 5), "background_options": Neutral({"completion_window": "soonest"}, 5),
    "image": Neutral({"context_compression": "auto"}, 5), "prompt": Refused({"id": "p"}), "moderation": Refused({"mode": "score"}),
    "context_management": Refused([{"type": "compaction"}]), "access_programs": Refused({"cyber": "standard"}),
}
COUNT = {
    "messages": Works(MESSAGES, "x"), "model": Works(None, 5), "system": Works("Be brief.", 5), "tools": Works([CLAUDE_TOOL], 5),
    "tool_choice": Works({"type": "none"}, {"type": "x"}, tools=[CLAUDE_TOOL]), "thinking": Works({"type": "disabled"}, {"type": "x"}),
    "output_config": Works({"effort": "low"}, {"effort": "vast"}), "cache_control": Neutral({"type": "ephemeral"}, 5),
    "speed": Neutral("standard", "slow"), "user_profile_id": Neutral("u", 5), "workspace_id": Neutral("w", 5),
}
CLAUDE = COUNT | {
    "max_tokens": Works(1, 0), "stop_sequences": Works(["a"], 5), "stream": Works(True, 5), "metadata": Neutral({"user_id": "u"}, 5),
    "service_tier": Neutral("auto", "golden"), "inference_geo": Neutral("eu", 5), "container": Refused("c"),
    "diagnostics": Refused({"previous_message_id": "m"}),
}
CLAUDE_BETA = CLAUDE | {
    "betas": Neutral(["x"], 5), "mcp_servers": Refused([{"type": "url", "url": "http://x", "name": "x"}]),
    "context_management": Works({"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}, {"edits": [{"type": "x"}]}), "compaction": Refused({"type": "x"}), "thread": Refused({"type": "create"}),
    "fallbacks": Refused([{"model": "x"}]), "fallback_credit_token": Refused("x"), "billing_policy": Refused({"bill_to": "x"}),
}
CONVERSATION = {"items": Works([{"role": "user", "content": "Hi."}], 5), "metadata": Works({"a": "b"}, 5)}
# vLLM's, SGLang's and llama.cpp's, on chat and completions
FOREIGN = {
    "top_k": Works(5, "x"), "min_p": Works(0.1, 2), "repetition_penalty": Works(1.1, 0), "repeat_penalty": Works(1.1, 0),
    "stop_token_ids": Works([5], 5), "ignore_eos": Works(True, 5), "min_tokens": Works(1, -1), "include_stop_str_in_output": Works(True, 5),
    "no_stop_trim": Works(True, 5), "bad_words": Works(["a"], 5), "allowed_token_ids": Works([5, 6], []), "prompt_logprobs": Works(1, 21),
    "return_token_ids": Works(True, 5), "return_tokens_as_token_ids": Works(True, 5), "structured_outputs": Works({"choice": ["a"]}, 5), "guided_json": Works({"type": "null"}, 5),
    "guided_regex": Works("a", 5), "guided_choice": Works(["a"], 5), "guided_grammar": Works('root ::= "a"', 5), "regex": Works("a", 5),
    "ebnf": Works('root ::= "a"', 5), "grammar": Works('root ::= "a"', 5), "json_schema": Works({"type": "null"}, 5),
    "guided_decoding_backend": Neutral("auto", 5), "priority": Works(1, "x"), "cache_salt": Works("s", ""), "timeout": Works(60, 0),
    "truncate_prompt_tokens": Works(1, 0), "add_special_tokens": Works(False, 5), "skip_special_tokens": Works(False, 5),
    "spaces_between_special_tokens": Neutral(False, 5), "typical_p": Works(0.9, 2), "top_n_sigma": Works(1, "x"),
    "xtc_probability": Works(0.1, 2), "xtc_threshold": Works(0.1, "x"), "dry_multiplier": Works(0.5, -1), "dry_base": Works(1.5, "x"),
    "dry_allowed_length": Works(2, 1.5), "dry_penalty_last_n": Works(-1, -2), "dry_sequence_breakers": Works(["\n"], 5),
    "dynatemp_range": Works(0.1, -1), "dynatemp_exponent": Works(1, -1), "mirostat": Works(2, 3), "mirostat_tau": Works(5, "x"),
    "mirostat_eta": Works(0.1, "x"), "n_predict": Works(1, 0), "cache_prompt": Neutral(True, 5), "id_slot": Neutral(0, -2),
    "n_keep": Neutral(0, -2), "n_discard": Neutral(0, -1), "request_id": Neutral("r", 5), "rid": Neutral("r", 5),
    "skip_reading_prefix_cache": Neutral(True, 5), "mm_processor_kwargs": Neutral({}, 5), "media_io_kwargs": Neutral({}, 5),
    "length_penalty": Neutral(1, "x"), "early_stopping": Neutral(False, 5), "detokenize": Works(True, False),
    "separate_reasoning": Works(True, False), "stream_reasoning": Works(True, False), "parse_tool_calls": Works(True, False),
    "num_beams": Works(1, 4), "repeat_last_n": Works(-1, 64), "min_keep": Works(1, 2), "tfs_z": Works(1, 0.5), "n_probs": Works(0, 3),
    "n_indent": Works(0, 2), "t_max_predict_ms": Works(0, 50), "repetition_detection": Works({"max_pattern_size": 4, "min_count": 3}, {"max_pattern_size": 4}), "reasoning_format": Works("auto", "none"),
} | {name: Refused(value) for name, value in {
    "use_beam_search": True, "adapter": "a", "lora": [{"id": 0}], "lora_path": "a", "logits_processors": ["a"], "vllm_xargs": {"a": 1},
    "custom_logit_processor": "a", "custom_params": {"a": 1}, "kv_transfer_params": {"a": 1}, "session_params": {"id": "a"},
    "return_hidden_states": True, "logprob_token_ids": [1], "guided_whitespace_pattern": " ",
    "grammar_lazy": True, "grammar_triggers": ["a"], "samplers": ["top_k"], "penalize_nl": True, "response_fields": ["a"],
    "timings_per_token": True, "return_progress": True, "post_sampling_probs": True}.items()}
FOREIGN_CHAT = FOREIGN | {
    "chat_template_kwargs": Works({"a": 1}, 5), "continue_final_message": Works(True, 5, messages=MESSAGES + [{"role": "assistant", "content": "A"}]),
    "add_generation_prompt": Works(False, 5), "chat_template": Refused("{{ 1 }}"), "documents": Refused([{"text": "a"}]),
    "thinking": Works(False, "x"), "enable_thinking": Works(False, 5), "thinking_token_budget": Works(5, -1),
    "preserve_thinking": Works(True, 5), "include_reasoning": Works(False, 5),
}
# route, its least body, verdicts, the package's type
GROUPS = [
    ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 1}, CHAT,
     "openai.types.chat.completion_create_params", ("CompletionCreateParamsBase", "CompletionCreateParamsStreaming")),
    ("/v1/completions", {"prompt": "Hi.", "max_tokens": 1}, COMPLETION,
     "openai.types.completion_create_params", ("CompletionCreateParamsBase", "CompletionCreateParamsStreaming")),
    ("/v1/responses", {"input": "Hi.", "max_output_tokens": 1}, RESPONSES,
     "openai.types.responses.response_create_params", ("ResponseCreateParamsBase", "ResponseCreateParamsStreaming")),
    ("/v1/conversations", {}, CONVERSATION, "openai.types.conversations.conversation_create_params", ("ConversationCreateParams",)),
    ("/v1/messages", {"messages": MESSAGES, "max_tokens": 1}, CLAUDE,
     "anthropic.types.message_create_params", ("MessageCreateParamsBase", "MessageCreateParamsStreaming")),
    ("/v1/messages", {"messages": MESSAGES, "max_tokens": 1}, CLAUDE_BETA,
     "anthropic.types.beta.message_create_params", ("MessageCreateParamsBase", "MessageCreateParamsStreaming")),
    ("/v1/messages/count_tokens", {"messages": MESSAGES}, COUNT, "anthropic.types.message_count_tokens_params", ("MessageCountTokensParams",)),
    ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 1}, FOREIGN_CHAT, None, ()),
    ("/v1/completions", {"prompt": "Hi.", "max_tokens": 1}, FOREIGN, None, ()),
]


def ask(port, path, body):
    """Status, the names that were ignored, and the answer's text."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, (answer.headers.get("x-met-ignored-fields") or "").split(","), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, [], error.read().decode()


def check_value(port, path, body, name, verdict):
    """What is wrong with one field, or nothing."""
    with_value = lambda value: body | verdict.rest | {name: value}
    if isinstance(verdict, Refused) or verdict.wrong is not None:
        status, _, text = ask(port, path, with_value(verdict.value if isinstance(verdict, Refused) else verdict.wrong))
        error = json.loads(text).get("error", {}) if status != 200 else {}
        if status not in (400, 404) or (error.get("param") != name and name not in error.get("message", "")):
            return f"must be refused by name, got {status} {text[:160]}"
    if isinstance(verdict, Refused):
        return None
    status, ignored, text = ask(port, path, with_value(verdict.value))
    if status != 200 or name in ignored:
        return f"must be taken, got {status}, ignored: {[x for x in ignored if x]}, {text[:160]}"
    return None


def check(port):
    faults, checked = [], 0
    for path, body, verdicts, module, types in GROUPS:
        names = set()
        for type_name in types:
            names |= set(typing.get_type_hints(getattr(importlib.import_module(module), type_name)))
        faults += [f"{path} {name}: no verdict" for name in sorted(names - set(verdicts))]
        if names:
            faults += [f"{path} {name}: the package no longer has it" for name in sorted(set(verdicts) - names)]
        for name, verdict in verdicts.items():
            checked += 1
            if fault := check_value(port, path, body, name, verdict):
                faults.append(f"{path} {name}: {fault}")
    status, ignored, _ = ask(port, "/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 1, "x_nobody": 1})
    if status != 200 or ignored != ["x_nobody"]:
        faults.append(f"an unknown field must be named: {status} {ignored}")
    return checked, faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--met", default=ROOT / "build" / "release" / "met", type=pathlib.Path)
    parser.add_argument("--model", default=ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf", type=pathlib.Path)
    options = parser.parse_args()
    for what in (options.met, options.model):
        if not what.exists():
            print(f"fields: skipped, {what} is absent")
            return 0
    if pathlib.Path(sys.prefix) != ROOT / "build" / "sdk-venv":
        python = sdk.python_with_clients()
        os.execv(python, [str(python), *sys.argv])
    template = ROOT / "tests" / "api_blackbox" / "chatml_tools.jinja"
    with Server(options.met, options.model, "--max-seq-len", "2048", "--chat-template", template) as server:
        checked, faults = check(server.port)
    print(f"fields: {checked} checked, {len(faults)} wrong")
    for fault in faults:
        print(f"  {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
