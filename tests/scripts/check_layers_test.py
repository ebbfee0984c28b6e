"""The layer check finds what it is there for, in trees made here."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_layers"
TABLE = """
| folder | holds | may depend on |
|---|---|---|
| `src/core` | basics | \u2013 |
| `src/formats` | files | core |
| `src/config` | settings | formats |
| `src/ops` | operations | core |
| `src/bench` `src/cli` | main | everything above |
| `kernels/` | sources | \u2013 |
"""
CLEAN = {
    "docs/architecture.md": TABLE,
    "src/core/CMakeLists.txt": "met_library(core SOURCES a.cpp)",
    "src/core/a.h": "",
    "src/formats/CMakeLists.txt": "met_library(formats SOURCES b.cpp DEPS met::core)",
    "src/config/CMakeLists.txt": "met_library(config SOURCES c.cpp DEPS met::formats)",
    "src/config/c.cpp": '#include "core/a.h"\n#include "formats/b.h"\n#include <vector>\n',
    "src/ops/CMakeLists.txt": "met_library(ops DEPS met::core)",
    "src/cli/CMakeLists.txt": "target_link_libraries(met PRIVATE met::config met::ops met::bench)",
    "src/bench/CMakeLists.txt": "met_library(bench DEPS met::config)",
    "kernels/cpu/common/k.cpp": '#include "met/ops.h"\n',
}


class CheckLayers(unittest.TestCase):
    def run_on(self, changes):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**CLEAN, **changes}.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            done = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True)
        return done.returncode, done.stdout

    def test_clean_tree_passes_through_transitive_edges(self):
        self.assertEqual(self.run_on({}), (0, ""))

    def test_violations_are_named(self):
        cases = [
            ({"src/ops/x.h": '// text\n#include "config/c.h"\n'}, "src/ops/x.h:2: src/ops does not reach src/config"),
            ({"src/core/x.cpp": '  #  include "ops/y.h"\n'}, "src/core/x.cpp:1: src/core does not reach src/ops"),
            ({"src/ops/CMakeLists.txt": "met_library(ops DEPS met::core met::config)"},
             "src/ops/CMakeLists.txt: met::config is not among"),
            ({"src/extra/CMakeLists.txt": "met_library(extra)"}, "src/extra: is not in the table"),
            ({"kernels/cpu/common/k.cpp": '#include "core/a.h"\n'}, "kernels/cpu/common/k.cpp:1: kernel sources"),
        ]
        for changes, want in cases:
            with self.subTest(want):
                code, said = self.run_on(changes)
                self.assertEqual(code, 1)
                self.assertIn(want, said)

    def test_a_comment_in_a_build_file_is_no_edge(self):
        code, said = self.run_on({"src/ops/CMakeLists.txt": "met_library(ops DEPS met::core) # met::config some day"})
        self.assertEqual((code, said), (0, ""))


if __name__ == "__main__":
    unittest.main()
