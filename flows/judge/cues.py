"""Cue words: by which words a sentence asks, promises, reports or calls off, in three languages.

Data, and the one function that reads it. A cue counts where it is said, not where it is denied, wished or
asked: "not done", "when done" and "done?" report nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

Act = Literal[
    "request",
    "commitment",
    "completion",
    "cancellation",
    "revival",
    "start",
    "blocked",
    "reschedule",
    "backchannel",
]
"""What a sentence does."""

_LETTER: Final = "A-Za-z0-9_À-ÖØ-öø-ɏ"


class Cue(NamedTuple):
    """The cue words of one act. Latin words are whole words; Japanese is written without gaps."""

    act: Act
    english: str
    german: str
    japanese: str

    def compile(self) -> re.Pattern[str]:
        """All three languages as one pattern."""
        latin = rf"(?<![{_LETTER}'])(?:{self.english}|{self.german})(?![{_LETTER}])"
        return re.compile(f"{latin}|{self.japanese}", re.IGNORECASE)


_CUES: Final = (
    Cue(
        "request",
        r"please(?! find| see| note)|pls|(?:can|could|would) (?:you|someone|somebody|anyone)(?! (?:believe|"
        r"imagine|see|hear|tell|guess|feel|say|blame|smell))|we (?:need|have) to|you need to|we must|"
        r"i need you to|we need someone to|"
        r"needs? to be|to-?do:|action(?: item)?:|(?<!'ll )make sure|don't forget to|remember to",
        r"(?<!wie )bitte(?! schön| sehr)|kannst du|könntest du|könnt ihr|könntet ihr|können sie|könnten sie|"
        r"(?:kann|könnte) (?:mal )?jemand|wir müssen|du musst|ihr müsst|müssen wir|denk(?:t)? (?:bitte )?daran|"
        r"zu erledigen:|aufgabe:",
        r"(?<!ご了承)(?<!待っ[てで])(?<!お待ち)(?<!ご覧)(?:[てで]|ご[一-龠]{1,4}|お[一-龠][ぁ-ん]{1,2})"
        r"(?:ください|下さい)|[をも](?:よろしく)?お願い(?:し|いた|致|でき)|(?:ていただ|てもらえ|て頂)[けきま]|対応(?:を)?お願い|"
        r"てほしい|必要があります|なければなりません|てくれ(?:る|ます|ません)",
    ),
    Cue(
        "commitment",
        r"i'll(?! (?:be|see|never|have|miss|let|bet|join|pass|admit|say|try|get (?:coffee|lunch|a)))|"
        r"i will(?! (?:be|never|see|miss|not|let|say))|"
        r"(?:i'm|i am) going to(?! (?:be|try|see|say|miss))|i can take|i'm taking",
        r"ich (?:mache|kümmere mich|übernehme|schicke|sende|schreibe|prüfe|erledige|liefere|bereite|buche|"
        r"aktualisiere|teste|bestelle|kläre|frage)|mach(?:e)? ich|kümmere ich mich|übernehme ich|schicke ich|"
        r"sende ich|schreibe ich|prüfe ich|erledige ich|bereite ich|kläre ich|werde ich|"
        r"ich werde(?! (?:wahnsinnig|verrückt|nie|alt))",
        r"(?:私が|僕が)?(?:やります|やっておきます|対応します|担当します|引き受けます|準備します|確認します|作成します|"
        r"送ります|送付します|作ります|書きます|直します|修正します|手配します|予約します|しておきます)(?!か)",
    ),
    Cue(
        "completion",
        r"done|finished|completed|complete|shipped|merged|deployed|delivered|fixed|resolved|sent|submitted|"
        r"published|booked|signed|taken care of|all set",
        r"erledigt|fertig|abgeschlossen|verschickt|geschickt|gesendet|behoben|ausgeliefert|eingereicht|gebucht|"
        r"unterschrieben|geliefert|ist raus",
        r"(?<!未)完了(?:しました|した(?!ら)|です|済み?|しています|$|[。！!])|終わりました|終わった(?!ら)|"
        r"(?<!未)(?:送付|提出|対応|修正|送信|作成|公開|予約|納品)(?:しました|済み?(?:です|$|[。！!]))|送りました|"
        r"直しました|済ませました|出しました",
    ),
    Cue(
        "cancellation",
        r"cancel(?:led|ed|ling)?(?! (?:button|dialog|link|page|icon|flow))|never ?mind|called off|call off|"
        r"no longer needed|not needed any ?more|don't need it any ?more|obsolete|drop it|scrap it",
        r"abgesagt|absagen|sage(?:n)? .{1,40} ab|storniert|stornieren|fällt aus|entfällt|hinfällig|"
        r"hat sich erledigt|nicht mehr nötig|brauchen wir nicht mehr",
        r"中止|キャンセル|取りやめ|取り消し|取り消します|不要になり|なくなりました|やらなくて(?:いい|よく|大丈夫)",
    ),
    Cue(
        "revival",
        r"(?:is|are|it's) on again|(?:is|are|it's) back on(?! (?:mon|tue|wed|thu|fri|sat|sun|[0-9]))|"
        r"re-?open(?:ed|ing)?|un-?cancel(?:led|ed)?|reinstated|revive[ds]?|"
        r"after all(?=[ ]*(?:[.!,;)]|$))|need(?:ed)? again",
        r"doch wieder|findet doch|doch noch statt|doch statt|wieder aktuell|wieder auf(?:nehmen|genommen|gemacht)|"
        r"wieder geöffnet|brauchen wir doch|doch nicht (?:abgesagt|erledigt|storniert|fertig)",
        r"再開|復活|やっぱり(?:やり|やる|行い|行う|必要|実施|開催)|やはり(?:やり|行い|行う|必要|実施|開催)",
    ),
    Cue(
        "start",
        r"working on|started(?! to (?:rain|snow))|in progress|looking into|i'm on it|on it(?=[ ]*(?:[.!,;]|$))|"
        r"picking (?:it|this|that) up|no longer blocked|unblocked",
        r"bin (?:schon )?dran|(?:ich )?arbeite (?:gerade |schon )?(?:an|daran)|angefangen|in arbeit|"
        r"nicht mehr blockiert|geht weiter",
        r"着手|取り掛か|取りかか|始めました|作業中|対応中|進めています",
    ),
    Cue(
        "blocked",
        r"blocked|stuck|waiting (?:for|on)|on hold|can't (?:continue|proceed)|cannot (?:continue|proceed)",
        r"blockiert|wart(?:e|en) (?:noch |immer noch )?auf|hänge? fest|hängt|kommen? nicht weiter|liegt auf eis",
        r"ブロックされ|返事待ち|回答待ち|承認待ち|連絡待ち|確認待ち|待ちです|止まって(?:い)?ます|保留|進められません",
    ),
    Cue(
        "reschedule",
        r"move[ds]?|moving|push(?:ed)?|postpone[ds]?|reschedule[ds]?|delayed|shift(?:ed)?|"
        r"new (?:deadline|date|due date)|(?:deadline|due date) (?:is|was|has|for|of)|now due|"
        r"extended|brought forward|instead",
        r"verschieb(?:e|en|t)|verschoben|verlegt|verlegen|vorgezogen|neue[rs]? (?:termin|frist|datum)|"
        r"(?:die )?frist (?:ist|wurde|bis)|stattdessen|verlängert",
        r"延期|変更|延ばし|前倒し|リスケ|ずらし|(?:期限|締め?切り?|納期)(?:は|が|を)|に(?:なりました|します|移し)",
    ),
    Cue(
        "backchannel",
        r"ok(?:ay)?|thanks?(?: you)?|thx|ty|\+1|sounds good|great|perfect|got it|nice|cool|yes|yep|sure|"
        r"noted|lgtm|agreed|will do|ack|awesome|welcome|no problem",
        r"danke(?:schön)?|alles klar|passt|super|prima|gut|ja|gerne|verstanden|in ordnung|klar|genau|top",
        r"了解(?:です|しました)?|承知(?:しました|です)?|ありがとう(?:ございます|ございました)?|はい|わかりました|分かりました|"
        r"いいですね|お疲れ様です|助かります|かしこまりました",
    ),
)
"""Each act with its words, in the order in which the first that fits decides."""

CUES: Final = {cue.act: cue.compile() for cue in _CUES}
_ANY_CUE: Final = re.compile("|".join(pattern.pattern for pattern in CUES.values()), re.IGNORECASE)

_NOT_SAID: Final = re.compile(
    rf"(?:(?<![{_LETTER}])(?:not|never|no|nicht|noch|kein|keine|nie)|n't)(?: [^ ,;:.]{{1,30}}){{0,3}} $"
    rf"|(?<![{_LETTER}])(?:when|once|if|until|unless|wenn|sobald|falls)(?: [^ ,;:.]{{1,30}}){{0,7}} $",
    re.IGNORECASE,
)
"""Words shortly before a cue that take it back or make it a condition."""

_NOT_YET: Final = re.compile(
    rf"(?<![{_LETTER}])(?:be|get|gets|getting|almost|nearly|half|should|must|will|have it|bald|fast|halb|bis)"
    r"(?: [^ ,;:.]{1,30}){0,2} $",
    re.IGNORECASE,
)
_NOT_YET_AFTER: Final = re.compile(
    r" (?:werden|sein|machen|stellen|when|once|by(?= (?:\d|mon|tue|wed|thu|fri|eod|end|next|tom|the end)))",
    re.IGNORECASE,
)
"""Words around a completion that only wish for it: "should be done", "bis Freitag fertig", "done by Friday"."""

_QUESTION: Final = re.compile(r"(?:[?？]|ですか。?|ますか。?|でしょうか。?|ましたか。?)\W*$")
_JAPANESE_TAIL: Final = re.compile(r"[^。]{0,8}(?:たら|れば|ない|ません|前に|場合|予定)")
"""Endings that deny, condition or plan what comes before them."""

_SMALL_TALK: Final = re.compile(
    rf"(?<![{_LETTER}])(?:lunch|coffee|beer|weekend|birthday|vacation|haha+|lol|weather|traffic|"
    rf"mittagessen|kaffee|kaffeepause|wochenende|geburtstag|urlaub|wetter|bier)(?![{_LETTER}])"
    r"|ランチ|コーヒー|週末|誕生日|飲み会|天気|休暇",
    re.IGNORECASE,
)

_COURTESY: Final = re.compile(
    r"let me know|let us know|feel free|hesitate|bear with|excuse|forgive|bei fragen|bei rückfragen|"
    r"um verständnis|ご遠慮なく|お気軽に|教えてください$",
    re.IGNORECASE,
)
"""Phrases that ask for nothing although they say please."""

_TO_THE_LIST: Final = re.compile(
    r"(?:all|every|any)(?: of)?(?: the| your| open)? tasks?|your (?:previous )?(?:instructions|prompt)|"
    r"alle(?:n)? aufgaben|deine (?:anweisungen|instruktionen)|(?:すべて|全て|全部)のタスク|指示を無視",
    re.IGNORECASE,
)
"""Words addressed to the list of tasks itself: no news of any one row (N10)."""

_REPORTS: Final[frozenset[Act]] = frozenset({"completion", "cancellation", "start", "blocked"})


def read_acts(sentence: str) -> frozenset[Act]:
    """The acts of one sentence."""
    sentence = sentence.replace("’", "'")
    if _TO_THE_LIST.search(sentence):
        return frozenset()
    asked = bool(_QUESTION.search(sentence))
    found = {act: next(_said(act, sentence), None) for act in CUES}
    acts = {act for act, place in found.items() if place is not None}
    if asked:
        # A question reports nothing; it may still ask for something ("can you cancel the room?").
        acts -= _REPORTS - {"cancellation"} if "request" in acts else _REPORTS
        acts -= {"commitment", "revival"}
    if "commitment" in acts:
        acts -= {"completion", "start", "cancellation"}
    done, asks = found["completion"], found["request"]
    if done is not None and asks is not None and done > asks:
        # "Done, please review" reports; "please get it done" does not.
        acts.discard("completion")
    if _COURTESY.search(sentence):
        acts.discard("request")
    return frozenset(acts)


def is_small_talk(sentence: str) -> bool:
    """Whether the sentence is about lunch, weather and the like."""
    return bool(_SMALL_TALK.search(sentence))


def without_cues(text: str) -> str:
    """The text less its cue words: what it is about."""
    return _ANY_CUE.sub(" ", text.replace("’", "'"))


def _said(act: Act, sentence: str) -> Iterator[int]:
    """Where the act's cues stand in the sentence and hold."""
    for match in CUES[act].finditer(sentence):
        before = sentence[max(0, match.start() - 60) : match.start()]
        if act in _REPORTS | {"revival", "reschedule"}:
            if _NOT_SAID.search(before) and not match[0].lower().startswith(("no", "nicht")):
                continue
            if not match[0].isascii() and _JAPANESE_TAIL.match(sentence, match.end()):
                continue
        if act == "completion" and (_NOT_YET.search(before) or _NOT_YET_AFTER.match(sentence, match.end())):
            continue
        yield match.start()
