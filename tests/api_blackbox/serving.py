"""What the black-box runs share: packages in a venv of their own, and `met serve` for a while."""
import collections
import pathlib
import re
import signal
import subprocess
import threading
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]


def python_with(requirements: pathlib.Path, name: str) -> pathlib.Path:
    """The interpreter of build/<name>, which has these packages; made anew when their list has changed."""
    where = ROOT / "build" / name
    python = where / "bin" / "python"
    stamp = where / "requirements.txt"
    wanted = requirements.read_text()
    if not (stamp.exists() and stamp.read_text() == wanted):
        venv.create(where, with_pip=True)
        subprocess.run([python, "-m", "pip", "-q", "install", "-r", requirements], check=True)
        stamp.write_text(wanted)
    return python


class Server:
    """One life of `met serve` on a free port, from ready on; its log is read all the time, so that it never waits for us.
    `met` is the binary, or a list that begins with what runs it."""

    def __init__(self, met, model, *flags):
        met = met if isinstance(met, list) else [met]
        self.process = subprocess.Popen([*met, "serve", model, "--port", "0", *flags], stderr=subprocess.PIPE, text=True)
        self.log = collections.deque(maxlen=50)
        self.port = None
        for line in self.process.stderr:
            self.log.append(line)
            if found := re.search(r"ready: https?://127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                break
        if self.port is None:
            raise SystemExit("the server did not start:\n" + "".join(self.log))
        threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
