"""The command line as a Unix program: exit codes, what goes to which stream, JSON, interruption."""
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from cairn_client import ROOT, binary
from test_grpc import idle_within, wait_busy


def cairn(*arguments, server=None, **environment):
    flags = ["--server", server.address] if server else []
    result = subprocess.run([binary(), *flags, *arguments], capture_output=True, text=True, timeout=300,
                            env=dict(os.environ, **environment))
    return result.returncode, result.stdout, result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("documents")
    (path / "one.md").write_text("# Kettle\n\nThe kettle holds 1.7 litres.\n")
    (path / "sub").mkdir()
    (path / "sub/two.txt").write_text("The lamp is switched on at dusk.\n")
    (path / ".hidden.md").write_text("secret")
    (path / "image.png").write_bytes(b"\x89PNG")
    return path


def test_usage():
    assert cairn()[0] == 2
    assert cairn("no-such-command")[0] == 2
    assert cairn("search")[0] == 2
    assert cairn("--version") == (0, "cairn 0.1.0\n", "")
    code, out, _ = cairn("--help")
    assert code == 0 and "serve" in out


def test_config():
    code, out, _ = cairn("serve", "--print-config")
    assert code == 0 and out == (ROOT / "deploy/cairn.sample.yaml").read_text()
    code, out, _ = cairn("serve", "--print-config", "--set", "limits.max_uploads=7", CAIRN_LIMITS_MAX_UPLOADS="6",
                         CAIRN_LIMITS_MAX_WATCHES="5")
    assert "max_uploads: 7" in out and "max_watches: 5" in out
    code, _, err = cairn("serve", "--set", "limits.nope=7")
    assert code == 2 and "unknown key limits.nope" in err


def test_models_estimate():
    code, out, _ = cairn("models", "estimate", "smollm2-135m", "--context", "2048", "--json")
    numbers = json.loads(out)
    # 30 layers, 3 KV heads of 64, keys and values, two bytes each.
    assert code == 0 and numbers["kv_bytes_per_token"] == 2 * 30 * 3 * 64 * 2
    assert 90e6 < numbers["weight_bytes"] < 200e6 and numbers["sequences_that_fit"] > 1
    code, out, err = cairn("models", "estimate", "smollm2-135m", "--memory", "300000000", "--streams", "50")
    assert code == 1 and "weights" in out and "50 sequences" in err
    assert cairn("models", "estimate", "no-such-model")[0] == 1


def test_config_file_errors_name_the_line(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("limits:\n  max_uploads: 3\n  max_uplods: 3\n")
    code, _, err = cairn("serve", "--config", str(path))
    assert code == 2 and f"{path}:3: unknown key limits.max_uplods" in err


def test_no_server():
    code, out, err = cairn("--server", "127.0.0.1:1", "search", "x")
    assert (code, out) == (3, "")
    assert err.startswith("cairn: cannot reach a server at 127.0.0.1:1: start one with `cairn serve`")


def test_ingest_is_resumed_by_running_it_again(server, folder):
    code, out, err = cairn("ingest", "-c", "cli", str(folder), server=server)
    assert (code, err) == (0, "") and out.startswith("2 created, 0 replaced, 0 unchanged, 0 failed")
    (folder / "one.md").write_text("# Kettle\n\nThe kettle holds 1.8 litres.\n")
    code, out, _ = cairn("ingest", "-c", "cli", str(folder), server=server)
    assert code == 0 and out.startswith("0 created, 1 replaced, 1 unchanged, 0 failed")
    code, out, _ = cairn("--json", "documents", "-c", "cli", server=server)
    assert code == 0 and '"sub/two.txt"' in out and ".hidden" not in out and "png" not in out


def test_a_file_that_fails_is_reported_and_the_others_go_on(server, folder):
    code, out, err = cairn("ingest", "-c", "cli", str(folder / "image.png"), str(folder / "no-such-file"),
                           str(folder / "one.md"), server=server)
    assert code == 1 and "no-such-file" in err and "image.png" in err
    assert "1 created" in out or "1 unchanged" in out


def test_search_and_ask(server):
    code, out, err = cairn("search", "--explain", "-c", "small", "grease the pump", server=server)
    assert code == 0 and "manual.md" in out and "BM25" in out and "\x1b" not in out
    code, out, _ = cairn("search", "--explain", "-c", "small", "How is the pump greased?", server=server)
    assert code == 0 and "(question words): How\n" in out and "term w:how" not in out
    code, out, _ = cairn("--json", "search", "-c", "small", "grease the pump", server=server)
    assert json.loads(out)["hits"][0]["chunk"]["document_id"] == "manual.md"
    code, out, _ = cairn("ask", "-c", "small", "How often must the Halvorsen P-200 pump be greased?", server=server)
    assert code == 0 and "450" in out and "[1]" in out and "manual.md" in out
    code, out, _ = cairn("--json", "ask", "-c", "small", "How often must the Halvorsen P-200 pump be greased?", server=server)
    events = [json.loads(line) for line in out.splitlines()]
    assert "sources" in events[0] and "completed" in events[-1]


def test_errors_are_one_line(server):
    code, out, err = cairn("search", "-c", "nowhere", "x", server=server)
    assert (code, out) == (1, "") and err.startswith("cairn: ") and err.count("\n") == 1
    code, _, err = cairn("--json", "search", "-c", "nowhere", "x", server=server)
    assert json.loads(err)["reason"] == "COLLECTION_NOT_FOUND"


def test_interrupt_cancels_the_work(server):
    process = subprocess.Popen([binary(), "--server", server.address, "run", "-c", "small", "Describe the pump at length."],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_busy(server)
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130
    idle_within(server, 2.0, ("cairn_engine_running", {}), ("cairn_engine_queued", {}),
                ("cairn_rpc_in_flight", {"method": "cairn.agent.v1.AgentService/Run"}))


def test_interrupted_ingest_leaves_no_jobs_behind(tmp_path):
    """Ctrl-C cancels what was put and has not ended, running or queued; the same command again takes the rest."""
    from cairn_client import Client, Server

    documents = tmp_path / "documents"
    documents.mkdir()
    line = " ".join(f"word{i}" for i in range(20)) + ".\n"
    for i in range(24):
        (documents / f"{i:02}.txt").write_text(f"Number {i}.\n\n" + line * (8 << 10))
    assert "Ctrl-C" in cairn("ingest", "--help")[1]
    server = Server(str(tmp_path), {"CAIRN_MODELS_GENERATOR": "", "CAIRN_MODELS_EMBEDDER": "", "CAIRN_MODELS_RERANKER": "",
                                    "CAIRN_INGEST_WORKERS": "1"}).wait_ready(30)
    try:
        client = Client(server.address)
        pb = client.s.ingest
        active = {pb.JOB_STATE_QUEUED, pb.JOB_STATE_RUNNING}

        def states():
            return [job.state for job in client.ingest.ListJobs(pb.ListJobsRequest()).jobs]

        process = subprocess.Popen([binary(), "--server", server.address, "ingest", str(documents)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        end = time.time() + 60
        while len(active.intersection(states())) < 2 and time.time() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 130 and "jobs cancelled" in err, err
        while active.intersection(states()) and time.time() < end:  # the one that ran stops within a step
            time.sleep(0.02)
        assert pb.JOB_STATE_CANCELLED in states() and not active.intersection(states())
        code, out, err = cairn("ingest", str(documents), server=server)
        assert code == 0 and " 0 failed" in out, err
    finally:
        assert server.stop() == 0


def test_doctor(server):
    assert cairn("doctor", "--ready", server=server)[0] == 0
    code, out, _ = cairn("--json", "doctor", "--data", str(pathlib.Path(server.log_path).parent / "store"), server=server)
    checks = {(c["check"], c["result"]) for c in map(json.loads, out.splitlines())}
    assert ("server", "ok") in checks and ("data", "ok") in checks


def test_server_stops_with_a_stream_open(tmp_path):
    """SIGTERM ends watches at once and waits for nothing else when nothing runs."""
    from cairn_client import Client, Server

    server = Server(str(tmp_path), {"CAIRN_MODELS_GENERATOR": "", "CAIRN_MODELS_EMBEDDER": "", "CAIRN_MODELS_RERANKER": ""})
    server.wait_listening()
    watch = Client(server.address).channel.unary_stream("/grpc.health.v1.Health/Watch", lambda b: b, lambda b: b)(b"")
    next(watch)
    start = time.time()
    assert server.stop() == 0
    assert time.time() - start < 5
