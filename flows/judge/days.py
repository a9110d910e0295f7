"""Days that a text names, as they are named: to tell two things apart, not to find out when something is due.

A day is compared as it is spelled, weekday with weekday and date with date, and is not resolved as a due date is
(`flows.judge.dates`). Each pattern is bounded and begins at a fixed left edge, so that a text costs time in
proportion to its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Final, Literal, NamedTuple

# Full-width signs, one character for one, so that places in the text stay what they are.
NARROW: Final = {0xFF01 + offset: 0x21 + offset for offset in range(94)} | {0x3000: " ", 0xA0: " ", 0x202F: " "}


class Day(NamedTuple):
    """A day as far as it is named: a weekday, a month with or without the day and the year, or both."""

    year: int | None = None
    month: int | None = None
    day: int | None = None
    weekday: int | None = None
    """Monday is 0."""


Role = Literal["name", "deadline", "happened", "past", "other"]
"""What a day is to the thing it stands by: its name ("the Friday review"), its deadline, when something happened
to it, or what was before it ("last Friday", "since March 18")."""


class DayMention(NamedTuple):
    """A day where a text names it."""

    value: Day
    text: str
    start: int
    end: int
    role: Role
    thing: str = ""
    """The next words or characters of what it is a name of."""


def find_days(text: str) -> tuple[DayMention, ...]:
    """The days of a text, in order: "2024-03-18", "18.3.", "March 18", "3月18日", "Friday", "金曜", "March"."""
    text = text.translate(NARROW)
    found = sorted(_days(text), key=lambda mention: (mention.start, -mention.end))
    kept: list[DayMention] = []
    for mention in found:
        if kept and mention.start < kept[-1].end:
            continue
        # "Friday, March 18" is one day that is named twice.
        beside = kept and _BETWEEN.fullmatch(text, kept[-1].end, mention.start)
        if beside and (joined := _joined(kept[-1], mention)):
            kept[-1] = joined
        else:
            kept.append(mention)
    return tuple(kept)


def same_day(left: Day, right: Day, near: date | None) -> bool | None:
    """Whether two days are one as far as both are named; None where they cannot be compared.

    Dates are compared as dates, else weekdays as weekdays. A weekday alone and a date alone are compared by the
    weekday of the date nearest to `near`, if that is given.
    """
    if left.month is not None and right.month is not None:
        pairs = ((left.year, right.year), (left.month, right.month), (left.day, right.day))
        return all(ours is None or theirs is None or ours == theirs for ours, theirs in pairs)
    if left.weekday is not None and right.weekday is not None:
        return left.weekday == right.weekday
    dated, named = (right, left) if left.month is None else (left, right)
    resolved = _nearest(dated, near) if near else None
    return None if resolved is None else resolved.weekday() == named.weekday


def _joined(first: DayMention, second: DayMention) -> DayMention | None:
    """A date and the weekday beside it as one mention, of the date; None for two days."""
    dated, named = (first, second) if first.value.day is not None else (second, first)
    if dated.value.day is None or dated.value.weekday is not None or named.value.month is not None:
        return None
    return dated._replace(value=dated.value._replace(weekday=named.value.weekday))


def _nearest(day: Day, near: date) -> date | None:
    if day.month is None or day.day is None:
        return None
    years = (day.year,) if day.year else (near.year - 1, near.year, near.year + 1)
    dates = [found for year in years if (found := _date(year, day.month, day.day))]
    return min(dates, key=lambda found: abs(found - near), default=None)


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


_EN_MONTHS: Final = "january february march april may june july august september october november december"
_DE_MONTHS: Final = "januar februar märz april mai juni juli august september oktober november dezember"
_SHORT_MONTHS: Final = "jan feb mar mär apr jun jul aug sept sep oct okt nov dec dez"
_LONG: Final = {name: n for names in (_EN_MONTHS, _DE_MONTHS) for n, name in enumerate(names.split(), 1)}
_MONTHS: Final = _LONG | {
    short: next(n for name, n in _LONG.items() if name.startswith(short[:3])) for short in _SHORT_MONTHS.split()
}
_EN_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DE_DAYS: Final = ("montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonntag")
_WEEKDAYS: Final = {
    **{name: n for names in (_EN_DAYS, _DE_DAYS) for n, name in enumerate(names)},
    "sonnabend": 5,
    **{name: n for n, name in enumerate(("mon", "tue", "wed", "thu", "fri"))},
    **dict(zip("月火水木金土日", range(7), strict=True)),
    **dict(zip("一二三四五六日", range(7), strict=True)),
    "天": 6,
}

# "may" and "march" are verbs too, and a month that stands alone names something only with a capital.
_MONTH: Final = rf"(?:{'|'.join(name for name in _MONTHS if name not in ('may', 'mai'))}|(?-i:Ma[yi]))"
_LONG_MONTH: Final = rf"(?:{'|'.join(name.capitalize() for name in _LONG if name not in ('may', 'mai'))}|Mai)"
_START, _END = r"(?<![A-Za-zÀ-ɏ0-9_.])", r"(?![A-Za-zÀ-ɏ0-9_])"
_YEAR: Final = r"(?P<year>20[0-9]{2})"
_ORDINAL: Final = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?"

_DAY_PATTERNS: Final = tuple(
    re.compile(pattern, flags)
    for pattern, flags in (
        (rf"(?<![0-9/-]){_YEAR}(?P<sign>[-/])(?P<month>[0-9]{{1,2}})(?P=sign)(?P<day>[0-9]{{1,2}})(?![0-9/-])", 0),
        (rf"(?<![0-9])(?:{_YEAR}年)?(?P<month>[0-9]{{1,2}})月(?P<day>[0-9]{{1,2}})[日号號]", 0),
        (rf"{_START}(?P<name>{_MONTH})\.? {_ORDINAL}(?:,? {_YEAR})?{_END}(?!:)", re.I),
        (
            rf"{_START}(?P<day>[0-9]{{1,2}})(?:st|nd|rd|th|\.)?(?: of)? ?(?P<name>{_MONTH})(?:,? {_YEAR})?{_END}",
            re.I,
        ),
        (
            rf"(?<![A-Za-z0-9.,])(?P<day>[0-9]{{1,2}})\. ?(?P<month>[0-9]{{1,2}})\."
            rf"(?: ?{_YEAR}(?![0-9])|(?P<short>2[0-9])(?![0-9.]))?(?![0-9])",
            0,
        ),
        # Titles lose their last dot.
        (rf"{_START}(?:am|bis|zum|den|dem|vom) (?P<day>[0-9]{{1,2}})\.(?P<month>[0-9]{{1,2}})$", re.M),
        (r"(?<![0-9/.])(?P<month>[0-9]{1,2})/(?P<day>1[3-9]|2[0-9]|3[01])(?![0-9/.])", 0),
        (r"(?<![0-9/.])(?!24/7)(?P<day>1[3-9]|2[0-9]|3[01])/(?P<month>[0-9]{1,2})(?![0-9/.])", 0),
        (rf"{_START}(?P<name>{_LONG_MONTH})(?:,? {_YEAR})?(?![A-Za-zÀ-ɏ0-9_])(?! [0-9])", 0),
        (rf"(?<![0-9])(?:{_YEAR}年)?(?P<month>1[0-2]|[1-9])月(?=[分度号]|の)", 0),
        (rf"{_START}(?P<weekday>{'|'.join((*_EN_DAYS, *_DE_DAYS, 'sonnabend'))})", re.I),
        (rf"{_START}(?P<weekday>Mon|Tue|Wed|Thu|Fri){_END}", 0),
        (r"(?P<weekday>[月火水木金土日])曜日?", 0),
        (
            r"(?:星期|(?<![一二三四五六七八九十两几半0-9])[周週]|礼拜|禮拜)(?P<weekday>[一二三四五六日天])(?!次|[年天个])",
            0,
        ),
    )
)
_BETWEEN: Final = re.compile(r"[ ,.(（]{0,3}(?:(?:the|den|dem|der) )?")

_NO_DATE_BEFORE: Final = re.compile(
    r"(?<![a-zà-ɏ])(?:v|version|release|rev|section|chapter|kapitel|abschnitt|punkt|ziffer)\.? ?$", re.IGNORECASE
)
"""Words before "3.5." that make it a version or a place in a document."""
_MONTH_AS_TIME: Final = re.compile(
    r"(?<![a-zà-ɏ])(?:in|im|by|bis|until|till|since|seit|ab|next|last|early|mid|late|anfang|mitte|ende) ?$",
    re.IGNORECASE,
)
"""Words before a month that make it a time, not a name."""
_PAST: Final = re.compile(
    r"(?<![a-zà-ɏ])(?:last|past|since|seit|letzte[nmr]?|vorige[nmr]?)(?: dem| the)? $|(?:先週の?|上周|上週|上)$",
    re.IGNORECASE,
)
_DEADLINE_BEFORE: Final = re.compile(
    r"(?<![a-zà-ɏ])(?:by|until|till|due|before|bis|spätestens)"
    r"(?: (?:on|the|next|zum|den|am|nächsten|kommenden))*(?: the)? $",
    re.IGNORECASE,
)
_DEADLINE_AFTER: Final = re.compile(r"(?:の?[0-9]{1,2}時)?(?:中|いっぱい)?(?:まで|迄|締|〆|が?期限|之前|前)")
_HAPPENED_BEFORE: Final = re.compile(r"(?<![a-zà-ɏ])(?:on|am|at)(?: the)? $", re.IGNORECASE)
_NAME_BEFORE: Final = re.compile(
    r"(?<![a-zà-ɏ])(?:the|our|my|your|this|das|die|der|dem|den|unser[ens]?) $", re.IGNORECASE
)
_NAME_AFTER: Final = re.compile(
    r" (?!by|at|and|or|if|is|was|will|um|und|oder|ist|war|wird|please|bitte|instead)"
    r"(?P<of>[A-Za-zÀ-ɏ]{3,40}(?: [A-Za-zÀ-ɏ]{3,40})?)"
)
_NAME_BY_ITSELF: Final = re.compile(
    r"(?:['’]s |s?-|s?(?!abend|nachmittag|vormittag|mittag|morgen|früh|nacht)(?=[a-zà-ɏ]{4}))"
    r"(?P<of>[A-Za-zÀ-ɏ]{3,40}(?: [A-Za-zÀ-ɏ]{3,40})?)"
    r"|(?:の(?!午前|午後|朝|夕|昼|[0-9])|的)(?P<thing>[^\s、。,.]{2,12})"
)
"""What makes a day the name of something: "Freitags-Review", "Friday's review", "金曜の会議"."""


def _days(text: str) -> Iterator[DayMention]:
    for pattern in _DAY_PATTERNS:
        for match in pattern.finditer(text):
            day, start = _day(match), min(match.start(group) for group in match.groupdict() if match[group])
            before = text[max(0, start - 32) : start]
            if day is None or ("short" in match.re.groupindex and _NO_DATE_BEFORE.search(before)):
                continue
            if day.weekday is None and day.day is None and _MONTH_AS_TIME.search(before):
                continue
            role, thing = _role(before, text, match.end())
            yield DayMention(day, text[start : match.end()], start, match.end(), role, thing)


def _day(match: re.Match[str]) -> Day | None:
    """The day that a pattern has found; None for a month or a day that no calendar has."""
    groups = match.groupdict()
    if weekday := groups.get("weekday"):
        return Day(weekday=_WEEKDAYS[weekday.lower()])
    month = _MONTHS[groups["name"].lower()] if groups.get("name") else int(groups["month"] or 0)
    day = int(groups["day"]) if groups.get("day") else None
    short = groups.get("short")
    year = groups.get("year") or (f"20{short}" if short else None)
    if not 1 <= month <= 12 or (day is not None and not 1 <= day <= 31):
        return None
    return Day(int(year) if year else None, month, day)


def _role(before: str, text: str, end: int) -> tuple[Role, str]:
    if _PAST.search(before):
        return "past", ""
    if _DEADLINE_BEFORE.search(before) or _DEADLINE_AFTER.match(text, end):
        return "deadline", ""
    name = _NAME_BY_ITSELF.match(text, end) or (_NAME_BEFORE.search(before) and _NAME_AFTER.match(text, end))
    if name:
        return "name", next(filter(None, name.groups()), "")
    if _HAPPENED_BEFORE.search(before) or text.startswith("に", end):
        return "happened", ""
    return "other", ""
