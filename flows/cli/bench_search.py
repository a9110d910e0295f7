"""`lookfirst bench` for search: whether the right row is in view, on human labels, and what a look costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from rich.table import Table

from flows.bench.duplicates import Duplicates, duplicates
from flows.bench.irc import Irc, irc
from flows.bench.languages import Language, languages
from flows.bench.quality import Quality, markdown, quality
from flows.bench.sight import Input, Search, input_size, search_time
from flows.bench.tokenizers import Arrangement, tokenizers
from flows.cli.console import emit, say
from flows.cli.figures import figures_option, figures_table, out_option, report, seed_option
from flows.cli.steps import steps
from store.schema import load_settings

_Command = TypeVar("_Command", bound=Callable[..., Any])

_SIZES: Final = (100, 1_000, 10_000, 100_000)


def _folder_argument(command: _Command) -> _Command:
    """`DIR`, the labelled data."""
    return click.argument("folder", metavar="DIR", envvar="LOOKFIRST_DATA", type=click.Path(path_type=Path))(
        command
    )


def _sizes_option(default: Sequence[int]) -> Callable[[_Command], _Command]:
    return click.option(
        "--rows",
        type=click.IntRange(min=1),
        multiple=True,
        default=tuple(default),
        show_default=True,
        help="Tasks in the store; may be repeated.",
    )


@click.command("duplicates")
@_folder_argument
@out_option("duplicates")
@figures_option
def bench_duplicates(folder: Path, out: Path, as_json: bool) -> None:
    """Whether the twin of a bug report was in view, on reports that people marked as duplicates.

    DIR holds bug_dups/hadoop.jsonl. With LOOKFIRST_EMBEDDER set the vector lane is measured too.
    """
    with steps() as progress:
        result = duplicates(folder, load_settings(), progress)
    report("duplicates", None, [result], _duplicates_table(result), out, as_json)


@click.command("irc")
@_folder_argument
@out_option("irc")
@figures_option
def bench_irc(folder: Path, out: Path, as_json: bool) -> None:
    """Whether the row that a chat line updates was in view, on conversations that people labelled.

    DIR holds irc_ops/dev.jsonl.
    """
    with steps() as progress:
        result = irc(folder, load_settings(), progress)
    report("irc", None, [result], _irc_table(result), out, as_json)


@click.command("languages")
@_folder_argument
@out_option("languages")
@figures_option
def bench_languages(folder: Path, out: Path, as_json: bool) -> None:
    """Whether a row written in English is found by the same sentence in German, Japanese, Chinese or Arabic.

    DIR holds xsid_ops/half.jsonl. Without LOOKFIRST_EMBEDDER only names and numbers can lead to it.
    """
    with steps() as progress:
        results = languages(folder, load_settings(), progress)
    report("languages", None, results, _languages_table(results), out, as_json)


@click.command("quality")
@_folder_argument
@out_option("quality")
@figures_option
def bench_quality(folder: Path, out: Path, as_json: bool) -> None:
    """The quality table of the README: `duplicates`, `irc` and `languages`, each beside its baselines."""
    with steps() as progress:
        result = quality(folder, load_settings(), progress)
    report("quality", None, [result], _quality_table(result), out, as_json)
    if not as_json:
        emit(markdown(result))


@click.command("tokenizers")
@click.option("--rows", type=click.IntRange(min=1), default=60_000, show_default=True, help="Other rows.")
@seed_option
@out_option("tokenizers")
@figures_option
def bench_tokenizers(rows: int, seed: int, out: Path, as_json: bool) -> None:
    """Words of six languages, found or not, and the time of a query, by the way the text is indexed."""
    with steps() as progress:
        results = tokenizers(rows, seed, progress)
    report("tokenizers", seed, results, _tokenizers_table(results), out, as_json)


@click.command("input")
@_sizes_option(_SIZES)
@click.option("--looks", type=click.IntRange(min=1), default=200, show_default=True, help="Events looked for.")
@seed_option
@out_option("input")
@figures_option
def bench_input(rows: tuple[int, ...], looks: int, seed: int, out: Path, as_json: bool) -> None:
    """Characters of memory that a judge is handed, as the past grows.

    Filling a store with 100,000 tasks takes some minutes.
    """
    settings = load_settings()
    results = [input_size(size, looks, settings, seed, say) for size in rows]
    report("input", seed, results, _input_table(results), out, as_json)


@click.command("search")
@_sizes_option((1_000, 100_000))
@click.option("--looks", type=click.IntRange(min=1), default=200, show_default=True, help="Events looked for.")
@seed_option
@out_option("search")
@figures_option
def bench_search(rows: tuple[int, ...], looks: int, seed: int, out: Path, as_json: bool) -> None:
    """Milliseconds of one look, all reads of it, beside its text query alone.

    Filling a store with 100,000 tasks takes some minutes.
    """
    settings = load_settings()
    results = [search_time(size, looks, settings, seed, say) for size in rows]
    report("search", seed, results, _search_table(results), out, as_json)


COMMANDS: Final = (
    bench_duplicates,
    bench_irc,
    bench_languages,
    bench_quality,
    bench_tokenizers,
    bench_input,
    bench_search,
)


def _share(value: float | None) -> str:
    return "not set" if value is None else f"{value:.3f}"


def _duplicates_table(r: Duplicates) -> Table:
    heads = ("duplicates", "in view", "without vector", "exact", "text", "vector", "plain text", "plain vector")
    shares = (r.in_view, r.without_vector, r.exact, r.text, r.vector, r.plain_text, r.plain_vector)
    return figures_table(f"duplicates (embedder {r.embedder})", heads, [(f"{r.duplicates}", *map(_share, shares))])


def _irc_table(r: Irc) -> Table:
    heads = ("updates", "in view", "slices", "standby", "row unseen", "author's last row", "newest rows")
    shares = (r.in_view, r.in_slices, r.in_standby, r.first_seen, r.last_of_author, r.newest)
    return figures_table(f"irc (embedder {r.embedder})", heads, [(f"{r.updates:,}", *map(_share, shares))])


def _languages_table(results: Sequence[Language]) -> Table:
    heads = ("language", "sentences", "in view", "without vector")
    rows = ((r.language, f"{r.sentences}", _share(r.in_view), _share(r.without_vector)) for r in results)
    return figures_table(f"languages (embedder {results[0].embedder})", heads, rows)


def _quality_table(result: Quality) -> Table:
    rows = ((line.what, _share(line.figure), line.beside) for line in result.lines())
    return figures_table("quality", ("what", "share", "beside"), rows)


def _tokenizers_table(results: Sequence[Arrangement]) -> Table:
    named = list(results[0].found)
    heads = ("index", *named, "median, ms", "19 of 20 under, ms", "index, s")
    rows = (
        (
            r.name,
            *(f"{r.found[language]:.2f}" for language in named),
            f"{r.median_ms:.1f}",
            f"{r.slowest_ms:.1f}",
            f"{r.index_seconds:.1f}",
        )
        for r in results
    )
    return figures_table(f"tokenizers, {results[0].rows:,} rows", heads, rows)


def _input_table(results: Sequence[Input]) -> Table:
    heads = ("rows", "mean, characters", "most, characters", "bound, characters")
    rows = ((f"{r.rows:,}", f"{r.mean:,.0f}", f"{r.most:,}", f"{r.bound:,}") for r in results)
    return figures_table("input", heads, rows)


def _search_table(results: Sequence[Search]) -> Table:
    heads = ("rows", "look, ms", "19 of 20 under, ms", "text query alone, ms", "times")
    rows = (
        (f"{r.rows:,}", f"{r.median_ms:.1f}", f"{r.slowest_ms:.1f}", f"{r.bare_ms:.1f}", f"{r.times_bare:.1f}")
        for r in results
    )
    return figures_table("search", heads, rows)
