"""``triack policy``: the settings with which a node acknowledges as other systems do."""

import json

import click

from triack import policies
from triack.base.printable import counted, written
from triack.queues.peers.session_settings import largest_window
from triack.tools.commands.common import CommandGroup, json_option, write_table


@click.group(cls=CommandGroup, no_args_is_help=False)
def policy() -> None:
    """Show the policies of acknowledgement that Triack knows by name, as `triack.policies` has them."""


@policy.command("list")
@json_option
def list_policies(*, as_json: bool) -> None:
    """List them: the window, and when acks leave."""
    rows = [_summary(name) for name in policies.PRESETS]
    if as_json:
        for row in rows:
            click.echo(json.dumps(row))
        return
    head = ("POLICY", "WINDOW", "ACK AFTER", "OR AFTER", "SILENCE", "RESEND")
    write_table(head, [map(_cell, row.values()) for row in rows])


@policy.command()
@click.argument("name", metavar="POLICY")
@json_option
def show(*, name: str, as_json: bool) -> None:
    """Show each value of one policy, and where it is from."""
    found = policies.values(name.upper())
    if as_json:
        for value in found:
            click.echo(json.dumps(value._asdict(), default=str))
        return
    write_table(("SETTING", "VALUE", "FROM"), [[it.setting, _cell(it.value), it.source] for it in found])


def _summary(name: str) -> dict[str, object]:
    settings = policies.PRESETS[name]
    session, trigger = settings.session, settings.session.ack_trigger
    packets = trigger.threshold(largest_window(settings))
    return {
        "policy": name,
        "window_packets": session.max_unacked_packet,
        "ack_after": counted(packets, "packet") if packets else f"{trigger.bytes_} bytes" if trigger.bytes_ else None,
        "ack_delay_s": trigger.delay_s,
        "ack_timeout_s": session.ack_timeout_s,
        "first_resend_s": settings.order.seq_resend_13_s,
    }


def _cell(value: object) -> object:
    return written(value) if isinstance(value, float) else value
