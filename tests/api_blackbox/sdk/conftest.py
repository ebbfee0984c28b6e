"""One server for the whole run, and the official clients of it."""
import os
import pathlib

import anthropic
import openai
import pytest

import serving

HERE = pathlib.Path(__file__).resolve().parent
KEY = "sdk-key"
# A model whose template opens a block of reasoning where a request asks for it, and takes tools.
THINK = "{%- if add_generation_prompt and enable_thinking -%}{{- '<think>\\n' -}}{%- endif -%}\n"


@pytest.fixture(scope="session")
def base_url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("met")
    template = folder / "template.jinja"
    template.write_text((HERE.parent / "chatml_tools.jinja").read_text() + THINK)
    with serving.Server(os.environ["MET"], os.environ["MET_MODEL"], "--max-seq-len", "2048", "--max-batch-size", "4",
                        "--chat-template", template, "--require-auth", "--auth-token", KEY, "--max-thinking-budget", "12") as server:
        yield f"http://127.0.0.1:{server.port}"
        assert server.process.poll() is None, "the server died: " + "".join(server.log)
    assert server.process.returncode == 0


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
