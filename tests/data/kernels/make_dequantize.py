"""Writes dequantize.txt: random blocks of every weight type and what the gguf package (written with 0.19.0) makes of them.

usage: make_dequantize.py > dequantize.txt
Each line: type name, the block's bytes in hexadecimal, the weights' F32 bit patterns in hexadecimal.
"""
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

SCALES = {T.Q4_1: (0, 2), T.Q5_1: (0, 2), T.Q4_K: (0, 2), T.Q5_K: (0, 2), T.Q6_K: (208,),
          T.Q2_K: (80, 82), T.Q3_K: (108,), T.MXFP4: ()}
rng = np.random.default_rng(7)
for kind in (T.F16, T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q4_K, T.Q5_K, T.Q6_K,
             T.Q2_K, T.Q3_K, T.IQ4_NL, T.MXFP4):
    size = 32 if kind in (T.F16, T.BF16) else GGML_QUANT_SIZES[kind][1]
    for _ in range(2):  # MXFP4: any scale byte
        block = rng.integers(0, 256, size, dtype=np.uint8)
        if kind == T.F16:
            block = rng.normal(size=16).astype(np.float16).view(np.uint8)
        elif kind == T.BF16:
            block = (rng.normal(size=16).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        else:
            for at in SCALES.get(kind, (0,)):
                block[at:at + 2] = np.array([rng.normal() * 0.1], dtype=np.float16).view(np.uint8)
        values = dequantize(block.reshape(1, -1), kind).reshape(-1).astype(np.float32)
        print(kind.name, block.tobytes().hex(), values.view(np.uint32).astype(">u4").tobytes().hex())
