#!/usr/bin/env python3
"""Drives the web page of `met serve` in headless Chromium against the server itself and a real model.

usage: tests/ui/served.py [--met build/release/met] [--model FILE] [--shots FOLDER]

Without the binary, the model, playwright or chromium one line says so and the exit code is 0.
"""
import argparse
import pathlib
import shutil
import sys
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "api_blackbox")]
from run import Chat, check  # noqa: E402
from serving import ROOT, Server  # noqa: E402

KEY = "page-key"
LONG = "Write a very long story about the sea, a ship and its crew. Do not stop."


def settings(chat):
    page = chat.page
    chat.open()
    check("without a key the page says what is lacking", "key" in page.inner_text("#state").lower(), page.inner_text("#state"))
    page.fill("[name=key]", KEY)
    page.fill("[name=temperature]", "0")
    page.fill("[name=max_tokens]", "24")
    page.click(".primary")
    chat.until("document.getElementById('model').value !== ''")
    check("the served model is listed", "SmolLM2" in page.inner_text("#model"), page.inner_text("#model"))
    check("a model that sees nothing takes no image", not page.is_visible("#attach"))
    chat.sound("served, empty")


def answers(chat):
    page = chat.page
    chat.say("Name three rivers.")
    body = page.inner_text(".assistant .body")
    check("an answer comes", len(body) > 10, body)
    page.wait_for_selector(".assistant .stats:not(:empty)")
    stats = page.inner_text(".assistant .stats")
    check("with its speed and its first token", "tokens/s" in stats and "first" in stats, stats)
    check("the limit of tokens is told", "largest number of tokens" in page.inner_text(".assistant .note"))
    page.locator(".assistant").last.get_by_text("Regenerate").click()
    chat.ended()
    check("the same again is the same text", page.inner_text(".assistant .body") == body)
    check("and a second version", "2/2" in page.inner_text(".assistant .versions"))
    chat.say("And one more.")
    check("a second turn is answered", page.locator(".assistant").count() == 2 and page.locator(".assistant .error").count() == 0)
    chat.sound("served, answered")
    chat.shot("served-answer")


def stopping(chat, server):
    page = chat.page
    page.click("#open-settings")
    page.fill("[name=max_tokens]", "1500")
    page.click(".primary")
    page.keyboard.press("Control+k")
    chat.ask(LONG)
    chat.until("document.querySelector('.assistant:last-child .body').textContent.length > 40")
    page.click("#send")
    chat.ended()
    text = page.inner_text(".assistant:last-child .body")
    check("what had come stays", len(text) > 40 and "Stopped." in page.inner_text(".assistant:last-child"))
    running = "vllm:num_requests_running"
    for _ in range(100):
        metrics = urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics").read().decode()
        left = next(float(line.split()[-1]) for line in metrics.splitlines() if line.startswith(running))
        if left == 0:
            break
        page.wait_for_timeout(50)
    check("and the server runs it no longer", left == 0, left)
    page.reload()
    page.wait_for_selector(".item")
    page.locator(".pick").first.click()
    check("a reload keeps what had come", page.inner_text(".assistant:last-child .body") == text)
    page.locator(".assistant").last.get_by_text("Regenerate").click()
    chat.until("document.querySelector('.assistant:last-child .body').textContent.length > 40")
    page.keyboard.press("Escape")
    chat.ended()
    check("regenerating after a reload streams again", "2/2" in page.locator(".assistant").last.locator(".versions").inner_text())


def errors(chat):
    page = chat.page
    page.keyboard.press("Control+k")
    chat.say("word " * 3000)
    check("a prompt over the context is told with both numbers", "maximum context length" in page.inner_text(".error"), page.inner_text(".error"))
    page.click("#open-settings")
    page.fill("[name=key]", "wrong")
    page.click(".primary")
    page.wait_for_selector("#settings[open]")
    check("a wrong key asks for the right one", "key" in page.inner_text("#note").lower(), page.inner_text("#note"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--met", default=ROOT / "build" / "release" / "met", type=pathlib.Path)
    parser.add_argument("--model", default=ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf", type=pathlib.Path)
    parser.add_argument("--shots", default=ROOT / "build" / "ui", type=pathlib.Path)
    options = parser.parse_args()
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if not chromium or not options.met.exists() or not options.model.exists():
        print("web page, served: skipped, chromium, playwright, the binary or the model is absent")
        return 0
    options.shots.mkdir(parents=True, exist_ok=True)
    with Server(options.met, options.model, "--max-seq-len", "2048", "--require-auth", "--auth-token", KEY) as server, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": 1200, "height": 800}).new_page()
        page.set_default_timeout(30_000)
        chat = Chat(page, f"http://127.0.0.1:{server.port}", options.shots)
        settings(chat)
        answers(chat)
        stopping(chat, server)
        errors(chat)
        check("nothing leaves the origin", not chat.foreign, chat.foreign)
        check("no error and no breach of the policy", not chat.problems, chat.problems)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
