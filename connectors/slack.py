"""A Slack export, as a folder or a zip file -> events.

Slack's markup: https://docs.slack.dev/messaging/formatting-message-text
"""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from connectors.imported import Imported, as_line
from store.schema import Participant, UsageError

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\.json")
_TS = re.compile(r"([0-9]{1,11})(?:\.([0-9]+))?")
# One pass over both: what was escaped can never become markup.
_MARKUP = re.compile(r"<([^<>]+)>|&(?:amp|lt|gt);")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_slack(path: Path, *, workspace: str = "default") -> Iterator[Imported]:
    """Yield one line for each message of the export, channel by channel and day by day.

    A message outside Slack's threads belongs to the thread `channel`; a reply and its parent belong to
    `channel/thread_ts`. The id is the message's `ts`; of several messages with one `ts` in a day file the
    second is `ts#2`, the third `ts#3`. A message whose `ts` is missing or no time is passed on without
    `at`, a day file that is no list of messages as one raw line, each with its problem.

    Raises UsageError, at the first step, for a path that is no Slack export or whose users or channels
    cannot be read, and later for an archive that turns out to be damaged or encrypted.
    """
    with _archive(path) as (names, read):
        root, days = _layout(names)
        if not days:
            raise UsageError(
                f"{path} is no Slack export (it has no file such as general/2015-06-05.json); "
                "name the folder or the zip file that Slack exported."
            )

        def table(name: str) -> list[object]:
            if root + name not in names:
                return []
            found = _parsed(read(root + name))
            if not isinstance(found, list):
                raise UsageError(
                    f"{path}/{root}{name} is no JSON list; mend it, or remove it to import without its names."
                )
            return found

        people = {person.id: person for person in map(_person, table("users.json")) if person.id}
        listed = table("channels.json") + table("groups.json")
        channels = {_text(channel, "id"): _text(channel, "name") for channel in listed}
        writer = _Writer(workspace, people, channels)
        for channel, day in days:
            name = f"{root}{channel}/{day}"
            yield from _read_day(read(name), channel, f"{path.absolute().name}/{name}", writer)


@contextmanager
def _archive(path: Path) -> Iterator[tuple[set[str], Callable[[str], bytes]]]:
    """The names in a folder or zip file, and how to read one. Names are data: nothing is unpacked."""
    try:
        if path.is_dir():
            files = (file for depth in ("*", "*/*", "*/*/*") for file in path.glob(f"{depth}.json"))
            names = {file.relative_to(path).as_posix() for file in files}
            yield names, lambda name: (path / name).read_bytes()
        else:
            with zipfile.ZipFile(path) as archive:
                yield set(archive.namelist()), archive.read
    except FileNotFoundError as error:
        raise UsageError(f"{path} does not exist; name the folder or zip file of a Slack export.") from error
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise UsageError(
            f"{path} is neither a folder nor a sound zip file ({error}); export or copy it again."
        ) from error
    except (OSError, RuntimeError) as error:  # RuntimeError: encrypted, or an unknown compression
        raise UsageError(f"{path} cannot be read ({error}); unpack it and name the folder.") from error


def _layout(names: Iterable[str]) -> tuple[str, list[tuple[str, str]]]:
    """The prefix of the export in its archive, and its (channel, day file), sorted."""
    paths = [name.split("/") for name in names]
    days = [parts for parts in paths if _DAY.fullmatch(parts[-1]) and not {"", ".", ".."} & set(parts)]
    flat = sorted((parts[0], parts[1]) for parts in days if len(parts) == 2)
    nested = [parts for parts in days if len(parts) == 3]
    if not flat and len({parts[0] for parts in nested}) == 1:
        # Zipped together with the folder it was in.
        return f"{nested[0][0]}/", sorted((parts[1], parts[2]) for parts in nested)
    return "", flat


def _read_day(data: bytes, channel: str, origin: str, writer: _Writer) -> Iterator[Imported]:
    messages = _parsed(data)
    if not isinstance(messages, list):
        yield Imported.of(data.decode("utf-8", errors="backslashreplace"), origin)
        return
    seen: Counter[str] = Counter()
    for index, message in enumerate(messages):
        known = isinstance(message, dict)
        line = as_line(writer.event(message, channel, seen)) if known else json.dumps(message)
        yield Imported.of(line, f"{origin}[{index}]")


def _parsed(data: bytes) -> object:
    """The JSON value, numbers as they were written (a float would round a `ts`); None for no JSON."""
    try:
        value: object = json.loads(data, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return None
    return value


@dataclass(frozen=True)
class _Writer:
    """Turns the messages of one export into events."""

    workspace: str
    people: Mapping[str, Participant]
    channels: Mapping[str | None, str | None]

    def event(self, message: Mapping[str, object], channel: str, seen: Counter[str]) -> dict[str, object]:
        """The event's fields; those the message lacks are left out. Counts its `ts` in `seen`."""
        ts, thread_ts = _text(message, "ts"), _text(message, "thread_ts")
        text, mentions = self.text(_text(message, "text") or _attached(message))
        event: dict[str, object] = {
            "workspace": self.workspace,
            "source": "slack",
            "thread": f"{channel}/{thread_ts}" if thread_ts else channel,
            "author": self.author(message).model_dump(exclude_none=True),
            "mentions": [person.model_dump(exclude_none=True) for person in mentions],
            "text": text,
            "attrs": {"channel": channel},
        }
        if ts:
            seen[ts] += 1
            event["id"] = ts if seen[ts] == 1 else f"{ts}#{seen[ts]}"
            if at := _moment(ts):
                event["at"] = at
        if thread_ts and thread_ts != ts:
            event["reply_to"] = thread_ts
        if subtype := _text(message, "subtype"):
            event["attrs"] = {"channel": channel, "subtype": subtype}
        return event

    def author(self, message: Mapping[str, object]) -> Participant:
        """The user, or for a bot its id, or at least the name it went by."""
        user = _text(message, "user") or _text(message, "comment", "user")
        if user and user in self.people:
            return self.people[user]
        name = _name(message.get("user_profile")) or self.text(_text(message, "username") or "")[0] or None
        return Participant(id=user or _text(message, "bot_id") or name, name=name)

    def text(self, marked: str) -> tuple[str, list[Participant]]:
        """The text without Slack's markup, and who is mentioned in it, each once."""
        mentions: dict[str, Participant] = {}

        def plain(match: re.Match[str]) -> str:
            whole, inner = match[0], match[1]
            if inner is None:
                return _unescaped(whole)
            target, label = map(_unescaped, inner.partition("|")[::2])
            scheme, colon, rest = target.partition(":")
            match target[0], target[1:]:
                case "@", str(user) if user:
                    person = self.people.get(user) or Participant(id=user, name=label.lstrip("@"))
                    mentions[user] = person
                    return f"@{person.label}"
                case "#", str(channel) if channel:
                    return f"#{label or self.channels.get(channel) or channel}"
                case "!", str(command) if command.startswith("date^"):
                    return label or whole
                case "!", str(command) if command:
                    return "@" + (label.lstrip("@") or command.rpartition("^")[2])
                case _ if scheme in ("mailto", "tel"):
                    return label or rest
                case _ if not colon:
                    return whole
                # Slack itself marks `example.org` as <http://example.org|example.org>.
                case _ if label in ("", target, rest.removeprefix("//")):
                    return target
            return f"{label} ({target})"

        return _MARKUP.sub(plain, marked), list(mentions.values())


def _person(user: object) -> Participant:
    return Participant(id=_text(user, "id"), name=_name(user), address=_text(user, "profile", "email"))


def _name(user: object) -> str | None:
    """What a user, or a user's profile, wants to be called."""
    paths = (
        ("profile", "display_name"),
        ("profile", "real_name"),
        ("display_name",),
        ("real_name",),
        ("name",),
    )
    name = next(filter(None, (_text(user, *path) for path in paths)), None)
    return _unescaped(name) if name else None


def _attached(message: Mapping[str, object]) -> str:
    """What a bot said in attachments only."""
    attachments = message.get("attachments")
    found = attachments if isinstance(attachments, list) else []
    return "\n".join(filter(None, (_text(item, "text") or _text(item, "fallback") for item in found)))


def _moment(ts: str) -> str | None:
    """The time of a `ts` such as `1433543210.000123`, to the microsecond; None for what is no time."""
    if not (match := _TS.fullmatch(ts)):
        return None
    microseconds = int((match[2] or "").ljust(6, "0")[:6])
    return (_EPOCH + timedelta(seconds=int(match[1]), microseconds=microseconds)).isoformat()


def _text(value: object, *path: str) -> str | None:
    """The text at a path through nested objects; None where there is none, or a blank one."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) and value.strip() else None


def _unescaped(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
