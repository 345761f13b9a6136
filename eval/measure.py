#!/usr/bin/env python3
"""Measures a running product as its users see it and prints one table: ingest rate, search latency at 1, 8 and 32 clients, time
to first token, tokens a second, memory.

usage: eval/measure.py --docs DIR [--generator NAME] [--requests N]
Starts its own server on free ports with an empty data directory; needs tests/requirements.txt. Times are of this machine and this
moment: compare only numbers of one run.
"""
import argparse
import pathlib
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/e2e"))
from cairn_client import Client, Server  # noqa: E402

QUESTIONS = ["How is a timeout set for a request?", "What does the load balancer do when a server fails?", "bvar 的作用是什么?",
             "如何设置连接超时时间?", "thread local caches", "error codes of the client", "HTTP service path", "一致性哈希"]


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


def search_load(address, clients, requests):
    """Latencies in ms and queries a second."""
    latencies, lock, next_one = [], threading.Lock(), iter(range(requests))

    def work():
        client = Client(address)
        request = client.s.retrieval.SearchRequest
        while True:
            with lock:
                i = next(next_one, None)
            if i is None:
                return
            start = time.perf_counter()
            client.retrieval.Search(request(collection="measure", query=QUESTIONS[i % len(QUESTIONS)], top_k=10,
                                            rerank=client.s.retrieval.RERANK_MODE_OFF))
            with lock:
                latencies.append((time.perf_counter() - start) * 1e3)

    threads = [threading.Thread(target=work) for _ in range(clients)]
    start = time.perf_counter()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return latencies, requests / (time.perf_counter() - start)


def generate(client, prompt_words, tokens, run):
    """(seconds to the first text, tokens a second after it, prompt tokens). Prompts of different runs begin differently, so that
    none finds its beginning in the prefix cache."""
    pb = client.s.inference
    request = pb.GenerateRequest(prompt=f"{prompt_words}-{run}. " + "lorem ipsum dolor sit amet " * (prompt_words // 5), max_tokens=tokens)
    start, first, completed = time.perf_counter(), None, None
    for event in client.inference.Generate(request):
        if first is None and event.WhichOneof("event") == "text_delta":
            first = time.perf_counter()
        if event.WhichOneof("event") == "completed":
            completed = event.completed
    end = time.perf_counter()
    usage = completed.usage
    return first - start, (usage.completion_tokens - 1) / max(1e-9, end - first), usage.prompt_tokens


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--docs", required=True)
    parser.add_argument("--generator", default="qwen2.5-coder-1.5b")
    parser.add_argument("--requests", type=int, default=200)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as data:
        server = Server(data, {"CAIRN_MODELS_GENERATOR": options.generator}).wait_ready()
        client = Client(server.address)
        rows.append(("memory, models loaded", f"{server.memory_mib():.0f} MiB"))
        folder = pathlib.Path(options.docs)
        files = [p for p in sorted(folder.rglob("*")) if p.suffix in (".md", ".txt", ".html")]
        size = sum(p.stat().st_size for p in files)
        start = time.perf_counter()
        jobs = [client.put("measure", str(p.relative_to(folder)), p.read_bytes()) for p in files]
        for job in jobs:
            client.wait(job)
        seconds = time.perf_counter() - start
        chunks = sum(c.num_chunks for c in client.retrieval.ListCollections(
            client.s.retrieval.ListCollectionsRequest()).collections if c.name == "measure")
        rows.append(("ingest", f"{len(files)} files, {size / 1e6:.2f} MB, {chunks} chunks in {seconds:.1f} s: "
                               f"{size / 1e3 / seconds:.1f} kB/s, {chunks / seconds:.1f} chunks/s"))
        for clients in (1, 8, 32):
            latencies, rate = search_load(server.address, clients, options.requests)
            rows.append((f"search, {clients} clients", f"p50 {percentile(latencies, .5):.1f} ms, p99 {percentile(latencies, .99):.1f} ms, "
                                                       f"{rate:.0f} queries/s"))
        for words in (50, 800):
            runs = [generate(client, words, 64, run) for run in range(3)]
            rows.append((f"generate, prompt {runs[0][2]} tokens",
                         f"first text after {statistics.median(r[0] for r in runs) * 1e3:.0f} ms, then "
                         f"{statistics.median(r[1] for r in runs):.1f} tokens/s"))
        rows.append(("memory at the end", f"{server.memory_mib():.0f} MiB"))
        server.stop()
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")


if __name__ == "__main__":
    main()
