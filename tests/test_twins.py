"""Twins: which titles look like one, found exactly and in bounded time, reported and never merged (D6)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.cli.main import main
from flows.data_folder import DataFolder
from flows.embedded import EmbeddedRun
from flows.intake import Line
from flows.judge.contract import Answer
from flows.near_sets import NearSets
from flows.twins import LIKENESS, Twins, find_twins
from flows.wordings import Wording, partners, read_title
from store import Store, open_store
from store.arrow import to_arrow
from store.schema import Event, TaskRow, View, load_settings
from tests.looking import a_task, law
from tests.sample import opened
from tests.workplace import BEN, START, Script, answer, create, event, rows_of, update

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return open_store(tmp_path / "store", create=True)


def fill(store: Store, *titles: str, workspace: str = "default", after: int = 0) -> None:
    """Tasks of these titles, each a minute after the one before; their ids are `after`, `after + 1`, …"""
    rows = [
        a_task(
            id=f"t-{number:06}",
            workspace=workspace,
            title=title,
            updated=START + timedelta(minutes=number),
        )
        for number, title in enumerate(titles, start=after)
    ]
    store.tables["tasks"].add(to_arrow(TaskRow, rows))


def titles_of(found: Twins) -> list[tuple[str, str]]:
    """The titles of each pair, the newer first."""
    return [(pair.tasks[0].title, pair.tasks[1].title) for pair in found.pairs]


# What looks like one.


@pytest.mark.promise("D6")
@pytest.mark.parametrize(
    ("left", "right", "likeness"),
    [
        ("Send the quarterly report to the board", "Send quarterly report to board", 1.0),
        ("Send the quarterly report", "Please send the quarterly report by Friday", 1.0),
        ("Renew the TLS certificate", "Renew TLS certificate for the shop", 0.75),
        ("Prepare the Friday design review", "The design review of Friday, prepare it", 1.0),
        ("Pay Brandt 1,200 €", "Pay Brandt €1.200", 1.0),
        ("Das Angebot für die Stadtwerke schicken", "Angebot Stadtwerke schicken", 1.0),
        ("青木商事の請求書を作成する", "青木商事への請求書の作成", 1.0),
        ("整理集邮册里的旧邮票", "整理集邮册里的旧邮票吧", 0.9),
        ("Проверить отчёт", "проверить отчёт", 1.0),
        ("Do it", "do  it", 1.0),
    ],
)
def test_near_equal_titles_are_twins(store: Store, left: str, right: str, likeness: float) -> None:
    """Small words, spelling, order and one word more do not matter; the likeness is the share of common words."""
    fill(store, left, right)
    (pair,) = find_twins(store, None, 10).pairs
    assert (right, left) == (pair.tasks[0].title, pair.tasks[1].title)
    assert likeness == pytest.approx(pair.likeness, abs=0.02)


@pytest.mark.promise("D6")
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Sign Amendment 16", "Sign Amendment 17"),
        ("Write report SR-2023-052", "Write report SR-2023-053"),
        ("Check the drawing Rev A", "Check the drawing Rev B"),
        ("見積書の第3版を校正する", "見積書の第4版を校正する"),
        ("Pay the Brandt invoice over 1,200 €", "Pay the Brandt invoice over 1,300 €"),
        ("Prepare the Friday review", "Prepare the Monday review"),
        ("Send the March report", "Send the April report"),
        ("File the minutes of 2024-03-18", "File the minutes of 2023-03-18"),
        ("Order 5 chairs", "Order 8 chairs"),
        ("Sprint 17 of 2024", "Sprint 18 of 2024"),
        ("Book the train to Hamburg", "Book the train to Berlin"),
        ("Send the quarterly report", "Write to the board"),
        ("Проверить отчёт", "Отправить счёт"),
    ],
)
def test_titles_that_name_different_things_are_none(store: Store, left: str, right: str) -> None:
    """Identifiers, amounts, days, numbers and words that differ tell two tasks apart, however alike the rest."""
    fill(store, left, right)
    assert Twins(compared=2, pairs=(), left_out=0, more=False) == find_twins(store, None, 10)


@pytest.mark.promise("D6")
def test_tasks_of_two_workspaces_are_no_twins(store: Store) -> None:
    """Each workspace is looked at for itself, whatever the other one holds."""
    fill(store, "Order a new printer", "Renew the domain")
    fill(store, "Order a new printer", workspace="far", after=2)
    assert () == find_twins(store, None, 10).pairs
    fill(store, "Order the new printer", workspace="far", after=3)
    both = find_twins(store, None, 10)
    assert (4, ["far"]) == (both.compared, [pair.workspace for pair in both.pairs])
    assert both.pairs == find_twins(store, "far", 10).pairs
    assert Twins(compared=2, pairs=(), left_out=0, more=False) == find_twins(store, "default", 10)
    assert 0 == find_twins(store, "x' OR '1'='1", 10).compared


def test_newest_pairs_are_listed_and_the_others_counted(store: Store) -> None:
    """Pairs are ordered by their later activity, then by the earlier one; what is left out is counted."""
    fill(store, *["Order a new printer"] * 4, "Renew the domain", "Renew the old domain", "Renew the old domain")
    found = find_twins(store, None, 4)
    numbers = [tuple(int(task.id[2:]) for task in pair.tasks) for pair in found.pairs]
    # {renew, domain} is two thirds of {renew, old, domain}: no twin.
    assert ([(6, 5), (3, 2), (3, 1), (3, 0)], 3) == (numbers, found.left_out)
    everything = find_twins(store, None, 100)
    assert (7, 0) == (len(everything.pairs), everything.left_out)
    assert everything.pairs[:4] == found.pairs


# Exactly.

_ELEMENTS = st.frozensets(st.sampled_from("abcdefghijk"), min_size=1, max_size=9)


@law
@given(st.lists(_ELEMENTS, unique=True, max_size=40), st.sampled_from([0.51, 0.6, 2 / 3, 0.75, 0.8, 0.9, 1.0]))
def test_near_sets_are_found_exactly(sets: list[frozenset[str]], share: float) -> None:
    """The join finds the pairs that comparing each with each finds, with the same shares."""
    near = NearSets(sets, share)
    expected = {
        (one, two): len(sets[one] & sets[two]) / len(sets[one] | sets[two])
        for one, two in combinations(range(len(sets)), 2)
        if len(sets[one] & sets[two]) / len(sets[one] | sets[two]) >= share - 1e-9
    }
    assert expected == {(one, two): alike for one in range(len(sets)) for two, alike in near.later(one)}


_NAMES = st.frozensets(st.tuples(st.sampled_from(["number", "day", "amount"]), st.integers(0, 3)), max_size=4)


@settings(law, max_examples=15)
@given(st.lists(_NAMES, min_size=60, max_size=120, unique=True), st.integers(0, 60))
def test_partners_are_found_exactly(names: list[frozenset[tuple[str, int]]], cut: int) -> None:
    """With many wordings of a word set, too, none that belongs together is missed and none is given twice."""
    wordings = [Wording(each, frozenset()) for each in names for _ in range(2)]
    left, right = wordings[: 2 * cut], wordings[2 * cut :]
    for ones, others in ((wordings, wordings), (left, right)):
        same = ones is others
        expected = [
            (one, other)
            for n, one in enumerate(ones)
            for other in others[n if same else 0 :]
            if not one.is_apart(other)
        ]
        found = list(partners(ones, others))
        assert {frozenset((id(a), id(b))) for a, b in expected} == {frozenset((id(a), id(b))) for a, b in found}
        assert len(expected) == len(found)


_SPOKEN = st.lists(
    st.sampled_from(
        ["printer", "order", "chairs", "review", "17", "18", "500 €", "Friday", "Rev A", "会議", "the"]
    ),
    min_size=1,
    max_size=6,
).map(" ".join)


@settings(law, max_examples=20)
@given(titles=st.lists(_SPOKEN, max_size=30))
def test_twins_are_the_pairs_that_look_like_one(
    titles: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In a real table: all pairs of titles that are alike and not apart, newest first, and no other."""
    store = open_store(tmp_path_factory.mktemp("law") / "store", create=True)
    if titles:
        fill(store, *titles)
    expected = []
    for newer, older in combinations(range(len(titles) - 1, -1, -1), 2):
        one, two = read_title(titles[newer]), read_title(titles[older])
        likeness = len(one.words & two.words) / len(one.words | two.words)
        if likeness >= LIKENESS and not Wording(*one[1:]).is_apart(Wording(*two[1:])):
            expected.append((f"t-{newer:06}", f"t-{older:06}", round(likeness, 2)))
    found = find_twins(store, None, 1_000)
    assert expected == [(pair.tasks[0].id, pair.tasks[1].id, pair.likeness) for pair in found.pairs]
    assert (len(titles), 0, False) == (found.compared, found.left_out, found.more)


# Many.


def many(count: int) -> Iterator[str]:
    """Titles such as a team and its machines write: templates with numbers, amounts and days, and free words."""
    words = ["pump", "valve", "depot", "badge", "laptop", "offer", "invoice", "report", "review", "contract"]
    for number in range(count):
        one, two, three = (words[number // 10**place % 10] for place in range(3))
        yield (
            f"Pay the Brandt invoice over {number}.50 €",
            f"Please check order {number} of the big ACME depot near the east gate",
            f"Report 2024-{number % 12 + 1:02}-{number % 28 + 1:02} of line {number}",
            f"REQ-{number} renew the certificate of the shop",
            f"Prepare {one} {two} {three} for site {number}",
        )[number % 5]


@pytest.mark.promise("D6")
@pytest.mark.slow
def test_a_hundred_thousand_tasks_are_compared_in_less_than_a_minute(store: Store) -> None:
    """Templates that differ in a number are no twins, the one planted pair is found, and time stays bounded."""
    titles = list(many(100_000))
    titles[70_000] = "Clean the coffee machine of the third floor"
    titles[20_000] = "Clean the coffee machine, third floor"
    for start in range(0, len(titles), 20_000):
        fill(store, *titles[start : start + 20_000], after=start)
    started = time.process_time()
    found = find_twins(store, None, 10)
    assert time.process_time() - started < 60
    assert [(titles[70_000], titles[20_000])] == titles_of(found)
    assert (100_000, 0) == (found.compared, found.left_out)


def test_one_title_used_a_thousand_times_is_no_burden(store: Store) -> None:
    """Half a million pairs are counted and not made."""
    fill(store, *["Daily standup notes"] * 1_000)
    started = time.process_time()
    found = find_twins(store, None, 3)
    assert time.process_time() - started < 10
    assert (3, 499_497) == (len(found.pairs), found.left_out)


# From end to end.


def renaming(event: Event, view: View) -> Answer:
    """Creates a task of an event's text; "call it X" renames the row of its thread."""
    if event.text.startswith("call it "):
        own = next(row for row in view.tasks() if row.same_thread)
        return answer(update(own.handle, event.text, title=event.text.removeprefix("call it ")))
    return answer(create(event.text))


def run(path: Path, *events: Event) -> None:
    """A run that ends."""
    limits = load_settings()
    lines = [Line(each.model_dump_json(), f"made:{each.id}") for each in events]
    EmbeddedRun(DataFolder.at(path, limits), limits, Script(rule=renaming), paced=True).run(lines)


def reported(path: Path, capsys: Captured, *options: str) -> dict[str, Any]:
    """What `doctor twins --json` says; it always ends well."""
    capsys.readouterr()
    assert 0 == main(["doctor", "twins", "--data", str(path), "--json", *options])
    found: dict[str, Any] = json.loads(capsys.readouterr()[0])
    return found


def pairs_of(found: dict[str, Any]) -> Sequence[set[str]]:
    """The titles of each reported pair."""
    return [{task["title"] for task in pair["tasks"]} for pair in found["pairs"]]


@pytest.mark.promise("D6")
def test_a_row_that_is_renamed_to_a_near_twin_is_reported_and_both_stay(tmp_path: Path, capsys: Captured) -> None:
    """A decision renames one, an edit another: each pair is told with what made it; no row is touched."""
    run(
        tmp_path,
        event("order a new printer for the office", id="1", thread="a"),
        event("buy a device for Ben", id="2", thread="b"),
        event("sign Amendment 16", id="3", thread="c"),
        event("sign the contract", id="4", thread="d", author=BEN),
    )
    assert [] == reported(tmp_path, capsys)["pairs"]

    renamed = event("call it order new printer for office", id="5", thread="b", at=START + timedelta(hours=1))
    run(tmp_path, renamed)
    before = rows_of(opened(tmp_path))
    found = reported(tmp_path, capsys)
    assert [{"order a new printer for the office", "order new printer for office"}] == pairs_of(found)
    assert (4, 0, 1.0) == (found["compared"], found["left_out"], found["pairs"][0]["likeness"])
    newer, older = found["pairs"][0]["tasks"]
    assert ("update", renamed.uid, "buy a device for Ben") == tuple(
        newer["titled"][name] for name in ("by", "event", "before")
    )
    assert ("create", None) == (older["titled"]["by"], older["titled"]["before"])
    assert before == rows_of(opened(tmp_path))
    assert 4 == len(before["tasks"])

    (contract,) = (row["id"] for row in before["tasks"] if row["title"] == "sign the contract")
    assert 0 == main(["edit", contract, "--title", "Sign Amendment 17", "--data", str(tmp_path)])
    run(tmp_path)
    assert 1 == len(reported(tmp_path, capsys)["pairs"])
    assert 0 == main(["edit", contract, "--title", "Sign the Amendment 16", "--data", str(tmp_path)])
    run(tmp_path)
    pair = reported(tmp_path, capsys)["pairs"][0]
    assert {"sign Amendment 16", "Sign the Amendment 16"} == {task["title"] for task in pair["tasks"]}
    (edited,) = (task["titled"] for task in pair["tasks"] if task["id"] == contract)
    assert ("edit", None, "Sign Amendment 17") == (edited["by"], edited["event"], edited["before"])
    assert 4 == len(rows_of(opened(tmp_path))["tasks"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three tasks of one title, and one of it in another workspace."""
    path = tmp_path_factory.mktemp("twins")
    same = [event("order a \x1b[31mprinter", id=f"{n}", thread=f"t{n}") for n in range(3)]
    run(path, *same, event("order a printer", id="9", workspace="far"))
    return path


@pytest.mark.promise("D6")
def test_the_page_tells_pairs_and_what_is_left_out(folder: Path, capsys: Captured) -> None:
    """Ids, states, titles and how they came; the number left out and its remedy on stderr; nothing steers."""
    assert 0 == main(["doctor", "twins", "--data", str(folder), "--limit", "2"])
    out, err = capsys.readouterr()
    assert "Tasks that look like one" in out
    assert 2 == out.count("1.00")
    assert 4 == out.count("create by event e-")
    assert "\x1b" not in out
    assert "Left out here: 1 pairs; raise --limit to see them.\n" == err
    assert (3, 3) == (
        len(reported(folder, capsys)["pairs"]),
        reported(folder, capsys, "--workspace", "default")["compared"],
    )
    assert 0 == main(["doctor", "twins", "--data", str(folder), "--workspace", "far"])
    assert ("No two of 1 tasks look like one.\n", "") == capsys.readouterr()


def test_the_doctor_stays_what_it_was(folder: Path, tmp_path: Path, capsys: Captured) -> None:
    """Alone it examines the folder; options between the two names are refused, and so is what is no command."""
    assert 0 == main(["doctor", "--data", str(folder), "--json"])
    assert {"checks", "settings", "tables"} <= set(json.loads(capsys.readouterr()[0]))
    assert 2 == main(["doctor", "--data", str(folder), "twins"])
    assert "stand behind it" in capsys.readouterr()[1]
    assert 2 == main(["doctor", "twin", "--data", str(folder)])
    assert "Did you mean 'twins'?" in capsys.readouterr()[1]
    assert 1 == main(["doctor", "twins", "--data", str(tmp_path)])
    assert "There is no store in" in capsys.readouterr()[1]
    assert [] == list(tmp_path.iterdir())
