#!/usr/bin/env python3
"""Writes the seeds of the fuzzers' corpora: one sound file a format, and the faults that parsers have been caught with.

usage: make_seeds.py [CORPUS_DIR]      (default: corpus/ beside this file)

Sizes and offsets that wrap, counts near 2^63, strings past the end, arrays of a wrong element type, ids cast to int,
duplicates, overlaps, alignments that are none. The same seeds come out every time; what a fuzzer found is kept beside
them under names that begin with "found-".
"""
import json
import pathlib
import random
import struct
import sys

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
MXFP4 = 39
FORMATS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B", U64: "Q", I64: "q", F64: "d"}


def pack(code, *values):
    return struct.pack("<" + code, *values)


def text(value):
    raw = value if isinstance(value, bytes) else value.encode()
    return pack("Q", len(raw)) + raw


def scalar(kind, value):
    return text(value) if kind == STRING else pack(FORMATS[kind], value)


def entry(key, kind, value):
    return text(key) + pack("I", kind) + scalar(kind, value)


def array(key, kind, values, count=None):
    body = b"".join(scalar(kind, v) for v in values) if kind != ARRAY else b"".join(values)
    return text(key) + pack("IIQ", ARRAY, kind, len(values) if count is None else count) + body


def tensor(name, dims, kind=0, offset=0):
    return text(name) + pack("I", len(dims)) + b"".join(pack("Q", d) for d in dims) + pack("IQ", kind, offset)


def gguf(entries, tensors=(), data=b"", version=3, counts=None, alignment=32):
    tensor_count, entry_count = counts or (len(tensors), len(entries))
    head = b"GGUF" + pack("IQQ", version, tensor_count, entry_count) + b"".join(entries) + b"".join(tensors)
    return head + bytes(-len(head) % alignment) + data


def byte_symbols():
    symbols, extra = [], 256
    for b in range(256):
        printable = 33 <= b <= 126 or 161 <= b <= 172 or b >= 174
        symbols.append(chr(b if printable else extra))
        extra += not printable
    return symbols


def tiny_model(change=None, kinds=None, num_bytes=32):
    """A llama of one layer and 8 dimensions, whose vocabulary has `num_bytes` bytes from "`" on and four tokens more.

    `change` replaces entries by key (None leaves one out).
    """
    rng = random.Random(1)
    symbols = byte_symbols()
    tokens = (symbols[96:] + symbols[:96])[:num_bytes] + ["th", "he", "<|end|>", "<|pad|>"]
    num_tokens = len(tokens)
    entries = {
        "general.architecture": (STRING, "llama"), "llama.block_count": (U32, 1), "llama.context_length": (U32, 32),
        "llama.embedding_length": (U32, 8), "llama.feed_forward_length": (U32, 32),
        "llama.attention.head_count": (U32, 1), "llama.attention.head_count_kv": (U32, 1),
        "llama.attention.layer_norm_rms_epsilon": (F32, 1e-5), "tokenizer.ggml.model": (STRING, "gpt2"),
        "tokenizer.ggml.pre": (STRING, "gpt-2"), "tokenizer.ggml.eos_token_id": (U32, num_tokens - 2),
    }
    arrays = {
        "tokenizer.ggml.tokens": (STRING, tokens), "tokenizer.ggml.merges": (STRING, ["t h", "h e"]),
        "tokenizer.ggml.token_type": (I32, [1] * (num_tokens - 2) + [3] * 2),
    }
    written = {k: entry(k, *v) for k, v in entries.items()} | {k: array(k, *v) for k, v in arrays.items()}
    written.update(change or {})
    shapes = {"token_embd.weight": [8, num_tokens], "output_norm.weight": [8]}
    for name, dims in {"attn_norm": [8], "attn_q": [8, 8], "attn_k": [8, 8], "attn_v": [8, 8], "attn_output": [8, 8],
                       "ffn_norm": [8], "ffn_gate": [8, 32], "ffn_up": [8, 32], "ffn_down": [32, 8]}.items():
        shapes[f"blk.0.{name}.weight"] = dims
    infos, data = [], b""
    for name, dims in shapes.items():
        kind, bits = (kinds or {}).get(name, (1, 16))
        count = dims[0] * (dims[1] if len(dims) > 1 else 1)
        infos.append(tensor(name, dims, kind, len(data)))
        if bits == 16:
            values = b"".join(pack("e", rng.gauss(0, 0.3)) for _ in range(count))
        else:
            values = bytearray(rng.randrange(256) for _ in range(int(count * bits // 8)))
            if kind == MXFP4:
                values[::17] = bytes([120]) * (count // 32)  # a scale that can be kept
        data += values
        data += bytes(-len(data) % 32)
    return gguf([v for v in written.values() if v is not None], infos, data)


def gguf_seeds():
    big = 1 << 63
    name = entry("general.architecture", STRING, "llama")
    seeds = {
        "tiny-llama": tiny_model(), "tiny-llama-all-bytes": tiny_model(num_bytes=256),
        "ffn-mxfp4": tiny_model(kinds={"blk.0.ffn_down.weight": (MXFP4, 4.25)}),
        "ffn-iq4nl": tiny_model(kinds={"blk.0.ffn_down.weight": (20, 4.5)}),
        "ffn-q8": tiny_model(kinds={"blk.0.ffn_down.weight": (8, 8.5)}),
        "version-1": gguf([name], version=1), "version-big-endian": gguf([name], version=3 << 24),
        "counts-near-2-63": gguf([name], counts=(big - 1, big - 1)),
        "counts-wrap": gguf([name], counts=(1, (1 << 64) - 1)),
        "string-past-end": gguf([text("k") + pack("IQ", STRING, 1 << 40)]),
        "string-length-max": gguf([text("k") + pack("IQ", STRING, (1 << 64) - 1)]),
        "key-length-wraps": gguf([pack("Q", (1 << 64) - 8) + b"key"]),
        "key-empty": gguf([entry("", U32, 1)]),
        "key-twice": gguf([name, name]),
        "bool-2": gguf([entry("k", BOOL, 2)]),
        "value-type-13": gguf([text("k") + pack("II", 13, 0)]),
        "array-count-wraps": gguf([array("k", U64, [1], count=1 << 61)]),
        "array-count-max": gguf([array("k", U8, [1], count=(1 << 64) - 1)]),
        "array-of-strings-count": gguf([array("k", STRING, ["a"], count=big)]),
        "array-element-13": gguf([text("k") + pack("IIQ", ARRAY, 13, 1) + bytes(8)]),
        "array-nested": gguf([array("k", ARRAY, [pack("IQ", ARRAY, 1) + pack("IQ", ARRAY, 1)] * 2)]),
        "array-u64-above-int64": gguf([array("k", U64, [big])]),
        "dims-wrap": gguf([name], [tensor("t", [1 << 32, 1 << 32])]),
        "dims-wrap-to-little": gguf([name], [tensor("t", [(1 << 62) + 1, 4])], bytes(64)),
        "dim-negative": gguf([name], [tensor("t", [(1 << 64) - 1])]),
        "dim-zero": gguf([name], [tensor("t", [0, 32])]),
        "dims-none": gguf([name], [tensor("t", [])]), "dims-five": gguf([name], [tensor("t", [1] * 5)]),
        "sizes-sum-wraps": gguf([name], [tensor("a", [1 << 60]), tensor("b", [1 << 60], 0, 1 << 62)], bytes(64)),
        "padding-wraps": gguf([name], [tensor("a", [(1 << 61) - 1]), tensor("b", [8], 0, 32)], bytes(64)),
        "offset-near-max": gguf([name], [tensor("t", [8], 0, (1 << 64) - 32)], bytes(64)),
        "offset-past-end": gguf([name], [tensor("t", [8], 0, 64)], bytes(64)),
        "offset-odd": gguf([name], [tensor("t", [8], 0, 4)], bytes(64)),
        "tensors-overlap": gguf([name], [tensor("a", [16]), tensor("b", [16], 0, 32)], bytes(96)),
        "tensor-twice": gguf([name], [tensor("a", [8]), tensor("a", [8], 0, 32)], bytes(64)),
        "tensor-type-unknown": gguf([name], [tensor("t", [32], 200)], bytes(64)),
        "tensor-ragged-block": gguf([name], [tensor("t", [33], 8)], bytes(64)),
        "tokens-as-ints": tiny_model({"tokenizer.ggml.tokens": array("tokenizer.ggml.tokens", I32, range(36))}),
        "types-as-strings": tiny_model(
            {"tokenizer.ggml.token_type": array("tokenizer.ggml.token_type", STRING, ["1"] * 36)}),
        "types-too-few": tiny_model({"tokenizer.ggml.token_type": array("tokenizer.ggml.token_type", I32, [1])}),
        "merges-of-no-token": tiny_model({"tokenizer.ggml.merges": array("tokenizer.ggml.merges", STRING, ["zz", " ", "q z"])}),
        "tokens-missing": tiny_model({"tokenizer.ggml.tokens": None}),
    }
    for value in (0, 3, 1, 1 << 31, 64):
        seeds[f"alignment-{value}"] = gguf([entry("general.alignment", U32, value)], [tensor("t", [8])], bytes(64))
    for kind, value in ((U64, 1 << 32 | 1), (I32, -1), (I32, -2), (U32, 0xFFFFFFFF), (U32, 36), (F32, 34.0)):
        seeds[f"eos-{kind}-{value}"] = tiny_model(
            {"tokenizer.ggml.eos_token_id": entry("tokenizer.ggml.eos_token_id", kind, value)})
    for key, value in (("block_count", 0x7FFFFFFF), ("embedding_length", 0), ("attention.head_count", 0),
                       ("attention.head_count", 3), ("attention.head_count_kv", 0x80000000), ("context_length", 0),
                       ("rope.dimension_count", 0xFFFFFFFE), ("expert_count", 8)):
        key = "llama." + key
        seeds[f"{key}-{value}"] = tiny_model({key: entry(key, U32, value)})
    return seeds


BERT = [("embeddings.word_embeddings.weight", [9, 8]), ("embeddings.position_embeddings.weight", [4, 8]),
        ("embeddings.token_type_embeddings.weight", [2, 8]), ("embeddings.LayerNorm.weight", [8]),
        ("embeddings.LayerNorm.bias", [8])]
for part, shape in (("attention.self.query", [8, 8]), ("attention.self.key", [8, 8]), ("attention.self.value", [8, 8]),
                    ("attention.output.dense", [8, 8]), ("attention.output.LayerNorm", [8]),
                    ("intermediate.dense", [16, 8]), ("output.dense", [8, 16]), ("output.LayerNorm", [8])):
    BERT += [(f"encoder.layer.0.{part}.weight", shape), (f"encoder.layer.0.{part}.bias", shape[:1])]


def safetensors(header, data=b"", length=None):
    raw = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return pack("Q", len(raw) if length is None else length) + raw + data


def safetensors_seeds():
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, shape in BERT:
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [len(data), len(data) + size]}
        data += pack("e", 0.5) * (size // 2)

    def one(**change):
        return safetensors({"t": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | change}, bytes(16))

    seeds = {"tiny-bert": safetensors(header, data), "empty": b"", "short": bytes(7), "no-header": safetensors({}),
             "one": one(), "dtype-unknown": one(dtype="F3"), "dtype-number": one(dtype=3), "dtype-mismatch": one(dtype="F16"),
             "offsets-reversed": one(data_offsets=[8, 0]), "offsets-past-end": one(data_offsets=[8, 1 << 40]),
             "offsets-negative": one(data_offsets=[-8, 0]), "offsets-one": one(data_offsets=[8]),
             "offsets-float": one(data_offsets=[0.0, 8e0]), "offsets-max": one(data_offsets=[(1 << 64) - 8, 1 << 64]),
             "shape-wraps": one(shape=[1 << 32, 1 << 32]), "shape-negative": one(shape=[-1, -2]), "shape-zero": one(shape=[0]),
             "shape-text": one(shape="2"), "header-array": safetensors([1]), "header-text": safetensors(b'"x"'),
             "header-cut": safetensors(b'{"t":{"dtype":'), "header-not-utf8": safetensors(b'{"\xff":1}'),
             "header-nested": safetensors(b"[" * 3000), "tensor-null": safetensors({"t": None}),
             "tensor-twice": safetensors(b'{"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
                                         b'"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', bytes(4)),
             "overlap": safetensors({n: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} for n in "ab"}, bytes(8))}
    for length in (1 << 63, (1 << 64) - 1, (1 << 64) - 8, 1 << 32, 3):
        seeds[f"length-{length}"] = safetensors({}, bytes(8), length)
    return seeds


def varint(value):
    out = b""
    while value >= 128:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def onnx_tensor(name, dims, kind, raw=None, extra=b""):
    body = b"".join(field(1, d) for d in dims) + field(2, kind) + field(8, name)
    return body + (field(9, raw) if raw is not None else b"") + extra


def onnx(tensors=(), nodes=(), extra=b""):
    graph = b"".join(field(1, n) for n in nodes) + b"".join(field(5, t) for t in tensors) + extra
    return field(1, 8) + field(7, graph)


def onnx_seeds():
    floats = onnx_tensor("bert.embeddings.LayerNorm.weight", [2], 1, bytes(8))
    node = field(1, "x") + field(1, "w") + field(2, "y") + field(3, "n") + field(4, "MatMulInteger")
    initializer = varint(5 << 3 | 2)
    return {
        "one": onnx([floats], [node]), "empty": b"",
        "int8": onnx([onnx_tensor("w_quantized", [2, 2], 3, bytes(4)), onnx_tensor("w_scale", [], 1, bytes(4)),
                      onnx_tensor("w_zero_point", [], 3, bytes(1))], [node]),
        "float-data": onnx([onnx_tensor("t", [2], 1, extra=field(4, bytes(8)))]),
        "int-data": onnx([onnx_tensor("t", [2], 3, extra=field(5, b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\x01"))]),
        "both-data": onnx([onnx_tensor("t", [2], 1, bytes(8), field(4, bytes(8)))]),
        "dims-wrap": onnx([onnx_tensor("t", [1 << 32, 1 << 32], 1, b"")]),
        "dim-negative": onnx([onnx_tensor("t", [(1 << 64) - 1], 1, bytes(4))]),
        "dims-too-many-bytes": onnx([onnx_tensor("t", [1 << 40], 3, bytes(4))]),
        "name-twice": onnx([floats, floats]),
        "external": onnx([onnx_tensor("t", [2], 1, extra=field(14, 1))]),
        "length-max": onnx(extra=initializer + varint((1 << 64) - 1)),
        "length-past-end": onnx(extra=initializer + varint(1 << 32)),
        "varint-endless": b"\x80" * 32, "varint-overflow": b"\xff" * 9 + b"\x7f", "group": b"\x0b\x0c",
        "wire-type-7": b"\x0f\x00", "field-0": b"\x02\x00", "nested": field(7, field(7, field(7, field(7, b"")))),
    }


def e5s1(pieces=4, offsets=None, blob=b"<s></s>ab", hidden=32, rows=None, norm=((0x41, b"a"),), directory=b"", count=0,
         blob_length=None, norm_count=None, positions=4):
    offsets = offsets if offsets is not None else [0, 3, 7, 8, 9]
    rows = pieces if rows is None else rows
    out = b"E5S1" + pack("Iiiiiiii", 1, hidden, 1, 2, 64, rows, positions, 1) + pack("fi", 1e-12, 32)
    out += pack("iiiiiQ", pieces, 0, 1, 2, 3, len(blob) if blob_length is None else blob_length)
    out += b"".join(pack("I", o) for o in offsets) + pack("f", -1.0) * min(max(pieces, 0), 64) + blob
    table = b"".join(pack("IB", c, len(t)) + t for c, t in norm)
    out += pack("iI", len(norm) if norm_count is None else norm_count, len(table)) + table
    return out + pack("i", count) + directory


def e5s1_seeds():
    def item(name, kind, elements, offset, size):
        return pack("H", len(name)) + name + pack("BIQQ", kind, elements, offset, size)

    return {
        "vocabulary": e5s1(), "empty": b"", "magic": b"E5S1", "version-2": b"E5S1" + pack("I", 2) + bytes(80),
        "pieces-negative": e5s1(pieces=-1, offsets=[]), "pieces-max": e5s1(pieces=0x7FFFFFFF),
        "offsets-descend": e5s1(offsets=[0, 7, 3, 8, 9]), "offsets-past-blob": e5s1(offsets=[0, 3, 7, 8, 0xFFFFFFFF]),
        "blob-length-max": e5s1(blob_length=(1 << 64) - 1), "rows-other": e5s1(rows=0x7FFFFFFF),
        "hidden-0": e5s1(hidden=0), "hidden-negative": e5s1(hidden=-32), "hidden-max": e5s1(hidden=0x7FFFFFE0),
        "positions-max": e5s1(positions=0x7FFFFFFF),
        "norm-count-negative": e5s1(norm_count=-1), "norm-surrogate": e5s1(norm=((0xD800, b"a"),)),
        "norm-descends": e5s1(norm=((0x42, b"b"), (0x41, b"a"))), "norm-not-utf8": e5s1(norm=((0x41, b"\xff"),)),
        "directory-negative": e5s1(count=-1), "directory-max": e5s1(count=0x7FFFFFFF),
        "directory-one": e5s1(count=1, directory=item(b"embeddings.LayerNorm.weight", 0, 32, 192, 128)),
        "directory-wraps": e5s1(count=1, directory=item(b"embeddings.LayerNorm.weight", 0, 32, (1 << 64) - 64, 128)),
        "directory-elements-max": e5s1(count=1, directory=item(b"t", 1, 0xFFFFFFFF, 64, 1 << 63)),
        "directory-name-past-end": e5s1(count=1, directory=pack("H", 65535)),
    }


def vocab_seeds():
    base = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\n##lo\nété\n,\n".encode()
    return {"sound": base, "empty": b"", "crlf": base.replace(b"\n", b"\r\n"), "no-unk": base.replace(b"[UNK]\n", b""),
            "twice": base + b"hello\n", "blank-line": base + b"\n\n", "bare-hashes": base + b"##\n#\n###\n",
            "not-utf8": base + b"\xff\xfe\n##\xc3\n", "no-last-newline": base[:-1], "zero-byte": base + b"a\0b\n"}


def request_seeds():
    def number(value):  # a plausible number: see ByteSource
        return bytes([255, value])

    def request(sampling=(0, 0, 255, 0, 85, 128, 128), biases=b"", num_biases=0, max_tokens=7, top=0, flags=0, stops=(),
                stop_after=0, prompt=b"The fox"):
        out = b"".join(number(v) for v in sampling) + pack("Q", 1) + bytes([num_biases]) + biases
        out += number(max_tokens) + number(top) + bytes([flags | len(stops) << 2])
        out += b"".join(pack("H", len(s)) + s for s in stops) + number(stop_after)
        return out + bytes([len(prompt)]) + b"".join(number(b) for b in prompt)

    def exact(code, value):  # any bits at all: see ByteSource
        return bytes([0]) + pack(code, value)

    head = b"".join(number(v) for v in (0, 0, 255, 0, 85, 128, 128)) + pack("Q", 1)
    seeds = {
        "greedy": request(), "sampled": request((100, 40, 230, 10, 85, 140, 140)), "empty": b"", "prompt-empty": request(prompt=b""),
        "stops": request(stops=(b"e", b"th"), max_tokens=20), "stop-empty": request(stops=(b"",)),
        "stop-not-utf8": request(stops=(b"\xff",)), "stop-long": request(stops=(b"x" * 257,)),
        "logprobs": request(top=20, flags=3), "callback-ends": request(stop_after=2, max_tokens=20, flags=2),
        "prompt-long": request(prompt=b"y" * 70), "bias": request(biases=number(65) + number(255), num_biases=1),
        "max-tokens-negative": head + b"\0" + exact("i", -1), "max-tokens-max": head + b"\0" + exact("i", 0x7FFFFFFF),
        "bias-token-negative": request(biases=exact("i", -1) + number(255), num_biases=1),
        "bias-nan": request(biases=number(65) + exact("f", float("nan")), num_biases=1),
    }
    for i, field_name in enumerate(("temperature", "top_k", "top_p", "min_p", "repetition", "presence", "frequency")):
        for value in ("nan", "inf", "-inf", "1e-45"):
            parts = [number(v) for v in (100, 0, 255, 0, 85, 128, 128)]
            parts[i] = exact("f", float(value))
            seeds[f"{field_name}-{value}"] = b"".join(parts) + request()[14:]
    return seeds


def main():
    here = pathlib.Path(__file__).resolve().parent
    corpus = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "corpus"
    for target, seeds in (("gguf", gguf_seeds()), ("safetensors", safetensors_seeds()), ("onnx", onnx_seeds()),
                          ("e5s1", e5s1_seeds()), ("vocab", vocab_seeds()), ("request", request_seeds())):
        folder = corpus / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in seeds.items():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
