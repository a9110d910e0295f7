"""The list of promises and the tests agree."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parent
_LINE = re.compile(r"^\| ([A-Z]\d{1,3}) \| .+ \| `(tests/\S+\.py)::(\w+)`")


def _marked() -> set[tuple[str, str, str]]:
    """(promise, file, test) of every marker in the tests."""
    found = set()
    for path in sorted(TESTS.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef):
                continue
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.promise":
                    names = [ast.literal_eval(argument) for argument in decorator.args]
                    found |= {(name, f"tests/{path.name}", node.name) for name in names}
    return found


def _listed() -> set[tuple[str, str, str]]:
    lines = (TESTS / "PROMISES.md").read_text(encoding="utf-8").splitlines()
    return {match.groups() for line in lines if (match := _LINE.match(line))}  # type: ignore[misc]


def test_every_promise_names_a_test_that_is_marked_with_it() -> None:
    """A line of PROMISES.md names a test that exists and carries the promise's marker."""
    assert set() == _listed() - _marked()


def test_every_marker_names_a_promise() -> None:
    """A marker's promise has at least one line."""
    assert set() == {name for name, _, _ in _marked()} - {name for name, _, _ in _listed()}


def test_every_line_of_the_table_is_understood() -> None:
    """No line of the table is skipped because it is spelled another way."""
    rows = [
        line
        for line in (TESTS / "PROMISES.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and not line.startswith("| promise")
    ]
    assert len(_listed()) == len(rows)
