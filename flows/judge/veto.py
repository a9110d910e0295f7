"""The veto: what two texts name keeps them apart where nothing but likeness of words says that they are one (U1).

A row is linked to an event by its thread, by a reply mark, by an exact identifier, or by an addressee. Without any
of these, an event that names Amendment 17 is no news of the row that names Amendment 16, however alike the rest:
so with identifiers of one scheme, with amounts and with days. What an event says anew of a row is no difference:
"move the Friday review to Monday" names the row's Friday, and Monday is what it sets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import cached_property, lru_cache
from typing import Final, NamedTuple, TypeVar

from flows.judge.amounts import AmountMention, find_amounts, find_numbers
from flows.judge.days import Day, DayMention, find_days, same_day
from flows.judge.sentences import WEEKDAYS, Sentence, content, refers_back, split
from store.identifiers import Identifier, conflicting, find_identifiers
from store.schema import Event, Slice

RULE: Final = "U1"

_READ_WHOLE: Final = 3
"""Sentences of an event that are about one thing together; of more, only those that speak of the row count."""
_OVER: Final = ("done", "cancelled")
_WORD: Final = re.compile(r"\S+")
_CUT: Final = re.compile(r"[\w.,'’-]*…$", re.ASCII)
"""What a cut has left of a word or a number: half of one names something else."""

_MADE_SO: Final = (
    r"(?:is|are|it's|was|ist|sind|wird|heißt) (?:now|jetzt|nun)|becomes?|became|→|[-=]>|"
    r"(?:chang|rais|lower|increas|reduc|renam|renumber|revis|adjust|bump)\w{0,3}\b[^.!?\n]{0,40} (?:to|as)|"
    r"(?:replac|supersed)\w{0,3}\b[^.!?\n]{0,40} (?:by|with)|(?:ersetzt|abgelöst) durch"
)
_SET_BEFORE: Final = re.compile(rf"(?<![a-zà-ɏ])(?:{_MADE_SO})(?: the| an?)? ?$", re.IGNORECASE)
_STATED_BEFORE: Final = re.compile(
    r"(?<![a-zà-ɏ])(?:is|are|be|now|to|at|ist|sind|auf|jetzt|nun|beträgt|liegt bei) ?$|は$", re.IGNORECASE
)
_SET_AFTER: Final = re.compile(
    r" ?(?:へと?|に|を?)(?:変更|改訂|改め|引き上げ|引き下げ|差し替え|なりました|なった|します|更新)"
    r"| (?:geändert|erhöht|gesenkt|umbenannt|aktualisiert)(?![a-zà-ɏ])"
)
"""How a text says that a value is new: "raised to 800 €", "is now Rev B", "第4版に変更"."""

_WINDOW: Final = 80
"""Text around a value in which that is said (characters)."""


class News(NamedTuple):
    """What an answer makes of an event for one row."""

    due: date | None = None
    title: str = ""
    quote: str = ""
    """The words of the event it rests on, if it says so."""
    reports: bool = False
    """It sets a state."""


class Veto:
    """The veto of one event, over any of the rows that were shown for it."""

    def __init__(self, event: Event) -> None:
        self._event = event

    def against(self, cuts: Sequence[Slice], news: News) -> str | None:
        """Why the event is no news of a row; None when it may be.

        `cuts` are the slices of one row. What is set and what is quoted of the event is in `news`.
        """
        row = cuts[0]
        if self.is_linked(cuts):
            return None
        found = self._identifiers(row, news) or self._amounts(row, news) or self._days(row, news)
        if found is None:
            return None
        ours, theirs = found
        return f"the event names {ours} and {row.handle} {theirs}, and only likeness of words links the two"

    def is_linked(self, cuts: Sequence[Slice]) -> bool:
        """Whether anything but likeness of words links the row to the event."""
        exact = any(rank.lane == "exact" for row in cuts for rank in row.lanes)
        if exact or any(row.same_thread or row.answered for row in cuts):
            return True
        if self._addressees and any(not self._addressees.isdisjoint(row.people) for row in cuts):
            return True
        # An address or a message id says who speaks, not of what.
        return any(found.scheme != "mail" for found in self._named & _identifiers_of(cuts[0]))

    @cached_property
    def _addressees(self) -> frozenset[str]:
        people = (self._event.person(mentioned) for mentioned in self._event.mentions)
        return frozenset(person for person in people if person)

    @cached_property
    def _parts(self) -> tuple[_Part, ...]:
        # The subject says what all of the text is about.
        return (_Part(self._event.subject or "", whole=True), _Part(self._event.text, whole=False))

    @cached_property
    def _named(self) -> frozenset[Identifier]:
        return frozenset(found for part in self._parts for found in find_identifiers(part.text))

    def _identifiers(self, row: Slice, news: News) -> tuple[str, str] | None:
        theirs = _identifiers_of(row)
        ours = self._named
        if renamed := ours & set(find_identifiers(news.title)):
            ours = ours - renamed.intersection(each for part in self._parts for each in _set_anew(part.text))
        if not conflicting(ours, theirs):
            return None
        their = min(each for each in theirs if conflicting(ours, (each,)))
        our = min(each for each in ours if conflicting((each,), (their,)))
        return our.value, their.value

    def _amounts(self, row: Slice, news: News) -> tuple[str, str] | None:
        theirs = find_amounts(_uncut(row.title))
        if not theirs:
            return None
        values = {found.value for found in theirs}
        if any(found.value in values for part in self._parts for found in part.amounts):
            return None
        bare = frozenset[object]().union(*(part.numbers for part in self._parts))
        if any(value.value in bare for value in values):
            # "raise it from 500 to 800 €"
            return None
        set_to = {found.value for found in find_amounts(news.title)}
        for part in self._parts:
            for found in part.within(part.amounts, row, news):
                if not (found.value in set_to and part.states(found)):
                    return found.text, theirs[0].text
        return None

    def _days(self, row: Slice, news: News) -> tuple[str, str] | None:
        theirs = find_days(_uncut(row.title))
        if not theirs:
            return None
        near = self._event.at.date()
        known = [found.value for found in theirs] + ([_day_of(row.due)] if row.due else [])
        spoken = [found for part in self._parts for found in part.within(part.days, row, news)]
        everywhere = (found.value for part in self._parts for found in part.days)
        # That a date falls on the row's weekday counts only where the row is spoken of.
        if any(same_day(day, each, None) for day in everywhere for each in known) or any(
            same_day(found.value, each, near) for found in spoken for each in known
        ):
            return None
        new = [found.value for found in find_days(news.title)] + ([_day_of(news.due)] if news.due else [])
        # "Sent on Wednesday" is when it happened, and says nothing of a "by Friday".
        is_over = news.reports or row.state in _OVER
        only_due = is_over and all(found.role == "deadline" for found in theirs)
        for found in spoken:
            # "The Monday review" is another one than the Friday review, and not its new day.
            is_rival = not content(found.thing).isdisjoint(_words_of(row.title))
            is_new = any(same_day(found.value, day, near) for day in new)
            if (is_new and not is_rival) or found.role == "past" or (only_due and found.role == "happened"):
                continue
            for their in theirs:
                if same_day(found.value, their.value, near) is False:
                    return found.text, their.text
        return None


_Mention = TypeVar("_Mention", AmountMention, DayMention)


class _Part:
    """Subject or text of an event, read when it is asked for."""

    def __init__(self, text: str, *, whole: bool) -> None:
        self.text = text
        self._whole = whole

    @cached_property
    def amounts(self) -> tuple[AmountMention, ...]:
        return find_amounts(self.text)

    @cached_property
    def numbers(self) -> frozenset[object]:
        return frozenset[object](find_numbers(self.text))

    @cached_property
    def days(self) -> tuple[DayMention, ...]:
        return find_days(self.text)

    @cached_property
    def _sentences(self) -> tuple[Sentence, ...]:
        return split(self.text)

    def states(self, mention: AmountMention) -> bool:
        """Whether the text says of the value that something is so now."""
        before = self.text[max(0, mention.start - _WINDOW) : mention.start]
        stated = _SET_BEFORE.search(before) or _STATED_BEFORE.search(before)
        return bool(stated or _SET_AFTER.match(self.text, mention.end))

    def within(self, mentions: Sequence[_Mention], row: Slice, news: News) -> Iterator[_Mention]:
        """Of the mentions, those that the text makes of the row."""
        if self._whole or not mentions:
            yield from mentions
            return
        spans = [(sentence.start, sentence.end) for sentence in self._about(row, news)]
        for mention in mentions:
            if any(start <= mention.start < end for start, end in spans):
                yield mention

    def _about(self, row: Slice, news: News) -> Sequence[Sentence]:
        """The sentences that speak of the row: those most alike, the quoted ones, and what they go on with."""
        if len(self._sentences) <= _READ_WHOLE:
            return self._sentences
        words = _words_of(row.title)
        shared = [len(words & content(sentence.text)) for sentence in self._sentences]
        most = max(shared)
        quoted = _place_of(news.quote, self.text)
        chosen: list[Sentence] = []
        goes_on = False
        for sentence, count in zip(self._sentences, shared, strict=True):
            is_quoted = sentence.start < quoted[1] and quoted[0] < sentence.end
            goes_on = (most > 0 and count == most) or is_quoted or (goes_on and refers_back(sentence.text))
            if goes_on:
                chosen.append(sentence)
        return chosen or self._sentences


def _identifiers_of(row: Slice) -> frozenset[Identifier]:
    given = frozenset(Identifier.of_key(key) for key in row.identifiers)
    return _identifiers_in(f"{_uncut(row.title)}\n{_uncut(row.head)}") | given


@lru_cache(maxsize=16_384)
def _identifiers_in(text: str) -> frozenset[Identifier]:
    # The same rows are shown to one judgment after the other.
    return frozenset(find_identifiers(text))


def _set_anew(text: str) -> Iterator[Identifier]:
    """The identifiers of which the text says that something is them now."""
    for cue in re.finditer(rf"(?<![a-zà-ɏ])(?:{_MADE_SO}) (?:the )?", text, re.IGNORECASE):
        yield from _first(text[cue.end() : cue.end() + _WINDOW])
    for cue in _SET_AFTER.finditer(text):
        yield from _last(text[max(0, cue.start() - _WINDOW) : cue.start()])


def _first(text: str) -> Iterable[Identifier]:
    """The identifiers that a text begins with."""
    return set(find_identifiers(text)) - set(find_identifiers(text.partition(" ")[2]))


def _last(text: str) -> Iterable[Identifier]:
    """The identifiers that a text ends with."""
    return set(find_identifiers(text)) - set(find_identifiers(text[:-1]))


def _words_of(title: str) -> frozenset[str]:
    """What a title is about, whatever its day; "Freitags-Review" is about a review, too."""
    return (content(title) | content(title.replace("-", " "))) - WEEKDAYS


def _uncut(text: str) -> str:
    return _CUT.sub("", text)


def _day_of(day: date) -> Day:
    return Day(day.year, day.month, day.day)


def _place_of(quote: str, text: str) -> tuple[int, int]:
    """Where a quote stands in the text, whatever its white space; an empty place when it does not."""
    words = list(_WORD.finditer(text))
    folded, wanted = " ".join(word[0] for word in words), " ".join(quote.split())
    place = folded.find(wanted) if wanted else -1
    if place < 0:
        return 0, 0
    first = folded.count(" ", 0, place)
    return words[first].start(), words[first + wanted.count(" ")].end()
