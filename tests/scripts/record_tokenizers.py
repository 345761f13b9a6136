#!/usr/bin/env python3
"""Records token ids of Hugging Face's tokenizers library, the reference of engine/tokenizer/tokenizer_reference_test.cc.

    pip install tokenizers gguf numpy
    CAIRN_TEST_DATA=DIR tests/scripts/record_tokenizers.py

writes tests/data/tokenizers/NAME.jsonl, one {"text": ..., "ids": [...]} a line, for

  gpt-2, mpt, bert-bge     vocabularies under DIR/tokenizers/llama.cpp
  qwen2, smollm            vocabularies of the installed models (CAIRN_HOME, default ~/.cairn)

The byte-level ones are built from the vocabulary and merges in the GGUF file and the regular expression of the
model's own tokenizer.json (no NFC: see engine/tokenizer/bpe.h); BERT is DIR/tokenizers/bert-base-uncased. Texts
are written pieces in several languages and random strings over all of Unicode, as far as the library and we can
know the same characters: up to Unicode 8, which its tables for BERT stop at.
"""
import json
import os
import pathlib
import random
import unicodedata

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "tokenizers"
HOME = pathlib.Path(os.environ.get("CAIRN_HOME", os.path.expanduser("~/.cairn")))

GPT2_REGEX = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN2_REGEX = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
               r"|\s*[\r\n]+|\s+(?!\S)|\s+")

WRITTEN = [
    "", " ", "  ", "\n", "\t\n \r\n  x", "a", "Hello, world!", "don't you'll we're I'VE it'S 'Sup ''s 's's 'ſ 'LL",
    "int main(void) {\n\treturn 0x1F + 3.14e-10;  // done\n}\n\n\n", "for (auto& [k, v] : m)\r\n    f(k);\r\n",
    "1 12 123 1234 12345 1,234.56 ½ ² Ⅷ ٣ 一二三", "https://example.org/a?b=c&d=%20#frag", "e-mail: a.b+c@d-e.fr",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.", "Où est le bœuf ? « Là-bas ! »",
    "Быстрая коричневая лиса прыгает через ленивую собаку.", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    "北京是中华人民共和国的首都，位于华北平原北部。", "吾輩は猫である。名前はまだ無い。ﾊﾝｶｸ ｶﾞ", "키스의 고유조건은 입술끼리 만나야 한다",
    "أبجد هوز حطي كلمن", "דג סקרן שט בים מאוכזב", "ऋषियों को सताने वाले दुष्ट राक्षसों", "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า",
    "e\u0301 n\u0303 A\u030a o\u0302\u0323 \u0301 a\u0300\u0301\u0302\u0303\u0304", "İstanbul ISPARTA ıßẞ ſtraße ﬁn ﬂy",
    "👩‍👩‍👧‍👦 🇫🇷 👍🏽 ☺️ 🤖", "\u200b\u200e\ufeff\u00ad\u00a0\u3000\u2028\u2029\u0085\u000b\u000c\u001c", "\x00\x01\x7f",
    "<|im_end|>", "<s></s><unk>[CLS][SEP][MASK][PAD]", "!!!???...,,,;;;---___***", "~`!@#$%^&*()_+-={}[]|\\:\";'<>?,./",
    "tab\tseparated\tvalues", "    indented\n        more", "trailing   ", "   leading", "a" * 101, "a" * 100, "x" * 300,
    "=" * 80, " " * 40 + "x", "\n" * 20, "ab " * 50, "CamelCaseAndSNAKE_CASE", "$5.00 €5,00 £5 ¥5 5°C 5%", "C++ C# F♯ .NET",
    "mixed中文and English混合text文本123数字", "“quotes” ‘single’ „low“ —dash– …",
]



def characters():
    """Characters by general category: those of Unicode 3.2 that have kept theirs, so that every table agrees."""
    by_category = {}
    for c in map(chr, range(0x110000)):
        category = unicodedata.category(c)
        if category not in ("Cn", "Cs", "Co") and category == unicodedata.ucd_3_2_0.category(c):
            by_category.setdefault(category, []).append(c)
    return by_category


def random_texts(count, seed):
    rng = random.Random(seed)
    by_category = characters()
    categories = sorted(by_category)
    latin = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123456789    \n\t'.,-\"()éüñß"
    texts = []
    for i in range(count):
        if i % 3 == 0:  # all categories alike
            text = "".join(rng.choice(by_category[rng.choice(categories)]) for _ in range(rng.randint(1, 30)))
        elif i % 3 == 1:  # everyday characters, many spaces and quotes
            text = "".join(rng.choice(latin) for _ in range(rng.randint(1, 60)))
        else:  # runs
            text = "".join(rng.choice(by_category[rng.choice(categories)] + list(latin)) * rng.randint(1, 5)
                           for _ in range(rng.randint(1, 12)))
        texts.append(text)
    return texts


def byte_level(path, pre_tokenizer):
    """The tokenizer in a GGUF file, in Hugging Face's terms."""
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ", 1)) for m in fields["tokenizer.ggml.merges"].contents()]
    vocab = {t: i for i, t in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    # User-defined tokens are found in any text, except markers, which we keep out of ordinary text on purpose.
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t, kind in zip(tokens, types)
                          if kind == gguf.TokenType.USER_DEFINED and not (t[0] == "<" and t[-1] == ">")])
    return tokenizer


def with_regex(regex):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(regex), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def smollm_pre_tokenizer():
    return pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])


def bert(directory):
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def main():
    data = pathlib.Path(os.environ["CAIRN_TEST_DATA"]) / "tokenizers"
    tokenizers = {
        "gpt-2": byte_level(data / "llama.cpp/ggml-vocab-gpt-2.gguf", with_regex(GPT2_REGEX)),
        "mpt": byte_level(data / "llama.cpp/ggml-vocab-mpt.gguf", with_regex(GPT2_REGEX)),
        "qwen2": byte_level(HOME / "models/qwen2.5-coder-0.5b/model.gguf", with_regex(QWEN2_REGEX)),
        "smollm": byte_level(HOME / "models/smollm2-135m/model.gguf", smollm_pre_tokenizer()),
        "bert-bge": bert(data / "bert-base-uncased"),
    }
    OUT.mkdir(parents=True, exist_ok=True)
    for number, (name, tokenizer) in enumerate(tokenizers.items()):
        # A special token written out in a text is text to us, and a token to the library: leave those out for BERT.
        texts = [t for t in WRITTEN + random_texts(300, seed=number) if name != "bert-bge" or "[CLS]" not in t]
        with open(OUT / f"{name}.jsonl", "w", encoding="utf-8") as out:
            for text in texts:
                ids = tokenizer.encode(text, add_special_tokens=False).ids
                out.write(json.dumps({"text": text, "ids": ids}) + "\n")


if __name__ == "__main__":
    main()
