#!/usr/bin/env python3
"""Kills the server in the middle of many writers, again and again: whatever it acknowledged is there afterwards.

Writers make conversations, add items to them, make responses, and delete some of it; each notes what was acknowledged. The
server gets SIGKILL at a random moment and starts anew on the same directory. At the end everything is read back: objects
and items in their order, pages that fit together, nothing that was deleted, no background response that still waits.

usage: tests/api_blackbox/store_kill.py [--met build/release/met] [--model FILE] [--kills 3] [--writers 8] [--seed N]
"""
import argparse
import http.client
import json
import random
import sys
import tempfile
import threading
import time

from serving import ROOT, Server

KEY = "store-kill-key"


class StoreServer(Server):
    """One life of the server on the directory; the other key changes from one life to the next, ours stays."""

    def __init__(self, options, directory, life):
        self.other_key = f"another-key-{life}"
        super().__init__(options.met, options.model, "--max-seq-len", "512", "--store-dir", directory, "--require-auth",
                         "--auth-token", self.other_key, "--auth-token", KEY)

    def ask(self, method, path, body=None, key=KEY):
        """Status and object; raises OSError or HTTPException where the server is gone."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, None if body is None else json.dumps(body),
                               {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


class Writer(threading.Thread):
    """Writes until its server is gone. `unsure` is what was under way then: it may be there or not."""

    def __init__(self, server, seed):
        super().__init__()
        self.server, self.random = server, random.Random(seed)
        self.objects, self.items, self.deleted, self.background = {}, {}, [], []
        self.unsure = set()
        self.refused = []

    def run(self):
        try:
            while not self.refused:
                self.step()
        except (OSError, http.client.HTTPException, ValueError):
            pass  # killed

    def sure(self, status, wanted=200):
        if status != wanted:
            self.refused.append(f"a write was answered {status}")
            raise ValueError(status)

    def step(self):
        kind = self.random.choice(["conversation", "items", "items", "items", "response", "background", "delete"])
        if kind == "conversation" or not self.items:
            status, made = self.server.ask("POST", "/v1/conversations", {"metadata": {"n": str(len(self.items))}})
            self.sure(status)
            self.objects[f"/v1/conversations/{made['id']}"] = made
            self.items[made["id"]] = []
        elif kind == "items":
            where = self.random.choice(list(self.items))
            texts = [f"{len(self.items[where]) + i} " + "x" * self.random.randrange(400) for i in range(self.random.randrange(1, 4))]
            self.unsure.add(where)
            status, page = self.server.ask("POST", f"/v1/conversations/{where}/items",
                                           {"items": [{"role": "user", "content": text} for text in texts]})
            self.sure(status)
            self.items[where] += page["data"]
            self.unsure.discard(where)
        elif kind == "delete":
            path = self.random.choice(list(self.objects))
            self.unsure.add(path)
            status, _ = self.server.ask("DELETE", path)
            self.sure(status)
            del self.objects[path]
            self.items.pop(path.rsplit("/", 1)[1], None)
            self.deleted.append(path)
        else:
            body = {"input": "Hi.", "max_output_tokens": 2, "background": kind == "background"}
            status, made = self.server.ask("POST", "/v1/responses", body)
            self.sure(status)
            path = f"/v1/responses/{made['id']}"
            if kind == "background":
                self.background.append(path)
            else:
                self.objects[path] = made


def all_items(server, conversation):
    out, after = [], ""
    while True:
        status, page = server.ask("GET", f"/v1/conversations/{conversation}/items?order=asc&limit=7{after}")
        if status != 200:
            return None
        out += page["data"]
        if not page["has_more"]:
            return out
        after = f"&after={page['last_id']}"


def check(server, writers):
    """What is wrong, in words; and how much was looked at."""
    wrong, seen = [], 0
    for writer in writers:
        wrong += writer.refused
        for path, made in writer.objects.items():
            status, found = server.ask("GET", path)
            seen += 1
            if status == 404 and path in writer.unsure:
                continue
            if found != made:
                wrong.append(f"{path}: {status} {str(found)[:200]}")
            if server.ask("GET", path, key=server.other_key)[0] != 404:
                wrong.append(f"{path}: another key sees it")
        for where, wanted in writer.items.items():
            found = all_items(server, where)
            seen += len(wanted)
            if found is None and f"/v1/conversations/{where}" in writer.unsure:
                continue
            if found is None or found[:len(wanted)] != wanted or (len(found) > len(wanted) and where not in writer.unsure):
                wrong.append(f"{where}: {found and len(found)} items instead of {len(wanted)}")
        for path in writer.deleted:
            seen += 1
            if server.ask("GET", path)[0] != 404:
                wrong.append(f"{path}: was deleted")
        for path in writer.background:
            seen += 1
            status, found = server.ask("GET", path)
            if status != 200 or found["status"] not in ("completed", "incomplete", "failed"):
                wrong.append(f"{path}: {status} {found.get('status')}")
            elif found["status"] == "failed" and "stopped" not in found["error"]["message"]:
                wrong.append(f"{path}: failed of {found['error']}")
    return wrong, seen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--met", default=ROOT / "build" / "release" / "met")
    parser.add_argument("--model", default=ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    print(f"store_kill: seed {options.seed}")
    chance = random.Random(options.seed)
    writers = []
    with tempfile.TemporaryDirectory(prefix="met-store-kill-") as directory:
        for life in range(options.kills):
            server = StoreServer(options, directory, life)
            mine = [Writer(server, chance.random()) for _ in range(options.writers)]
            for writer in mine:
                writer.start()
            time.sleep(0.3 + chance.random())
            server.kill()
            for writer in mine:
                writer.join()
            writers += mine
        server = StoreServer(options, directory, options.kills)
        try:
            wrong, seen = check(server, writers)
        finally:
            server.kill()
    print(f"store_kill: {options.kills} kills, {seen} acknowledged objects and items, {len(wrong)} wrong")
    for line in wrong[:20]:
        print(f"  {line}")
    return 1 if wrong or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
