"""Arrow schemas derived from the row models, and rows to and from Arrow."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import pyarrow as pa

from store.schema.base import STORE_FORMAT, Frozen

FORMAT_KEY = b"lookfirst.format"
Row = TypeVar("Row", bound=Frozen)

_SCALARS: Mapping[type, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    datetime: pa.timestamp("us", tz="UTC"),
    date: pa.date32(),
}


def arrow_schema(model: type[Frozen]) -> pa.Schema:
    """The Arrow schema of a row model, with the format version in its metadata.

    Text, numbers, dates, moments, tuples of these and nested models; anything else is a TypeError, so that a
    model cannot grow a field the store would silently change.
    """
    return pa.schema(_fields(model), metadata={FORMAT_KEY: str(STORE_FORMAT)})


def to_arrow(model: type[Row], rows: Sequence[Row]) -> pa.Table:
    """Rows as an Arrow table of exactly the model's schema."""
    return pa.Table.from_pylist([row.model_dump() for row in rows], schema=arrow_schema(model))


def from_arrow(model: type[Row], table: pa.Table) -> list[Row]:
    """Rows back from Arrow; columns the model does not know (a search score) are left out."""
    fields = model.model_fields
    known = [name for name in table.column_names if name in fields]
    return [model.model_validate(row) for row in table.select(known).to_pylist()]


def _fields(model: type[Frozen]) -> Iterable[pa.Field]:
    for name, info in model.model_fields.items():
        kind, nullable = _arrow_type(info.annotation, name)
        yield pa.field(name, kind, nullable=nullable)


def _arrow_type(annotation: Any, name: str) -> tuple[pa.DataType, bool]:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _arrow_type(get_args(annotation)[0], name)
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
        if len(kinds) == 1:
            return _arrow_type(kinds[0], name)[0], True
    if origin is Literal:
        scalars = {type(value) for value in get_args(annotation)}
        if len(scalars) == 1 and (scalar := scalars.pop()) in _SCALARS:
            return _SCALARS[scalar], False
    if origin is tuple and get_args(annotation)[1:] == (...,):
        return pa.list_(_arrow_type(get_args(annotation)[0], name)[0]), False
    if isinstance(annotation, type):
        if issubclass(annotation, Frozen):
            return pa.struct(list(_fields(annotation))), False
        for kind in (bool, datetime, date, str, int, float):
            if issubclass(annotation, kind):
                return _SCALARS[kind], False
    raise TypeError(f"no Arrow type for field {name}: {annotation}")
