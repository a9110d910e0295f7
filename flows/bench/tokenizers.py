"""`bench tokenizers`: which arrangement of the full-text lane finds words of six languages, and at what speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import lancedb
import pyarrow as pa
from lancedb.index import FTS
from lancedb.query import MatchQuery

from flows.bench.generate import Generator
from store.memory import text_query
from store.tables import full_text
from store.terms import row_terms, words

_HITS: Final = 12
_TIMED: Final = 200
"""Whole messages that are searched for to take the time (count)."""

_CASES: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    # What a row says, and what somebody asks later.
    "English": (
        ("Renew the harbour licence before the audit", "is the harbour licence renewed?"),
        ("Fix readAheadCounters in the block reader", "the read ahead counters are wrong again"),
        ("Send Ms Okonkwo-Bell the floor plan", "floor plan for Okonkwo"),
    ),
    "German": (
        ("Den Rahmenvertragsentwurf an die Kanzlei schicken", "Wo bleibt der Entwurf?"),
        ("Prüfung der Brandschutzklappen vereinbaren", "Wann kommt die Brandschutzklappenprüfung?"),
        ("Schlüsselübergabe mit Frau Größling klären", "Groessling wartet auf die Schlüsselübergabe"),
    ),
    "Japanese": (
        ("契約更新の見積書を田中さんに送る", "見積書はもう送りましたか"),
        ("会議室の予約を木曜日に変更する", "木曜の会議室の件"),
        ("展示会のポスターを印刷に出す", "ポスターの印刷はどうなっていますか"),
    ),
    "Chinese": (
        ("请在周五之前提交采购预算", "采购的预算交了吗"),
        ("联系王建国安排设备检修", "王建国那边的检修怎么样"),
        ("更新上海仓库的库存清单", "上海库存清单还没更新"),
    ),
    "Korean": (
        ("금요일까지 회의록을 정리하기", "회의록은 정리했나요"),
        ("박지훈에게 계약서를 보내기", "계약서가 박지훈 씨에게 갔나요"),
        ("서버 점검을 다음 주로 옮기기", "서버의 점검 일정"),
    ),
    "Arabic": (
        ("أرسل التقرير الشهري إلى المدير", "هل وصل تقرير الشهر؟"),
        ("حجز قاعة الاجتماعات ليوم الخميس", "والقاعة للاجتماعات"),
        ("مراجعة العقد مع شركة النور", "متى تراجع عقد النور"),
    ),
}
"""Made up for this bench."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """What one way to index finds, and how long a whole message takes."""

    name: str
    rows: int
    found: Mapping[str, float]
    """Share of the questions whose row was among the first 12, by language."""
    median_ms: float
    slowest_ms: float
    """Of 20 queries 19 are faster."""
    index_seconds: float


def tokenizers(rows: int, seed: int, progress: Callable[[str, int, int], None]) -> list[Arrangement]:
    """Put the rows of six languages among `rows` others, and index them in four ways."""
    generator = Generator(seed)
    others = [event.text for event in generator.events(rows, "row-")]
    timed = [event.text for event in islice(Generator(seed + 1).events(_TIMED, "asked-"), _TIMED)]
    said = [(language, row, asked) for language, cases in _CASES.items() for row, asked in cases]
    texts = [*others, *(row for _, row, _ in said)]
    arrangements: Sequence[tuple[str, str, FTS, Callable[[str], Any]]] = (
        ("words (simple)", "text", full_text("simple"), _words),
        ("words (icu)", "text", full_text("icu"), _words),
        ("all n-grams, 2 to 3", "text", _ngrams(), _words),
        ("terms (this project)", "terms", full_text("whitespace"), lambda text: text_query(words(text))),
    )
    results = []
    with TemporaryDirectory(prefix="lookfirst-bench-") as path:
        columns = {"id": range(len(texts)), "text": texts, "terms": [row_terms(text) for text in texts]}
        table = lancedb.connect(Path(path)).create_table(
            "rows", pa.table({k: list(v) for k, v in columns.items()})
        )
        for number, (name, column, config, query) in enumerate(arrangements):
            progress("arrangements", number, len(arrangements))
            began = time.perf_counter()
            table.create_index(column, config=config, replace=True)
            indexed = time.perf_counter() - began
            hits = [
                (language, len(others) + place in _search(table, query(asked)))
                for place, (language, _, asked) in enumerate(said)
            ]
            found = {
                language: round(sum(hit for of, hit in hits if of == language) / len(_CASES[language]), 2)
                for language in _CASES
            }
            took = sorted(_timed(table, query(text)) for text in timed)
            results.append(
                Arrangement(
                    name=name,
                    rows=len(texts),
                    found=found,
                    median_ms=round(median(took) * 1e3, 1),
                    slowest_ms=round(took[int(len(took) * 0.95)] * 1e3, 1),
                    index_seconds=round(indexed, 1),
                )
            )
    return results


def _words(text: str) -> MatchQuery:
    return MatchQuery(text, "text")


def _ngrams() -> FTS:
    return FTS(
        base_tokenizer="ngram",
        ngram_min_length=2,
        ngram_max_length=3,
        stem=False,
        remove_stop_words=False,
        with_position=False,
    )


def _search(table: Any, query: Any) -> list[int]:
    found: list[int] = (
        table.search(query, query_type="fts").select(["id", "_score"]).limit(_HITS).to_arrow()["id"].to_pylist()
    )
    return found


def _timed(table: Any, query: Any) -> float:
    began = time.perf_counter()
    _search(table, query)
    return time.perf_counter() - began
