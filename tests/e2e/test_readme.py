"""What README.md shows runs as it stands there: its commands and its Python, with this server's addresses."""
import os
import subprocess
import sys

import pytest

from cairn_client import ROOT, binary, stubs

sys.path.insert(0, str(ROOT / "tests/scripts"))
from check_documented_commands import code_blocks, shell_commands  # noqa: E402

README = (ROOT / "README.md").read_text()
COMMANDS = [words for words in shell_commands(README) if words[0] == "cairn" and words != ["cairn", "serve"]]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """What stands for the placeholders of the README."""
    notes = tmp_path_factory.mktemp("notes")
    (notes / "gateway.md").write_text("# Gateway\n\nThe gateway uses port 7480. The fee in the contract is 200 euros.\n")
    data = tmp_path_factory.mktemp("set")
    (data / "corpus.jsonl").write_text('{"_id": "a", "title": "", "text": "red apples"}\n{"_id": "b", "title": "", "text": "blue plums"}\n')
    (data / "queries.jsonl").write_text('{"_id": "q", "text": "apples"}\n')
    (data / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\n")
    return {"~/notes": str(notes), "DIR": str(data)}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_command(server, places, tmp_path, words):
    arguments = [places.get(word, word) for word in words[1:]]
    # doctor looks at the local installation too: the server's models, and a data directory of its own.
    environment = dict(os.environ, CAIRN_SERVER=server.address, CAIRN_DATA_DIR=str(tmp_path), **server.settings)
    done = subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=300, env=environment)
    # The small generator may give up on a run; that is an answer too.
    gave_up = words[1] == "run" and done.returncode == 1 and "cairn: run " in done.stderr
    assert done.returncode == 0 or gave_up, done.stderr
    assert done.stdout


@pytest.mark.parametrize("snippet", code_blocks(README, "python"), ids=["grpc", "http"])
def test_python(server, places, snippet, capsys):
    stubs()  # puts the generated modules on the path
    subprocess.run([binary(), "--server", server.address, "ingest", places["~/notes"]], check=True, capture_output=True)
    ours = snippet.replace("127.0.0.1:7400", server.address).replace("http://127.0.0.1:7480", server.http)
    assert ours != snippet
    exec(compile(ours, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip()
