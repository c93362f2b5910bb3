"""A process of a run, one of its two ends or the relay between them: ``python -m triack.tools.bench.child OPTIONS``."""

import asyncio
import time

from triack.node.control.tasks import first_of
from triack.tools.bench.application import Fan, Sink, Source
from triack.tools.bench.systems.catalogue import inlet_of, outlet_of
from triack.tools.bench.systems.own import HUB, RECEIVER, SENDER, End
from triack.tools.bench.work import Work
from triack.tools.demo.child import Report, run_child, tell, tell_regularly


async def work(options: Report, stopping: asyncio.Event) -> None:
    """Be the ``sender``, ``receiver`` or ``hub`` of a system, as the options say."""
    await {"sender": _send, "receiver": _receive, "hub": _relay}[options["role"]](options, stopping)


async def _send(options: Report, stopping: asyncio.Event) -> None:
    async with outlet_of(options) as outlet:
        source = Source(Work(**options["work"]), outlet)
        cpu_ns = time.process_time_ns()

        async def send() -> None:
            await source.run()
            told = {"first_ns": source.first_ns, "sender_cpu_s": (time.process_time_ns() - cpu_ns) / 1e9}
            tell({**source.progress(), **told, "sender_facts": outlet.facts(), "done": True})
            await asyncio.Event().wait()

        await first_of(send(), tell_regularly(source.progress), stopping.wait())


async def _receive(options: Report, stopping: asyncio.Event) -> None:
    work = Work(**options["work"])
    sink, fan = Sink(work), Fan(work) if work.readers else None
    async with inlet_of(options) as inlet:
        cpu_ns = time.process_time_ns()

        def progress() -> Report:
            return {**(fan or sink).progress(), "receiver_cpu_s": (time.process_time_ns() - cpu_ns) / 1e9}

        tell({"found": inlet.found()})
        await first_of(inlet.run_all(fan.sinks) if fan else inlet.run(sink), tell_regularly(progress), stopping.wait())
        facts = inlet.facts()
    tell({**(fan or sink).progress(), "receiver_facts": facts, "latencies": sink.latencies()})


async def _relay(options: Report, stopping: asyncio.Event) -> None:
    """Pass messages of the sender on to the receiver, until the end."""
    end, found = End(options), options["found"]
    node = await end.open(HUB, listen="udp://127.0.0.1:0")
    try:
        await node.trust(RECEIVER, found["key"], found["address"])
        await node.trust(SENDER, options["sender_key"], send=[], may_relay=[RECEIVER])
        tell({"found": {"address": node.address, "key": node.key, "is_hub": True}})
        await stopping.wait()
    finally:
        await end.close()


if __name__ == "__main__":
    run_child(work)
