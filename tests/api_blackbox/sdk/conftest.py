"""One server for the whole run, and the official clients of it."""
import os
import pathlib
import re
import subprocess

import anthropic
import openai
import pytest

HERE = pathlib.Path(__file__).resolve().parent
KEY = "sdk-key"
# A model whose template opens a block of reasoning where a request asks for it, and takes tools.
THINK = "{%- if add_generation_prompt and enable_thinking -%}{{- '<think>\\n' -}}{%- endif -%}\n"


@pytest.fixture(scope="session")
def base_url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("met")
    template = folder / "template.jinja"
    template.write_text((HERE.parent / "chatml_tools.jinja").read_text() + THINK)
    log = folder / "server.log"
    with log.open("w") as out:
        server = subprocess.Popen([os.environ["MET"], "serve", os.environ["MET_MODEL"], "--port", "0", "--max-seq-len", "2048",
                                   "--max-batch-size", "4", "--chat-template", str(template), "--require-auth", "--auth-token", KEY,
                                   "--max-thinking-budget", "12"], stderr=out)
    try:
        port = None
        while port is None and server.poll() is None:
            found = re.search(r"ready: http://127\.0\.0\.1:(\d+)", log.read_text())
            port = int(found[1]) if found else None
        assert port is not None, log.read_text()[-2000:]
        yield f"http://127.0.0.1:{port}"
        assert server.poll() is None, "the server died: " + log.read_text()[-2000:]
    finally:
        server.terminate()
        assert server.wait(30) == 0


@pytest.fixture(scope="session")
def oai(base_url):
    with openai.OpenAI(base_url=base_url + "/v1", api_key=KEY, max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def claude(base_url):
    with anthropic.Anthropic(base_url=base_url, api_key=KEY, max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def model(oai):
    return oai.models.list().data[0].id
