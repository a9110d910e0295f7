"""Amounts of money that a text names, in one value however they are written.

Each pattern is bounded and begins at a fixed left edge, so that a text costs time in proportion to its length.
Percentages, quantities and durations are left out on purpose: in news of a thing they are mostly its progress.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final, NamedTuple

from flows.judge.days import NARROW, find_days

_CURRENCIES: Final = {
    "EUR": "€|EUR|Euros?|ユーロ|欧元",
    "USD": r"US\$|\$|USD|Dollars?|米ドル|ドル|美元",
    "GBP": "£|GBP",
    "CHF": "CHF|Franken",
    "¥": "¥|JPY|CNY|RMB|Yen|Yuan|円|日元|元",
    "INR": "₹|INR",
}
"""Spellings of each currency; yen and yuan are one, for they share a sign."""

_SCALES: Final = {
    **dict.fromkeys(("k", "tsd", "tausend", "thousand"), 1_000),
    **dict.fromkeys(("m", "mn", "mio", "million", "millions", "millionen"), 1_000_000),
    **dict.fromkeys(("bn", "mrd", "billion", "milliarde", "milliarden"), 1_000_000_000),
}
_HAN_SCALES: Final = {"百": 100, "千": 1_000, "万": 10_000, "億": 100_000_000, "亿": 100_000_000}

_CURRENCY: Final = f"(?:{'|'.join(_CURRENCIES.values())})"
_NUMBER: Final = r"(?:[0-9]{1,3}(?: [0-9]{3}){1,4}(?![0-9])|[0-9]{1,12}(?:[.,'’][0-9]{1,6}){0,5})"
_SCALE: Final = rf"(?: ?(?:{'|'.join(sorted(_SCALES, key=len, reverse=True))})\.?(?![A-Za-zÀ-ɏ]))?"
_HAN_NUMBER: Final = r"(?:[0-9]{1,12}(?:[,.][0-9]{1,6}){0,4}[百千万億亿]){1,3}(?:[0-9]{1,4})?"
_AMOUNT: Final = re.compile(
    rf"(?<![0-9A-Za-z.,])(?P<han>{_HAN_NUMBER}) ?(?P<han_currency>{_CURRENCY})"
    rf"|(?<![0-9A-Za-z.,])(?P<number>{_NUMBER})(?P<scale>{_SCALE})(?:,[-–])?[ -]?"
    rf"(?P<after>{_CURRENCY})(?![A-Za-zÀ-ɏ])"
    rf"|(?<![A-Za-zÀ-ɏ])(?P<before>{_CURRENCY}) ?(?P<number_after>{_NUMBER})(?P<scale_after>{_SCALE})",
    re.IGNORECASE,
)
_CURRENCY_OF: Final = tuple((re.compile(spelled, re.IGNORECASE), code) for code, spelled in _CURRENCIES.items())
_BARE: Final = re.compile(rf"(?<![0-9A-Za-z.,-]){_NUMBER}(?![0-9A-Za-z])")
_HAN_PART: Final = re.compile(r"([0-9][0-9.,]*)([百千万億亿]?)")


class Amount(NamedTuple):
    """An amount of money."""

    value: Decimal
    currency: str


class AmountMention(NamedTuple):
    """An amount where a text names it."""

    value: Amount
    text: str
    start: int
    end: int


def find_amounts(text: str) -> tuple[AmountMention, ...]:
    """The amounts of money of a text, in order: "1,200 €", "€1.200", "$5k", "5万円", "12.000 EUR"."""
    text = text.translate(NARROW)
    return tuple(
        AmountMention(_amount(match), match[0], match.start(), match.end()) for match in _AMOUNT.finditer(text)
    )


def find_numbers(text: str) -> frozenset[Decimal]:
    """The numbers of a text that are neither amounts of money nor parts of a day."""
    text = text.translate(NARROW)
    taken = [(amount.start, amount.end) for amount in find_amounts(text)]
    taken += [(day.start, day.end) for day in find_days(text)]
    kept = list(text)
    for start, end in taken:
        kept[start:end] = " " * (end - start)
    return frozenset(_value(match[0]) for match in _BARE.finditer("".join(kept)))


def _amount(match: re.Match[str]) -> Amount:
    if match["han"]:
        return Amount(_han_value(match["han"]), _currency(match["han_currency"]))
    number, scale = (match["number"] or match["number_after"]), (match["scale"] or match["scale_after"] or "")
    factor = _SCALES.get(scale.strip(" .").lower(), 1)
    return Amount(_value(number) * factor, _currency(match["after"] or match["before"]))


def _currency(spelled: str) -> str:
    return next(code for pattern, code in _CURRENCY_OF if pattern.fullmatch(spelled))


def _value(number: str) -> Decimal:
    """A number as written in English, German, Swiss or Japanese: the last sign may set off the decimals."""
    number = re.sub(r"[ '’]", "", number)
    *groups, last = re.split(r"[.,]", number)
    signs = set(re.findall(r"[.,]", number))
    if not groups:
        return Decimal(last)
    # Of two kinds of sign the last is the decimal one; of one kind, where it cannot part thousands.
    thousands = len(signs) == 1 and all(len(group) == 3 for group in (*groups[1:], last)) and groups[0] != "0"
    whole = "".join(groups)
    return Decimal(whole + last) if thousands else Decimal(f"{whole}.{last}")


def _han_value(number: str) -> Decimal:
    parts = _HAN_PART.findall(number)
    return sum((_value(digits.rstrip(".,")) * _HAN_SCALES.get(scale, 1) for digits, scale in parts), Decimal(0))
