"""Which visible row a sentence continues, by evidence in the order of its trust.

A reply mark, then a shared exact identifier, then the thread, and only then likeness of words. A row that
names another thing of the same kind ("SR-2023-053" where the sentence says "-052") is never the one, and where
likeness is the only link, neither is one that the veto would keep apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import Final, Literal, NamedTuple

from flows.judge.cues import Act, is_small_talk
from flows.judge.dates import find_due
from flows.judge.sentences import WEEKDAYS, Sentence, content, refers_back, subject_of, words_of
from flows.judge.veto import News, Veto
from store.identifiers import Identifier, conflicting, find_identifiers
from store.schema import Event, Slice, View

Trust = Literal["reply mark", "identifier", "thread", "text"]

SAME_WORK: Final = 1 / 3
"""Share of words that make two texts about the same, where reply mark or thread say so already."""

LIKENESS: Final = 0.6
"""Share of words that links by itself."""

_ASKING: Final[frozenset[Act]] = frozenset({"request", "commitment"})
_LIVE: Final = ("open", "in_progress", "blocked")


class Link(NamedTuple):
    """The row that a sentence continues, and how that is known."""

    row: Slice
    trust: Trust


class _Row(NamedTuple):
    """A visible row, seen once however often it was shown."""

    slice: Slice
    same_thread: bool
    answered: bool
    people: bool
    words: frozenset[str]
    identifiers: tuple[Identifier, ...]


class Linker:
    """Links the sentences of one event to the rows of its View."""

    def __init__(self, event: Event, view: View) -> None:
        self._event = event
        self._view = view
        self._veto = Veto(event)

    @cached_property
    def has_ties(self) -> bool:
        """Whether anything but likeness of words could link the event: a reply, an identifier, the thread."""
        near = any(row.same_thread or row.answered for row in self._view.tasks())
        return near or bool(_exact(words_of(self._event)) or self._spoken_of)

    @cached_property
    def _names(self) -> frozenset[str]:
        # Names say who, not what: two tasks of one person are not alike for it.
        labels = [name for person in self._view.standby.people for name in person.names]
        labels += [label for row in self._view.tasks() for label in row.participants]
        return frozenset().union(*(_about(label).words for label in labels))

    @cached_property
    def _rows(self) -> tuple[_Row, ...]:
        return tuple(_distinct(self._view, self._event, self._names))

    @cached_property
    def _spoken_of(self) -> tuple[Identifier, ...]:
        # A sentence that names nothing speaks of the mail's subject, or of the one thing the event names.
        in_text = _exact(words_of(self._event))
        return _exact(subject_of(self._event)) or (in_text if len(in_text) == 1 else ())

    def link(self, sentence: Sentence) -> Link | None:
        """The row that the sentence continues, or None."""
        named = _exact(sentence.text) or self._spoken_of
        rows = [row for row in self._rows if not (named and conflicting(named, row.identifiers))]
        words = content(sentence.text) - self._names
        if found := self._by_reply(sentence, words, rows):
            return Link(found.slice, "reply mark")
        if found := self._by_identifier(sentence, words, rows, named):
            return Link(found.slice, "identifier")
        near = self._by_thread(sentence, words, [row for row in rows if row.same_thread])
        alike = _best(
            words,
            [row for row in rows if _alike(words, row, LIKENESS, at_least=2) and not self._differs(sentence, row)],
        )
        # In a channel the words may point clearly elsewhere; a row of the thread that shares as many stays.
        if near and (alike is None or _shared(words, alike) <= _shared(words, near)):
            return Link(near.slice, "thread")
        return Link(alike.slice, "text") if alike else None

    def _differs(self, sentence: Sentence, row: _Row) -> bool:
        """Whether the guard would keep the row apart from what is said, with the due date that will be set."""
        if row.same_thread or row.answered:
            return False
        news = News(quote=sentence.text, reports=not _asks(sentence))
        if self._veto.against((row.slice,), news) is None:
            return False
        sets_due = "reschedule" in sentence.acts or (_asks(sentence) and row.slice.state in _LIVE)
        due = find_due(sentence.text, self._event.at) if sets_due else None
        return due is None or self._veto.against((row.slice,), news._replace(due=due)) is not None

    def _by_reply(self, sentence: Sentence, words: frozenset[str], rows: list[_Row]) -> _Row | None:
        """The row whose event is answered; of several that one event made, the one it shares words with."""
        answered = [row for row in rows if row.answered]
        if len(answered) > 1:
            answered = [row for row in answered if _shared(words, row)]
        return _best(words, [row for row in answered if _continues(sentence, words, row)])

    def _by_identifier(
        self, sentence: Sentence, words: frozenset[str], rows: list[_Row], named: Iterable[Identifier]
    ) -> _Row | None:
        """The row that names the same thing; to translate and to sign one document are two tasks, though."""
        named = set(named)
        own = words - {part for name in named for part in content(name.value)}
        sharing = [row for row in rows if not named.isdisjoint(row.identifiers)]
        return _best(words, [row for row in sharing if not _asks(sentence) or len(own) <= 1 or own & row.words])

    def _by_thread(self, sentence: Sentence, words: frozenset[str], rows: list[_Row]) -> _Row | None:
        """The row of this thread that shares the sentence's words, or the only one it can be about.

        A mail or comment thread is about one thing; a chat thread may be a whole channel, so there a sentence
        with an object of its own is linked by its words only.
        """
        # A note that does nothing needs more in common than a word ("the train was late").
        enough = 1 if sentence.acts else 2
        if alike := [row for row in rows if _alike(words, row, SAME_WORK, at_least=enough)]:
            return _best(words, alike)
        if is_small_talk(sentence.text):
            return None
        one_topic = self._event.kind in ("mail", "comment") and not _asks(sentence)
        plain = bool(sentence.acts) and len(words) <= (3 if refers_back(sentence.text) else 1)
        if len(rows) == 1 and (one_topic or plain):
            return rows[0]
        if not plain or sentence.acts <= {"backchannel"}:
            return None
        fitting = [row for row in rows if (row.slice.state in _LIVE) != ("revival" in sentence.acts)]
        return _best(words, [row for row in fitting if row.people] or (fitting if len(fitting) == 1 else []))


def _distinct(view: View, event: Event, names: frozenset[str]) -> Iterable[_Row]:
    shown: dict[str, list[Slice]] = {}
    for row in view.tasks():
        shown.setdefault(row.row_id, []).append(row)
    for cuts in shown.values():
        text = f"{cuts[0].title} {cuts[0].head}"
        yield _Row(
            slice=cuts[0],
            same_thread=any(cut.same_thread for cut in cuts),
            answered=any(cut.answered for cut in cuts),
            people=not set(event.people).isdisjoint(cuts[0].people),
            words=_about(text).words - names,
            identifiers=(*_about(text).identifiers, *map(Identifier.of_key, cuts[0].identifiers)),
        )


class _About(NamedTuple):
    words: frozenset[str]
    identifiers: tuple[Identifier, ...]


@lru_cache(maxsize=16_384)
def _about(text: str) -> _About:
    # The same rows are shown to one judgment after the other.
    return _About(content(text), find_identifiers(text))


def _exact(text: str) -> tuple[Identifier, ...]:
    # An address or a message id says who speaks, not of what.
    return tuple(found for found in find_identifiers(text) if found.scheme != "mail")


def _asks(sentence: Sentence) -> bool:
    """Whether it asks or promises, and reports nothing: only then may it be about something new."""
    return bool(sentence.acts & _ASKING) and sentence.acts <= _ASKING | {"backchannel"}


def _continues(sentence: Sentence, words: frozenset[str], row: _Row) -> bool:
    if not _asks(sentence) or len(words) <= 1 or _alike(words, row, SAME_WORK, at_least=1):
        return True
    return refers_back(sentence.text) and len(words) <= 3


def _shared(words: frozenset[str], row: _Row) -> float:
    """How many words are shared; a pair of Japanese characters is half a word."""
    return sum(1.0 if word.isascii() or len(word) > 2 else 0.5 for word in words & row.words)


def _alike(words: frozenset[str], row: _Row, share: float, *, at_least: int) -> bool:
    # A day that only one side names says when, not what.
    days = WEEKDAYS - (words & row.words)
    smaller = min(len(words - days), len(row.words - days)) or 1
    return _shared(words, row) >= at_least and len(words & row.words) >= share * smaller


def _best(words: frozenset[str], rows: list[_Row]) -> _Row | None:
    """Most shared words first, then the speaker's own thread and rows, then the newest."""
    return max(
        rows,
        key=lambda row: (
            _shared(words, row),
            row.same_thread,
            row.people,
            row.slice.state in _LIVE,
            row.slice.last_activity,
            row.slice.row_id,
        ),
        default=None,
    )
