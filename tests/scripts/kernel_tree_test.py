"""scripts/kernel_tree.py and the build tool resolve every target alike.

usage: kernel_tree_test.py KERNELC
"""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "kernel_tree.py"
KERNELC = sys.argv.pop(1)

PARENT = '[hardware]\nname = "p"\nvendor = "nvidia"\n[build]\nextra_nvcc_flags = ["-not-inherited"]\n'
CHILD = '[hardware]\nname = "h"\nvendor = "nvidia"\narch = "sm_90a"\ninherits = "p"\n[build]\nextra_nvcc_flags = ["-hw"]\n'
MODEL = '[[model_types]]\nmodel_type = "{}"\n[model]\nname = "m"\n'
TREE = {
    "p/HARDWARE.toml": PARENT,
    "h/HARDWARE.toml": CHILD,
    "p/common/a.cu": "", "p/common/b.cu": "", "p/common/x.cuh": "",
    "p/common/KERNEL.toml": '[modules]\na = "alpha"\n[build]\nextra_nvcc_flags = ["-pc", "-hw"]\n',
    "h/common/b.cu": "", "h/common/x.cuh": "", "h/common/c.cu": "",
    "h/common/KERNEL.toml": '[shadow]\n"b.cu" = "r"\n"x.cuh" = "r"\n',
    "p/m/q/c.cu": "", "p/m/q/d.cu": "", "p/m/q/KERNEL.toml": '[shadow]\n"c.cu" = "r"\n',
    "h/m/MODEL.toml": MODEL.format("one"),
    "h/m/q/d.cu": "", "h/lib/e.cu": "",
    "h/m/q/KERNEL.toml": '[sources]\nuse = ["lib"]\n[shadow]\n"d.cu" = "r"\n[modules]\na = "beta"\n[build]\nextra_nvcc_flags = ["-leaf"]\n',
    "h/twin/MODEL.toml": MODEL.format("two") + 'kernel_source = "m"\n',
}


def kernelc(tree, hardware):
    command = [KERNELC, "--tree", tree, "--out", "/dev/null", "--cache", "/dev/null", "--hw", hardware, "--list"]
    return subprocess.run(command, capture_output=True, text=True)


def script(tree, target):
    return subprocess.run([sys.executable, SCRIPT, tree, *target.split("/")], capture_output=True, text=True)


class SameAnswer(unittest.TestCase):
    def compare(self, tree, hardware):
        done = kernelc(tree, hardware)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        for line in lines:
            self.assertEqual(json.loads(script(tree, line["target"]).stdout), line)
        return lines

    def made(self, changes):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in {**TREE, **changes}.items():
            path = Path(folder.name) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return folder.name

    def test_on_the_project_s_tree(self):
        self.assertGreater(len(self.compare(ROOT / "kernels", "cpu,hopper,gb10")), 10)

    def test_on_a_tree_with_every_rule(self):
        lines = self.compare(self.made({}), "h")
        self.assertEqual([line["target"] for line in lines], ["h/m/q", "h/twin/q"])
        self.assertEqual(lines[0]["sources"], {
            "b": "kernels/h/common/b.cu", "beta": "kernels/p/common/a.cu", "c": "kernels/p/m/q/c.cu",
            "d": "kernels/h/m/q/d.cu", "e": "kernels/h/lib/e.cu"})
        self.assertEqual(lines[0]["flags"], ["-hw", "-pc", "-leaf"])

    def test_both_refuse(self):
        for changes in [{"h/m/q/KERNEL.toml": ""},
                        {"h/common/KERNEL.toml": '[shadow]\n"b.cu" = "r"\n"x.cuh" = "r"\n"c.cu" = "dead"\n'},
                        {"h/m/q/KERNEL.toml": '[sources]\nuse = ["gone"]\n[shadow]\n"d.cu" = "r"\n'}]:
            tree = self.made(changes)
            self.assertNotEqual(kernelc(tree, "h").returncode, 0)
            self.assertNotEqual(script(tree, "h/m/q").returncode, 0)


if __name__ == "__main__":
    unittest.main()
