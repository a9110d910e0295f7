"""Rows are believed before copies, and workspaces do not see each other."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from flows.daemons import Daemons
from flows.overlay import Overlay
from flows.retrieve.look import Looker
from store.schema import (
    Complete,
    Create,
    Decision,
    Delete,
    Edit,
    Event,
    Evidence,
    Matched,
    Participant,
    TaskRow,
    Update,
    View,
    parse_message,
)
from store.schema.identity import operation_id
from tests.looking import (
    LIMITS,
    ids,
    look,
    numbered,
    outcome,
    plant,
    summarize,
)
from tests.workplace import (
    Workplace,
    answer,
    create,
    create_or_match,
    event,
    rows_of,
    update,
)

# Rows are the truth; summaries, slices and the index are copies.


@pytest.mark.promise("R03", "R15")
def test_a_summary_that_claims_a_task_is_done_closes_nothing(workplace: Workplace) -> None:
    """The summary is shown as a summary, the row beside it as it is: open, before and after the judgment."""
    (task,) = plant(workplace, event("order a new printer"))
    summarize(workplace, completed_work="an older claim")
    summarize(workplace, completed_work="order a new printer: done and paid")
    workplace.settle()
    workplace.judge.rule = create_or_match

    decision = workplace.decided("what about the printer?")
    workplace.settle()

    assert decision.view.summary
    assert "done and paid" in decision.view.summary.text
    assert 1 == decision.view.model_dump_json().count("completed work:")
    assert ["open"] == [row.state for row in decision.view.tasks()]
    assert [Matched] == [type(operation) for operation in decision.operations]
    assert [task] == workplace.tasks()


@pytest.mark.promise("R03", "R05")
def test_a_forged_or_outdated_slice_changes_no_row(workplace: Workplace) -> None:
    """A Decision whose View lies about a row writes the fields it names; the rest of the row is the record's."""
    (task,) = plant(workplace, event("order a new printer"))
    arrival = workplace.arrive(event("by June then", id="forged"))
    view = look(workplace, arrival.event)
    (shown,) = view.slices or view.thread_rows
    lie = {"title": "Cancel everything", "state": "cancelled", "head": "as agreed", "people": ("somebody",)}
    forged = shown.model_copy(update=lie)
    operation = Update(
        id=operation_id(arrival.event.uid, 0, 0),
        number=0,
        evidence=(Evidence(handle=shown.handle, row_id=task.id),),
        reason="it says so",
        task=task.id,
        seen=shown.version,
        due=date(2024, 6, 1),
        quote="by June then",
    )
    workplace.emit(
        Decision(
            arrival=arrival,
            view=view.model_copy(update={"slices": (), "thread_rows": (forged,)}),
            operations=(operation,),
            judge="forger",
        )
    )
    workplace.settle()

    (after,) = workplace.tasks()
    changed = {name for name in TaskRow.model_fields if getattr(task, name) != getattr(after, name)}
    assert {"due", "evidence", "version"} == changed
    assert date(2024, 6, 1) == after.due


@pytest.mark.promise("R04")
def test_whether_a_task_exists_is_answered_by_rows_alone(workplace: Workplace) -> None:
    """A commitment that only the summary tells of is no task; a row the summary leaves out is one."""
    (task,) = plant(workplace, event("order a new printer"))
    summarize(workplace, next_steps="Book the venue for the summer party")
    workplace.settle()
    assert [task] == workplace.tasks()

    view = look(workplace, event("venue for the summer party"))
    assert [task.id] == ids(tuple(view.tasks()))
    assert view.summary
    assert "printer" not in view.summary.text


@pytest.mark.promise("R06")
def test_operations_leave_summaries_views_and_other_copies_alone(workplace: Workplace) -> None:
    """Create, update and delete change rows; what was shown, summarised or copied of others stays as it was."""
    other, task = plant(
        workplace, event("water the plants", id="p", thread="p"), event("order a printer", id="q", thread="q")
    )
    summarize(workplace, "q", goal="a printer")
    workplace.settle()

    def kept(*changed: str) -> dict[str, object]:
        rows = workplace.store.tables["memory"].to_arrow().to_pylist()
        sessions = workplace.store.record.arrow("sessions").to_pylist()
        decisions = workplace.store.record.arrow("decisions").to_pylist()
        return {
            "memory": [row for row in rows if row["row_id"] == other.id],
            "summaries": [row for row in sessions if row["kind"] == "summary"],
            "decisions": [row for row in decisions if row["position"] < 2],
        }

    before = kept()
    assert all(before.values())
    workplace.judge.rule = lambda event, view: answer(
        update(next(row.handle for row in view.tasks() if row.row_id == task.id), event.text, state="done")
    )
    workplace.decided("printer ordered", thread="q")
    workplace.judge.rule = lambda event, view: answer(create(event.text))
    workplace.decided("order a scanner", thread="q")
    workplace.emit(Delete(id="gone", workspace="default", thread="q", row=task.id, seen=task.version, by="anna"))
    workplace.settle()

    assert before == kept()
    assert {"water the plants", "order a scanner"} == {row.title for row in workplace.tasks()}


@pytest.mark.promise("R05", "Q10")
def test_an_update_is_made_against_the_row_as_it_is(workplace: Workplace) -> None:
    """What changed between the View and the write survives, but for the field the update names."""
    (task,) = plant(workplace, event("order a new printer"))

    def while_the_judge_thinks(event: Event, view: View) -> Any:
        edit = Edit(
            id="edit",
            workspace="default",
            thread="t",
            row=task.id,
            seen=task.version,
            by="anna",
            title="Order two printers",
            due=date(2024, 5, 31),
        )
        workplace.emit(edit)
        workplace.apply()
        (row,) = view.tasks()
        return answer(update(row.handle, event.text, state="in_progress"))

    workplace.judge.rule = while_the_judge_thinks
    decision = workplace.decided("the printer is on its way")
    workplace.settle()

    (after,) = workplace.tasks()
    assert "order a new printer" == next(decision.view.tasks()).title
    assert ("Order two printers", date(2024, 5, 31), "in_progress") == (after.title, after.due, after.state)


@pytest.mark.promise("R07")
def test_a_rename_breaks_no_reference(workplace: Workplace) -> None:
    """After a rename the row is found by its new name, and evidence, decisions and updates lead to it."""
    (task,) = plant(workplace, event("order a new printer"))
    workplace.judge.rule = lambda event, view: answer(
        *(update(row.handle, event.text, due=date(2024, 6, 1)) for row in view.tasks())
    )
    referring = workplace.decided("the printer by June")
    workplace.settle()
    workplace.emit(
        Edit(
            id="rename",
            workspace="default",
            thread="t",
            row=task.id,
            seen=task.version,
            by="anna",
            title="Acquire a Gutenberg press",
        )
    )
    workplace.settle()

    (found,) = look(workplace, event("Gutenberg press", thread="elsewhere")).slices
    assert (task.id, "Acquire a Gutenberg press") == (found.row_id, found.title)
    (renamed,) = workplace.tasks()
    assert ["order a new printer", "the printer by June"] == [
        workplace.store.record.events([uid])[uid].text for uid in renamed.evidence
    ]
    (kept,) = workplace.store.record.decisions([referring.id])
    message = parse_message(kept.message)
    assert isinstance(message, Decision)
    assert {task.id} == {item.row_id for operation in message.operations for item in operation.evidence}

    workplace.judge.rule = lambda event, view: answer(
        *(update(row.handle, event.text, state="done") for row in view.slices)
    )
    workplace.decided("the Gutenberg press has arrived", thread="elsewhere")
    workplace.settle()
    assert [(task.id, "done")] == [(row.id, row.state) for row in workplace.tasks()]


@pytest.mark.promise("L6")
def test_a_deleted_row_whose_copy_remains_is_never_shown(workplace: Workplace) -> None:
    """Search still returns the id, the record does not list it: it is in no section and suppresses nothing."""
    (task,) = plant(workplace, event("OPS-7 order a new printer"))
    workplace.emit(Delete(id="gone", workspace="default", thread="t", row=task.id, seen=None, by="anna"))
    workplace.apply()
    assert [task.id] == workplace.store.memory.text("default", ("printer",), 9)

    workplace.judge.rule = create_or_match
    decision = workplace.decided("OPS-7 order a new printer")

    assert [] == list(decision.view.tasks())
    assert {"empty"} == {outcome(decision.view, name).status for name in ("exact", "text", "thread")}
    assert isinstance(decision.operations[0], Create)
    workplace.settle()
    assert task.id not in {row.id for row in workplace.tasks()}
    assert 1 == len(workplace.tasks())


# Workspaces.


@pytest.mark.promise("L9")
def test_a_small_workspace_beside_a_large_one_finds_its_rows(workplace: Workplace) -> None:
    """With 300 rows next door that match as well, and asked for in the same wave, its own rows come first."""
    plant(workplace, *numbered(300, "OPS-7 invoice {n} invoice invoice", workspace="big"))
    small = plant(
        workplace, *numbered(2, "the OPS-7 invoice among many other words, number {n}", workspace="small")
    )
    with Daemons(4, "read") as pool:
        looker = Looker(workplace.store, Overlay(), LIMITS, pool)
        asked = [
            event("OPS-7 invoice", id=f"{workspace}-{n}", workspace=workspace, thread=f"asks-{n}")
            for n in range(2)
            for workspace in ("big", "small")
        ]
        views = looker.look([workplace.arrive(each) for each in asked], {})

    assert {task.id for task in small} == set(ids(views[1].slices))
    assert set(ids(views[1].slices)) == set(ids(views[3].slices))
    assert {"exact", "text"} == {rank.lane for each in views[1].slices for rank in each.lanes}
    assert {Complete()} == {outcome(views[1], name) for name in ("exact", "text")}
    assert LIMITS.slices == len(views[0].slices)
    assert {"cut"} == {outcome(views[0], name).status for name in ("exact", "text")}


def test_workspaces_with_hostile_names_see_their_own_rows_only(workplace: Workplace) -> None:
    """Quotes and SQL in names of workspaces and threads are names: each sees its row, thread and people."""
    names = [
        "o'brien",
        "' OR 1=1 --",
        "x') OR ('1'='1",
        'a"b',
        "a\\",
        "a\\'",
        "%",
        "_",
        "default",
        "Default",
        "''",
    ]
    planted = {
        name: plant(
            workplace, event("OPS-7 order a printer", workspace=name, thread=name, author=Participant(id=name))
        )
        for name in names
    }
    assert [1] * len(names) == [len(rows) for rows in planted.values()]
    for name, (own,) in planted.items():
        view = look(workplace, event("OPS-7 printer", id="2", workspace=name, thread=name))
        assert [own.id] == ids(tuple(view.tasks())), name
        assert view.slices[0].same_thread
        other = look(workplace, event("hello", id="3", workspace=name, thread="' OR thread <> '"))
        assert ([], [own.id]) == (ids(other.thread_rows), ids(other.standby.tasks)), name

    everything = rows_of(workplace.store)
    gone = planted["' OR 1=1 --"][0]
    workplace.emit(
        Delete(id="gone", workspace=gone.workspace, thread=gone.thread, row=gone.id, seen=None, by="anna")
    )
    workplace.settle()
    assert [row for row in everything["tasks"] if row["id"] != gone.id] == rows_of(workplace.store)["tasks"]
