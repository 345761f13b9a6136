#!/usr/bin/env python3
"""Checks every #include of our own headers against the include table of docs/architecture.md, and that
each third-party library stays in the folders that own its adapter.

usage: check_includes.py REPOSITORY_ROOT
"""
import pathlib
import re
import sys

ALLOWED = {
    "common": {"common"},
    "kernels": {"common", "kernels"},
    "engine": {"common", "kernels", "engine"},
    "retrieval": {"common", "kernels", "retrieval"},
    "agent": {"common", "agent"},
    # The command-line program is the composition root, so it may hold the evaluation harness too (ADR 0002).
    "services": {"common", "engine", "retrieval", "agent", "proto", "services", "eval"},
    "eval": {"common", "proto", "eval"},
    "tests": {"common", "kernels", "engine", "retrieval", "agent", "proto", "services", "eval", "tests"},
}
# Third-party headers and the folders that may see them.
OWNERS = [
    (re.compile(r"^(grpc|grpcpp)/"), {"services", "eval", "tests"}),
    (re.compile(r"^rocksdb/"), {"retrieval/store"}),
    (re.compile(r"^sqlite3\.h"), {"agent"}),
    (re.compile(r"^boost/"), {"services/gateway"}),
    (re.compile(r"^yaml-cpp/"), {"services/config"}),
    (re.compile(r"^CLI/"), {"services/cli"}),
    (re.compile(r"^prometheus/"), {"services/runtime", "services/gateway"}),
    (re.compile(r"^(gumbo|cmark-gfm)"), {"retrieval/parse"}),
    (re.compile(r"^spdlog/"), {"common"}),
    (re.compile(r"^zip\.h"), {"services/models"}),
]
GENERATED = re.compile(r"^(cairn|google/rpc|grpc/(health|reflection))/.*\.pb\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    problems = []
    files = 0
    for folder, allowed in ALLOWED.items():
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".cc", ".h", ".cu", ".cuh"):
                continue
            files += 1
            relative = path.relative_to(root).as_posix()
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                target = match.group(2)
                top = "proto" if GENERATED.match(target) else target.split("/")[0]
                if top in ALLOWED or top == "proto":
                    bad = top not in allowed
                    if top == "eval" and folder == "services":
                        bad = not relative.startswith("services/cli/")
                    if bad:
                        problems.append(f"{relative}:{number}: {folder}/ may not include {target}")
                    continue
                for pattern, owners in OWNERS:
                    if pattern.match(target) and not any(relative.startswith(o + "/") for o in owners):
                        problems.append(f"{relative}:{number}: {target} belongs to {', '.join(sorted(owners))}")
    for problem in problems:
        print(problem)
    print(f"{files} files checked, {len(problems)} problems")
    return 1 if problems or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
