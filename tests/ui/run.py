#!/usr/bin/env python3
"""Drives the web page of `met serve` in headless Chromium, against a scripted model.

usage: tests/ui/run.py [--shots FOLDER]

The page's files come from the source tree. Without playwright or chromium one line says so and the exit code is 0.
"""
import argparse
import http.server
import json
import pathlib
import shutil
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "src" / "server" / "ui"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
          "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'")
HOSTILE = ("# Title\n\n<script>window.pwned=1</script> <img src=x onerror=\"window.pwned=1\">\n\n[bad](javascript:window.pwned=1) "
           "[good](https://example.org/a) ![i](https://example.org/p.png) **bold** `code` größe 🦀\n\n"
           "| a | b |\n|---|---|\n| 1 | 2 |\n\n- one\n- two\n  - inner\n\n```python\nprint('hi')\n```\n\nEnd.")


class Fake(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"
    seen = []

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
            data = {"data": [{"id": "scripted", "capabilities": {"image_input": True, "reasoning": True}}]}
            return self.reply(200 if ok else 401, "application/json",
                              json.dumps(data if ok else {"error": {"message": "a key is needed"}}).encode())
        name = "index.html" if self.path == "/" else self.path.removeprefix("/ui/")
        file = PAGE / name
        self.reply(200, TYPES[file.suffix], file.read_bytes()) if file.is_file() else self.reply(404, "text/plain", b"")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        Fake.seen.append(body)
        last = body["messages"][-1]["content"]
        if last == "fail":
            return self.reply(400, "application/json", b'{"error": {"message": "temperature must be at most 2"}}')
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        chunks = [{"reasoning_content": "Hm."}] + [{"content": HOSTILE[i:i + 7]} for i in range(0, len(HOSTILE), 7)]
        chunks.append({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "weather", "arguments": "{\"city\": \"Bern\"}"}}]})
        if last == "long":
            chunks = [{"content": "word "}] * 2000
        try:
            for delta in chunks:
                raw = ("data: " + json.dumps({"choices": [{"delta": delta}]}, ensure_ascii=False) + "\r\n\r\n").encode()
                for i in range(0, len(raw), 11):  # characters and line ends are cut
                    self.wfile.write(raw[i:i + 11])
                    self.wfile.flush()
                if last == "long":
                    time.sleep(0.02)
            self.wfile.write(b'data: {"choices": [], "usage": {"completion_tokens": 40}}\n\ndata: [DONE]\n\n')
        except OSError:
            pass


def check(what, holds):
    print(("ok    " if holds else "FAILED ") + what)
    if not holds:
        raise SystemExit(1)


def until(page, expression):
    """Polls from outside: the page's policy forbids what wait_for_function does inside."""
    for _ in range(200):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise SystemExit("FAILED to see: " + expression)


def drive(page, origin, shots):
    foreign, problems = [], []
    page.on("request", lambda r: None if r.url.startswith((origin, "data:", "blob:")) else foreign.append(r.url))
    page.on("pageerror", lambda e: problems.append(str(e)))
    page.on("console", lambda m: problems.append(m.text) if "Content Security" in m.text or "Trusted" in m.text else None)
    page.goto(origin + "/")
    page.wait_for_selector("#settings[open]")
    check("a 401 asks for the key", "key is needed" in page.inner_text("#state"))
    page.fill("[name=key]", "secret")
    page.fill("[name=temperature]", "0.5")
    page.click(".primary")
    until(page, "document.getElementById('model').value === 'scripted'")
    check("images can be attached when the model sees", page.is_visible("#attach"))

    def ask(text):
        page.fill("#input", text)
        page.press("#input", "Enter")

    def ended():
        page.wait_for_selector("#send[aria-label=Send]")

    ask("show all")
    page.wait_for_selector(".stats:not(:empty)")
    ended()
    check("settings are sent", Fake.seen[-1]["temperature"] == 0.5 and "top_p" not in Fake.seen[-1])
    check("no markup of the model runs", page.evaluate("window.pwned === undefined && !document.querySelector('.md script, .md img')"))
    check("only safe links are links", page.eval_on_selector_all(".assistant .md a", "a => a.every(x => /^https:/.test(x.href) && /noopener/.test(x.rel))"))
    text = page.inner_text(".assistant .body")
    check("characters survive cut bytes", "größe 🦀" in text and "End." in text)
    for selector in ("table td", "li li", ".code pre", "strong", "h1"):
        check("markdown: " + selector, page.locator(".assistant .body " + selector).count() > 0)
    check("reasoning is folded", page.locator(".assistant details:not([open])").count() == 1)
    check("calls are shown", "weather" in page.inner_text(".assistant"))
    page.screenshot(path=shots / "light.png")
    ask("long")
    until(page, "document.querySelector('.assistant:last-child .body').textContent.length > 30")
    page.keyboard.press("Escape")
    ended()
    check("Escape stops", page.locator(".assistant").count() == 2)
    page.locator(".assistant").last.get_by_text("Regenerate").click()
    page.wait_for_selector("#send[aria-label=Stop]")
    page.click("#send")
    ended()
    check("regenerating asks the same again", Fake.seen[-1]["messages"] == Fake.seen[-2]["messages"])
    page.locator(".user").last.get_by_text("Edit").click()
    page.fill(".edit", "fail")
    page.press(".edit", "Enter")
    page.wait_for_selector(".error")
    check("errors are a sentence", page.inner_text(".error") == "temperature must be at most 2")
    page.keyboard.press("Control+k")
    check("Ctrl+K begins a new chat", page.is_visible("#empty"))
    page.reload()
    page.wait_for_selector(".item")
    page.locator(".item button").first.click()
    check("a reload keeps conversations", page.locator(".message").count() == 4)
    page.emulate_media(color_scheme="dark")
    check("dark follows the system", page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(27, 28, 29)")
    page.screenshot(path=shots / "dark.png")
    page.set_viewport_size({"width": 390, "height": 780})
    check("a phone shows one column", not page.is_visible("#sidebar")
          and page.evaluate("document.documentElement.scrollWidth <= innerWidth"))
    page.screenshot(path=shots / "phone.png")
    check("nothing leaves the origin", not foreign)
    check("no error and no breach of the policy", not problems)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shots", default=ROOT / "build" / "ui", type=pathlib.Path)
    options = parser.parse_args()
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if not chromium:
        print("web page: skipped, chromium or playwright is absent")
        return 0
    options.shots.mkdir(parents=True, exist_ok=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Fake)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        page.set_default_timeout(60_000)
        drive(page, f"http://127.0.0.1:{server.server_port}", options.shots)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
