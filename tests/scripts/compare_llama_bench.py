#!/usr/bin/env python3
"""Speed of our engine beside llama.cpp's, measured in turns so that both see the same machine.

    tests/scripts/compare_llama_bench.py LLAMA_BENCH ENGINE_BENCHMARK MODEL.gguf
        [--rounds 5] [--threads 2] [--prompt 512] [--generate 64]

Each round runs llama-bench once and engine_benchmark once, each with its own warm-up. Prints tokens per second of
prefill and decode, the median over the rounds with the smallest and largest, and the ratio of the medians
together with the ratio of each round: on a machine with neighbours, only rounds can be compared.
"""
import argparse
import json
import statistics
import subprocess


def run(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def llama(args):
    results = run([args.llama_bench, "-m", args.model, "-p", str(args.prompt), "-n", str(args.generate),
                   "-t", str(args.threads), "-r", "1", "-o", "json"])
    prefill = next(r["avg_ts"] for r in results if r["n_prompt"] > 0)
    decode = next(r["avg_ts"] for r in results if r["n_gen"] > 0)
    return prefill, decode


def ours(args):
    result = run([args.engine_benchmark, args.model, str(args.prompt), str(args.generate),
                  str(args.threads), "1"])
    return result["prefill_tokens_per_s"], result["decode_tokens_per_s"]


def describe(name, values):
    return f"{name} {statistics.median(values):8.2f} ({min(values):.2f} to {max(values):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("llama_bench")
    parser.add_argument("engine_benchmark")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=64)
    args = parser.parse_args()

    rounds = [(llama(args), ours(args)) for _ in range(args.rounds)]
    for i, what in enumerate((f"prefill({args.prompt})", f"decode({args.generate})")):
        theirs = [r[0][i] for r in rounds]
        mine = [r[1][i] for r in rounds]
        ratio = statistics.median(mine) / statistics.median(theirs)
        each = ", ".join(f"{m / t:.2f}" for m, t in zip(mine, theirs))
        print(f"{what}: {describe('llama.cpp', theirs)}, {describe('ours', mine)} tokens/s; "
              f"ratio {ratio:.2f} (rounds: {each})")


if __name__ == "__main__":
    main()
