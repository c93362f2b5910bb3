"""Each reason has a unique name and a sentence for people."""

import json
import re
from itertools import chain

import pytest

from triack.base.reasons import DeadReason, DropReason, FreedReason, Reason, RejectReason

REASONS = list[Reason](chain(DropReason, RejectReason, FreedReason, DeadReason))


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: f"{type(reason).__name__}.{reason.name}")
def test_a_name_is_that_of_its_constant(reason: Reason) -> None:
    """So a name in a log can be found in the code."""
    assert reason == reason.name.lower().replace("_", "-")
    assert re.fullmatch(r"[A-Z].*[a-z)]\.", reason.sentence)


@pytest.mark.parametrize("reasons", [DropReason, RejectReason, FreedReason, DeadReason])
def test_two_reasons_never_share_a_sentence(reasons: type[Reason]) -> None:
    """If nothing tells them apart they are one."""
    sentences = [reason.sentence for reason in reasons]
    assert len(set(sentences)) == len(sentences)


def test_a_reason_is_a_text_to_whoever_counts_or_writes_it() -> None:
    """In JSON, as a key, and read back from its name."""
    assert json.dumps({DropReason.BAD_TAG: 1}) == '{"bad-tag": 1}'
    assert {"bad-tag": 1}[DropReason.BAD_TAG] == 1
    assert {reason.value: reason for reason in DropReason}["bad-tag"] is DropReason.BAD_TAG
    assert f"{DropReason.BAD_TAG}" == "bad-tag"
