"""``triack msmq explain``: what a name of MSMQ is here."""

import json

from tests.tools.processes import triack as command


def explained(name: str, *options: str) -> tuple[int, str]:
    """Exit code, and what it says."""
    done = command("msmq", "explain", name, *options)
    return done.returncode, (done.stdout + done.stderr).decode()


def test_a_name_is_said_in_our_terms() -> None:
    """With what to do so that it works."""
    code, said = explained(r"DIRECT=OS:plant-b\private$\orders")
    assert code == 0
    assert said.splitlines() == [
        r"DIRECT=OS:plant-b\private$\orders: plant-b/orders",
        "  know that node as a peer of the name plant-b",
    ]


def test_what_is_not_there_says_why_and_ends_with_1() -> None:
    """Among others that are there, too; and a name that cannot be read."""
    code, said = explained(r".\private$\x,DIRECT=HTTP://b/msmq/y", "--json")
    assert code == 1
    assert [json.loads(line)["destination"] for line in said.splitlines()] == ["x", None]
    code, said = explained("orders")
    assert code == 2
    assert said == "triack: orders: a queue is HOST\\private$\\QUEUE, or .\\private$\\QUEUE on this machine\n"
