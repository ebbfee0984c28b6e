#!/usr/bin/env python3
"""The server's edges from outside: TLS, rate limits, the dump, silent clients, compaction and repetition, with clients that know nothing of this server.

usage: tests/api_blackbox/edges.py [--met build/release/met] [--model FILE]

Certificates are made by `openssl` on the spot. Every check is one line; the exit code is 1 if one fails.
"""
import argparse
import concurrent.futures
import http.client
import json
import pathlib
import socket
import ssl
import subprocess
import sys
import tempfile
import time

from serving import ROOT, Server

failures = []


def check(what, holds, seen=""):
    print(f"  {'ok  ' if holds else 'FAIL'} {what}" + ("" if holds else f": {str(seen)[:300]}"), flush=True)
    if not holds:
        failures.append(what)


def certificate(directory, name):
    """Paths of a self-signed certificate for 127.0.0.1 and of its key."""
    cert, key = directory / f"{name}.crt", directory / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


def ask(server, method, path, body=None, headers=None, context=None):
    """(status, headers in lower case, body) of one request on a connection of its own."""
    if context is None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    else:
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=60, context=context)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode()
    finally:
        connection.close()


def chat(**more):
    return {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8, "temperature": 0, **more}


def streamed(text):
    """The text that a stream of chat chunks adds up to; None where it does not end well."""
    lines = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    if not lines or lines[-1] != "[DONE]":
        return None
    deltas = (choice["delta"] for line in lines[:-1] for choice in json.loads(line)["choices"])
    return "".join(delta.get("content") or "" for delta in deltas)


def run_tls(options, directory):
    print("TLS")
    cert, key = certificate(directory, "own")
    other, other_key = certificate(directory, "other")
    for flags, words in ((["--tls-cert", cert], "--tls-key"), (["--tls-cert", cert, "--tls-key", other_key], "is not the key of"),
                         (["--tls-cert", key, "--tls-key", key], "--tls-cert"), (["--tls-cert", cert, "--tls-key", directory / "none"], "--tls-key")):
        ended = subprocess.run([options.met, "serve", options.model, "--port", "0", "--dry-run", *flags], capture_output=True, text=True, timeout=60, check=False)
        check(f"refused at start, naming {words}", ended.returncode != 0 and words in ended.stderr, ended.stderr)
    with Server(options.met, options.model, "--max-seq-len", "512", "--tls-cert", cert, "--tls-key", key, "--header-timeout-s", "1") as server:
        context = ssl.create_default_context(cafile=cert)
        context.set_alpn_protocols(["h2", "http/1.1"])
        status, _, body = ask(server, "GET", "/health", context=context)
        check("health", status == 200, body)
        status, _, body = ask(server, "POST", "/v1/chat/completions", chat(), context=context)
        check("chat", status == 200, body)
        whole = json.loads(body)["choices"][0]["message"]["content"] if status == 200 else None
        _, headers, body = ask(server, "POST", "/v1/chat/completions", chat(stream=True), context=context)
        check("a stream gives the same text", whole is not None and streamed(body) == whole, body)
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            bodies = list(pool.map(lambda _: ask(server, "POST", "/v1/chat/completions", chat(stream=True), context=context)[2], range(20)))
        check("20 streams at once", [streamed(body) for body in bodies] == [whole] * 20, bodies[0])
        try:
            ask(server, "GET", "/health", context=ssl.create_default_context(cafile=other))
            check("a client that trusts another certificate does not talk to us", False, "it did")
        except ssl.SSLCertVerificationError:
            check("a client that trusts another certificate does not talk to us", True)
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw, context.wrap_socket(raw, server_hostname="127.0.0.1") as wrapped:
            check("TLS 1.3, http/1.1", (wrapped.version(), wrapped.selected_alpn_protocol()) == ("TLSv1.3", "http/1.1"), wrapped.version())
            wrapped.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            text = b""
            while part := wrapped.recv(4096):  # a cut without close_notify raises
                text += part
            check("the end is told, not just there", text.startswith(b"HTTP/1.1 200"), text)
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            try:
                text = plain.recv(4096)
            except ConnectionError:
                text = b""
            check("plain HTTP is closed at once", not text.startswith(b"HTTP") and time.monotonic() - began < 0.9, text)


def run_rates(options):
    print("rates")
    with Server(options.met, options.model, "--max-seq-len", "512", "--rate-limit-rpm", "3", "--rate-limit-tpm", "2000", "--require-auth",
                "--auth-token", "first", "--auth-token", "second") as server:
        key = {"Authorization": "Bearer first"}
        seen = [ask(server, "POST", "/v1/chat/completions", chat(), key) for _ in range(3)]
        check("as many as the limit are served", [status for status, _, _ in seen] == [200] * 3, seen)
        left = [int(headers["x-ratelimit-remaining-requests"]) for _, headers, _ in seen]
        check("and count down", left == sorted(left, reverse=True) and left[-1] == 0 and seen[0][1]["x-ratelimit-limit-requests"] == "3", left)
        tokens = int(seen[0][1]["x-ratelimit-remaining-tokens"])
        check("tokens are counted too", 0 < tokens < 2000 and seen[0][1]["x-ratelimit-limit-tokens"] == "2000", tokens)
        status, headers, body = ask(server, "POST", "/v1/chat/completions", chat(), key)
        error = json.loads(body)["error"]
        check("OpenAI: 429", (status, error["code"], error["type"]) == (429, "rate_limit_exceeded", "rate_limit_error"), body)
        check("OpenAI: Retry-After and the headers", 1 <= int(headers["retry-after"]) <= 20 and headers["x-ratelimit-remaining-requests"] == "0"
              and headers["x-ratelimit-reset-requests"].endswith("s"), headers)
        status, headers, body = ask(server, "POST", "/v1/messages", chat(), {"x-api-key": "first", "anthropic-version": "2023-06-01"})
        answer = json.loads(body)
        check("Anthropic: 429", (status, answer["type"], answer["error"]["type"]) == (429, "error", "rate_limit_error"), body)
        check("Anthropic: Retry-After and the headers", 1 <= int(headers["retry-after"]) <= 20 and headers["anthropic-ratelimit-requests-remaining"] == "0"
              and headers["anthropic-ratelimit-requests-reset"].endswith("Z"), headers)
        status, _, body = ask(server, "POST", "/v1/chat/completions", chat(), {**key, "X-Forwarded-For": "203.0.113.7"})
        check("another X-Forwarded-For is the same caller", status == 429, body)
        status, _, body = ask(server, "POST", "/v1/chat/completions", chat(), {"Authorization": "Bearer second"})
        check("another key has a limit of its own", status == 200, body)


def run_dump(options, directory):
    print("dump")
    where = directory / "dump"
    with Server(options.met, options.model, "--max-seq-len", "512", "--dump", where, "--require-auth", "--auth-token", "dump-key-1") as server:
        key = {"Authorization": "Bearer dump-key-1"}
        whole = json.loads(ask(server, "POST", "/v1/chat/completions", chat(user="dump-key-1"), key)[2])
        events = ask(server, "POST", "/v1/chat/completions", chat(stream=True), key)[2]
    files = sorted(where.glob("*.jsonl"))
    text = "".join(file.read_text() for file in files)
    lines = [json.loads(line) for line in text.splitlines()]
    check("two requests and their answers", [(line["seq"], line["kind"]) for line in lines] == [(1, "request"), (1, "answer"), (2, "request"), (2, "answer")], text)
    check("as they were", len(lines) == 4 and lines[1]["body"] == whole and lines[3]["body"] == events and lines[0]["body"]["messages"] == chat()["messages"], text)
    check("no key, no header", "dump-key-1" not in text and "Bearer" not in text, text)
    check("for their owner alone", [file.stat().st_mode & 0o777 for file in [where, *files]] == [0o700] + [0o600] * len(files))


def said_to(server, sent, pause=0.0):
    """What the server answers to bytes that are no whole request, and the seconds until it closed."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        text = b""
        for part in sent:
            raw.sendall(part)
            time.sleep(pause)
        while part := raw.recv(4096):
            text += part
    return text.decode(), time.monotonic() - began


def run_silence(options):
    print("silent and slow clients")
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n"
    with Server(options.met, options.model, "--max-seq-len", "512", "--header-timeout-s", "1", "--body-min-rate", "1000") as server:
        for what, sent, pause in (("half a head", [head[:40]], 0), ("no body", [head], 0), ("half a body", [head, b" " * 2000], 0),
                                  ("a body below the least rate", [head] + [b" " * 10] * 12, 0.1)):
            text, seconds = said_to(server, sent, pause)
            check(f"{what}: 408, and closed", text.startswith("HTTP/1.1 408") and "connection: close" in text.lower() and seconds < 6, text)
        status, _, body = ask(server, "POST", "/v1/chat/completions", chat())
        check("others are served", status == 200, body)


def run_compaction(options):
    print("compaction")
    turns = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"Turn {i}. " + "word " * 20} for i in range(41)]
    bodies = (("/v1/chat/completions", {"messages": [{"role": "system", "content": "Be brief."}, *turns], "max_tokens": 4}),
              ("/v1/messages", {"system": "Be brief.", "messages": turns, "max_tokens": 4}), ("/v1/responses", {"input": turns, "max_output_tokens": 4}))
    with Server(options.met, options.model, "--max-seq-len", "512", "--auto-compact", "0.6") as server:
        for path, body in bodies:
            status, headers, text = ask(server, "POST", path, body)
            check(f"{path}: answered, and told what was cut", status == 200 and "dropped=" in headers.get("x-met-compacted", ""), (headers, text))
        status, headers, text = ask(server, "POST", "/v1/chat/completions", chat())
        check("a short one is left alone", status == 200 and "x-met-compacted" not in headers, headers)
        check("counted", 'met_compactions_total' in (page := ask(server, "GET", "/metrics")[2]) and any(
            line.startswith("met_compactions_total") and line.endswith(" 3") for line in page.splitlines()), page[:300])
    with Server(options.met, options.model, "--max-seq-len", "512") as server:
        status, _, text = ask(server, "POST", *bodies[0])
        check("off by default: 400", status == 400 and json.loads(text)["error"]["code"] == "context_length_exceeded", text)


def run_repetition(options):
    print("repetition")
    rule = {"repetition_detection": {"max_pattern_size": 4, "min_count": 5}, "logit_bias": {"50": 100}, "ignore_eos": True}
    with Server(options.met, options.model, "--max-seq-len", "512") as server:
        status, _, text = ask(server, "POST", "/v1/chat/completions", {**chat(), **rule, "max_tokens": 60})
        answer = json.loads(text)
        check("chat ends", status == 200 and answer["choices"][0]["finish_reason"] == "repetition"
              and answer["choices"][0]["stop_reason"] == "repetition_detected" and answer["usage"]["completion_tokens"] == 5, text)
        status, _, text = ask(server, "POST", "/v1/responses", {"input": "Say hello.", **rule, "max_output_tokens": 60})
        check("a response is incomplete", status == 200 and json.loads(text)["incomplete_details"] == {"reason": "repetition"}, text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--met", default=ROOT / "build" / "release" / "met")
    parser.add_argument("--model", default=ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="met-edges-") as directory:
        run_tls(options, pathlib.Path(directory))
        run_dump(options, pathlib.Path(directory))
    run_rates(options)
    run_silence(options)
    run_compaction(options)
    run_repetition(options)
    print(f"edges: {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
