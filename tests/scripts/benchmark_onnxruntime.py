#!/usr/bin/env python3
"""Tokens per second of onnxruntime on the passages of engine/encoder/encoder_benchmark.cc.

    benchmark_onnxruntime.py MODEL_DIR [--threads 2] [--batch 16]

MODEL_DIR holds tokenizer.json and model.onnx, or model.safetensors of a 12-headed BERT, which is first made
into a float32 graph. Passages are sorted by length and padded within a batch; padding does not count as tokens.
Needs numpy, onnx, onnxruntime, safetensors, tokenizers.
"""
import argparse
import os
import statistics
import time

import numpy as np
import onnxruntime
from tokenizers import Tokenizer


def float_graph(path, heads=12):
    """A BERT with mean pooling left out, in ONNX, from a Hugging Face checkpoint."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from safetensors.numpy import load_file
    weights = {k: v for k, v in load_file(path).items() if v.dtype == np.float32}
    nodes, init = [], []

    def constant(name, value):
        init.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def op(kind, inputs, **attributes):
        out = f"t{len(nodes)}"
        nodes.append(helper.make_node(kind, inputs, [out], **attributes))
        return out

    def linear(x, name):
        w = constant(name + ".w", weights[name + ".weight"].T)
        return op("Add", [op("MatMul", [x, w]), constant(name + ".b", weights[name + ".bias"])])

    def norm(x, name):
        return op("LayerNormalization", [x, constant(name + ".w", weights[name + ".weight"]),
                                         constant(name + ".b", weights[name + ".bias"])], epsilon=1e-12, axis=-1)

    hidden = weights["embeddings.word_embeddings.weight"].shape[1]
    x = op("Gather", [constant("words", weights["embeddings.word_embeddings.weight"]), "input_ids"])
    positions = op("Gather", [constant("positions", weights["embeddings.position_embeddings.weight"]), "position_ids"])
    types = op("Gather", [constant("types", weights["embeddings.token_type_embeddings.weight"]), "token_type_ids"])
    x = norm(op("Add", [op("Add", [x, positions]), types]), "embeddings.LayerNorm")
    split = constant("split", np.array([0, 0, heads, hidden // heads], np.int64))
    join = constant("join", np.array([0, 0, hidden], np.int64))
    scale = constant("scale", np.float32(1 / np.sqrt(hidden // heads)))
    half, one, root = (constant(n, np.float32(v)) for n, v in (("half", 0.5), ("one", 1), ("root", np.sqrt(0.5))))
    for i in range(1 + max(int(n.split(".")[2]) for n in weights if n.startswith("encoder.layer."))):
        p = f"encoder.layer.{i}."
        q, k, v = (op("Reshape", [linear(x, p + "attention.self." + n), split]) for n in ("query", "key", "value"))
        q, v = (op("Transpose", [t], perm=[0, 2, 1, 3]) for t in (q, v))
        k = op("Transpose", [k], perm=[0, 2, 3, 1])
        scores = op("Softmax", [op("Add", [op("Mul", [op("MatMul", [q, k]), scale]), "mask"])], axis=-1)
        attention = op("Reshape", [op("Transpose", [op("MatMul", [scores, v])], perm=[0, 2, 1, 3]), join])
        x = norm(op("Add", [x, linear(attention, p + "attention.output.dense")]), p + "attention.output.LayerNorm")
        wide = linear(x, p + "intermediate.dense")
        gelu = op("Mul", [op("Mul", [wide, half]), op("Add", [op("Erf", [op("Mul", [wide, root])]), one])])
        x = norm(op("Add", [x, linear(gelu, p + "output.dense")]), p + "output.LayerNorm")
    nodes[-1].output[0] = "last_hidden_state"
    ints = ["input_ids", "token_type_ids", "position_ids"]
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, ["b", "s"]) for n in ints]
    inputs.append(helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["b", 1, 1, "s"]))
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["b", "s", hidden])
    graph = helper.make_graph(nodes, "bert", inputs, [output], init)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16)
    args = parser.parse_args()
    path = os.path.join(args.directory, "model.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    model = path if os.path.exists(path) else float_graph(os.path.join(args.directory, "model.safetensors"))
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = {i.name for i in session.get_inputs()}
    tokenizer = Tokenizer.from_file(os.path.join(args.directory, "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    sentence = "Retrieval systems find a few passages among many before a language model reads them all. "
    passages = [sentence * (2 + i % 11) for i in range(48)]
    rerank = session.get_outputs()[0].name == "logits"

    def run():
        if rerank:
            encodings = [tokenizer.encode("how does retrieval work", p) for p in passages]
        else:
            encodings = [tokenizer.encode(p) for p in passages]
        encodings.sort(key=lambda e: len(e.ids))
        for at in range(0, len(encodings), args.batch):
            batch = encodings[at:at + args.batch]
            width = max(len(e.ids) for e in batch)
            pad = lambda rows: np.array([r + [0] * (width - len(r)) for r in rows], np.int64)
            attention = pad([[1] * len(e.ids) for e in batch])
            feeds = {"input_ids": pad([e.ids for e in batch]), "token_type_ids": pad([e.type_ids for e in batch]),
                     "attention_mask": attention, "position_ids": np.tile(np.arange(width), (len(batch), 1)),
                     "mask": ((1 - attention) * -1e9).astype(np.float32)[:, None, None, :]}
            session.run(None, {k: v for k, v in feeds.items() if k in names})
        return sum(len(e.ids) for e in encodings)

    rates, processor_rates = [], []
    for turn in range(4):
        start, processor_start = time.perf_counter(), time.process_time()
        tokens = run()
        if turn > 0:
            rates.append(tokens / (time.perf_counter() - start))
            processor_rates.append(tokens / (time.process_time() - processor_start))
    print(f"onnxruntime {onnxruntime.__version__} {args.directory}: {statistics.median(rates):.0f} tokens/s "
          f"({min(rates):.0f}..{max(rates):.0f}), {statistics.median(processor_rates):.0f} tokens per processor second, "
          f"{args.threads} threads")


if __name__ == "__main__":
    main()
