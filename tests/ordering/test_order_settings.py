"""Invalid settings of sequences are refused by name, when they are made."""

import pytest

from tests.base.refusals import refuse_wrong_values
from triack.base.errors import UsageError
from triack.ordering.order_ack import OrderAck
from triack.ordering.order_settings import OrderSettings


def test_a_value_that_cannot_be_is_refused() -> None:
    refuse_wrong_values(OrderSettings)


@pytest.mark.parametrize("name", ["order_ack_every", "max_held_packets", "seq_resend_13_s", "seq_resend_10_s"])
def test_nothing_would_ever_be_sent_again_or_asked_for_with_none(name: str) -> None:
    with pytest.raises(UsageError, match=f"OrderSettings: {name} must be .*, not 0"):
        OrderSettings(**{name: 0})  # type: ignore[arg-type]


def test_an_order_ack_need_not_wait() -> None:
    """Neither for the end of a burst nor for its start."""
    terms = OrderAck(OrderSettings(order_ack_idle_s=0, seq_max_ack_delay_s=0)).terms
    assert (terms.idle_ns, terms.delay_ns) == (0, 0)


def test_defaults_are_those_of_msmq() -> None:
    """[MS-MQQB] 3.1.2: half a second and ten for acks; 30 s, 5 min, 30 min and 6 h for resends."""
    settings = OrderSettings()
    assert (settings.order_ack_idle_s, settings.seq_max_ack_delay_s) == (0.5, 10)
    resends = (settings.seq_resend_13_s, settings.seq_resend_46_s, settings.seq_resend_79_s, settings.seq_resend_10_s)
    assert resends == (30, 300, 1_800, 21_600)


def test_a_resend_sends_everything_or_one_packet() -> None:
    """MSMQ sends everything ([MS-MQQB] 3.1.6.5)."""
    assert OrderSettings().seq_resend == "all"
    with pytest.raises(UsageError, match="OrderSettings: seq_resend must be all or first, not 'none'"):
        OrderSettings(seq_resend="none")  # type: ignore[arg-type]
