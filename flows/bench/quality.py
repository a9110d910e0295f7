"""`bench quality`: the figures of search on human labels, together, as the README shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from flows.bench.duplicates import Duplicates, duplicates
from flows.bench.irc import Irc, irc
from flows.bench.languages import Language, languages
from store.schema import Settings


@dataclass(frozen=True, slots=True)
class Line:
    """One figure with what it stands beside."""

    what: str
    figure: float
    """A share (0 to 1)."""
    beside: str


@dataclass(frozen=True, slots=True)
class Quality:
    """How often the right row was in view."""

    duplicates: Duplicates
    irc: Irc
    languages: tuple[Language, ...]

    def lines(self) -> Iterator[Line]:
        """The figures in the order of the page."""
        twins, chat = self.duplicates, self.irc
        plain = f"plain full-text {twins.plain_text:.3f}"
        if twins.plain_vector is not None:
            plain += f", plain vector {twins.plain_vector:.3f}, without the vector lane {twins.without_vector:.3f}"
        yield Line(f"twin of a bug report in 12 slices, {twins.duplicates} duplicates", twins.in_view, plain)
        told = f"author's last row {chat.last_of_author:.3f}, newest 17 rows {chat.newest:.3f}"
        told += f"; {chat.first_seen:.3f} have no row yet"
        yield Line(f"row of a chat line in slices or standby, {chat.updates:,} updates", chat.in_view, told)
        for language in self.languages:
            beside = f"without the vector lane {language.without_vector:.3f}"
            what = f"English row by its {language.language} twin in 12 slices, {language.sentences} sentences"
            yield Line(what, language.in_view, beside)


def quality(folder: Path, settings: Settings, progress: Callable[[str, int, int], None]) -> Quality:
    """All benches on human labels that measure search alone; raises UsageError when the data is not there."""
    return Quality(
        duplicates(folder, settings, progress),
        irc(folder, settings, progress),
        tuple(languages(folder, settings, progress)),
    )


def markdown(result: Quality) -> str:
    """The figures as a table for a page."""
    head = ["| what is in view | share | beside |", "|---|---|---|"]
    return "\n".join([*head, *(f"| {line.what} | {line.figure:.3f} | {line.beside} |" for line in result.lines())])
