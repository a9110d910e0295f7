"""The due date that a text states, relative to the time of its event.

A small table of patterns finds candidates, so a text without a date costs a few regex scans. Of several
one is chosen by the words around it, and only that one is resolved: calendar dates by `dateparser`, weekdays
and "next week" by arithmetic of our own, because what they mean is a choice that has to be written down:

- a weekday is its next occurrence after the event's day, never that day itself;
- a weekday with "next week", "nächste Woche", "来週" is that day of the next calendar week (from Monday);
- "this week" and "next week" alone mean their Friday: after it, what was promised is late;
- a date without a year is the next one; one that has just passed is a memory and no due date.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from typing import Final, NamedTuple

import dateparser

_FRIDAY: Final = 4
_JUST_PASSED: Final = timedelta(days=330)
"""A date without a year that would come round only this much later has just passed."""

_TRIED_AT_MOST: Final = 5
"""Candidates resolved for one text: a wall of dates states no due date."""

_EN_DAYS: Final = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_DE_DAYS: Final = ["montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonntag"]
_JA_DAYS: Final = "月火水木金土日"
_WEEKDAYS: Final = {
    **{name: number for names in (_EN_DAYS, _DE_DAYS, _JA_DAYS) for number, name in enumerate(names)},
    "sonnabend": 5,
    "mon": 0,
    "tue": 1,
    "wed": 2,
    "thu": 3,
    "fri": 4,
}
_EN_MONTHS: Final = (
    "january february march april may june july august september october november december "
    "jan feb mar apr jun jul aug sept sep oct nov dec"
)
_DE_MONTHS: Final = (
    "januar februar märz april mai juni juli august september oktober november dezember "
    "jan feb mär apr jun jul aug sept sep okt nov dez"
)
_AHEAD: Final = {
    "today": 0, "eod": 0, "end of day": 0, "end of the day": 0, "heute": 0, "今日": 0, "本日": 0,
    "tomorrow": 1, "morgen": 1, "明日": 1,
    "day after tomorrow": 2, "übermorgen": 2, "明後日": 2,
}  # fmt: skip

_START, _END = r"(?<![A-Za-zÀ-ɏ0-9_.])", r"(?![A-Za-zÀ-ɏ0-9_])"
_EN_MONTH: Final = f"(?:{'|'.join(_EN_MONTHS.split())})"
_DE_MONTH: Final = f"(?:{'|'.join(_DE_MONTHS.split())})"
_DAY: Final = f"(?P<weekday>{'|'.join([*_EN_DAYS, *_DE_DAYS, 'sonnabend'])}|(?-i:Mon|Tue|Wed|Thu|Fri))"
_YEAR: Final = r"20[0-9]{2}"


class _Candidate(NamedTuple):
    start: int
    end: int
    resolve: Callable[[re.Match[str], date], date | None]
    match: re.Match[str]


def _written(language: str) -> Callable[[re.Match[str], date], date | None]:
    """Resolve a calendar date as this language writes it."""

    def resolve(match: re.Match[str], today: date) -> date | None:
        found: datetime | None = dateparser.parse(
            match["date"].replace(" of ", " "),
            languages=[language],
            settings={
                "RELATIVE_BASE": datetime(today.year, today.month, today.day),
                "PREFER_DATES_FROM": "future",
                "DATE_ORDER": "YMD" if language == "ja" else "DMY",
                "RETURN_AS_TIMEZONE_AWARE": False,
                # Else the library asks the machine for its zone, and two machines may differ.
                "TIMEZONE": "UTC",
            },
        )
        if found is None or (re.search(_YEAR, match["date"]) is None and found.date() - today > _JUST_PASSED):
            return None
        return found.date()

    return resolve


def _iso(match: re.Match[str], today: date) -> date | None:
    try:
        return date.fromisoformat(match[0])
    except ValueError:
        return None


def _ahead(match: re.Match[str], today: date) -> date:
    return today + timedelta(days=_AHEAD[match["word"].lower()])


def _weekday(match: re.Match[str], today: date) -> date:
    wanted = _WEEKDAYS[match["weekday"].lower()]
    groups = match.groupdict()
    if groups.get("week"):
        return _of_week(today + timedelta(days=7), wanted)
    if groups.get("this_week"):
        return _of_week(today, wanted)
    return today + timedelta(days=(wanted - today.weekday() - 1) % 7 + 1)


def _this_week(match: re.Match[str], today: date) -> date:
    return max(today, _of_week(today, _FRIDAY))


def _next_week(match: re.Match[str], today: date) -> date:
    return _of_week(today + timedelta(days=7), _FRIDAY)


def _month_end(match: re.Match[str], today: date) -> date:
    return today.replace(day=monthrange(today.year, today.month)[1])


def _named_month_end(match: re.Match[str], today: date) -> date:
    name = match["month"].lower()
    months = (_DE_MONTHS if name in _DE_MONTHS.split() else _EN_MONTHS).split()
    month = int(name) if name.isdigit() else next(n for n, m in enumerate(months, 1) if m.startswith(name[:3]))
    year = today.year + (month < today.month)
    return date(year, month, monthrange(year, month)[1])


def _of_week(day: date, weekday: int) -> date:
    return day + timedelta(days=weekday - day.weekday())


_PATTERNS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), resolve)
    for pattern, resolve in (
        (rf"(?<![0-9-]){_YEAR}-[0-9]{{2}}-[0-9]{{2}}(?![0-9-])", _iso),
        # English
        (
            rf"{_START}(?P<date>[0-9]{{1,2}}(?:st|nd|rd|th)?(?: of)? {_EN_MONTH}(?:,? {_YEAR})?){_END}",
            _written("en"),
        ),
        (
            rf"{_START}(?P<date>{_EN_MONTH} [0-9]{{1,2}}(?:st|nd|rd|th)?(?:,? {_YEAR})?){_END}(?!:)",
            _written("en"),
        ),
        (rf"{_START}{_DAY}{_END}(?P<week>(?:,? next week| nächster woche)?)(?!'s)", _weekday),
        (rf"{_START}next week(?!'s){_END}", _next_week),
        (rf"{_START}(?:this week|end of (?:the |this )?week){_END}", _this_week),
        (rf"{_START}(?P<word>day after tomorrow|tomorrow|today|end of (?:the )?day|eod){_END}(?!'s)", _ahead),
        (rf"{_START}(?:end of (?:the |this )?month|month's end){_END}", _month_end),
        (rf"{_START}end of (?P<month>{_EN_MONTH}){_END}", _named_month_end),
        # German; "12.6." alone may be a version or a section, so it needs a word or a year beside it
        (rf"{_START}(?P<date>[0-9]{{1,2}}\. ?{_DE_MONTH}(?: {_YEAR})?){_END}", _written("de")),
        (
            rf"{_START}(?:am|bis|zum|auf|den|ab|vor|dem) (?P<date>[0-9]{{1,2}}\.[0-9]{{1,2}}\.)(?![0-9])",
            _written("de"),
        ),
        (rf"{_START}(?P<date>[0-9]{{1,2}}\.[0-9]{{1,2}}\.{_YEAR}){_END}", _written("de")),
        (rf"{_START}nächste(?:r|n)? woche{_END}(?! {_DAY})", _next_week),
        (rf"{_START}(?P<week>nächste woche) {_DAY}{_END}", _weekday),
        (rf"{_START}(?:diese(?:r)? woche|ende der woche){_END}", _this_week),
        # "Morgen" with a capital greets, and "heute Morgen" is over.
        (rf"{_START}(?P<word>heute|übermorgen){_END}", _ahead),
        (rf"{_START}(?<!guten )(?<!heute )(?<!jeden )(?<!am )(?P<word>(?-i:morgen)){_END}", _ahead),
        (rf"{_START}(?:ende des monats|ende diese[sn] monats|monatsende){_END}", _month_end),
        (rf"{_START}ende (?P<month>{_DE_MONTH}){_END}", _named_month_end),
        # Japanese
        (rf"(?<![0-9])(?P<date>(?:{_YEAR}年)?[0-9]{{1,2}}月[0-9]{{1,2}}日)", _written("ja")),
        (r"(?:(?P<week>来週の?)|(?P<this_week>今週の?))?(?P<weekday>[月火水木金土日])曜日?", _weekday),
        (r"来週(?!の?[月火水木金土日]曜)", _next_week),
        (r"今週(?!の?[月火水木金土日]曜)", _this_week),
        (r"(?P<word>明後日|明日|今日|本日)", _ahead),
        (r"(?<![0-9])(?P<month>1[0-2]|[1-9])月末", _named_month_end),
        (r"(?:(?<![0-9])月末|今月中)", _month_end),
    )
)

_BEFORE_A_GOAL: Final = re.compile(
    r"(?<![a-zà-ɏ])(?:to|until|till|by|due|auf|bis|spätestens)"
    r"(?: (?:on|the|next|den|zum|nächsten|kommenden|am))*(?: the)? $",
    re.IGNORECASE,
)
_AFTER_A_GOAL: Final = re.compile(r"(?:の?[0-9]{1,2}時)?(?:中|いっぱい)?(?:まで|に|へ|が期限|締)")
_BEFORE_A_NAME: Final = re.compile(
    r"(?<![a-zà-ɏ])(?:the|our|my|your|every|each|last|past|since|das|die|jeden|letzten|seit|vom|from|von) $",
    re.I,
)
_AFTER_A_NAME: Final = re.compile(r" (?!by|at|and|or|if|um|und|oder|please|bitte)[a-zà-ɏ]{3}", re.IGNORECASE)
_BEFORE_A_MEMORY: Final = re.compile(
    r"(?<![a-zà-ɏ])(?:every|each|last|past|since|from|jeden|letzten|seit|vom|von) $|毎週$", re.IGNORECASE
)
_JA_NAME: Final = re.compile(r"の(?!午前|午後|朝|夕|昼|[0-9])|から|は休")


def find_due(text: str, at: datetime) -> date | None:
    """The due date that the text states, or None.

    Of several dates the last one that follows a goal word wins ("from Friday *to Monday*", "*bis* Montag",
    "月曜*に*"), else the last. A date that only names a thing ("the Friday review", "金曜の会議"), that
    comes again or is past ("every Monday", "since Friday") is none.
    """
    text = text.replace("’", "'")
    candidates = sorted(_candidates(text), key=lambda found: (_is_goal(text, found), found.end))
    for candidate in candidates[: -_TRIED_AT_MOST - 1 : -1]:
        try:
            due = candidate.resolve(candidate.match, at.date())
        except OverflowError:  # an event of year 9999
            due = None
        if due is not None:
            return due
    return None


def _candidates(text: str) -> Iterator[_Candidate]:
    found = [
        _Candidate(match.start(), match.end(), resolve, match)
        for pattern, resolve in _PATTERNS
        for match in pattern.finditer(text)
    ]
    end = 0
    for candidate in sorted(found, key=lambda each: (each.start, -each.end)):
        # "next week" inside "Monday next week" is a part of it.
        if candidate.start >= end:
            end = candidate.end
            if not _is_name(text, candidate.match):
                yield candidate


def _is_goal(text: str, found: _Candidate) -> bool:
    if "date" in found.match.groupdict():
        # The German pattern takes its leading word along.
        before = text[max(0, found.start - 32) : found.match.start("date")]
    else:
        before = text[max(0, found.start - 32) : found.start]
    return bool(_BEFORE_A_GOAL.search(before) or _AFTER_A_GOAL.match(text, found.end))


def _is_name(text: str, match: re.Match[str]) -> bool:
    before, end = text[max(0, match.start() - 12) : match.start()], match.end()
    if _BEFORE_A_MEMORY.search(before) or _JA_NAME.match(text, end) or text.startswith("'s", end):
        return True
    is_weekday = "weekday" in match.groupdict()
    return is_weekday and bool(_BEFORE_A_NAME.search(before) and _AFTER_A_NAME.match(text, end))
