#!/usr/bin/env python3
"""Checks that the commands which the documentation shows exist: every `cairn` subcommand and flag against --help, every
deploy/ script and its flags against the script. tests/e2e/test_readme.py runs those of the README.

usage: check_documented_commands.py CAIRN_PROGRAM REPOSITORY_ROOT
"""
import functools
import os
import pathlib
import re
import shlex
import subprocess
import sys

FLAG = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")


def code_blocks(markdown: str, language: str) -> list:
    return re.findall(rf"^```{language}\n(.*?)^```", markdown, re.M | re.S)


def shell_commands(markdown: str) -> list:
    """The commands of the shell blocks, each a list of words."""
    lines = "".join(code_blocks(markdown, "(?:sh|bash)")).replace("\\\n", " ").splitlines()
    return [words for words in (shlex.split(line, comments=True) for line in lines) if words]


def inline_commands(markdown: str) -> list:
    """What stands in backquotes and begins with a program of ours or with a flag."""
    text = re.sub(r"^```.*?^```", "", markdown, flags=re.M | re.S)
    codes = re.findall(r"`([^`\n]+)`", text)
    return [shlex.split(code) for code in codes if re.match(r"cairn( |$)|deploy/|--", code)]


class Help:
    """What `cairn [COMMAND...] --help` says."""

    def __init__(self, program: str):
        self.program = program

    @functools.lru_cache(maxsize=None)
    def text(self, *commands) -> str:
        return subprocess.run([self.program, *commands, "--help"], capture_output=True, text=True, check=True).stdout

    def commands(self, *parents) -> list:
        _, _, listed = self.text(*parents).partition("Subcommands:\n")
        return re.findall(r"^  (\w[\w-]*)", listed, re.M)

    def flags(self, *commands) -> set:
        return set(FLAG.findall(self.text(*commands)))

    def all_flags(self, *parents) -> set:
        return self.flags(*parents).union(*(self.all_flags(*parents, command) for command in self.commands(*parents)))

    def problem(self, words: list) -> str:
        """What is wrong with the words behind `cairn`, or nothing."""
        path, known = [], self.flags()
        for word in words:
            if word.startswith("-"):
                if word.partition("=")[0] not in known:
                    return f"no flag {word} in `{' '.join(['cairn', *path])} --help`"
            elif self.commands(*path):
                if word not in self.commands(*path):
                    return f"no command {word} in `{' '.join(['cairn', *path])} --help`"
                path.append(word)
                known = known | self.flags(*path)
        return ""


def problem(words: list, root: pathlib.Path, help_: Help) -> str:
    if words[0] == "cairn":
        return help_.problem(words[1:])
    scripts = {str(path.relative_to(root)): path for path in (root / "deploy").iterdir() if os.access(path, os.X_OK)}
    if words[0].startswith("deploy/"):
        if words[0] not in scripts:
            return f"no program {words[0]}"
        known = set(FLAG.findall(scripts[words[0]].read_text()))
        return "".join(f"no flag {word} in {words[0]}" for word in words[1:] if word.startswith("-") and word not in known)
    if words[0].startswith("--"):  # a flag by itself, of whatever the text is about
        known = help_.all_flags().union(*(FLAG.findall(path.read_text()) for path in scripts.values()))
        return "".join(f"no flag {word} anywhere" for word in words if word.startswith("--") and word not in known)
    return f"neither cairn nor of deploy/: {words[0]}; say here how it is checked"


def main() -> int:
    program, root = sys.argv[1], pathlib.Path(sys.argv[2])
    help_ = Help(program)
    count, problems = 0, []
    for path in [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        for words in shell_commands(text) + inline_commands(text):
            count += 1
            if found := problem(words, root, help_):
                problems.append(f"{path.relative_to(root)}: `{' '.join(words)}`: {found}")
    print("\n".join(problems) or f"{count} commands, all exist")
    return 1 if problems or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
