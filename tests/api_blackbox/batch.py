#!/usr/bin/env python3
"""Many greedy streams at once: each must end, and its text must equal the text that it has alone (rule D5).

usage: tests/api_blackbox/batch.py [--met build/release/met] [--model FILE] [--streams 32]
"""
import argparse
import concurrent.futures
import json
import sys
import urllib.request

from serving import ROOT, Server

WORDS = "river stone lamp winter garden engine paper cloud violin harbour salt mirror".split()


def ask(port, i):
    """Streams one completion of a prompt of its own length; returns its text."""
    prompt = " ".join(WORDS[(i * 7 + j * 5) % len(WORDS)] for j in range(3 + 11 * (i % 9)))
    body = {"prompt": f"A story about {prompt}:", "max_tokens": 24 + i % 17, "temperature": 0, "stream": True}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    text, ended = "", False
    with urllib.request.urlopen(request, timeout=300) as answer:
        for line in answer:
            if line.strip() == b"data: [DONE]":
                ended = True
            elif line.startswith(b"data: "):
                text += "".join(c["text"] for c in json.loads(line[6:])["choices"])
    if not ended:
        raise SystemExit(f"stream {i} did not end")
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--met", default=ROOT / "build" / "release" / "met")
    parser.add_argument("--model", default=ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--streams", type=int, default=32)
    options = parser.parse_args()
    with Server(options.met, options.model, "--max-seq-len", "2048") as server:
        alone = [ask(server.port, i) for i in range(options.streams)]
        with concurrent.futures.ThreadPoolExecutor(options.streams) as pool:
            together = list(pool.map(lambda i: ask(server.port, i), range(options.streams)))
    different = [i for i in range(options.streams) if alone[i] != together[i]]
    print(f"batch: {options.streams} streams ended, {len(different)} differ from their solo run {different or ''}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
