"""`lookfirst search`: what the search of a judgment would see for a text."""

from __future__ import annotations

from pathlib import Path

import click

from connectors.topic_file import utc_now
from flows.cli.console import emit, fields, page, say
from flows.cli.options import data_option, json_option, settings_and_store, workspace_option
from flows.cli.view_page import asked, found
from flows.daemons import Daemons
from flows.overlay import Overlay
from flows.retrieve.look import Looker
from store import Store
from store.schema import Arrival, Coordinates, Event, EventRow, Participant, UsageError, clean_text

_NOWHERE = "search"


@click.command()
@click.argument("text")
@data_option
@workspace_option("Workspace to search.", "default")
@click.option("--in", "--thread", "thread", metavar="THREAD", help="Look as a message of this thread would.")
@click.option(
    "--as", "author", metavar="AUTHOR", help="Look as a message of this person would: address, name or user id."
)
@click.option(
    "--source", metavar="S", help="The source whose user id --as is, instead of that of the thread's last message."
)
@click.option(
    "--limit", type=click.IntRange(1, 100), metavar="N", help="Rows found at most, instead of the setting."
)
@json_option("The View as one JSON object instead.")
def search(
    text: str,
    data: Path,
    workspace: str,
    thread: str | None,
    author: str | None,
    source: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Show what a judge would see for a TEXT, lane by lane, and why each row stands where it does.

    The text is looked for as if AUTHOR had just written it in THREAD, by the reads that a run makes; nothing is
    kept of it.
    """
    if not text.strip():
        raise UsageError("There is nothing to search for; give the text of a message.")
    settings, store = settings_and_store(data)
    if limit is not None:
        settings = settings.model_copy(update={"slices": limit})
    event = Event(
        id="search",
        workspace=workspace,
        source=source or _source_of(store, workspace, thread) or _NOWHERE,
        thread=thread or _NOWHERE,
        at=utc_now(),
        author=_author(store, workspace, author),
        text=clean_text(text),
    )
    arrival = Arrival(event=event, arrived=event.at, coordinates=Coordinates(topic="search", offset=0))
    # The reads are the ones a run makes, by the same code; nothing is written.
    with Daemons(settings.readers, "read") as pool:
        [view] = Looker(store, Overlay(), settings, pool).look([arrival], {})
    if as_json:
        emit(view.model_dump_json())
        return
    page().print(fields([*asked(view), *found(view)]))
    if not any(view.tasks()):
        say(f"Nothing was found in workspace {workspace}.")


def _source_of(store: Store, workspace: str, thread: str | None) -> str | None:
    """Where the messages of a thread come from; None when it is not known."""
    if thread is None:
        return None
    rows = store.record.listed("events", EventRow, newest="at", limit=1, workspace=workspace, thread=thread)
    return rows[0].source if rows else None


def _author(store: Store, workspace: str, typed: str | None) -> Participant:
    """Whom `--as` names: an address, a person's name or id as the pages show them, else a source's user id."""
    if not typed or "@" in typed:
        return Participant(address=typed)
    named = [person for person in store.record.people_called(workspace, typed) if person.addresses]
    return Participant(address=named[0].addresses[0]) if len(named) == 1 else Participant(id=typed)
