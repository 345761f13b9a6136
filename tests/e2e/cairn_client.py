"""A running server and typed stubs, for tests and measuring scripts. Needs grpcio and grpcio-tools only."""
import contextlib
import importlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import grpc

ROOT = pathlib.Path(__file__).resolve().parents[2]
_stubs = None


def stubs():
    """Modules generated from proto/: stubs().agent, .common, .inference, .ingest, .retrieval and their *_grpc."""
    global _stubs
    if _stubs is None:
        from grpc_tools import protoc

        folder = tempfile.mkdtemp(prefix="cairn-stubs-")
        protos = sorted(str(p.relative_to(ROOT / "proto")) for p in (ROOT / "proto/cairn").rglob("*.proto"))
        include = pathlib.Path(importlib.import_module("grpc_tools").__file__).parent / "_proto"
        code = protoc.main(["protoc", f"-I{ROOT / 'proto'}", f"-I{include}", f"--python_out={folder}",
                            f"--grpc_python_out={folder}", *protos])
        if code != 0:
            raise RuntimeError("protoc failed")
        sys.path.insert(0, folder)
        _stubs = type("Stubs", (), {})()
        _stubs.common = importlib.import_module("cairn.common.v1.common_pb2")
        for role in ("inference", "ingest", "retrieval", "agent"):
            setattr(_stubs, role, importlib.import_module(f"cairn.{role}.v1.{role}_service_pb2"))
            setattr(_stubs, role + "_grpc", importlib.import_module(f"cairn.{role}.v1.{role}_service_pb2_grpc"))
    return _stubs


def binary() -> str:
    return os.environ.get("CAIRN_BINARY", str(ROOT / "build/test/services/cli/cairn"))


def models_dir() -> pathlib.Path:
    return pathlib.Path(os.environ.get("CAIRN_HOME", pathlib.Path.home() / ".cairn")) / "models"


def has_model(name: str) -> bool:
    return (models_dir() / name / "model.gguf").exists()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Client:
    """Stubs of every role over one channel, and the few calls that tests repeat."""

    def __init__(self, address: str):
        self.s = stubs()
        size = [("grpc.max_receive_message_length", 16 << 20), ("grpc.max_send_message_length", 16 << 20)]
        self.channel = grpc.insecure_channel(address, options=size)
        self.inference = self.s.inference_grpc.InferenceServiceStub(self.channel)
        self.ingest = self.s.ingest_grpc.IngestServiceStub(self.channel)
        self.retrieval = self.s.retrieval_grpc.RetrievalServiceStub(self.channel)
        self.agent = self.s.agent_grpc.AgentServiceStub(self.channel)

    def put(self, collection, document_id, data: bytes, media_type="", **header):
        """Starts a job; returns it."""
        pb = self.s.ingest

        def parts():
            yield pb.PutDocumentRequest(header=pb.PutDocumentHeader(
                collection=collection, document_id=document_id, media_type=media_type, **header))
            for at in range(0, len(data), 1 << 19):
                yield pb.PutDocumentRequest(data=data[at:at + (1 << 19)])

        return self.ingest.PutDocument(parts()).job

    def wait(self, job):
        """The job in its final state."""
        for event in self.ingest.WatchJob(self.s.ingest.WatchJobRequest(job_id=job.job_id)):
            if event.WhichOneof("event") == "finished":
                return event.finished
        raise RuntimeError("the watch ended early")

    def ask(self, collection, question, **more):
        """(sources, streamed text, sentences, completed)."""
        sources, text, sentences, completed = [], "", [], None
        for event in self.agent.Ask(self.s.agent.AskRequest(collection=collection, question=question, **more)):
            kind = event.WhichOneof("event")
            if kind == "sources":
                sources = list(event.sources.sources)
            elif kind == "text":
                text += event.text.text
            elif kind == "sentence":
                sentences.append(event.sentence)
            elif kind == "completed":
                completed = event.completed
        return sources, text, sentences, completed


class Server:
    """A `cairn serve` process on free ports."""

    def __init__(self, data: str, settings=None, arguments=()):
        self.port, self.http_port = free_port(), free_port()
        self.settings = settings or {}
        self.address = f"127.0.0.1:{self.port}"
        self.http = f"http://127.0.0.1:{self.http_port}"
        environment = dict(os.environ, CAIRN_HTTP_LISTEN=f"127.0.0.1:{self.http_port}", NO_COLOR="1", **self.settings)
        self.log = open(os.path.join(data, "server.log"), "ab")
        self.process = subprocess.Popen(
            [binary(), "serve", "--data", os.path.join(data, "store"), "--listen", self.address, *arguments],
            stdout=self.log, stderr=self.log, env=environment)
        self.log_path = self.log.name

    def wait_ready(self, seconds=180, path="/readyz"):
        end = time.time() + seconds
        while time.time() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"server ended with {self.process.returncode}: {self.tail()}")
            with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                if urllib.request.urlopen(self.http + path, timeout=2).status == 200:
                    return self
            time.sleep(0.1)
        raise RuntimeError(f"server not ready: {self.tail()}")

    def wait_listening(self, seconds=60):
        """Until the gRPC port answers, ready or not."""
        grpc.channel_ready_future(grpc.insecure_channel(self.address)).result(seconds)
        return self

    def wait_healthy(self, seconds=180):
        """Until grpc.health.v1 says that the whole process serves; for processes without the gateway role."""
        self.wait_listening()
        with grpc.insecure_channel(self.address) as channel:
            check = channel.unary_unary("/grpc.health.v1.Health/Check", lambda b: b, lambda b: b)
            end = time.time() + seconds
            while check(b"") != b"\x08\x01":
                if self.process.poll() is not None or time.time() > end:
                    raise RuntimeError(f"server not healthy: {self.tail()}")
                time.sleep(0.1)
        return self

    def tail(self):
        return pathlib.Path(self.log_path).read_text(errors="replace")[-2000:]

    def memory_mib(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()
                raise RuntimeError("the server did not end within 60 s of SIGTERM")
        self.log.close()
        return self.process.returncode
