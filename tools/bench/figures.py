"""Figures: the results of several runs of a row, against its goal and against a peer."""

from dataclasses import dataclass, field
from statistics import median
from typing import Any

from triack.tools.bench.rows import Goal, Row
from triack.tools.bench.run import Outcome


@dataclass(slots=True)
class Figure:
    """One figure of a row."""

    goal: Goal
    values: list[float] = field(default_factory=list)
    versus_values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float | None:
        """Of all runs."""
        return median(self.values) if self.values else None

    @property
    def versus_median(self) -> float | None:
        """Of all runs of the peer."""
        return median(self.versus_values) if self.versus_values else None

    @property
    def ratio(self) -> float | None:
        """How many times better than the peer: the median of the ratios of each pair of runs, as machines drift."""
        pairs = [
            (theirs, ours) if self.goal.is_cost else (ours, theirs)
            for ours, theirs in zip(self.values, self.versus_values, strict=False)
        ]
        ratios = [over / under for over, under in pairs if under]
        return median(ratios) if ratios else None

    @property
    def standing(self) -> str:
        """``goal``, ``floor`` or ``below``; "" where there is no target."""
        value, goal = self.median, self.goal
        if value is None or goal.goal is None or goal.floor is None:
            return ""

        def reaches(mark: float) -> bool:
            return value <= mark if goal.is_cost else value >= mark

        return "goal" if reaches(goal.goal) else "floor" if reaches(goal.floor) else "below"

    def to_json(self) -> dict[str, Any]:
        """Its numbers."""
        values = self.values
        return {
            "figure": self.goal.name,
            "unit": self.goal.unit,
            "goal": self.goal.goal,
            "floor": self.goal.floor,
            "median": self.median,
            "min": min(values) if values else None,
            "max": max(values) if values else None,
            "runs": values,
            "versus_median": self.versus_median,
            "versus_runs": self.versus_values,
            "ratio": self.ratio,
            "standing": self.standing,
        }


@dataclass(slots=True)
class Result:
    """The measurements of a row."""

    row: Row
    figures: dict[str, Figure]
    versus: str = ""
    verified: bool = False
    versus_verified: bool | None = None
    guarantee: list[str] = field(default_factory=list)
    versus_guarantee: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    histograms: dict[str, dict[float, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Row) -> "Result":
        """An empty one."""
        return cls(row, {goal.name: Figure(goal) for goal in row.goals})

    @property
    def headline(self) -> Figure:
        """The first figure."""
        return next(iter(self.figures.values()))

    @property
    def is_measured(self) -> bool:
        """Whether there is any figure."""
        return any(figure.values for figure in self.figures.values())

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text and text not in self.notes:
            self.notes.append(text)

    def handle(self, outcome: Outcome) -> None:
        """Note the proof of a run of Triack: the row is verified if every run is."""
        is_first = "messages" not in self.details
        self.verified = outcome.verified and (is_first or self.verified)
        self.note(outcome.flaw)
        self.guarantee = [said for said in outcome.guarantee if is_first or said in self.guarantee]
        facts = {f"{end}_{name}": value for end, found in outcome.facts.items() for name, value in found.items()}
        cpu = {f"{name}_cpu": round(share, 3) for name, share in outcome.cpu.items()}
        self.details |= {"messages": outcome.delivered, "seconds": round(outcome.seconds, 6), **cpu, **facts}

    def to_json(self) -> dict[str, Any]:
        """One object: the headline, and all figures within it when there are several."""
        figures = [figure.to_json() for figure in self.figures.values()]
        found = {
            "row": self.row.name,
            "text": self.row.text,
            **figures[0],
            "versus": self.versus or None,
            "verified": self.verified,
            "versus_verified": self.versus_verified,
            "guarantee": self.guarantee,
            "versus_guarantee": self.versus_guarantee,
            "notes": self.notes,
            "details": self.details,
        }
        return {**found, "figures": figures} if len(figures) > 1 else found
