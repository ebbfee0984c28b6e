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
import struct
import sys
import threading
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from scripted import ROOT, Scripted  # noqa: E402

# Every control says what it is, and no two of one place say the same.
NAMELESS = """() => [...document.querySelectorAll('button, input, select, textarea, a')]
  .filter(node => node.checkVisibility())
  .filter(node => !(node.getAttribute('aria-label') || node.labels?.[0]?.textContent || node.textContent).trim())
  .map(node => node.outerHTML)"""
# Texts whose colour stands out less than 4.5 to 1 from what is behind them.
PALE = """() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
  };
  const out = [];
  for (const node of document.querySelectorAll('body *')) {
    if (!node.checkVisibility({ opacityProperty: true }) || node.matches(':disabled, option')) continue;
    if (![...node.childNodes].some(child => child.nodeType === 3 && child.data.trim())) continue;
    const [a, b] = [light(getComputedStyle(node).color), light(behind(node))].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) out.push(node.tagName + '.' + node.className + ' ' + ((a + .05) / (b + .05)).toFixed(2));
  }
  return out;
}"""
FITS = """() => document.documentElement.scrollWidth <= innerWidth
  && document.getElementById('scroll').scrollWidth <= document.getElementById('scroll').clientWidth"""


def check(what, holds, found=""):
    print(("ok    " if holds else "FAILED ") + what + (f": {found}" if not holds and found else ""))
    if not holds:
        raise SystemExit(1)


def png(side, rgb):
    """A picture of one colour."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(rgb) * side for _ in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Chat:
    """The page as a person uses it."""

    def __init__(self, page, origin, shots):
        self.page, self.origin, self.shots = page, origin, shots
        self.foreign, self.problems = [], []
        page.on("request", lambda r: None if r.url.startswith((origin, "data:", "blob:")) else self.foreign.append(r.url))
        page.on("pageerror", lambda e: self.problems.append(str(e)))
        page.on("console", lambda m: self.problems.append(m.text) if "Content Security" in m.text or "Trusted" in m.text else None)
        page.on("dialog", lambda d: d.accept())

    def open(self):
        self.page.goto(self.origin + "/")
        self.page.wait_for_selector("#settings[open]")

    def until(self, expression):
        """Polls from outside: the page's policy forbids what wait_for_function does inside."""
        for _ in range(400):
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(50)
        raise SystemExit("FAILED to see: " + expression)

    def ask(self, text):
        before = self.page.locator(".assistant").count()
        self.page.fill("#input", text)
        self.page.click("#send")
        self.until(f"document.querySelectorAll('.assistant').length > {before}")

    def ended(self):
        self.page.wait_for_selector("#send[aria-label=Send]")

    def say(self, text):
        self.ask(text)
        self.ended()

    def focused(self, selector):
        return self.page.evaluate("s => document.activeElement?.matches(s) ?? false", selector)

    def shot(self, name):
        self.page.screenshot(path=self.shots / (name + ".png"))

    def sound(self, where):
        """What holds in every state of the page."""
        nameless, pale = self.page.evaluate(NAMELESS), self.page.evaluate(PALE)
        check(where + ": every control has a name", not nameless, nameless)
        check(where + ": every text stands out from its ground", not pale, pale)
        check(where + ": nothing is wider than the page", self.page.evaluate(FITS))


def opening(chat):
    page = chat.page
    chat.open()
    check("a 401 asks for the key", "key is needed" in page.inner_text("#state") and "API key" in page.inner_text("#note"))
    check("the key's field has the focus", chat.focused("[name=key]"))
    chat.sound("settings")
    chat.shot("settings-light")
    page.fill("[name=key]", "secret")
    page.fill("[name=temperature]", "0.5")
    page.click(".primary")
    chat.until("document.getElementById('model').value === 'scripted'")
    chat.sound("empty")
    chat.shot("empty-light")


def answers(chat):
    page = chat.page
    chat.say("show all")
    page.wait_for_selector(".stats:not(:empty)")
    check("settings are sent", Scripted.seen[-1]["temperature"] == 0.5 and "top_p" not in Scripted.seen[-1])
    check("no markup of the model runs", page.evaluate("window.pwned === undefined && !document.querySelector('.md script, .md img')"))
    check("only safe links are links", page.eval_on_selector_all(".assistant .md a", "a => a.every(x => /^https:/.test(x.href) && /noopener/.test(x.rel))"))
    text = page.inner_text(".assistant .body")
    check("characters survive cut bytes", "größe 🦀" in text and "End." in text)
    for selector in ("table td.right", "th.center", "li li", ".code pre", "strong", "strong em", "h1", "p + .table", ".task input:checked",
                     ".hl-word", ".hl-string", ".hl-number", ".hl-comment"):
        check("markdown: " + selector, page.locator(".assistant .body " + selector).count() > 0)
    check("no mark is left over", "*" not in text and "__" not in text, text)
    check("reasoning is folded", page.locator(".assistant details:not([open])").count() == 1)
    check("calls are shown", "weather" in page.inner_text(".assistant"))
    page.click(".assistant .body .code button")
    chat.until("document.querySelector('.assistant .code button').textContent === 'Copied'")
    check("a block of code is copied as it is", page.evaluate("navigator.clipboard.readText()") == "def f():  # note\n    return 'hi', 42")
    chat.sound("an answer")
    chat.shot("answer-light")


def stopping(chat):
    page = chat.page
    chat.ask("long")
    chat.until("document.querySelector('.assistant:last-child .body').textContent.length > 30")
    check("what is being answered is marked", page.locator(".item .wait").count() == 1)
    page.keyboard.press("Escape")
    chat.ended()
    check("Escape stops", page.locator(".assistant").count() == 2 and "Stopped." in page.inner_text(".assistant:last-child"))
    page.locator(".assistant").last.get_by_text("Regenerate").click()
    page.wait_for_selector("#send[aria-label=Stop]")
    check("the focus is back at the message", chat.focused("#input"))
    page.click("#send")
    chat.ended()
    check("regenerating asks the same again", Scripted.seen[-1]["messages"] == Scripted.seen[-2]["messages"])
    check("and replaces the answer", page.locator(".assistant").count() == 2)
    last = page.locator(".assistant").last
    first_text = last.locator(".body").inner_text()
    check("the earlier answer is kept", "2/2" in last.locator(".versions").inner_text())
    last.get_by_label("Previous answer").click()
    check("and can be shown again", "1/2" in last.locator(".versions").inner_text() and chat.focused("[aria-label='Next answer']"))
    chat.sound("versions")
    chat.shot("versions-light")
    page.keyboard.press("Enter")
    check("as can the later one", "2/2" in last.locator(".versions").inner_text() and last.locator(".body").inner_text() == first_text)
    page.locator(".assistant").first.get_by_text("Regenerate").click()
    chat.ended()
    check("regenerating an earlier answer drops what followed", page.locator(".message").count() == 2)


def errors(chat):
    page = chat.page
    chat.say("long enough")
    page.locator(".user").last.get_by_text("Edit").click()
    page.fill(".edit", "fail")
    page.press(".edit", "Enter")
    page.wait_for_selector(".error")
    check("errors are a sentence", page.inner_text(".error") == "temperature must be at most 2")
    check("and can be tried again", page.locator(".assistant").last.get_by_text("Try again").is_visible())
    chat.shot("error-light")
    chat.say("again")
    roles = [message["role"] for message in Scripted.seen[-1]["messages"]]
    check("turns alternate after an error", all(a != b for a, b in zip(roles, roles[1:])), roles)
    chat.say("break")
    check("an error in mid-stream keeps what came", "Fine." in page.inner_text(".assistant:last-child") and "the engine failed" in page.inner_text(".assistant:last-child .error"))
    chat.say("lost")
    check("a lost connection is told", "before the answer was complete" in page.inner_text(".assistant:last-child .error"))
    chat.say("limit")
    check("a cut answer says so", "largest number of tokens" in page.inner_text(".assistant:last-child .note"))


def pictures(chat, folder):
    page = chat.page
    page.keyboard.press("Control+k")
    small, large, text = folder / "small.png", folder / "large.png", folder / "broken.png"
    small.write_bytes(png(8, (200, 30, 30)))
    large.write_bytes(png(3000, (30, 200, 30)))
    text.write_bytes(b"no picture")
    check("images can be attached when the model sees", page.is_visible("#attach"))
    page.set_input_files("#file", [small, large, text])
    chat.until("document.querySelectorAll('#images img').length === 2 && document.getElementById('state').textContent.includes('broken.png')")
    chat.sound("attached")
    chat.shot("images-light")
    page.get_by_label("Remove image 1").click()
    check("an image can be removed", page.locator("#images img").count() == 1)
    page.set_input_files("#file", small)
    chat.until("document.querySelectorAll('#images img').length === 2")
    chat.say("what is this")
    sent = Scripted.seen[-1]["messages"][-1]["content"]
    urls = [part["image_url"]["url"] for part in sent if part["type"] == "image_url"]
    check("images go before the text", [part["type"] for part in sent] == ["image_url", "image_url", "text"])
    check("a small one goes as it is", urls[1].startswith("data:image/png;base64,"))
    size = page.evaluate("async u => { const b = await createImageBitmap(await new Promise(r => { const i = new Image(); i.onload = () => r(i); i.src = u; })); return b.width; }", urls[0])
    check("a large one is made smaller", urls[0].startswith("data:image/jpeg") and size == 2048, size)
    check("images stand in the question", page.locator(".user img.attached").count() == 2)
    page.evaluate("""() => { const data = new DataTransfer(); data.items.add(new File([Uint8Array.from(atob('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='), c => c.charCodeAt(0))], 'a.png', { type: 'image/png' }));
        document.getElementById('input').dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true })); }""")
    chat.until("document.querySelectorAll('#images img').length === 1")
    check("a pasted image is attached", True)
    page.get_by_label("Remove image 1").click()
    page.select_option("#model", "blind")
    check("a model that sees none takes none", not page.is_visible("#attach"))
    page.select_option("#model", "scripted")


def conversations(chat, folder):
    page = chat.page
    page.locator(".item").first.hover()
    page.get_by_label("Rename “what is this”").click()
    page.keyboard.type("A red square")
    page.keyboard.press("Escape")
    check("Escape leaves a title as it was", page.locator(".item .pick").first.inner_text() == "what is this")
    page.get_by_label("Rename “what is this”").click()
    page.keyboard.type("A red square")
    page.keyboard.press("Enter")
    check("a conversation is renamed", page.locator(".item .pick").first.inner_text() == "A red square" and page.title() == "A red square · met")
    check("and keeps the focus", chat.focused(".pick"))
    page.reload()
    page.wait_for_selector(".item")
    check("a reload keeps conversations", page.locator(".item .pick").all_inner_texts() == ["A red square", "show all"])
    page.locator(".pick").first.click()
    check("and their images", page.locator(".user img.attached").count() == 2)
    page.click("#open-settings")
    with page.expect_download() as download:
        page.click("#export")
    file = folder / "export.json"
    download.value.save_as(file)
    exported = json.loads(file.read_text())
    check("all are exported", [c["title"] for c in exported["conversations"]] == ["A red square", "show all"])
    answered = exported["conversations"][1]["messages"][1]
    check("with every answer", len(answered["before"]) == 1 and answered["before"][0]["content"].startswith("# Title"))
    page.set_input_files("#import-file", file)
    chat.until("document.getElementById('note').textContent.startsWith('0 ')")
    check("importing them again makes no copies", page.locator(".item").count() == 2)
    foreign = {"conversations": [{"id": f"imported-{i}", "title": f"Old {i}", "updated": 1000 + i, "messages": [
        {"role": "user", "content": f"needle{i}"}, {"role": "assistant", "content": "<b onclick='window.pwned=1'>x</b>"},
        {"role": "system", "content": "no"}, 7]} for i in range(12)] + [{"title": 3}, None]}
    file.write_text(json.dumps(foreign))
    page.set_input_files("#import-file", file)
    chat.until("document.getElementById('note').textContent === '12 conversations imported.'")
    for broken in ("{", "[]", '{"conversations": 3}', "null"):
        file.write_text(broken)
        page.set_input_files("#import-file", file)
        chat.until("document.getElementById('note').textContent === 'This file holds no conversations.'")
        page.evaluate("document.getElementById('note').textContent = ''")
    check("what is no conversation is refused", page.locator(".item").count() == 14)
    page.keyboard.press("Escape")
    page.fill("#search", "NEEDLE7")
    check("conversations are searched, their texts too", page.locator(".pick").all_inner_texts() == ["Old 7"])
    page.locator(".pick").click()
    check("what was imported is shown as text", page.locator(".message").count() == 2 and page.locator(".assistant b").count() == 0)
    page.get_by_label("Delete “Old 7”").click()
    chat.until("!document.querySelector('.pick')")
    page.fill("#search", "")
    check("a conversation is deleted", page.locator(".item").count() == 13 and page.is_visible("#empty"))


def themes(chat):
    page = chat.page
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = "rgb(253, 252, 250)", "rgb(27, 28, 29)"
    page.locator(".pick", has_text="show all").click()
    page.emulate_media(color_scheme="dark")
    check("dark follows the system", page.evaluate(ground) == dark)
    page.click("#open-settings")
    page.select_option("[name=theme]", "light")
    check("light is shown at once", page.evaluate(ground) == light)
    page.keyboard.press("Escape")
    chat.until("localStorage.getItem('met.theme') === 'light'")
    page.reload()
    page.wait_for_selector(".item")
    check("a theme stays after a reload", page.evaluate(ground) == light)
    page.click("#open-settings")
    page.select_option("[name=theme]", "dark")
    chat.sound("dark settings")
    chat.shot("settings-dark")
    page.click(".primary")
    page.emulate_media(color_scheme="light")
    check("dark is dark whatever the system", page.evaluate(ground) == dark)
    page.locator(".pick", has_text="show all").click()
    page.get_by_text("Thoughts").first.click()
    page.evaluate("document.getElementById('scroll').scrollTop = 0")
    chat.sound("dark")
    chat.shot("answer-dark")
    page.click("#open-settings")
    page.select_option("[name=theme]", "")
    page.click(".primary")
    check("and follows the system again", page.evaluate(ground) == light)


def keyboard(chat):
    page = chat.page
    page.keyboard.press("Control+k")
    check("Ctrl+K begins a new chat", page.is_visible("#empty") and chat.focused("#input"))
    page.keyboard.type("first")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("second")
    page.keyboard.press("Enter")
    chat.until("document.querySelectorAll('.assistant').length === 1")
    chat.ended()
    check("Shift+Enter breaks the line, Enter sends", Scripted.seen[-1]["messages"][-1]["content"] == "first\nsecond")
    page.keyboard.press("ArrowUp")
    check("up edits the last question", chat.focused(".edit") and page.input_value(".edit") == "first\nsecond")
    page.keyboard.press("Escape")
    check("Escape leaves it", page.locator(".edit").count() == 0 and chat.focused("#input"))
    page.evaluate("document.activeElement.blur()")
    page.keyboard.type("x")
    check("what is typed anywhere is written", page.input_value("#input") == "x")
    page.fill("#input", "")
    seen = []
    page.evaluate("document.activeElement.blur()")
    for _ in range(60):
        page.keyboard.press("Tab")
        name = page.evaluate("(document.activeElement.getAttribute('aria-label') || document.activeElement.textContent).trim()")
        ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle !== 'none' || document.activeElement.id === 'input'")
        if not ring and not chat.focused("body"):
            check("what has the focus shows it", False, name)
        seen.append(name)
    for name in ("+ New chat", "Search conversations", "⚙ Settings", "Conversations", "Copy", "Edit", "Regenerate", "Message"):
        check("Tab reaches " + name, name in seen, seen)
    page.click("#menu")
    check("the side bar folds", not page.is_visible("#sidebar") and page.get_attribute("#menu", "aria-expanded") == "false")
    check("a new chat is still at hand", page.is_visible("#new-top"))
    page.click("#menu")


def long_chats(chat, folder):
    page = chat.page
    messages = [{"role": ("user", "assistant")[i % 2], "content": f"**Turn {i}**\n\n```js\nconst a = {i};\n```\n\n" + "Some words. " * 60} for i in range(600)]
    file = folder / "long.json"
    file.write_text(json.dumps({"title": "Six hundred", "messages": messages}))
    page.click("#open-settings")
    page.set_input_files("#import-file", file)
    chat.until("document.getElementById('note').textContent === '1 conversation imported.'")
    page.keyboard.press("Escape")
    page.locator(".pick", has_text="Six hundred").click()
    chat.until("document.querySelectorAll('.message').length === 600")
    page.evaluate("document.querySelector('.message').marked = true")
    chat.say("and now")
    check("a question draws nothing anew", page.evaluate("document.querySelector('.message').marked === true"))
    chat.until("(s => s.scrollHeight - s.scrollTop - s.clientHeight < 60)(document.getElementById('scroll'))")
    chat.ask("long")
    chat.until("document.querySelector('.assistant:last-child .body').textContent.length > 30")
    page.mouse.move(700, 300)
    page.mouse.wheel(0, -3000)
    chat.until("!document.getElementById('latest').hidden")
    place = """() => { const message = document.elementFromPoint(700, 300).closest('.message') ?? document.querySelector('.message');
      return [[...message.parentElement.children].indexOf(message), Math.round(message.getBoundingClientRect().top)]; }"""
    before, now = None, page.evaluate(place)
    for _ in range(100):  # a wheel rolls on for a while
        before = now
        page.wait_for_timeout(300)
        now = page.evaluate(place)
        if now == before:
            break
    check("who reads above is left there", now == before and page.is_visible("#latest"), (before, now))
    chat.shot("latest-light")
    page.fill("#input", "\n".join(str(i) for i in range(12)))
    box, form = page.locator("#latest").bounding_box(), page.locator("#input").bounding_box()
    check("the way down is not over the message", box["y"] + box["height"] <= form["y"])
    page.fill("#input", "")
    page.click("#latest")
    chat.until("(s => s.scrollHeight - s.scrollTop - s.clientHeight < 60)(document.getElementById('scroll'))")
    page.keyboard.press("Escape")
    chat.ended()
    chat.say("wide")
    chat.sound("wide")
    chat.shot("wide-light")
    check("words in cells stay whole", page.locator(".assistant:last-child th").first.bounding_box()["height"] < 50)


def phone(chat):
    page = chat.page
    chat.open()
    page.fill("[name=key]", "secret")
    chat.sound("phone settings")
    chat.shot("phone-settings")
    page.click(".primary")
    chat.until("document.getElementById('model').value === 'scripted'")
    check("a phone shows one column", not page.is_visible("#sidebar"))
    page.fill("#input", "one")
    page.press("#input", "Enter")
    check("Enter is a line on a screen that is touched", page.locator(".message").count() == 0 and page.input_value("#input") == "one\n")
    chat.say("show all")
    chat.sound("phone")
    chat.shot("phone-answer")
    chat.say("wide")
    chat.sound("phone, wide")
    check("words in cells stay whole on a phone", page.locator(".assistant:last-child th").first.bounding_box()["height"] < 50)
    page.evaluate("document.getElementById('scroll').scrollTop = document.querySelector('.assistant:last-child').offsetTop - 120")
    chat.shot("phone-wide")
    small = page.evaluate("[...document.querySelectorAll('button')].filter(b => b.checkVisibility()).filter(b => b.getBoundingClientRect().height < 32).map(b => b.outerHTML)")
    check("what is touched is large enough", not small, small)
    page.tap("#menu")
    check("the drawer opens and holds the focus", page.is_visible("#sidebar") and page.evaluate("document.querySelector('main').inert") and chat.focused("#new"))
    chat.sound("drawer")
    chat.shot("phone-drawer")
    page.keyboard.press("Escape")
    check("Escape closes the drawer", not page.is_visible("#sidebar") and chat.focused("#menu"))
    page.tap("#menu")
    page.touchscreen.tap(380, 400)
    check("a touch beside it closes the drawer", not page.is_visible("#sidebar"))
    page.tap("#new-top")
    check("a new chat is at hand", page.is_visible("#empty"))
    page.emulate_media(color_scheme="dark")
    page.tap("#menu")
    page.locator(".pick").first.tap()
    check("choosing closes the drawer", not page.is_visible("#sidebar") and page.locator(".message").count() == 4)
    page.evaluate("document.getElementById('scroll').scrollTop = 0")
    chat.sound("dark phone")
    chat.shot("phone-dark")


def finish(chat):
    check("nothing leaves the origin", not chat.foreign, chat.foreign)
    check("no error and no breach of the policy", not chat.problems, chat.problems)
    chat.page.context.close()


def drive(browser, origin, shots):
    folder = shots / "files"
    folder.mkdir(parents=True, exist_ok=True)

    def chat_in(**options):
        page = browser.new_context(permissions=["clipboard-read", "clipboard-write"], **options).new_page()
        page.set_default_timeout(60_000)
        return Chat(page, origin, shots)

    desk = chat_in(viewport={"width": 1200, "height": 800})
    opening(desk)
    answers(desk)
    stopping(desk)
    errors(desk)
    pictures(desk, folder)
    conversations(desk, folder)
    themes(desk)
    keyboard(desk)
    long_chats(desk, folder)
    finish(desk)
    hand = chat_in(viewport={"width": 390, "height": 780}, is_mobile=True, has_touch=True)
    phone(hand)
    finish(hand)


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
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        drive(browser, f"http://127.0.0.1:{server.server_port}", options.shots)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
