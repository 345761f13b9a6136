#!/usr/bin/env python3
"""Records next-token log-probabilities of llama.cpp, the reference of engine/engine_reference_test.cc.

    pip install gguf numpy
    tests/scripts/record_logprobs.py LLAMA_SERVER MODEL.gguf NAME [--float FLOAT.gguf]

LLAMA_SERVER is the program llama-server, built from llama.cpp as it lies in the source package of
llama-cpp-python 0.3.36 (vendor/llama.cpp; cmake -DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON).
The script starts it for each model and writes tests/data/logprobs/NAME.json: for each prompt of tests/data/logprobs/prompts.json the token ids and the
20 likeliest next tokens with their natural log-probabilities, from llama.cpp's raw logits (`top`).

llama.cpp rounds activations to eight bits before each product with a quantised matrix, as we do, so its own
values lie some way off those of exact arithmetic over the same weights. With --float the script also makes
FLOAT.gguf, those weights as F32, where nothing is rounded, and records its values too (`exact`).
"""
import argparse
import hashlib
import json
import pathlib
import subprocess
import time
import urllib.error
import urllib.request

import gguf
import numpy as np

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "logprobs"
TOP = 20


def prompt_text(entry):
    if "repeat" not in entry:
        return entry["text"]
    body = "".join(entry["text"].replace("{i}", str(i)) for i in range(1, entry["repeat"] + 1))
    return body + entry["tail"]


def write_float_model(source, target):
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        item = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=item)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Server:
    def __init__(self, program, model, port=18099):
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [program, "-m", model, "--port", str(port), "-c", "4096", "--parallel", "1", "--no-warmup"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            try:
                urllib.request.urlopen(self.url + "/health").read()
                return
            except (urllib.error.URLError, ConnectionError):
                if self.process.poll() is not None:
                    raise SystemExit(f"{program} ended with {self.process.returncode}")
                time.sleep(0.2)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.terminate()
        self.process.wait()

    def call(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request))

    def tokens(self, text):
        """With the first token that the model's file asks for, if any."""
        return self.call("/tokenize", {"content": text, "add_special": True,
                                       "parse_special": False})["tokens"]

    def top(self, tokens):
        """The likeliest next tokens, best first: from the raw logits, before any sampler.

        The sampler is made to pick a newline: after half a character the server would answer nothing.
        """
        newline = self.tokens("\n")[-1]
        answer = self.call("/completion", {"prompt": tokens, "n_predict": 1, "n_probs": TOP,
                                           "cache_prompt": False, "logit_bias": [[newline, 1000]]})
        best = answer["completion_probabilities"][0]["top_logprobs"]
        return [[t["id"], round(t["logprob"], 5)] for t in best]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("llama_server")
    parser.add_argument("model")
    parser.add_argument("name")
    parser.add_argument("--float", dest="float_path", help="make this F32 copy and record it too")
    args = parser.parse_args()

    entries = []
    with Server(args.llama_server, args.model) as server:
        for prompt in json.loads((DATA / "prompts.json").read_text())["prompts"]:
            tokens = server.tokens(prompt_text(prompt))
            entry = {"id": prompt["id"], "tokens": tokens, "top": server.top(tokens)}
            entries.append(entry)
            print(entry["id"], len(tokens), entry["top"][0])

    if args.float_path:
        write_float_model(args.model, args.float_path)
        with Server(args.llama_server, args.float_path) as server:
            for entry in entries:
                entry["exact"] = server.top(entry["tokens"])

    with open(args.model, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    version = subprocess.run([args.llama_server, "--version"], capture_output=True, text=True)
    header = {"recorded_with": (version.stderr + version.stdout).splitlines()[0],
              "model_sha256": digest}
    lines = ",\n".join("  " + json.dumps(e, separators=(",", ":")) for e in entries)
    text = json.dumps(header)[:-1] + ', "prompts": [\n' + lines + "\n]}\n"
    (DATA / f"{args.name}.json").write_text(text)


if __name__ == "__main__":
    main()
