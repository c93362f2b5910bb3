"""How a message is described to another process."""

import json

import triack
from tests.node.nodes import WAIT, make
from triack.node.control.description import describe


async def test_all_that_a_message_has_beside_its_body_is_json() -> None:
    async with make() as node:
        receipt = await node.send("q", b"x", headers={"a": "b"})
        told = json.loads(json.dumps(describe(await node.receive("q").get(WAIT))))
    assert (told["id"], told["queue"], told["properties"]) == (receipt.id, "q", {"headers": {"a": "b"}})
    assert (told["redelivered"], told["failures"]) == (False, 0)
    assert isinstance(receipt, triack.Receipt)
