#!/usr/bin/env python3
"""Our tokenizers beside other implementations, over seeded random texts. Every difference is printed; none is allowed.

    pip install tokenizers==0.23.3 sentencepiece==0.2.3 gguf numpy
    CAIRN_TEST_DATA=DIR tests/scripts/compare_tokenizers.py [--count 20000] [--seed 1] [--only NAME] [--build DIR] [--peer DIR]

  tokenizers     byte-level BPE of gpt-2, mpt, qwen2, smollm and llama3 (its regular expression over gpt-2's words, for want of
                 its vocabulary), WordPiece, the unigram model of multilingual-e5-small behind SentencePiece's own normaliser
  llama.cpp      byte-level BPE and SentencePiece BPE, from the libraries of eval/build_llama_cpp DIR (--peer, default
                 $CAIRN_HOME/peers); with special tokens as text, and recognised

Left out, since there the others depart from the model's own tokenizer or from our contract on purpose:

  llama.cpp, qwen2          <tool_call> in users' text is a token there, and text here (vocab_tokenizer.h); with special tokens
                            recognised "</s>" counts as one there by its name, though the file calls it an ordinary token
  llama.cpp, phi-3          "</s>" in users' text is a token there; white space behind special tokens is stripped for files of
                            this name
  llama.cpp, BERT           drops all marks where BERT drops those without width, and knows no longest word: not compared
  tokenizers, smollm        bytes that the vocabulary lacks are dropped before merging there, after it here as in llama.cpp

--record FILE writes texts with the ids that all agreed on, for engine/tokenizer/tokenizer_reference_test.cc.
"""
import argparse
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import unicodedata

import gguf
import sentencepiece
from tokenizers import Tokenizer

import record_tokenizers
import record_unigram

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOME = record_tokenizers.HOME
LLAMA3_REGEX = record_tokenizers.QWEN2_REGEX.replace(r"|\p{N}|", r"|\p{N}{1,3}|")

# encode_texts with llama.cpp's tokenizer: the same arguments and streams.
LLAMA_CPP_ENCODE = r"""
#include <llama.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const bool parse_special = argc > 2 && std::strcmp(argv[2], "--parse-special") == 0;
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  llama_model* model = llama_model_load_from_file(argv[1], params);
  if (model == nullptr) {
    std::fprintf(stderr, "%s does not load\n", argv[1]);
    return 1;
  }
  const llama_vocab* vocab = llama_model_get_vocab(model);
  unsigned char size[4];
  while (std::cin.read(reinterpret_cast<char*>(size), sizeof(size))) {
    std::string text(size[0] | size[1] << 8 | size[2] << 16 | uint32_t{size[3]} << 24, '\0');
    if (!std::cin.read(text.data(), static_cast<std::streamsize>(text.size()))) return 1;
    std::vector<llama_token> ids(4 * text.size() + 16);
    const int count = llama_tokenize(vocab, text.data(), static_cast<int>(text.size()), ids.data(),
                                     static_cast<int>(ids.size()), false, parse_special);
    if (count < 0) return 1;
    for (int i = 0; i < count; ++i) std::printf(i == 0 ? "%d" : " %d", ids[i]);
    std::printf("\n");
  }
}
"""

SCRIPTS = {  # ranges of assigned letters, with their own marks and digits
    "latin": [(0x20, 0x7E), (0xA0, 0x24F)], "greek": [(0x386, 0x3CE)], "cyrillic": [(0x400, 0x481)],
    "hebrew": [(0x591, 0x5C7), (0x5D0, 0x5EA)], "arabic": [(0x621, 0x669)], "devanagari": [(0x900, 0x96F)],
    "thai": [(0xE01, 0xE3A), (0xE40, 0xE5B)], "hangul": [(0xAC00, 0xD7A3)], "jamo": [(0x1100, 0x11FF)],
    "kana": [(0x3041, 0x3096), (0x30A1, 0x30FA)], "halfwidth": [(0xFF01, 0xFFBE)], "han": [(0x4E00, 0x9FFF)],
    "han_rare": [(0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0xF900, 0xFA6D)], "math": [(0x1D400, 0x1D454)],
    "enclosed": [(0x2460, 0x24FF), (0x2150, 0x2188), (0x3200, 0x321E)],
}
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\r", "\n\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\xa0", "\u1680",
          "\u2000", "\u2003", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\u200b", "\u2060", "\ufeff"]
MARKS = ["\u0301", "\u0300", "\u0302", "\u0309", "\u11a8", "\u0308", "\u0323", "\u0327", "\u030a", "\u0345", "\u064b", "\u05b0",
         "\u093c", "\u3099", "\u20dd", "\ufe0f",
         "\u0488", "\u1ab0"]
EMOJI = ["👩‍👩‍👧‍👦", "🇫🇷", "👍🏽", "☺️", "🏳️‍🌈", "🤖", "1️⃣", "❤️‍🔥", "🧑🏿‍🚀", "\u200d", "🏴\U000e0067\U000e0062\U000e007f"]
CODE = ["int main(void) {\n\treturn 0;\n}\n", "for (auto& [k, v] : m)\r\n", "x+=1;//", "def f(self, *args):\n    ", "=>",
        "</div>", "#include <",
        "\\u0041", "0x1F", "3.14e-10", "a_b", "CamelCase", "----", "====", "    ", "\t\t", "${x}", "`", "::", "...", "%s\\n", "SELECT * FROM"]
CONTRACTIONS = ["'s", "'S", "'t", "'re", "'RE", "'rE", "'ve", "'Ve", "'m", "'M", "'ll", "'LL", "'lL", "'d", "'D", "'\u017f",
                "\u2019s", "''s",
                "I'M", "don't", "'l", "'r", "' s", "'\u212a"]
NUMBERS = ["0", "12", "123", "1234567", "1,234.56", "½", "²", "Ⅷ", "٣", "१२", "１２", "1e9", "-7", "一二"]
ODD = ["\x00", "\x01", "\x7f", "\x9f", "\ufffd", "\ufffd\ufffd", "\ufffe", "\uffff", "\U0010ffff", "\ue000", "\U000f0000",
       "\u00ad", "\u200e",
       "\u180e", "\u2581", "\u2581\u2581", "Ġ", "##", "##a", "<0x0A>", "\ufff9"]
SPECIAL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>", "</s>", "<unk>", "<pad>", "[CLS]", "[SEP]", "[MASK]", "[PAD]",
           "[UNK]", "<|user|>",
           "<|end|>", "<|assistant|>", "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|im_end", "|>", "<", "<repo_name>",
           "<|eot_id|>"]


def assigned():
    """Characters by category, as far as Python's Unicode knows them: all tables here are at least as new."""
    by_category = {}
    for c in map(chr, range(0x110000)):
        category = unicodedata.category(c)
        if category not in ("Cn", "Cs"):
            by_category.setdefault(category, []).append(c)
    return by_category


def random_texts(count, seed):
    rng = random.Random(seed)
    by_category = assigned()
    categories = sorted(by_category)
    words = " ".join(record_tokenizers.WRITTEN).split(" ")

    def script(name):
        first, last = rng.choice(SCRIPTS[name])
        return "".join(chr(rng.randint(first, last)) for _ in range(rng.randint(1, 8)))

    sources = [
        lambda: script(rng.choice(sorted(SCRIPTS))), lambda: script("han"), lambda: script("latin"), lambda: rng.choice(words),
        lambda: rng.choice(words), lambda: rng.choice(SPACES), lambda: " ", lambda: rng.choice(MARKS) * rng.randint(1, 3),
        lambda: rng.choice("aeoAOnlñéどक가") + rng.choice(MARKS), lambda: rng.choice(EMOJI), lambda: rng.choice(CODE),
        lambda: rng.choice(CONTRACTIONS), lambda: rng.choice(NUMBERS), lambda: rng.choice(ODD), lambda: rng.choice(SPECIAL),
        lambda: rng.choice(by_category[rng.choice(categories)]), lambda: chr(rng.randint(0x20, 0x7E)) * rng.randint(1, 40),
    ]
    texts = []
    for _ in range(count):
        # A text draws from a few sources, so that each meets itself and the others; some texts draw from all.
        few = sources if rng.random() < 0.3 else rng.sample(sources, rng.randint(1, 4))
        joint = rng.choice(["", "", " "])
        text = joint.join(rng.choice(few)() for _ in range(rng.randint(1, 14)))
        texts.append("".join(c for c in text if unicodedata.category(c) != "Cs"))
    return texts


def run_encoder(command, texts):
    data = b"".join(struct.pack("<I", len(t)) + t for t in (text.encode() for text in texts))
    lines = subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout.decode().split("\n")
    assert len(lines) == len(texts) + 1, (command, len(lines))
    return [[int(i) for i in line.split()] for line in lines[:-1]]


def build_llama_cpp_encoder(peer, work):
    source = pathlib.Path(peer) / "llama_cpp_python-0.3.36/vendor/llama.cpp"
    program = pathlib.Path(work) / "llama_cpp_encode"
    program.with_suffix(".cc").write_text(LLAMA_CPP_ENCODE)
    libraries = ["src/libllama.a", "ggml/src/libggml.a", "ggml/src/libggml-cpu.a", "ggml/src/libggml-base.a"]
    subprocess.run(["g++", "-O1", f"-I{source}/include", f"-I{source}/ggml/include", program.with_suffix(".cc"),
                    *[source / "build" / name for name in libraries], "-fopenmp", "-lpthread", "-ldl", "-o", program], check=True)
    return program


def copy_vocabulary(source, target, pre):
    """The vocabulary of `source` under another pre-tokeniser's name."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, arch="llama")
    for name in ("model", "tokens", "token_type", "merges", "bos_token_id", "eos_token_id", "pre"):
        field = reader.fields[f"tokenizer.ggml.{name}"]
        value = pre if name == "pre" else field.contents()
        kind = field.types[0]
        writer.add_key_value(field.name, value, kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for key in ("context_length", "embedding_length", "block_count", "feed_forward_length", "attention.head_count"):
        writer.add_uint32(f"llama.{key}", 1)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def llama3_reference(path):
    tokenizer = record_tokenizers.byte_level(path, record_tokenizers.with_regex(LLAMA3_REGEX))
    tokenizer.model.ignore_merges = True
    return tokenizer


def bytes_lacking(path):
    """The bytes without a token of their own in a byte-level vocabulary."""
    alphabet = set(gguf.GGUFReader(path).fields["tokenizer.ggml.tokens"].contents())
    visible = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE]
    others = [b for b in range(256) if b not in visible]
    letters = {b: chr(b) for b in visible} | {b: chr(256 + i) for i, b in enumerate(others)}
    return {b for b, letter in letters.items() if letter not in alphabet}


def from_file(path):
    """A tokenizer.json without truncation and padding, its added tokens out of reach of the text."""
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


def unigram_reference(path):
    """SentencePiece's normaliser, then the library's unigram model over the pieces of a model file.

    (SentencePiece's own model adds scores in single precision and so prefers another of two equal paths at times.) The model's
    table is of another release than the normaliser: characters that it changes otherwise are replaced before, or, where the
    normaliser would change them once more, make the text one that cannot be compared.
    """
    reference = record_unigram.Reference(path)
    normalizer = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc")
    characters = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc", add_dummy_prefix=False, remove_extra_whitespaces=False,
                                                       escape_whitespaces=False)
    other = {c: reference.table.get(ord(c), c) for c in map(chr, range(1, 0x110000)) if unicodedata.category(c) != "Cs"}
    other = {ord(c): to for c, to in other.items() if to != characters.Normalize(c)}
    beyond = {chr(c) for c, to in other.items() if to != characters.Normalize(to)}
    print(f"e5: {len(other)} characters are other in the model's table than in SentencePiece {sentencepiece.__version__}")

    def encode(text):
        if beyond & set(text):
            return None
        words = normalizer.Normalize(text.translate(other)).split("\u2581")
        return [i for word in words if word for i in reference.model.encode("\u2581" + word, add_special_tokens=False).ids]

    return encode


class Comparison:
    """Compares on demand. Encoders give None for a text that cannot be compared."""

    def __init__(self, encoder, llama_cpp, texts):
        self.encoder, self.llama_cpp, self.texts = encoder, llama_cpp, texts
        self.num_differences = 0
        self.agreed = {}  # name -> ids of each text, None where some peer was not asked or differed

    def report(self, name, peer, ours, theirs):
        kept = [i for i, ids in enumerate(theirs) if ids is not None]
        different = [i for i in kept if ours[i] != theirs[i]]
        self.num_differences += len(different)
        print(f"{name:8} {peer:26} {len(kept):6} texts {sum(len(ours[i]) for i in kept):8} tokens {len(different):4} differ", flush=True)
        for i in sorted(different, key=lambda i: len(self.texts[i]))[:5]:
            print(f"    {ascii(self.texts[i])}\n      ours   {ours[i]}\n      theirs {theirs[i]}")

    def with_function(self, name, path, encode):
        ours, theirs = run_encoder([self.encoder, path], self.texts), [encode(text) for text in self.texts]
        self.report(name, "tokenizers", ours, theirs)
        self.agreed[name] = [a if a == b else None for a, b in zip(ours, theirs)]

    def with_llama_cpp(self, name, path, departs=None, departs_parsing=None):
        """`departs*`: regular expressions of texts to leave out."""
        for flags, expression in (([], departs), (["--parse-special"], departs_parsing)):
            ours = run_encoder([self.encoder, path, *flags], self.texts)
            theirs = run_encoder([self.llama_cpp, path, *flags], self.texts)
            if expression:
                theirs = [None if re.search(expression, text) else ids for text, ids in zip(self.texts, theirs)]
            self.report(name, " ".join(["llama.cpp", *flags]), ours, theirs)
            if not flags:
                before = self.agreed.get(name, ours)
                self.agreed[name] = [a if a == b else None for a, b in zip(before, theirs)]

    def record(self, path, count, most_characters):
        with open(path, "w", encoding="utf-8") as out:
            for i, text in enumerate(self.texts):
                ids = {name: agreed[i] for name, agreed in self.agreed.items()}
                if count > 0 and len(text) <= most_characters and all(row is not None for row in ids.values()):
                    out.write(json.dumps({"text": text, "ids": ids}, separators=(",", ":")) + "\n")
                    count -= 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--build", default=ROOT / "build/test")
    parser.add_argument("--peer", default=HOME / "peers")
    parser.add_argument("--record")
    args = parser.parse_args()
    data = pathlib.Path(os.environ["CAIRN_TEST_DATA"]) / "tokenizers"
    vocabularies = {name: data / f"llama.cpp/ggml-vocab-{name}.gguf" for name in ("gpt-2", "mpt", "phi-3", "bert-bge")}
    vocabularies |= {name: HOME / "models" / model / "model.gguf" for name, model in (
        ("qwen2", "qwen2.5-coder-0.5b"), ("smollm", "smollm2-135m"), ("e5", "multilingual-e5-small"))}
    with_regex = record_tokenizers.with_regex

    with tempfile.TemporaryDirectory() as work:
        c = Comparison(pathlib.Path(args.build) / "engine/tokenizer/encode_texts", build_llama_cpp_encoder(args.peer, work),
                       random_texts(args.count, args.seed))
        vocabularies["llama3"] = f"{work}/llama3.gguf"
        copy_vocabulary(vocabularies["gpt-2"], vocabularies["llama3"], "llama-bpe")

        def ids_of(tokenizer):
            return lambda text: tokenizer.encode(text, add_special_tokens=False).ids

        def byte_level(name, pre_tokenizer):
            return ids_of(record_tokenizers.byte_level(vocabularies[name], pre_tokenizer))

        def smollm():
            encode = byte_level("smollm", record_tokenizers.smollm_pre_tokenizer())
            lacking = bytes_lacking(vocabularies["smollm"])
            return lambda text: None if lacking & set(text.encode()) else encode(text)

        functions = {
            "gpt-2": lambda: ids_of(from_file(data / "gpt2/tokenizer.json")),
            "llama3": lambda: ids_of(llama3_reference(vocabularies["llama3"])),
            "mpt": lambda: byte_level("mpt", with_regex(record_tokenizers.GPT2_REGEX)),
            "qwen2": lambda: byte_level("qwen2", with_regex(record_tokenizers.QWEN2_REGEX)),
            "smollm": smollm,
            "bert-bge": lambda: ids_of(from_file(data / "bert-base-uncased/tokenizer.json")),
            "e5": lambda: unigram_reference(vocabularies["e5"]),
        }
        of_llama_cpp = {"gpt-2": (), "llama3": (), "mpt": (), "qwen2": ("</?tool_call>", "</s>"), "smollm": (),
                        "phi-3": ("</s>", r"(</s>|\|>)\s")}
        for name, path in vocabularies.items():
            if args.only not in name:
                continue
            if name in functions:
                c.with_function(name, path, functions[name]())
            if name in of_llama_cpp:
                c.with_llama_cpp(name, path, *of_llama_cpp[name])
        if args.record:
            c.agreed.pop("llama3", None)  # not a model that there is
            c.record(args.record, count=150, most_characters=32)
    sys.exit(1 if c.num_differences else 0)


if __name__ == "__main__":
    main()
