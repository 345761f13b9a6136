"""Chats of several clients at once against an OpenAI-compatible server: how many a minute, and how their text comes.

Each client sends its requests one after the other, streamed, at temperature 0; prompts have a first half that all share.
"""
import http.client
import json
import statistics
import threading
import time
import urllib.parse
import urllib.request

SHARED = ("The harbour master keeps a book of every ship that enters the bay, with her tonnage, her flag, her cargo and the hour of "
          "the tide. A ship that comes by night shows two white lamps, one above the other, and waits for the pilot outside the bar. ")


def prompt(client, request, words=600):
    """About 800 tokens, half of them the same for all."""
    half = (SHARED * 40).split()[:words // 2]
    own = [f"{word}{(client * 31 + request * 17 + i) % 97}" if i % 3 == 0 else word
           for i, word in enumerate((SHARED * 40).split()[:words // 3])]
    return " ".join(half) + f" Entry {client}-{request}: " + " ".join(own) + " Say what this text is about."


def wait_until_ready(url, process, seconds=120):
    for _ in range(seconds * 5):
        if process.poll() is not None:
            raise RuntimeError(f"the server of {url} ended with {process.returncode}")
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                if response.status == 200:
                    return
        except OSError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"{url} was not ready after {seconds} s")


def stream(url, model, text, max_tokens):
    """The arrival times of one reply's pieces."""
    address = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=600)
    body = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": max_tokens, "temperature": 0,
            "stream": True}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        raise RuntimeError(f"{response.status} {response.read()[:500]}")
    times = []
    for line in response:
        if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
            continue
        choices = json.loads(line[6:]).get("choices") or [{}]
        if choices[0].get("delta", {}).get("content"):
            times.append(time.monotonic())
    return times


def measure(url, model, clients=8, requests=2, max_tokens=64):
    """{requests_per_minute, gap_median_s, gap_p99_s, gap_worst_s} over all gaps between pieces of a reply."""
    gaps, failures = [], []
    lock = threading.Lock()

    def run(client):
        for request in range(requests):
            try:
                times = stream(url, model, prompt(client, request), max_tokens)
            except Exception as error:  # noqa: BLE001 - whatever it was, the measurement is void
                failures.append(error)
                return
            with lock:
                gaps.extend(b - a for a, b in zip(times, times[1:]))

    begin = time.monotonic()
    threads = [threading.Thread(target=run, args=(i,)) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    gaps.sort()
    return {"requests_per_minute": clients * requests * 60 / (time.monotonic() - begin),
            "gap_median_s": statistics.median(gaps), "gap_p99_s": gaps[int(len(gaps) * 0.99)], "gap_worst_s": gaps[-1]}
