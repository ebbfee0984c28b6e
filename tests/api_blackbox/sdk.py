#!/usr/bin/env python3
"""Runs the official openai and anthropic clients against `met serve`: calls, streams, helpers, tools, errors.

usage: tests/api_blackbox/sdk.py [--met build/release/met] [--model FILE] [pytest arguments]

The clients are pinned in sdk/requirements.txt and installed into a venv under build/.
"""
import argparse
import os
import pathlib
import subprocess
import sys

from serving import ROOT, python_with

TESTS = pathlib.Path(__file__).resolve().parent / "sdk"


def python_with_clients() -> pathlib.Path:
    return python_with(TESTS / "requirements.txt", "sdk-venv")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--met", default=ROOT / "build" / "release" / "met", type=pathlib.Path)
    parser.add_argument("--model", default=ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf", type=pathlib.Path)
    options, rest = parser.parse_known_args()
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(TESTS.parent), "MET": str(options.met.resolve()), "MET_MODEL": str(options.model.resolve())}
    command = [python_with_clients(), "-m", "pytest", "-q", "--tb=short", "--timeout=120", "-p", "no:cacheprovider", "--rootdir", TESTS, TESTS, *rest]
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
