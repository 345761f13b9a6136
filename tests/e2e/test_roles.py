"""Roles as separate processes on loopback give the same answers, with the same citations, as one process."""
import json
import time
import urllib.error
import urllib.request

import grpc
import pytest

from cairn_client import Client, Server, has_model, stubs
from conftest import SMALL_DOCUMENTS, require_models

QUESTIONS = ["How often must the Halvorsen P-200 pump be greased?", "What is the fuse rated at?", "龙井茶应当冲泡多久?",
             "How tall is the Skagen lighthouse?", "Who won the football world cup in 1974?"]


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    require_models("qwen2.5-coder-0.5b", "multilingual-e5-small")
    settings = {"CAIRN_MODELS_GENERATOR": "qwen2.5-coder-0.5b"}
    if not has_model("ms-marco-minilm-l12-v2"):
        settings["CAIRN_MODELS_RERANKER"] = ""
    roles = ["inference", "retrieval", "ingest", "agent"]
    addresses = {}
    servers = []
    try:
        for role in roles:
            folder = tmp_path_factory.mktemp(role)
            known = {f"CAIRN_ADDRESSES_{name.upper()}": address for name, address in addresses.items()}
            server = Server(str(folder), {**settings, **known}, ["--roles", role])
            addresses[role] = server.address
            servers.append(server)
        for server in servers:
            server.wait_healthy()
        yield dict(zip(roles, servers))
    finally:
        codes = {server.stop() for server in reversed(servers)}
        assert codes <= {0, -9}  # one test kills a role


def facts(client, question):
    sources, text, sentences, completed = client.ask("small", question)
    cited = [(s.supported, [(c.document_id, c.span.begin, c.span.end, c.quote) for c in s.citations]) for s in sentences]
    return text, cited, completed.abstained, [(s.document_id, s.span.begin, s.span.end) for s in sources]


def test_same_answers_and_citations(client, split):
    ingest = Client(split["ingest"].address)
    for name, text in SMALL_DOCUMENTS.items():
        job = ingest.wait(ingest.put("small", name, text.encode()))
        assert job.state == ingest.s.ingest.JOB_STATE_SUCCEEDED, job
    agent = Client(split["agent"].address)
    for question in QUESTIONS:
        assert facts(agent, question) == facts(client, question), question


def test_a_role_that_is_not_here_is_unimplemented(split):
    with pytest.raises(grpc.RpcError) as caught:
        Client(split["agent"].address).retrieval.ListCollections(stubs().retrieval.ListCollectionsRequest())
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_search_goes_on_without_inference(split):
    """The vectors are gone with their role: search says so and answers by words."""
    split["inference"].kill()
    retrieval = Client(split["retrieval"].address)
    response = retrieval.retrieval.Search(stubs().retrieval.SearchRequest(collection="small", query="Halvorsen pump"))
    assert response.hits[0].chunk.document_id == "manual.md"
    assert any("EMBEDDER_UNAVAILABLE" in stage for stage in response.degraded), response.degraded


def test_without_any_model_documents_are_found_by_words(tmp_path):
    server = Server(str(tmp_path), {"CAIRN_MODELS_GENERATOR": "", "CAIRN_MODELS_EMBEDDER": "", "CAIRN_MODELS_RERANKER": ""},
                    ["--roles", "inference,retrieval,ingest"]).wait_healthy()
    try:
        client = Client(server.address)
        for name, text in SMALL_DOCUMENTS.items():
            job = client.wait(client.put("words", name, text.encode()))
            assert job.state == client.s.ingest.JOB_STATE_SUCCEEDED, job
        collection = client.retrieval.ListCollections(stubs().retrieval.ListCollectionsRequest()).collections[0]
        assert (collection.dimension, collection.num_documents) == (0, len(SMALL_DOCUMENTS))
        response = client.retrieval.Search(stubs().retrieval.SearchRequest(collection="words", query="龙井茶"))
        assert response.hits[0].chunk.document_id == "shougong.md" and not response.degraded
    finally:
        assert server.stop() == 0


def test_a_server_for_search_alone_is_ready_and_refuses_to_answer(tmp_path):
    """Every role, no model: /readyz says what is missing, and what needs the generator is refused by its setting's name."""
    settings = {f"CAIRN_MODELS_{role}": "" for role in ("GENERATOR", "EMBEDDER", "RERANKER")}
    server = Server(str(tmp_path), settings).wait_ready(seconds=30)
    try:
        body = urllib.request.urlopen(server.http + "/readyz").read().decode()
        assert body.splitlines()[0] == "ready" and "models.generator" in body, body
        client = Client(server.address)
        for name, text in SMALL_DOCUMENTS.items():
            assert client.wait(client.put("words", name, text.encode())).state == client.s.ingest.JOB_STATE_SUCCEEDED
        pb = client.s.agent
        calls = {
            "ask": lambda: list(client.agent.Ask(pb.AskRequest(collection="words", question="龙井茶应当冲泡多久?"))),
            "ask about nothing there": lambda: list(client.agent.Ask(pb.AskRequest(collection="words", question="Who is Zaphod?"))),
            "run": lambda: list(client.agent.Run(pb.RunRequest(task="Add 1 and 2."))),
        }
        for name, call in calls.items():
            with pytest.raises(grpc.RpcError) as caught:
                call()
            assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION, name
            assert "models.generator" in caught.value.details(), name
        assert not client.agent.ListRuns(pb.ListRunsRequest()).runs  # nothing was begun
        for more in ({}, {"collection": "words"}):
            body = {"model": "any", "messages": [{"role": "user", "content": "hello"}], **more}
            request = urllib.request.Request(server.http + "/v1/chat/completions", json.dumps(body).encode(),
                                             {"Content-Type": "application/json"})
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request)
            assert refused.value.code == 400 and "models.generator" in refused.value.read().decode(), more
    finally:
        assert server.stop() == 0


def test_a_model_that_is_not_there_is_named(tmp_path):
    server = Server(str(tmp_path), {"CAIRN_HOME": str(tmp_path), "CAIRN_MODELS_GENERATOR": "smollm2-135m",
                                    "CAIRN_MODELS_EMBEDDER": "", "CAIRN_MODELS_RERANKER": ""}).wait_listening()
    try:
        for _ in range(100):
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(server.http + "/readyz")
            body = caught.value.read().decode()
            if "smollm2-135m" in body and "loading" not in body:
                break
            time.sleep(0.1)
        assert caught.value.code == 503 and "agent: generator: " in body and "smollm2-135m" in body, body
    finally:
        assert server.stop() == 0
