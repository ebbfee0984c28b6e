"""The page's files and a model that answers by script: what the last question says decides."""
import http.server
import json
import pathlib
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "src" / "server" / "ui"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
          "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'")
HOSTILE = ("# Title\n\n<script>window.pwned=1</script> <img src=x onerror=\"window.pwned=1\">\n\n[bad](javascript:window.pwned=1) "
           "[good](https://example.org/a) ![i](https://example.org/p.png) **bold** `code` größe 🦀 ***both*** **a *b* c** __under__\n\n"
           "Here is one:\n| a | b |\n|:-:|--:|\n| 1 | 2 |\n\n- one\n- two\n  - inner\n- [x] done\n\n"
           "```python\ndef f():  # note\n    return 'hi', 42\n```\n\nEnd.")
WIDE = ("| " + " | ".join(f"Column{i}" for i in range(9)) + " |\n|" + "---|" * 9 + "\n"
        + ("| " + " | ".join(f"measurement{i}" for i in range(9)) + " |\n") * 3
        + "\n```c\n" + "int answer = compute(" + ", ".join(f"argument_{i}" for i in range(30)) + ");\n```\n\n"
        + "w" * 300 + "\n\nhttps://example.org/" + "path/" * 60)
ANSWERS = {"show all": HOSTILE, "wide": WIDE, "lines": "\n\n".join(f"Paragraph {i} of an answer that fills the page." for i in range(60))}


def words_of(message):
    content = message["content"]
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


class Scripted(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"
    seen = []
    models = [{"id": "scripted", "capabilities": {"image_input": True, "reasoning": True}},
              {"id": "blind", "capabilities": {"image_input": False, "reasoning": False}}]

    def log_message(self, *_):
        pass

    def reply(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/v1/models":
            ok = self.headers.get("authorization") == "Bearer secret"
            body = {"data": self.models} if ok else {"error": {"message": "a key is needed"}}
            return self.reply(200 if ok else 401, "application/json", json.dumps(body).encode())
        file = PAGE / ("index.html" if self.path == "/" else self.path.removeprefix("/ui/"))
        self.reply(200, TYPES[file.suffix], file.read_bytes()) if file.is_file() else self.reply(404, "text/plain", b"")

    def event(self, value):
        raw = ("data: " + json.dumps(value, ensure_ascii=False) + "\r\n\r\n").encode()
        for i in range(0, len(raw), 11):  # characters and line ends are cut
            self.wfile.write(raw[i:i + 11])
            self.wfile.flush()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        Scripted.seen.append(body)
        asked = words_of(body["messages"][-1]).split("\n")[-1]
        if asked == "fail":
            return self.reply(400, "application/json", b'{"error": {"message": "temperature must be at most 2"}}')
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            self.stream(asked)
        except OSError:
            pass

    def stream(self, asked):
        text = ANSWERS.get(asked, "Fine.")
        deltas = [{"content": text[i:i + 7]} for i in range(0, len(text), 7)]
        if asked == "show all":
            deltas.insert(0, {"reasoning_content": "Hm."})
            deltas.append({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "weather", "arguments": "{\"city\": \"Bern\"}"}}]})
        if asked == "long":
            deltas = [{"content": "word "}] * 2000
        for delta in deltas:
            self.event({"choices": [{"delta": delta}]})
            if asked == "long":
                time.sleep(0.02)
        if asked == "break":
            return self.event({"error": {"message": "the engine failed"}})
        if asked == "lost":
            return
        self.event({"choices": [{"delta": {}, "finish_reason": "length" if asked == "limit" else "stop"}]})
        self.event({"choices": [], "usage": {"completion_tokens": 40}})
        self.wfile.write(b"data: [DONE]\n\n")
