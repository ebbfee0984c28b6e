"""Writes ggml_types.json: random blocks of every ggml type and their values by gguf.quants (pip install gguf numpy).

Usage: python3 make_ggml_types.py > ggml_types.json
"""

import json

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

SCALES = {  # byte offsets of the f16 scales in a block
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [],
}  # fmt: skip

random = np.random.default_rng(17)
cases = {}
for name, offsets in SCALES.items():
    kind = GGMLQuantizationType[name]
    elements, size = GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (512 // elements, size), dtype=np.uint8)
    for row in blocks:
        for at in offsets:
            row[at : at + 2] = np.frombuffer(np.float16(random.normal() * 0.01).tobytes(), np.uint8)
        if name == "MXFP4":
            row[0] = random.integers(100, 140)
    values = quants.dequantize(blocks.reshape(1, -1), kind).astype(np.float32)
    cases[name] = {"blocks": blocks.tobytes().hex(), "values": values.tobytes().hex()}
print(json.dumps(cases, indent=1))
