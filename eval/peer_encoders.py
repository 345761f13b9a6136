#!/usr/bin/env python3
"""A BERT encoder in onnxruntime or OpenVINO, over token ids: the peer of engine/encoder/encoder_benchmark in eval/bench_engine.

    peer_encoders.py --runtime onnxruntime|openvino --gguf MODEL.gguf [--onnx MODEL.onnx] --inputs FILE [--threads 2]
                     [--vectors FILE]

FILE has a line {"ids": [...], "types": [...]} for each text. The weights are those of --onnx, or those of --gguf dequantised into
an F32 graph (which OpenVINO computes in BF16 where the processor has it); the pooling is always that of --gguf. At the start the
best of several batch sizes and divisions of the threads is chosen over a sample, for the runtime's benefit, then every line on
standard input computes all texts once and is answered by {"tokens_per_s": ...}. Texts are sorted by length and padded within
a batch; padding does not count. --vectors gets what the first turn gave, floats row after row.
"""
import argparse
import concurrent.futures
import json
import sys
import time

import gguf
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

POOLINGS = {1: "mean", 2: "cls", 4: "rank"}  # llama.cpp's numbers


class Bert:
    """The ONNX graph of the BERT in a GGUF file: hidden states, or scores where the file has a classifier."""

    def __init__(self, reader):
        self.weights = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32) for t in reader.tensors}
        number = lambda key: reader.fields[f"bert.{key}"].contents()  # noqa: E731
        self.layers, self.heads, self.hidden = number("block_count"), number("attention.head_count"), number("embedding_length")
        self.epsilon = number("attention.layer_norm_epsilon")
        self.nodes, self.constants = [], []

    def constant(self, name, value):
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def op(self, kind, *inputs, **attributes):
        out = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], **attributes))
        return out

    def linear(self, x, name):
        w = self.constant(name + ".w", self.weights[name + ".weight"].T)
        return self.op("Add", self.op("MatMul", x, w), self.constant(name + ".b", self.weights[name + ".bias"]))

    def norm(self, x, name):
        return self.op("LayerNormalization", x, self.constant(name + ".w", self.weights[name + ".weight"]),
                       self.constant(name + ".b", self.weights[name + ".bias"]), epsilon=self.epsilon, axis=-1)

    def model(self):
        op, heads, width = self.op, self.heads, self.hidden // self.heads
        table = lambda name, ids: op("Gather", self.constant(name, self.weights[name + ".weight"]), ids)  # noqa: E731
        x = op("Add", op("Add", table("token_embd", "input_ids"), table("position_embd", "position_ids")),
               table("token_types", "token_type_ids"))
        x = self.norm(x, "token_embd_norm")
        split = self.constant("split", np.array([0, 0, heads, width], np.int64))
        join = self.constant("join", np.array([0, 0, self.hidden], np.int64))
        scale = self.constant("scale", np.float32(1 / np.sqrt(width)))
        half, one, root = (self.constant(n, np.float32(v)) for n, v in (("half", 0.5), ("one", 1), ("root", np.sqrt(0.5))))
        for i in range(self.layers):
            p = f"blk.{i}."
            q, k, v = (op("Reshape", self.linear(x, p + f"attn_{n}"), split) for n in "qkv")
            q, v = (op("Transpose", t, perm=[0, 2, 1, 3]) for t in (q, v))
            scores = op("Add", op("Mul", op("MatMul", q, op("Transpose", k, perm=[0, 2, 3, 1])), scale), "mask")
            mixed = op("Transpose", op("MatMul", op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
            x = self.norm(op("Add", x, self.linear(op("Reshape", mixed, join), p + "attn_output")), p + "attn_output_norm")
            wide = self.linear(x, p + "ffn_up")
            gelu = op("Mul", op("Mul", wide, half), op("Add", op("Erf", op("Mul", wide, root)), one))
            x = self.norm(op("Add", x, self.linear(gelu, p + "ffn_down")), p + "layer_output_norm")
        shape = ["b", "s", self.hidden]
        if "cls.output.weight" in self.weights:
            first = op("Gather", x, self.constant("zero", np.int64(0)), axis=1)
            x = self.linear(op("Tanh", self.linear(first, "cls")), "cls.output")
            shape = ["b", 1]
        inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, ["b", "s"])
                  for n in ("input_ids", "token_type_ids", "position_ids")]
        inputs.append(helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["b", 1, 1, "s"]))
        graph = helper.make_graph(self.nodes, "bert", inputs, [helper.make_tensor_value_info(x, TensorProto.FLOAT, shape)],
                                  self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def onnxruntime_session(model, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = {i.name for i in session.get_inputs()}
    return lambda feeds: session.run(None, {k: v for k, v in feeds.items() if k in names})[0]


def openvino_session(model, threads):
    import openvino
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1})
    names = {i.any_name for i in compiled.inputs}
    request = compiled.create_infer_request()
    return lambda feeds: request.infer({k: v for k, v in feeds.items() if k in names})[compiled.output(0)]


class Runner:
    def __init__(self, make_session, model, threads, pooling):
        # One worker with all threads, or a worker for each.
        self.workers = {n: [make_session(model, threads // n) for _ in range(n)] for n in sorted({1, threads})}
        self.pooling = pooling
        self.plan = None

    def batch(self, session, texts):
        width = max(len(t["ids"]) for t in texts)
        pad = lambda rows: np.array([row + [0] * (width - len(row)) for row in rows], np.int64)  # noqa: E731
        attention = pad([[1] * len(t["ids"]) for t in texts])
        out = session({"input_ids": pad([t["ids"] for t in texts]), "token_type_ids": pad([t["types"] for t in texts]),
                       "attention_mask": attention, "position_ids": np.tile(np.arange(width), (len(texts), 1)),
                       "mask": ((1 - attention) * np.float32(-1e9)).astype(np.float32)[:, None, None, :]})
        if self.pooling == "rank":
            return np.array(out)
        if self.pooling == "cls":
            pooled = out[:, 0]
        else:
            pooled = (out * attention[:, :, None]).sum(1) / attention.sum(1, keepdims=True)
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)

    def run(self, texts, workers, size):
        """(seconds, one row a text)"""
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]["ids"]))
        batches = [order[at:at + size] for at in range(0, len(order), size)]
        free = list(self.workers[workers])
        rows = [None] * len(texts)

        def compute(batch):
            session = free.pop()
            for i, row in zip(batch, self.batch(session, [texts[i] for i in batch])):
                rows[i] = row
            free.append(session)

        begin = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            list(pool.map(compute, batches))
        return time.perf_counter() - begin, np.array(rows, np.float32)

    def choose_plan(self, texts):
        sample = texts[::max(1, len(texts) // 32)]
        plans = [(workers, size) for workers in self.workers for size in (1, 4, 16)]
        for plan in plans:  # shapes are compiled once
            self.run(sample, *plan)
        self.plan = min(plans, key=lambda plan: self.run(sample, *plan)[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", choices=["onnxruntime", "openvino"], required=True)
    parser.add_argument("--gguf", required=True)
    parser.add_argument("--onnx")
    parser.add_argument("--inputs", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--vectors")
    args = parser.parse_args()
    reader = gguf.GGUFReader(args.gguf)
    pooling = POOLINGS[reader.fields["bert.pooling_type"].contents()]
    model = onnx.load(args.onnx).SerializeToString() if args.onnx else Bert(reader).model()
    with open(args.inputs, encoding="utf-8") as lines:
        texts = [json.loads(line) for line in lines]
    tokens = sum(len(t["ids"]) for t in texts)
    runner = Runner(onnxruntime_session if args.runtime == "onnxruntime" else openvino_session, model, args.threads, pooling)
    runner.choose_plan(texts)
    for _ in sys.stdin:
        seconds, rows = runner.run(texts, *runner.plan)
        if args.vectors:
            rows.tofile(args.vectors)
            args.vectors = None
        print(json.dumps({"tokens_per_s": tokens / seconds, "workers": runner.plan[0], "batch": runner.plan[1]}), flush=True)


if __name__ == "__main__":
    main()
