"""The sentences of an event, and what a sentence is about."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from flows.judge.cues import Act, read_acts, without_cues
from store.schema import Event

TITLE_LENGTH: Final = 120
"""Characters of a title at most."""

_BOUNDARY: Final = re.compile(
    r"\n+|(?<=[。！？])|(?<=[!?])[ \t]+|(?<=[^\W\d_]{2}\.)(?<!Dr\.)(?<!Mr\.)(?<!Nr\.)[ \t]+(?=[^a-z0-9])"
    # After a number only before a capital that begins no German month: "am 12. Juni" is one sentence.
    r"|(?<=[0-9]\.)[ \t]+(?=[A-ZÄÖÜ])(?!Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)"
)
_SIGNATURE: Final = re.compile(r"^-- ?$", re.MULTILINE)
_QUOTED_LINE: Final = re.compile(r"^[ \t]*>.*$", re.MULTILINE)

_BULLET: Final = re.compile(r"^\s*(?:(?:[-*•·–—]|[0-9]{1,2}[.)]|\[[ xX]?\])\s*){0,3}")
_MENTION: Final = re.compile(r"<@[^>\s]{1,80}>|(?<![A-Za-z0-9])@[\w.-]{1,60}|:[a-z+][a-z0-9_+-]{1,40}:")
"""People by mark, and emoji by name: neither belongs in a title."""
_GREETING: Final = re.compile(
    r"^(?:hi|hello|hey|dear|hallo|moin|liebe[r]?|guten (?:tag|morgen)|お疲れ様です|"
    r"お世話になっております)(?![A-Za-z])[^,、!。:]{0,30}[,、!。:]\s*",
    re.IGNORECASE,
)
_LEADING_CUE: Final = re.compile(
    r"^(?:(?:and|also|then|so|und|dann)[ ,]+)?(?:(?:can|could|would) (?:you|someone|somebody|anyone)|"
    r"we (?:need|have) to|to-?do:|action(?: item)?:|i'll|i will|i'm going to|kannst du|könntest du|"
    r"könnt ihr|können sie|könnten sie)(?:,? (?:please|pls|bitte|also|auch))*[ ,]+|^(?:please|pls|"
    r"bitte)[ ,]+|^(?:to-?do|action(?: item)?|aufgabe):\s*",
    re.IGNORECASE,
)
_TRAILING: Final = re.compile(
    r"(?:[をも]?(?:よろしく)?お願い(?:し|いた|致)?[ますで]*|[ ,]+(?:please|pls|bitte))?[\s?？.。!！]*$",
    re.IGNORECASE,
)
_REPLY_PREFIX: Final = re.compile(r"^(?:(?:re|aw|fwd?|wg)\s*:\s*)+", re.IGNORECASE)

_STOP_WORDS: Final = (
    "the and for with myself yourself take taking care that this these those from into about have has had was "
    "were are but not our your their his her its you they them she him who what when where why how which will "
    "would should could shall may might can does did just now then than also there here some any all more most "
    "very still only too yet please one out off over get got let make need needs want know think today "
    "tomorrow yesterday next week month morning afternoon evening soon asap been being both each hey hello day "
    "end late later already again because before after until since done der die das den dem des ein eine einen "
    "einem einer und oder aber auch noch nur sehr mit von bei aus nach zum zur für auf über unter vor bis ist "
    "sind war waren wird werden wurde hat haben hatte ich wir ihr sie uns euch mich dich mir dir ihm ihn ihnen "
    "mein dein sein unser euer kann kannst könnte soll sollte muss müssen mal bitte heute morgen gestern woche "
    "monat jetzt dann wenn weil dass nicht kein keine schon wieder hier dort alle alles january february march "
    "april june july august september october november december januar februar märz juni juli oktober dezember "
)
_STOP: Final = frozenset(_STOP_WORDS.split())
_TOKEN: Final = re.compile(r"[a-z0-9à-ɏ]+(?:[-.][a-z0-9]+){0,4}")
_JAPANESE_RUN: Final = re.compile(r"[一-龠々ァ-ヶー]{2,}")
_JAPANESE_DAY: Final = re.compile(r"([月火水木金土日]曜)日?")
_JAPANESE_WHEN: Final = re.compile(r"[0-9]{1,4}[年月日時]|明後日|明日|今日|本日|来週|今週|今月|月末|期限|締切")
_STEM: Final = 6
"""Letters of a word that count: "report" and "reports", "Angebot" and "Angebote" are one."""

WEEKDAYS: Final = frozenset(
    [day[:_STEM] for day in ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")]
    + [day[:_STEM] for day in ("montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonntag")]
    + [f"{day}曜" for day in "月火水木金土日"]
)
"""Content that says when: it tells a Friday review from a Monday review, and is no object by itself."""

_BACK: Final = re.compile(
    r"(?<![A-Za-zÀ-ɏ'])(?:it|this|that|them|those|these|same|one|das|es|dies(?:es)?|ihn|damit|dazu|dafür|darum|dabei)"
    r"(?![A-Za-zÀ-ɏ])|それ|これ|その|この|同じ|こちら",
    re.IGNORECASE,
)


class Sentence(NamedTuple):
    """A sentence or bullet of an event, verbatim."""

    text: str
    start: int
    acts: frozenset[Act]

    @property
    def end(self) -> int:
        """Where it ends in the event's words."""
        return self.start + len(self.text)


def words_of(event: Event) -> str:
    """What is judged: the text, or the subject of an event without one."""
    return event.text if event.text.strip() else event.subject or ""


def split(text: str) -> tuple[Sentence, ...]:
    """The sentences of a text, less what it quotes of others and its signature."""
    signature = _SIGNATURE.search(text)
    own = text[: signature.start()] if signature else text
    own = _QUOTED_LINE.sub(lambda quoted: "\n" * len(quoted[0]), own)
    found, start = [], 0
    for boundary in [*_BOUNDARY.finditer(own), None]:
        piece = own[start : boundary.start() if boundary else len(own)]
        if piece.strip():
            indent = len(piece) - len(piece.lstrip())
            found.append(Sentence(piece.strip(), start + indent, read_acts(piece.strip())))
        start = boundary.end() if boundary else start
    return tuple(found)


def subject_of(event: Event) -> str:
    """The subject, less the marks of replies and forwards."""
    return _REPLY_PREFIX.sub("", event.subject or "").strip()


def title_of(text: str, names: Iterable[str] = ()) -> str:
    """A sentence as a title: one line, without greeting, mentions, the name it addresses, and "can you please"."""
    title = _BULLET.sub("", " ".join(_MENTION.sub(" ", text).replace("’", "'").split()))
    title = _GREETING.sub("", title).lstrip(",:、 ")
    parts = {part for name in names for part in (name, *name.split())}
    for part in sorted(parts, key=lambda part: (-len(part), part)):
        title = re.sub(rf"^{re.escape(part)}(?:さん|様|-san)?\s*[,:、：]\s*", "", title)
    title = _TRAILING.sub("", _LEADING_CUE.sub("", title)).strip()
    title = title[:1].upper() + title[1:]
    title = title or " ".join(text.split())
    return title if len(title) <= TITLE_LENGTH else title[: TITLE_LENGTH - 1].rstrip() + "…"


@lru_cache(maxsize=1_024)
def content(text: str) -> frozenset[str]:
    """What a text is about, as a set: stems of its words; pairs of characters where words have no gaps."""
    text = _MENTION.sub(" ", without_cues(text)).lower()
    found = {
        token[:_STEM] if token.isalpha() else token
        for token in _TOKEN.findall(text)
        if token not in _STOP
        and (len(token) > 2 or (len(token) == 2 and not token.isdigit() and not token.isalpha()))
    }
    found.update(_JAPANESE_DAY.findall(text))
    text = _JAPANESE_WHEN.sub(" ", _JAPANESE_DAY.sub(" ", text))
    for run in _JAPANESE_RUN.findall(text):
        found.update(run[at : at + 2] for at in range(len(run) - 1))
    return frozenset(found)


def refers_back(text: str) -> bool:
    """Whether the text speaks of "it": of something that was named before."""
    return bool(_BACK.search(text))
