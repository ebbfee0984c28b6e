#!/usr/bin/env python3
"""The serving core under pressure, from outside: a KV pool that is too small, clients that vanish, shutdown, prefix hits.

usage: tests/api_blackbox/pressure.py [--met build/release/met] [--model FILE] [--disconnects N] [--only NAME]

streams      8 greedy streams in a pool for one and a half of them, by recompute, by swap to host memory and to disk: each text
             is that of its solo run, every request ends, at most 15 % of the tokens are computed again (S14 to S19, S25)
disconnects  clients that leave at random moments: nothing stays behind (R4 to R6)
prefix       a prompt of 5,000 tokens seen before answers in a tenth of its cold time; traces of turns and agents hit (B3 to B5)
ends         SIGTERM with live streams, 503 with Retry-After meanwhile, exit 0; a kill leaves no swap file behind (F7)

Every check is one line; the exit code is 1 if one fails.
"""
import argparse
import concurrent.futures
import http.client
import json
import pathlib
import random
import signal
import sys
import tempfile
import threading
import time

from serving import ROOT, Server

failures = []
STREAMS = 8
TOKENS = 240
SEQUENCE = TOKENS + 80  # of a stream at most


def check(what, holds, seen=""):
    print(f"  {'ok  ' if holds else 'FAIL'} {what}" + (f": {str(seen)[:300]}" if seen != "" else ""), flush=True)
    if not holds:
        failures.append(what)


def post(server, path, body, timeout=600):
    """(status, headers in lower case, JSON)"""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, json.loads(answer.read())
    finally:
        connection.close()


def metrics(server):
    """Value by name with its labels, but for the model's name."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", "/metrics")
    values = {}
    for line in connection.getresponse().read().decode().splitlines():
        if line.startswith("#") or not line:
            continue
        name, value = line.rsplit(" ", 1)
        base, _, labels = name.partition("{")
        kept = [label for label in labels.rstrip("}").split(",") if label and not label.startswith("model_name=")]
        values[base + ("{" + ",".join(kept) + "}" if kept else "")] = float(value)
    connection.close()
    return values


def story(number):
    topics = ["the sea", "a clock", "two brothers", "a bridge", "winter", "an old map", "music", "a garden"]
    return {"prompt": f"Story number {number} is about {topics[number % 8]}. It begins like this:", "max_tokens": TOKENS,
            "temperature": 0, "ignore_eos": True}


def completions(server, bodies, workers):
    def one(body):
        status, _, answer = post(server, "/v1/completions", body)
        return answer["choices"][0]["text"] if status == 200 else f"status {status}: {answer}"
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, bodies))


def block_gb(met, model):
    """Bytes of a KV block in GB, as the memory plan says."""
    import subprocess
    text = subprocess.run([met, "serve", model, "--dry-run", "--max-seq-len", "512", "--max-batch-size", "1"],
                          capture_output=True, text=True).stdout
    blocks = int([line for line in text.splitlines() if line.startswith("blocks")][0].split()[1])
    mib = float([line for line in text.splitlines() if line.startswith("KV pool")][0].split()[2])
    return mib * 2**20 / blocks / 1e9


def streams(met, model):
    bodies = [story(i) for i in range(STREAMS)]
    block = block_gb(met, model)
    with Server(met, model, "--max-seq-len", str(SEQUENCE)) as server:
        solo = completions(server, bodies, 1)
    pool = 1.5 * (TOKENS + 32) / 16  # blocks
    tiny = ["--max-seq-len", str(SEQUENCE), "--max-batch-size", "8", "--kv-cache-gb", f"{(pool + 2) * block:.6f}"]
    with tempfile.TemporaryDirectory() as directory:
        host = ["--swap-space-gb", f"{9 * pool * block:.6f}"]
        disk = ["--swap-space-gb", f"{1.2 * pool * block:.6f}", "--swap-dir", directory, "--swap-disk-gb", f"{9 * pool * block:.6f}"]
        cases = [("the watermark's reservation", [], False, False), ("recompute", ["--kv-admit-watermark", "128"], True, False),
                 ("swap", ["--kv-admit-watermark", "32", *host], True, True),
                 ("swap to disk", ["--kv-admit-watermark", "32", *disk], True, True)]
        for name, flags, preempts, swaps in cases:
            print(f"{STREAMS} streams in a pool for 1.5: {name}")
            with Server(met, model, *tiny, *flags) as server:
                began = time.monotonic()
                texts = completions(server, bodies, STREAMS)
                seconds = time.monotonic() - began
                m = metrics(server)
            again = m['met_tokens_computed_total{class="recomputed"}']
            every = again + m['met_tokens_computed_total{class="prefill"}'] + m['met_tokens_computed_total{class="decode"}']
            check("each text is that of its solo run", texts == solo,
                  [(a[:60], b[:60]) for a, b in zip(texts, solo) if a != b] or f"{seconds:.1f} s")
            check("at most 15 % of the tokens were computed again", again <= 0.15 * every, f"{again:.0f} of {every:.0f}")
            modes = {mode: m[f'met_preemptions_total{{mode="{mode}"}}'] for mode in ("recompute", "swap")}
            moved = {d: round(m[f'met_swap_bytes_total{{direction="{d}"}}'] / 1e6, 1) for d in ("out", "in", "disk_out", "disk_in")}
            check("streams were preempted", sum(modes.values()) > 0 or not preempts, modes)
            check("by swap", modes["swap"] > 0 or not swaps, moved)
            if name == "swap to disk":
                check("over the disk and back", moved["disk_out"] > 0 and moved["disk_in"] > 0, moved)
            left = [m['met_blocks{group="0",state="referenced"}'], m['met_swap_blocks{tier="host"}'], m['met_swap_blocks{tier="disk"}']]
            check("nothing is held in the end", left == [0, 0, 0], left)


def disconnects(met, model, count):
    block = block_gb(met, model)
    tiny = ["--max-seq-len", "512", "--max-batch-size", "8", "--kv-cache-gb", f"{60 * block:.6f}", "--kv-admit-watermark", "32",
            "--swap-space-gb", f"{100 * block:.6f}"]
    print(f"{count} clients that leave at random moments")
    with Server(met, model, *tiny) as server:
        before = metrics(server)
        total = sum(before[f'met_blocks{{group="0",state="{s}"}}'] for s in ("free", "evictable", "referenced"))

        def one(i):
            draw = random.Random(i)
            body = {**story(i), "max_tokens": draw.choice([20, 200, 400]), "stream": draw.random() < 0.6, "n": draw.choice([1, 1, 1, 2])}
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            time.sleep(draw.random() ** 3 * 1.5)
            if body["stream"] and draw.random() < 0.3:
                try:
                    connection.sock.settimeout(1)
                    connection.sock.recv(draw.choice([1, 500, 5000]))
                except OSError:
                    pass
            connection.close()

        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            list(pool.map(one, range(count)))
        for _ in range(50):
            m = metrics(server)
            left = [m["vllm:num_requests_running"], m["vllm:num_requests_waiting"], m['met_blocks{group="0",state="referenced"}'],
                    m['met_swap_blocks{tier="host"}']]
            if left == [0, 0, 0, 0]:
                break
            time.sleep(0.1)
        check("nothing runs, waits or is held", left == [0, 0, 0, 0], left)
        now = sum(m[f'met_blocks{{group="0",state="{s}"}}'] for s in ("free", "evictable", "referenced"))
        check("free blocks are what they were", now == total, (total, now))
        preempted = m["vllm:num_preemptions_total"]
        check("aborts were counted", m["vllm:request_success_total{finished_reason=\"abort\"}"] > count / 2,
              (m["vllm:request_success_total{finished_reason=\"abort\"}"], f"{preempted:.0f} preemptions"))
        status, _, _ = post(server, "/v1/completions", {"prompt": "Hello", "max_tokens": 4})
        check("the next request is served", status == 200, status)


def cached_of(answer):
    return (answer["usage"].get("prompt_tokens_details") or {}).get("cached_tokens", 0)


def prefix(met, model):
    print("prefix hits")
    draw = random.Random(7)
    words = ["river", "stone", "lamp", "green", "seven", "walks", "under", "quiet", "north", "paper", "glass", "early"]
    text = " ".join(draw.choice(words) for _ in range(4990))
    with Server(met, model, "--max-seq-len", "8192", "--max-batch-size", "4") as server:
        times = []
        for _ in range(3):
            began = time.monotonic()
            _, _, answer = post(server, "/v1/completions", {"prompt": text, "max_tokens": 1, "temperature": 0})
            times.append((time.monotonic() - began, answer["usage"]["prompt_tokens"], cached_of(answer)))
        check("a prompt of 5,000 tokens seen before takes a tenth of its cold time", min(times[1:])[0] <= 0.1 * times[0][0],
              [f"{t * 1e3:.0f} ms, {p} tokens, {c} cached" for t, p, c in times])
        for name, turns in (("turns of a conversation", 8), ("steps of an agent", 12)):
            messages = [{"role": "system", "content": "You are a careful assistant. " * (40 if name.startswith("steps") else 5)}]
            ideal = hit = seen = 0
            for turn in range(turns):
                what = f"Question {turn}: what is {turn} plus {turn}? " + "Here is a result of a tool. " * (12 if name.startswith("steps") else 2)
                messages.append({"role": "user", "content": what})
                _, _, answer = post(server, "/v1/chat/completions", {"messages": messages, "max_tokens": 40, "temperature": 0})
                messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
                prompt, cached = answer["usage"]["prompt_tokens"], cached_of(answer)
                if turn:  # what was there: the prompt before and its answer, in whole blocks
                    ideal += min(seen, prompt - 1) // 16 * 16
                    hit += cached
                seen = prompt + answer["usage"]["completion_tokens"] - 1
            check(f"{name}: 95 % of the ideal hit", hit >= 0.95 * ideal, f"{hit} of {ideal} tokens")


def ends(met, model):
    print("ends of the process")
    block = block_gb(met, model)
    server = Server(met, model, "--max-seq-len", "512", "--max-batch-size", "4", "--shutdown-timeout", "2")
    results = []

    def stream(i):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("POST", "/v1/completions", json.dumps({**story(i), "stream": True}), {"Content-Type": "application/json"})
        results.append(connection.getresponse().read().decode())

    threads = [threading.Thread(target=stream, args=(i,)) for i in range(10)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    late = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    late.connect()
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    late.request("POST", "/v1/completions", json.dumps(story(0)), {"Content-Type": "application/json"})
    answer = late.getresponse()
    check("a request meanwhile is 503 with Retry-After", answer.status == 503 and answer.getheader("Retry-After"),
          (answer.status, answer.getheader("Retry-After")))
    code = server.process.wait(timeout=30)
    for thread in threads:
        thread.join()
    check("exit 0 within the time of --shutdown-timeout", code == 0 and time.monotonic() - began < 8,
          (code, f"{time.monotonic() - began:.1f} s"))
    # A stream that had begun ends as one; what still waited is refused before it begins.
    well = [r.rstrip().endswith("data: [DONE]") or json.loads(r)["error"]["type"] == "service_unavailable_error" for r in results]
    check("every stream ended well", len(well) == 10 and all(well), [r[-60:] for r in results][:3])
    with tempfile.TemporaryDirectory() as directory:
        server = Server(met, model, "--max-seq-len", "512", "--swap-space-gb", f"{40 * block:.6f}", "--swap-dir", directory,
                        "--swap-disk-gb", f"{40 * block:.6f}")
        server.kill()
        check("a kill leaves no swap file behind", not list(pathlib.Path(directory).iterdir()), list(pathlib.Path(directory).iterdir()))
    with Server(met, model, "--max-seq-len", "512", "--max-num-seqs", "2") as server:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda i: post(server, "/v1/completions", story(i)), range(8)))
        full = [headers.get("retry-after") for status, headers, _ in answers if status == 503]
        check("over --max-num-seqs it is 503 with Retry-After", full and all(full), [status for status, _, _ in answers])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--met", type=pathlib.Path, default=ROOT / "build/release/met")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--disconnects", type=int, default=200)
    parser.add_argument("--only", choices=["streams", "disconnects", "prefix", "ends"])
    args = parser.parse_args()
    runs = {"streams": streams, "disconnects": lambda met, model: disconnects(met, model, args.disconnects), "prefix": prefix, "ends": ends}
    for name, run in runs.items():
        if args.only in (None, name):
            run(args.met, args.model)
    print("all hold" if not failures else f"{len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
