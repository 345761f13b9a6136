#!/usr/bin/env python3
"""Records token ids of llama.cpp for a SentencePiece vocabulary, for engine/tokenizer/tokenizer_reference_test.cc.

    pip install tokenizers gguf numpy
    tests/scripts/record_spm.py LLAMA_SERVER MODEL.gguf NAME

writes tests/data/tokenizers/NAME.jsonl, one {"text": ..., "ids": [...]} a line, over the texts of
record_tokenizers.py, without the one with markers in angle brackets: llama.cpp reads a user-defined <s> in a text as
that token, we never do (engine/tokenizer/vocab_tokenizer.cc). LLAMA_SERVER as for record_logprobs.py.
"""
import json
import sys

import record_logprobs
import record_tokenizers


def main():
    program, model, name = sys.argv[1:]
    texts = record_tokenizers.WRITTEN + record_tokenizers.random_texts(300, seed=5)
    texts = [text for text in texts if "<s>" not in text]
    with record_logprobs.Server(program, model, port=18098) as server:
        with open(record_tokenizers.OUT / f"{name}.jsonl", "w", encoding="utf-8") as out:
            for text in texts:
                body = {"content": text, "add_special": False, "parse_special": False}
                record = {"text": text, "ids": server.call("/tokenize", body)["tokens"]}
                out.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
