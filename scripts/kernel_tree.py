#!/usr/bin/env python3
"""Resolves a kernel target as docs/kernels.md says, independently of src/closure: for checkers that do not want a build,
and as a second opinion. `kernelc --list` prints the same JSON; a test holds the two to one answer.

usage: kernel_tree.py ROOT HARDWARE MODEL QUANT
"""
import json
import sys
import tomllib
from pathlib import Path

SOURCE = {"cpu": ".cpp", "apple": ".metal", "metal": ".metal"}
HEADERS = {".h", ".hpp", ".cuh", ".inc"}
FLAGS = ("extra_cxx_flags", "extra_metal_flags", "extra_nvcc_flags")


class TreeError(Exception):
    pass


def read(path):
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


class Layer:
    def __init__(self, root, hardware, folder, role, tier, suffixes):
        self.role, self.tier = role, tier
        self.manifest = read(folder / "KERNEL.toml")
        self.files = {}
        paths = sorted(p for p in folder.iterdir() if p.is_file())
        for use in self.manifest.get("sources", {}).get("use", []):
            used = root / hardware / use
            if not used.exists():
                raise TreeError(f"use of {use}")
            paths += sorted(p for p in used.iterdir() if p.is_file()) if used.is_dir() else [used]
        for path in paths:
            if path.suffix not in suffixes | HEADERS:
                continue
            if path.name in self.files:
                raise TreeError(f"{path.name} twice in one layer")
            self.files[path.name] = path


def beats(layer, name, other, source):
    """Files of `other` that `layer`'s file wins over."""
    for file, path in other.files.items():
        same_role = other.role == layer.role and other.tier < layer.tier and file == name
        by_stem = other.role < layer.role and name.endswith(source) and file.endswith(source)
        if (same_role or by_stem and Path(file).stem == Path(name).stem) and path != layer.files[name]:
            yield file


def check_shadows(layers, source):
    for layer in layers:
        declared = set(layer.manifest.get("shadow", {}))
        alive = {name for name in layer.files for other in layers for _ in beats(layer, name, other, source)}
        if alive != declared:
            raise TreeError(f"shadows: undeclared {sorted(alive - declared)}, dead {sorted(declared - alive)}")


def append(flags, more):
    flags.extend(f for f in dict.fromkeys(more) if f not in flags)


def resolve(root, hardware, model, quant):
    own = read(root / hardware / "HARDWARE.toml")
    manifest = read(root / hardware / model / "MODEL.toml")["model"]
    if quant not in manifest.get("supported_quants", [quant]):
        raise TreeError("quant is not supported")
    source = SOURCE.get(own["hardware"]["vendor"], ".cu")
    leaf = Path(manifest.get("kernel_source", model)) / quant
    layers = []
    for role, folder in enumerate([Path("common"), leaf]):
        for tier, name in enumerate([own["hardware"].get("inherits"), hardware]):
            if name and (root / name / folder).is_dir():
                layers.append(Layer(root, name, root / name / folder, role, tier, {source}))
    check_shadows(layers, source)
    flags, modules = [], {}
    for table in [own, *(layer.manifest for layer in layers)]:
        for key in FLAGS:
            append(flags, table.get("build", {}).get(key, []))
        modules.update(table.get("modules", {}))
    by_role = [{}, {}]
    for layer in layers:
        by_role[layer.role].update(layer.files)
    by_stem = {Path(n).stem: p for role in by_role for n, p in role.items() if n.endswith(source)}
    sources = {modules.get(stem, stem): "kernels/" + path.relative_to(root).as_posix() for stem, path in by_stem.items()}
    return {"target": f"{hardware}/{model}/{quant}", "flags": flags, "sources": dict(sorted(sources.items()))}


if __name__ == "__main__":
    try:
        print(json.dumps(resolve(Path(sys.argv[1]).resolve(), *sys.argv[2:5]), separators=(",", ":")))
    except TreeError as error:
        sys.exit(f"kernel_tree: {error}")
