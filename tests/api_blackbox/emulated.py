#!/usr/bin/env python3
"""Serves a model from a binary for other processors under an emulator, once for each processor that is named, and asks it.

usage: tests/api_blackbox/emulated.py [--met build/aarch64-met/met] [--model MODEL] [--only SET]

The default model is the tiny checkpoint ../shared/goldens/llama-a: its greedy tokens must be those of the reference. Any
other model must go on with a sentence of which one word is known. Where the binary or the model is absent, one line says so.
"""
import argparse
import json
import pathlib
import sys
import urllib.request

from serving import ROOT, Server

GOLDEN = ROOT.parent / "shared" / "goldens" / "llama-a"
EMULATOR = "qemu-aarch64-static -L /usr/aarch64-linux-gnu -cpu"
PROCESSORS = {"generic": "cortex-a53", "dotprod": "neoverse-n1", "i8mm": "max"}


def ask(server, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", json.dumps(body).encode(),
                                     {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=3600) as answer:
        return json.load(answer)


def chat(server, text, tokens):
    answer = ask(server, "/v1/chat/completions",
                 {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": tokens})
    assert answer["usage"]["completion_tokens"] > 0, answer
    return answer["choices"][0]["message"]["content"]


def check_golden(server):
    """The reference's greedy continuations of its prompts, token by token, and a chat completion."""
    for prompt in json.loads((GOLDEN / "golden.json").read_text())["prompts"]:
        if "greedy_ids" not in prompt:
            continue
        answer = ask(server, "/v1/completions", {"prompt": prompt["ids"], "temperature": 0, "ignore_eos": True,
                                                 "max_tokens": len(prompt["greedy_ids"]), "return_token_ids": True})
        assert answer["choices"][0]["token_ids"] == prompt["greedy_ids"], (prompt["name"], answer)
    return repr(chat(server, "Hello", 8))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--met", default=ROOT / "build" / "aarch64-met" / "met", type=pathlib.Path)
    parser.add_argument("--model", default=GOLDEN, type=pathlib.Path)
    parser.add_argument("--only", choices=PROCESSORS)
    options = parser.parse_args()
    for what in (options.met, options.model):
        if not what.exists():
            print(f"emulated: skipped, {what} is absent")
            return 0
    for isa, processor in PROCESSORS.items():
        if options.only not in (None, isa):
            continue
        command = [*EMULATOR.split(), processor, options.met]
        flags = ["--cpu-activations", "f32"] if options.model == GOLDEN else ["--step-timeout-s", "3600"]
        with Server(command, options.model, "--threads", "2", "--max-seq-len", "512", *flags) as server:
            assert any(f", {isa}, 2 threads" in line for line in server.log), "".join(server.log)
            if options.model == GOLDEN:
                said = check_golden(server)
            else:
                said = ask(server, "/v1/completions", {"prompt": "The capital of France is the city of", "temperature": 0,
                                                       "max_tokens": 3})["choices"][0]["text"]
                assert "Paris" in said, said
            print(f"emulated: {processor} runs {isa}: {said}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
