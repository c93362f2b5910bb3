"""What to type: an example at the end of the help of each command."""

from collections.abc import Mapping

import click

EXAMPLES: Mapping[str, str] = {
    "serve": "triack serve --listen udp://0.0.0.0:7801 --data plant",
    "send": "echo '12 valves' | triack send plant/orders --data shop",
    "receive": "triack receive orders --count 1 --data plant",
    "status": "triack status --data plant",
    "reload": "triack reload --data plant",
    "config check": "triack config check triack.toml",
    "config init": "triack config init triack.toml --name plant",
    "config show": "triack config show triack.toml --given",
    "queue browse": "triack queue browse orders --count 10 --data plant",
    "queue create": "triack queue create orders --data plant",
    "queue export": "triack queue export dead-letter --data plant > dead.jsonl",
    "queue list": "triack queue list --data plant",
    "queue move": "triack queue move orders later --all --data plant",
    "queue pause": "triack queue pause orders --data plant",
    "queue purge": "triack queue purge dead-letter --older 86400 --data plant",
    "queue quota": "triack queue quota orders --messages 50000 --data plant",
    "queue release": "triack queue release orders --data plant",
    "queue requeue": "triack queue requeue --reason max-redeliveries --data plant",
    "queue resume": "triack queue resume orders --data plant",
    "queue show": "triack queue show dead-letter --data plant",
    "stream list": "triack stream list --data shop",
    "stream show": "triack stream show plant/orders --data shop",
    "topic list": "triack topic list --data hub",
    "topic publish": "echo six | triack topic publish Games.Cricket --data hub",
    "topic show": "triack topic show Games --data hub",
    "topic subscribe": "triack topic subscribe 'Games.#' --durable audit --data hub",
    "topic unsubscribe": "triack topic unsubscribe audit --data hub",
    "route list": "triack route list --data sensor",
    "route purge": "triack route purge cloud --data gateway",
    "route test": "triack route test cloud --data sensor",
    "trace": "triack trace --key order-17 --data shop",
    "bridge amqp": "triack bridge amqp amqp://127.0.0.1 --take 'orders -> cloud/orders' --data gateway",
    "bridge mqtt": "triack bridge mqtt mqtt://127.0.0.1 --take 'sensors/# -> cloud/telemetry' --data gateway",
    "request": "triack request plant/stock 'valves?' --data shop",
    "top": "triack top --data plant",
    "check": "triack check --expect-running --depth 1000,5000 --data plant",
    "ping": "triack ping plant --data shop",
    "doctor": "triack doctor --data plant",
    "upgrade": "triack upgrade --data plant",
    "support": "triack support --data plant",
    "systemd": "triack systemd --name plant --to units -- --listen udp://[::]:7801",
    "keygen": "triack keygen --data plant",
    "trust add": "triack trust add plant $(triack keygen --data plant) --address udp://127.0.0.1:7802 --data shop",
    "trust list": "triack trust list --data shop",
    "trust psk": "triack trust psk > psk",
    "trust remove": "triack trust remove plant --data shop",
    "msmq explain": r"triack msmq explain 'DIRECT=OS:plant-b\private$\orders'",
    "help": "triack help first-hour",
    "context add": "triack context add plant --data plant",
    "context list": "triack context list",
    "context remove": "triack context remove plant",
    "context use": "triack context use plant",
    "policy list": "triack policy list",
    "policy show": "triack policy show msmq",
    "enrol invite": "triack enrol invite --as shop --data plant",
    "enrol join": "triack enrol join $(cat code) udp://127.0.0.1:7802 --as plant --data shop",
    "chaos": "triack chaos --seeds 100",
    "bench": "triack bench T1 --runs 1",
    "demo": "triack demo --messages 20000 --loss 0.1",
    "replay": "triack replay logs --report report.html",
    "log compact": "triack log compact logs",
    "log prune": "triack log prune logs --keep 30d --dry-run",
    "log tables": "triack log tables logs --out tables",
    "completion": "triack completion --install",
}
"""By command; a group shows that of its first one."""


def with_examples(command: click.Command, path: str) -> str:
    """Let the help of a command, and of all commands in it, end with an example. Returns that of the command."""
    example = EXAMPLES.get(path, "")
    if isinstance(command, click.Group):
        within = [with_examples(one, f"{path} {name}") for name, one in command.commands.items()]
        example = within[0]
    command.epilog = f"\b\nExample:\n  $ {example}"
    return example
