"""Forward a queue exactly once: receive and send in one transaction, so that a crash between them changes nothing.

Three machines: a till sends sales to a branch, the branch adds its stamp and passes them on to the head office.
"""

import tempfile
from pathlib import Path

import triack


async def forward(node: triack.Node, source: str, destination: str, count: int) -> None:
    """Move ``count`` messages. If this process dies inside a transaction, the message is still in the source queue."""
    for _ in range(count):
        async with node.transaction() as transaction:
            message = await transaction.receive(source, timeout=10)
            await transaction.send(destination, message.body + b" via branch")


async def main(folder: Path) -> None:
    """Five sales travel from the till over the branch to the head office."""
    async with (
        triack.open("office", data=folder / "office", listen="udp://127.0.0.1:0") as office,
        triack.open("branch", data=folder / "branch", listen="tcp://127.0.0.1:0") as branch,
        triack.open("till", data=folder / "till") as till,
    ):
        await till.trust("branch", branch.key, branch.address)
        await branch.trust("till", till.key, send=["sales"])
        await branch.trust("office", office.key, office.address)
        await office.trust("branch", branch.key, send=["ledger"])
        for number in range(5):
            await till.send("branch/sales", f"sale {number}".encode())
        await forward(branch, "sales", "office/ledger", 5)
        async with office.receive("ledger") as ledger:
            for _ in range(5):
                print((await ledger.get(timeout=10)).body.decode())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        triack.run(main(Path(folder)))
