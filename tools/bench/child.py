"""One of the two processes of a run: ``python -m triack.tools.bench.child OPTIONS``."""

import asyncio
import time

from triack.node.control.tasks import first_of
from triack.tools.bench.application import Fan, Sink, Source
from triack.tools.bench.systems.catalogue import inlet_of, outlet_of
from triack.tools.bench.work import Work
from triack.tools.demo.child import Report, run_child, tell, tell_regularly


async def work(options: Report, stopping: asyncio.Event) -> None:
    """Be the ``sender`` or ``receiver`` of a system, as the options say."""
    await (_send if options["role"] == "sender" else _receive)(options, stopping)


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


if __name__ == "__main__":
    run_child(work)
