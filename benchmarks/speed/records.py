"""Lines of the CSV file: one per peer and figure, written as they come.

A run that was interrupted goes on: what is in the file is not measured again, as long as it was
measured with the same code, packages, machine and threads, which the column `setting` stands for.
"""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import NamedTuple

from robust_kmeans.paper.machine import code_fingerprint
from speed.grid import Cell


class Place(NamedTuple):
    """Where something was measured; all zeros where no rows are needed."""

    data: str
    n: int = 0
    d: int = 0
    k: int = 0
    z: int = 0
    dtype: str = ""
    threads: int = 0

    @classmethod
    def of(cls, cell: Cell, dtype: str, threads: int) -> Place:
        """A cell, as it was clustered."""
        return cls(cell.data, cell.n, cell.d, cell.k, cell.z, dtype, threads)


@dataclass(frozen=True)
class Record:
    """One figure of one peer; `value` is a median over `runs` unless the task says otherwise."""

    task: str
    place: Place
    peer: str
    value: float
    unit: str = "s"
    runs: int = 1
    cost: float = math.nan
    note: str = ""
    setting: str = ""


_FACTS = tuple(field.name for field in fields(Record) if field.name not in ("task", "place"))
NAMES = ("task", *Place._fields, *_FACTS)
_READ = {"n": int, "d": int, "k": int, "z": int, "threads": int, "runs": int}
_READ |= {"value": float, "cost": float}


class Store:
    """Records of one setting, and the file that they are appended to (None: no file)."""

    def __init__(self, path: Path | None, setting: str) -> None:
        self.path, self.setting = path, setting
        there = read(path) if path is not None and path.exists() else []
        self.records = [record for record in there if record.setting == setting]
        self.n_stale = len(there) - len(self.records)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, self.records)

    def has(self, task: str, place: Place) -> bool:
        """Whether a task is done at a place."""
        return any((record.task, record.place) == (task, place) for record in self.records)

    def forget(self, unwanted: Callable[[Record], bool]) -> None:
        """Take records out, to measure them again."""
        self.records = [record for record in self.records if not unwanted(record)]
        if self.path is not None:
            write(self.path, self.records)

    def add(self, records: Iterable[Record]) -> None:
        """Keep what one task has found, all of it together."""
        found = [replace(record, setting=self.setting) for record in records]
        self.records += found
        if self.path is not None:
            with self.path.open("a", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(map(_cells, found))


def read(path: Path) -> list[Record]:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != NAMES:
            raise ValueError(f"{path} has not the columns {', '.join(NAMES)}; choose another file.")
        lines = [
            {name: _READ.get(name, str)(text) for name, text in line.items()} for line in reader
        ]
    return [
        Record(
            line["task"],
            Place(*(line[name] for name in Place._fields)),
            **{name: line[name] for name in _FACTS},
        )
        for line in lines
    ]


def write(path: Path, records: Iterable[Record]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(NAMES)
        writer.writerows(map(_cells, records))


def setting_of(*facts: object) -> str:
    """Twelve letters that change with our code and with any of the facts."""
    text = repr((code_fingerprint(), *facts))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _cells(record: Record) -> list[object]:
    # More digits than this no clock is worth.
    rounded = replace(record, value=float(f"{record.value:.6g}"))
    return [record.task, *record.place, *(getattr(rounded, name) for name in _FACTS)]
