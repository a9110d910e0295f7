"""Kafka's jars and the Java that runs them: fetched by Maven once, then found in a cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from store.schema import LookfirstError

JAVA: Final = 17
"""The oldest Java that Kafka 4 runs on."""


def default_cache() -> Path:
    """Where jars are kept for all projects of a person: `lookfirst` below `$XDG_CACHE_HOME` or `~/.cache`."""
    named = os.environ.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path.home() / ".cache") / "lookfirst"


def resolve_jars(pom: Path, cache: Path, report: Callable[[str], None]) -> Path:
    """The folder with Kafka's jars: made by Maven the first time, then found in the cache.

    The folder is named by the version and by what else the POM says, so another POM never gets old jars; `report`
    is told a sentence before something is fetched. Starters at the same moment wait for one another. Raises
    LookfirstError when the POM names no Kafka, Java or Maven are missing, Maven fails, or the cache cannot be
    written.
    """
    folder = cache / f"kafka-{kafka_version(pom)}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:8]}"
    if folder.is_dir():
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / "lock"):
            if not folder.is_dir():
                java_command()
                _fetch(pom, folder, report)
    except OSError as error:
        raise LookfirstError(
            f"Kafka cannot be kept in {cache} ({error.strerror}); name a folder that can be in XDG_CACHE_HOME."
        ) from error
    return folder


def kafka_version(pom: Path) -> str:
    """The version of Kafka that a POM names; raises LookfirstError when it names none."""
    try:
        dependencies = ElementTree.parse(pom).iterfind(".//{*}dependency")  # noqa: S314  a file of one's own
    except (OSError, ElementTree.ParseError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise LookfirstError(f"The Maven file {pom} cannot be read: {why}.") from error
    for each in dependencies:
        if each.findtext("{*}groupId") == "org.apache.kafka" and (version := each.findtext("{*}version")):
            return version.strip()
    raise LookfirstError(f"The Maven file {pom} names no version of org.apache.kafka.")


def java_command() -> str:
    """The `java` of JAVA_HOME, or of the PATH; raises LookfirstError when it is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    found = found or shutil.which("java")
    if found is None:
        raise LookfirstError(f"Kafka needs Java {JAVA} or newer, and there is no `java` on the PATH; install one.")
    said = subprocess.run([found, "-version"], capture_output=True, text=True, errors="replace")
    version = re.search(r'version "(\d+)', said.stderr)
    if version is None or int(version[1]) < JAVA:
        what = version[1] if version else "one that does not say its version"
        raise LookfirstError(
            f"Kafka needs Java {JAVA} or newer, and {found} is {what}; set JAVA_HOME to a newer one."
        )
    return found


def _fetch(pom: Path, folder: Path, report: Callable[[str], None]) -> None:
    version = kafka_version(pom)
    maven = shutil.which("mvn")
    if maven is None:
        raise LookfirstError(
            f"Kafka {version} is fetched by Maven, once, and there is no `mvn` on the PATH; install Maven."
        )
    report(f"Fetching Kafka {version} into {folder}, once.")
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as aside:
        made = Path(aside) / "jars"
        ran = subprocess.run(
            [
                *(maven, "-B", "-q", "-f", str(pom.resolve()), "dependency:copy-dependencies"),
                *("-DincludeScope=runtime", f"-DoutputDirectory={made}"),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
        if ran.returncode or not any(made.glob("kafka_*.jar")):
            raise LookfirstError(f"Maven could not fetch Kafka {version}: {_fault(ran.stdout + ran.stderr)}")
        made.rename(folder)


def _fault(told: str) -> str:
    """What Maven says went wrong: its first error; after that it only explains how to ask for more."""
    lines = [re.sub(r"^\[\w+\]\s*|\x1b\[[\d;]*m", "", line).strip() for line in told.splitlines()]
    return next(filter(None, lines), "it said nothing")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Wait for whoever holds the file, then hold it."""
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
