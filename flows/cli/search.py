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
from store.schema import Arrival, Coordinates, Event, Participant, UsageError, clean_text

_SOURCE = "search"


@click.command()
@click.argument("text")
@data_option
@workspace_option("Workspace to search.", "default")
@click.option("--thread", default=_SOURCE, metavar="T", help="Look as a message of this thread would.")
@click.option("--as", "author", metavar="AUTHOR", help="Look as a message of this address or user id would.")
@click.option("--source", default=_SOURCE, metavar="S", help="The source whose user id --as is.")
@click.option(
    "--limit", type=click.IntRange(1, 100), metavar="N", help="Rows found at most, instead of the setting."
)
@json_option("The View as one JSON object instead.")
def search(
    text: str,
    data: Path,
    workspace: str,
    thread: str,
    author: str | None,
    source: str,
    limit: int | None,
    as_json: bool,
) -> None:
    """Show what a judge would see for a TEXT, lane by lane.

    The text is looked for as if somebody had just written it; nothing is kept of it.
    """
    if not text.strip():
        raise UsageError("There is nothing to search for; give the text of a message.")
    settings, store = settings_and_store(data)
    if limit is not None:
        settings = settings.model_copy(update={"slices": limit})
    event = Event(
        id="search",
        workspace=workspace,
        source=source,
        thread=thread,
        at=utc_now(),
        author=_author(author),
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


def _author(typed: str | None) -> Participant:
    if typed and "@" in typed:
        return Participant(address=typed)
    return Participant(id=typed)
