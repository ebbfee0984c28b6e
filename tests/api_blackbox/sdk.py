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
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = pathlib.Path(__file__).resolve().parent / "sdk"


def python_with_clients() -> pathlib.Path:
    where = ROOT / "build" / "sdk-venv"
    python = where / "bin" / "python"
    stamp = where / "requirements.txt"
    wanted = (TESTS / "requirements.txt").read_text()
    if not (stamp.exists() and stamp.read_text() == wanted):
        venv.create(where, with_pip=True)
        subprocess.run([python, "-m", "pip", "-q", "install", "-r", TESTS / "requirements.txt"], check=True)
        stamp.write_text(wanted)
    return python


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--met", default=ROOT / "build" / "release" / "met", type=pathlib.Path)
    parser.add_argument("--model", default=ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf", type=pathlib.Path)
    options, rest = parser.parse_known_args()
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "MET": str(options.met.resolve()), "MET_MODEL": str(options.model.resolve())}
    command = [python_with_clients(), "-m", "pytest", "-q", "--tb=short", "--timeout=120", "-p", "no:cacheprovider", "--rootdir", TESTS, TESTS, *rest]
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
