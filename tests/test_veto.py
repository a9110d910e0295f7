"""The veto: likeness of words makes no event the news of a row that names something else (U1), and that is all."""

from __future__ import annotations

import json
import time
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flows.intake import Line
from flows.judge.contract import Proposal
from flows.judge.guard import Accepted, Refused, Verdict, guard
from flows.judge.rules import RulesJudge
from flows.judge.veto import News, Veto
from store.schema import Create, Decision, Event, LaneRank, Settings, Slice, View, parse_message
from store.schema.view import Lane
from tests.looking import a_slice, a_view, law
from tests.sample import opened, record_of, run_embedded
from tests.workplace import BEN, Workplace, answer, create, event, matched, rows_of, update

LIMITS = Settings()
MONDAY, FRIDAY = date(2024, 5, 6), date(2024, 5, 3)
"""The days after `START`, a Wednesday."""

PAIRS = [
    ("Sign Amendment 16", "Amendment 17 is signed.", "amendment 17", "amendment 16"),
    ("Write report SR-2023-052", "Report SR-2023-053 is written.", "SR-2023-053", "SR-2023-052"),
    ("Check drawing Rev A", "Drawing Rev B is checked.", "rev b", "rev a"),
    ("Pay Brandt invoice 2024-017", "Brandt invoice 2024-018 is paid.", "invoice 2024-018", "invoice 2024-017"),
    ("第3版を校正する", "第4版を校正しました。", "版 4", "版 3"),
    ("Nachtrag 3 unterschreiben", "Nachtrag 4 ist unterschrieben.", "nachtrag 4", "nachtrag 3"),
    ("Pay the Brandt invoice over 1,200 €", "The Brandt invoice over 1,300 € is paid.", "1,300 €", "1,200 €"),
    ("Buy the $500 licence", "The $5k licence is bought.", "$5k", "$500"),
    ("Rechnung über 12.000 EUR prüfen", "Die Rechnung über €13.000 ist geprüft.", "€13.000", "12.000 EUR"),
    ("請求書5,000円を支払う", "請求書5万円を支払いました。", "5万円", "5,000円"),
    ("Prepare the board review on March 18", "The March 25 board review is prepared.", "March 25", "March 18"),
    ("Prepare release 2024-03-18", "The release of 2024-03-25 is prepared.", "2024-03-25", "2024-03-18"),
    ("Review am 18.3. vorbereiten", "Das Review am 25.3. ist vorbereitet.", "25.3.", "18.3."),
    ("3月18日の会議を準備する", "3月25日の会議を準備しました。", "3月25日", "3月18日"),
    ("Prepare the Friday review", "The Monday review is prepared.", "Monday", "Friday"),
    ("Freitags-Review vorbereiten", "Das Montags-Review ist vorbereitet.", "Montag", "Freitag"),
    ("金曜のレビューを準備する", "月曜のレビューを準備しました。", "月曜", "金曜"),
    ("Send the March report", "The April report is sent.", "April", "March"),
]
"""A row, an event of another thing in the same words, and what either names."""

TEXT_ONLY: list[tuple[Lane, ...]] = [("text",), ("vector",), ("text", "vector"), ()]
"""Lanes that found the row; none for one that was shown because it is recent."""


def row(title: str, *lanes: Lane, **fields: Any) -> Slice:
    """A row of another thread, as these lanes have found it."""
    ranks = tuple(LaneRank(lane=lane, rank=1) for lane in lanes)
    return a_slice("S1", **{"title": title, "head": title, "lanes": ranks, **fields})


def seen(*rows: Slice) -> View:
    """Everything was read, and these rows were found."""
    return a_view(0, 0, 0, 1, None).model_copy(update={"slices": rows})


def judged(said: Event, found: Slice, *proposals: Proposal) -> Verdict:
    """What the guard says of a judge's answer to an event that was shown one row."""
    return guard(answer(*proposals), said, seen(found), LIMITS)


def reason_of(verdict: Verdict) -> str:
    """Why the veto, and nothing else, has refused an answer."""
    assert isinstance(verdict, Refused), verdict
    (rejection,) = verdict.rejections
    assert "U1" == rejection.rule
    return rejection.reason


def wrong_answers(text: str) -> list[Proposal]:
    """What a judge may make of an event that it takes for news of the row."""
    return [matched("S1"), update("S1", text, state="done"), update("S1", text, assign=("P0",))]


# What is refused.


@pytest.mark.promise("U1")
@pytest.mark.parametrize("lanes", TEXT_ONLY)
@pytest.mark.parametrize(("title", "text", "ours", "theirs"), PAIRS)
def test_likeness_alone_links_no_two_things(
    title: str, text: str, ours: str, theirs: str, lanes: tuple[Lane, ...]
) -> None:
    """Update and match of a row that names another thing are refused, and the reason names both."""
    for proposal in wrong_answers(text):
        reason = reason_of(judged(event(text), row(title, *lanes), proposal))
        assert ours in reason
        assert f"S1 {theirs}" in reason


@pytest.mark.promise("U1")
@pytest.mark.parametrize(
    ("title", "text", "renamed"),
    [
        ("Sign Amendment 16", "Amendment 17 is signed.", "Sign Amendment 17"),
        ("Check drawing Rev A", "Drawing Rev B is checked.", "Check drawing Rev B"),
        ("Pay the invoice over 1,200 €", "The invoice over 1,300 € is paid.", "Pay the invoice over 1,300 €"),
        ("Prepare the Friday review", "The Monday review is prepared.", "Prepare the Monday review"),
        ("File the May 3 minutes", "The May 6 minutes are filed.", "File the May 6 minutes"),
        ("Freitags-Review vorbereiten", "Das Montags-Review ist vorbereitet.", "Montags-Review vorbereiten"),
        ("金曜のレビューを準備する", "月曜のレビューを準備しました。", "月曜のレビューを準備する"),
    ],
)
def test_another_thing_does_not_become_this_one_by_title_or_due_date(title: str, text: str, renamed: str) -> None:
    """An update that gives the row what the event names is refused: it says of nothing that it is new."""
    found = row(title, "text")
    reason_of(judged(event(text), found, update("S1", text, title=renamed, state="done")))
    reason_of(judged(event(text), found, update("S1", text, title=renamed, due=MONDAY)))


@pytest.mark.promise("U1")
def test_a_ticket_that_the_row_was_given_by_a_subject_names_it_too() -> None:
    """Neither title nor body says PORT-118: a mail about PORT-119 is no news of it, one about PORT-118 is."""
    found = row("Calibrate the tide gauge", "text", identifiers=("ticket:PORT-118",))
    reason = reason_of(judged(event("The tide gauge of PORT-119 is calibrated."), found, matched("S1")))
    assert "PORT-119" in reason
    assert "PORT-118" in reason
    assert isinstance(judged(event("The tide gauge of PORT-118 is calibrated."), found, matched("S1")), Accepted)


@pytest.mark.promise("U1")
def test_the_head_of_a_row_names_it_too_and_a_cut_names_nothing() -> None:
    """An identifier in the row's own words counts; half of one, where the slice was cut, does not."""
    said = event("SR-2023-053 is tested.")
    body = row("Test the pump", "text", head="Please test the pump of SR-2023-052 today")
    assert "SR-2023-052" in reason_of(judged(said, body, matched("S1")))
    cut = row("Test the pump", "text", head="Please test the pump of SR-2023-05…")
    assert isinstance(judged(said, cut, matched("S1")), Accepted)
    assert isinstance(judged(event("Test it on 3月25日"), row("試験の準備3月1…", "text"), matched("S1")), Accepted)


@pytest.mark.promise("U1")
def test_subject_and_text_are_both_the_events_words() -> None:
    """A mail names in its subject what it is about; its text may name it as well."""
    mail = event("It is signed.", subject="Re: Amendment 17")
    reason_of(judged(mail, row("Sign Amendment 16", "text"), update("S1", "It is signed.", state="done")))
    both = event("It is signed, and so is Amendment 16.", subject="Re: Amendment 17")
    assert isinstance(judged(both, row("Sign Amendment 16", "text"), matched("S1")), Accepted)
    dated = event("It is cancelled.", subject="Monday review")
    reason_of(judged(dated, row("Prepare the Friday review", "text"), matched("S1")))


# What passes.


@pytest.mark.promise("U1")
@pytest.mark.parametrize(
    ("title", "text", "fields"),
    [
        ("Friday review", "move the Friday review to Monday", {"due": MONDAY}),
        ("Friday review", "move the Friday review to Monday", {"title": "Monday review"}),
        ("Monday review", "move the Monday review to Friday", {"due": FRIDAY}),
        ("Monday review", "Monday's review moves to Friday", {"title": "Friday review"}),
        ("Friday review", "the review moves to Monday", {"due": MONDAY}),
        ("Friday review", "the review is on Monday this time", {"title": "Monday review"}),
        ("Freitags-Review", "verschieben wir das Freitags-Review auf Montag", {"due": MONDAY}),
        ("Freitags-Review", "das Review verschieben wir auf Montag", {"title": "Montags-Review", "due": MONDAY}),
        ("Friday review", "we take the Monday slot for the review", {"due": MONDAY}),
        ("Montags-Review", "das Montags-Review ist jetzt am Freitag", {"title": "Freitags-Review"}),
        ("金曜のレビュー", "金曜のレビューを月曜に", {"due": MONDAY}),
        ("金曜のレビュー", "レビューを月曜に変更します", {"title": "月曜のレビュー"}),
        ("月曜のレビュー", "月曜のレビューは金曜になりました", {"due": FRIDAY}),
        ("Board review on May 3", "the board review is postponed to May 6", {"due": MONDAY}),
        ("Board review on May 6", "board review: May 3 instead", {"due": FRIDAY}),
        ("Review am 3.5.", "das Review ist nun am 6.5.", {"due": MONDAY, "title": "Review am 6.5."}),
        ("5月3日の会議", "会議を5月6日に延期します", {"due": MONDAY}),
        ("Budget of 500", "the budget of 500 is now 800", {"title": "Budget of 800"}),
        ("Budget of 500 €", "the budget of 500 is now 800", {"title": "Budget of 800 €"}),
        ("Budget of 500 €", "raise the budget from 500 to 800 €", {"title": "Budget of 800 €"}),
        ("Budget of 800 €", "the budget is lowered to 500 €", {"title": "Budget of 500 €"}),
        ("Budget 500 €", "das Budget ist jetzt 800 €", {"title": "Budget 800 €"}),
        ("予算5,000円の申請", "予算は8,000円に変更", {"title": "予算8,000円の申請"}),
        ("Check drawing Rev A", "Rev A is replaced by Rev B", {"title": "Check drawing Rev B"}),
        ("Check drawing Rev A", "the drawing is now Rev B", {"title": "Check drawing Rev B"}),
        ("図面第3版の確認", "図面は第4版に変更", {"title": "図面第4版の確認"}),
    ],
)
def test_what_an_event_says_anew_is_no_difference(title: str, text: str, fields: dict[str, Any]) -> None:
    """Rescheduled, re-budgeted and revised rows are updated although only their words link them."""
    for lane in ("text", "vector"):
        verdict = judged(event(text), row(title, lane), update("S1", text, **fields))  # type: ignore[arg-type]
        assert isinstance(verdict, Accepted), verdict


@pytest.mark.promise("U1")
@pytest.mark.parametrize(
    ("title", "text", "fields", "shown"),
    [
        ("Send the report by Friday", "the report was sent on Wednesday", {"state": "done"}, {}),
        ("Send the report by Friday", "the report is with them since Wednesday", {"state": "done"}, {}),
        ("金曜までに報告書を送る", "報告書は水曜に送りました", {"state": "done"}, {}),
        ("Friday review", "Monday's review is cancelled", {"state": "cancelled"}, {"due": MONDAY}),
        ("Prepare the review", "The Monday review is prepared", {"state": "done"}, {}),
        ("Friday review", "The review is prepared", {"state": "done"}, {}),
        ("Sign Amendment 16", "Amendment 16 and Amendment 17 are signed", {"state": "done"}, {}),
        ("Pay 1,200 €", "the 1200 euros are paid, and 300 € of tip", {"state": "done"}, {}),
        ("Send the report (10 %)", "the report is sent, 20 % of it late", {"state": "done"}, {}),
    ],
)
def test_news_of_the_row_itself_passes(
    title: str, text: str, fields: dict[str, Any], shown: dict[str, Any]
) -> None:
    """When it happened, the day it was moved to, more than one thing named, or nothing named: no difference."""
    verdict = judged(event(text), row(title, "text", **shown), update("S1", text, **fields))
    assert isinstance(verdict, Accepted), verdict


@pytest.mark.promise("U1")
def test_finished_work_is_matched_by_a_report_of_when_it_was_done() -> None:
    """A repeat of a report matches a done row; the same words of an open one with another deadline do not."""
    said = event("the report was sent on Wednesday")
    assert isinstance(
        judged(said, row("Send the report by Friday", "text", state="done"), matched("S1")), Accepted
    )
    asked = event("send the report by Monday")
    reason_of(judged(asked, row("Send the report by Friday", "text", state="done"), matched("S1")))


LINKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "thread": ({"same_thread": True}, {}),
    "reply mark": ({"answered": True}, {}),
    "exact lane": ({"lanes": (LaneRank(lane="text", rank=1), LaneRank(lane="exact", rank=2))}, {}),
    "addressee": ({"people": ("someone", str(event("x").person(BEN)))}, {"mentions": (BEN,)}),
}
"""What of a row, and of an event, links the two."""


@pytest.mark.promise("U1")
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(("title", "text"), [pair[:2] for pair in PAIRS])
def test_whatever_links_them_else_is_not_vetoed(title: str, text: str, link: str) -> None:
    """The same pairs pass with a thread, a reply mark, an exact hit or an addressee in common."""
    of_row, of_event = LINKS[link]
    for proposal in wrong_answers(text):
        verdict = judged(event(text, **of_event), row(title, "text", **of_row), proposal)
        assert isinstance(verdict, Accepted), verdict


@pytest.mark.promise("U1")
def test_a_shared_identifier_links_whatever_lane_found_the_row() -> None:
    """Amounts and days differ, and the ticket is the same: the event is about that ticket's row."""
    said = event("OPS-7: the Monday review for 800 € is prepared")
    shared = row("OPS-7 Prepare the Friday review for 500 €", "text")
    assert isinstance(judged(said, shared, matched("S1")), Accepted)
    # Whom a mail names says nothing of what it is about.
    mailed = event("The Monday review is prepared, ask ken@example.org")
    reason_of(judged(mailed, row("Prepare the Friday review", "text", head="ask ken@example.org"), matched("S1")))


@pytest.mark.promise("U1")
def test_a_link_of_any_slice_of_the_row_counts() -> None:
    """A row that is shown twice is linked when one of its slices says so."""
    said, searched = event("The Monday review is prepared."), row("Prepare the Friday review", "text")
    own = searched.model_copy(update={"handle": "T1", "same_thread": True, "lanes": ()})
    view = seen(searched).model_copy(update={"thread_rows": (own,)})
    for handle in ("S1", "T1"):
        assert isinstance(guard(answer(matched(handle)), said, view, LIMITS), Accepted)


_WORDS = st.sampled_from(
    [
        *("Amendment 16", "Amendment 17", "SR-2023-052", "SR-2023-053", "Rev A", "rev b", "第3版", "第4版"),
        *("500 €", "$500", "5万円", "1,200 EUR", "Friday", "Monday", "金曜", "3月18日", "2024-03-18", "18.3."),
        *("the review", "is signed", "moves to", "レビューを", "…", "by", "\n", "。"),
    ]
)
_TEXTS = st.lists(_WORDS, max_size=6).map(" ".join)


@pytest.mark.promise("U1")
@law
@given(
    title=_TEXTS,
    head=_TEXTS,
    text=_TEXTS,
    link=st.sampled_from(sorted(LINKS)),
    news=st.builds(News, st.sampled_from([None, MONDAY]), _TEXTS, _TEXTS, st.booleans()),
)
def test_a_linked_row_is_never_vetoed(title: str, head: str, text: str, link: str, news: News) -> None:
    """Whatever is said and named: one link of another kind than words, and the veto keeps silent."""
    of_row, of_event = LINKS[link]
    found = row(title, "text", head=head, **of_row)
    assert Veto(event(text, **of_event)).against((found,), news) is None


@law
@given(text=_TEXTS, title=_TEXTS, news=st.builds(News, st.none(), _TEXTS, _TEXTS, st.booleans()))
def test_the_veto_names_two_values_of_the_two_texts(text: str, title: str, news: News) -> None:
    """Where it speaks, both sides name something, and neither names what the other does."""
    assume(text.strip())
    found = row(title, "text")
    reason = Veto(event(text)).against((found,), news)
    assert reason is None or Veto(event(f"{text} {title}")).against((found,), news) is None


# Judged again, parked, never lost.


@pytest.fixture
def planted(workplace: Workplace) -> Workplace:
    """A record with one row, "Sign Amendment 16"."""
    workplace.judge.then(create("Sign Amendment 16"))
    workplace.decided("Sign Amendment 16", thread="other", author=BEN)
    workplace.settle()
    return workplace


@pytest.mark.promise("U1")
def test_an_event_judged_wrongly_twice_is_parked_and_touches_no_row(planted: Workplace) -> None:
    """The judge is told why, answers wrongly again, and the event is parked with both refusals."""
    before = rows_of(planted.store, ("tasks",))
    planted.judge.then(update("S1", "Amendment 17 is signed", state="done")).then(matched("S1"))
    parked = planted.parked("Amendment 17 is signed")
    planted.settle()
    assert [(1, "U1"), (2, "U1")] == [(each.attempt, each.rule) for each in parked.rejected]
    assert planted.judge.refusals[-1] == parked.rejected[:1]
    assert all("amendment 17" in each.reason and "amendment 16" in each.reason for each in parked.rejected)
    assert before == rows_of(planted.store, ("tasks",))
    assert "parked" == planted.store.record.events([parked.event.uid])[parked.event.uid].outcome


@pytest.mark.promise("U1")
def test_a_judge_that_learns_from_the_refusal_makes_the_second_row(planted: Workplace) -> None:
    """Refused as news of the one row, the event becomes a row of its own, and the refusal is kept."""
    planted.judge.then(update("S1", "Amendment 17", title="Sign Amendment 17")).then(create("sign Amendment 17"))
    made = planted.decided("Please sign Amendment 17")
    planted.settle()
    assert ["U1"] == [each.rule for each in made.rejected]
    assert [Create] == [type(operation) for operation in made.operations]
    assert ["Sign Amendment 16", "sign Amendment 17"] == [task.title for task in planted.tasks()]


# Long events.


@pytest.mark.promise("U1")
def test_in_a_long_note_the_sentences_about_the_row_count() -> None:
    """Days of other points say nothing of the row; the day of its own point keeps the note apart."""
    points = [f"The budget of team {n} is due on March {n}." for n in range(4, 12)]
    title = "Prepare the Friday design review"
    about = "The design review is prepared."
    note = event("\n".join([*points, about, *points]))
    assert isinstance(judged(note, row(title, "text"), update("S1", about, state="done")), Accepted)
    assert isinstance(judged(note, row(title, "text"), matched("S1")), Accepted)
    other = "The Monday design review is prepared."
    apart_note = event("\n".join([*points, other, *points]))
    for proposal in (update("S1", other, state="done"), matched("S1")):
        assert "Monday" in reason_of(judged(apart_note, row(title, "text"), proposal))
    goes_on = event("\n".join([*points, f"{about} It takes place on Monday.", *points]))
    assert "Monday" in reason_of(judged(goes_on, row(title, "text"), matched("S1")))
    quoted = event("\n".join([*points, about, "The one of Monday\n is  what I mean.", *points]))
    wrong = update("S1", "The one of Monday is what I mean.", state="done")
    assert "Monday" in reason_of(judged(quoted, row(title, "text"), wrong))


@pytest.mark.promise("U1")
def test_what_others_said_is_not_what_the_event_says() -> None:
    """A day in a quoted line keeps nothing apart."""
    answer_to = event("> The Monday review is moved.\nThe review is prepared.")
    found = row("Prepare the Friday review", "text")
    assert isinstance(judged(answer_to, found, update("S1", "The review is prepared.", state="done")), Accepted)


@pytest.mark.promise("U1")
def test_a_segment_is_held_against_the_row_by_its_own_text() -> None:
    """The guard is given a segment with the event's subject: what another segment names does not count."""
    whole = event("Amendment 16 rests.\n" + "Nothing. " * 2_000 + "\nAmendment 17 is signed.", subject="Minutes")
    last = whole.model_copy(update={"text": whole.text[-40:]})
    found = row("Sign Amendment 16", "text")
    proposal = update("S1", "Amendment 17 is signed.", state="done")
    verdict = guard(answer(proposal), last, seen(found), LIMITS, segment=3)
    assert "amendment 17" in reason_of(verdict)


@pytest.mark.promise("U1")
@pytest.mark.parametrize("unit", ["$1 ", "monday ", "に変更", "is now ", "Amendment 17 ", "18.3. ", "it. ", "a "])
def test_a_hostile_event_costs_time_in_proportion(unit: str) -> None:
    """A whole segment of what almost matches, quoted whole, is held against a row in a moment."""
    text = (unit * 12_000)[:12_000]
    found = row("Sign Amendment 16 for 500 € at the Friday review", "text")
    started = time.process_time()
    judged(event(text), found, update("S1", text[:11_000], title="Amendment 17 for $1"))
    assert time.process_time() - started < 10


# The offline judge does not propose what the veto refuses.


def lines(*said: tuple[str, str]) -> list[Line]:
    """Events of these threads and texts, a minute apart."""
    return [
        Line(
            json.dumps(
                {
                    "id": str(number),
                    "source": "chat",
                    "thread": thread,
                    "at": f"2024-05-01T09:{number:02}:00Z",
                    "author": {"id": f"author-of-{thread}", "name": "李"},
                    "text": text,
                }
            ),
            f"made:{number}",
        )
        for number, (thread, text) in enumerate(said)
    ]


def decided(path: Path) -> list[Decision]:
    """The Decisions of a run."""
    rows = opened(path).record.arrow("decisions").to_pylist()
    messages = [parse_message(found["message"]) for found in rows]
    return [message for message in messages if isinstance(message, Decision)]


ASKED = [
    ("Please sign Amendment 16", "Please sign Amendment 17"),
    ("Please write the report SR-2023-052", "Please write the report SR-2023-053"),
    ("Please check the drawing Rev A", "Please check the drawing Rev B"),
    ("Please pay the Brandt invoice over 1,200 €", "Please pay the Brandt invoice over 1,300 €"),
    ("Please book Keller invoice 1,200 €", "Please book Keller invoice 1,300 €"),
    ("Please prepare the Friday review", "Please prepare the Monday review"),
    ("Please file the March 18 minutes", "Please file the March 25 minutes"),
    ("Bitte die Rechnung über 12.000 EUR prüfen", "Bitte die Rechnung über 13.000 EUR prüfen"),
    ("Bitte das Protokoll vom 18.3. ablegen", "Bitte das Protokoll vom 25.3. ablegen"),
    ("見積書の第3版を校正してください。", "見積書の第4版を校正してください。"),
    ("3月18日の会議資料を準備してください。", "3月25日の会議資料を準備してください。"),
]


@pytest.mark.promise("U1")
def test_the_offline_judge_keeps_near_equal_requests_apart(workplace: Workplace) -> None:
    """Pairs of requests that differ in one value make two rows each; nothing is refused, parked or merged."""
    workplace.judge.rule = lambda event, view: RulesJudge().judge(event, view, ())
    for number, pair in enumerate(ASKED):
        for side, text in zip("ab", pair, strict=True):
            made = workplace.decided(text, thread=f"{side}-{number}")
            assert ((), [Create]) == (made.rejected, [type(operation) for operation in made.operations]), text
            workplace.settle()


@pytest.mark.promise("U1")
def test_a_run_keeps_apart_what_differs_and_reschedules_across_threads(tmp_path: Path) -> None:
    """Asked in one thread, moved in another: one row, with the new due date; and no answer is ever refused."""
    said = [
        ("a", "Please prepare the Friday design review"),
        ("b", "The Friday design review is moved to Monday"),
        ("c", "Please prepare the Tuesday design review"),
        ("d", "Bitte das Freitags-Review der Angebote vorbereiten"),
        ("e", "Wir verschieben das Freitags-Review der Angebote auf Montag"),
        ("f", "Please send the quarterly report to the board by Friday"),
        ("g", "The quarterly report to the board was sent on Thursday"),
        ("h", "Please pay the Brandt invoice over 1,200 €"),
        ("i", "The Brandt invoice over 1,300 € is cancelled"),
    ]
    tally = run_embedded(tmp_path, lines(*said), paced=True)
    assert (9, 0) == (tally.decided, tally.parked)
    tasks = [(task["title"], task["due"], task["state"]) for task in record_of(opened(tmp_path))["tasks"]]
    assert [
        ("Prepare the Friday design review", "2024-05-06", "open"),
        ("Prepare the Tuesday design review", None, "open"),
        ("Das Freitags-Review der Angebote vorbereiten", "2024-05-06", "open"),
        ("Send the quarterly report to the board by Friday", "2024-05-03", "done"),
        ("Pay the Brandt invoice over 1,200 €", None, "open"),
    ] == tasks
    assert [] == [rejection for made in decided(tmp_path) for rejection in made.rejected]


@law
@given(
    title=_TEXTS,
    text=st.builds(
        "{} {} {}".format,
        st.sampled_from(["please prepare", "I'll send", "done:", "moved:", "cancelled:", "準備してください"]),
        _TEXTS,
        _TEXTS,
    ),
    state=st.sampled_from(["open", "done"]),
    due=st.sampled_from([None, MONDAY]),
)
def test_the_offline_judge_proposes_nothing_that_the_veto_refuses(
    title: str, text: str, state: str, due: date | None
) -> None:
    """Whatever is shown and said, no first answer of the rules breaks U1."""
    said = event(text)
    found = row(title, "text", state=state, due=due)
    verdict = guard(RulesJudge().judge(said, seen(found), ()), said, seen(found), LIMITS)
    assert not isinstance(verdict, Refused) or "U1" not in {each.rule for each in verdict.rejections}


@pytest.mark.promise("U3")
@pytest.mark.parametrize("threads", [("a", "b"), ("a", "a")])
def test_two_unrelated_chinese_sentences_are_two_rows(tmp_path: Path, threads: tuple[str, str]) -> None:
    """Hobbies of one person, written without a gap between the words: each is a row, and each stays as it is."""
    hobbies = ("TODO: 周末学习弹吉他的新曲子", "TODO: 整理集邮册里的旧邮票")
    run_embedded(tmp_path, lines(*zip(threads, hobbies, strict=True)), paced=True)
    record = record_of(opened(tmp_path))
    assert ["周末学习弹吉他的新曲子", "整理集邮册里的旧邮票"] == [task["title"] for task in record["tasks"]]
    assert [1, 1] == [len(task["events"]) for task in record["tasks"]]
    assert {"created"} == set(record["events"].values())
