import os
import pathlib

import pytest

from cairn_client import Client, Server, binary, has_model

SMALL_DOCUMENTS = {
    "manual.md": ("# Pump manual\n\n## Maintenance\n\nThe Halvorsen P-200 pump must be greased every 450 hours. Use lithium grease only.\n\n"
                  "## Electrical\n\nThe motor runs at 230 volts. The fuse is rated at 16 amperes.\n"),
    "shougong.md": ("# 茶叶手册\n\n## 冲泡\n\n龙井茶应当用八十度的水冲泡三分钟。水温过高会使茶叶变苦。\n\n## 储存\n\n茶叶应密封保存在阴凉干燥的地方，保质期为十八个月。\n"),
    "page.html": ("<html><head><title>Lighthouse</title></head><body><nav>Home</nav><h1>Skagen lighthouse</h1>"
                  "<p>The lighthouse was <b>built in 1858</b> and is 46 metres tall.</p></body></html>"),
}


def require_models(*names):
    missing = [name for name in names if not has_model(name)]
    if missing:
        pytest.skip("models are missing: " + ", ".join(missing) + " (cairn models fetch)")


@pytest.fixture(scope="session", autouse=True)
def program():
    if not pathlib.Path(binary()).exists():
        pytest.skip(f"no program at {binary()}")


@pytest.fixture(scope="session")
def data_dir():
    path = os.environ.get("CAIRN_TEST_DATA", "")
    if not path:
        pytest.skip("CAIRN_TEST_DATA is not set")
    return pathlib.Path(path)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """One server with the 0.5B generator, shared by the tests of a session, holding the small documents in "small"."""
    require_models("qwen2.5-coder-0.5b", "multilingual-e5-small")
    settings = {"CAIRN_MODELS_GENERATOR": "qwen2.5-coder-0.5b"}
    if not has_model("ms-marco-minilm-l12-v2"):
        settings["CAIRN_MODELS_RERANKER"] = ""
    running = Server(str(tmp_path_factory.mktemp("server")), settings).wait_ready()
    client = Client(running.address)
    for name, text in SMALL_DOCUMENTS.items():
        job = client.wait(client.put("small", name, text.encode()))
        assert job.state == client.s.ingest.JOB_STATE_SUCCEEDED, job
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="session")
def client(server):
    return Client(server.address)
