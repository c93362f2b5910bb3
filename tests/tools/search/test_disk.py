"""The disk of the search keeps what the real store keeps."""

from dataclasses import dataclass, field
from random import Random

import pytest

from triack.queues.commit import Commit, Read, StoreContent
from triack.queues.store import Store
from triack.session.delivery import Delivery
from triack.tools.search.datagrams import Datagram
from triack.tools.search.disk import Disk
from triack.tools.search.host import Host
from triack.tools.search.scope import Part, Scope


@dataclass
class DiskAndStore(Disk):
    """Both, and a comparison at every start and every read."""

    store: Store = field(default_factory=lambda: Store(None))

    def apply(self, commit: Commit) -> None:
        super().apply(commit)
        self.store.apply(commit)

    def load(self, start: int) -> StoreContent:
        content = super().load(start)
        assert content == self.store.load(self.node_id, start)
        return content

    def read(self, read: Read) -> None:
        super().read(read)
        again = Read(read.table, read.keys)
        self.store.read(again)
        assert read.bodies == again.bodies


@pytest.mark.parametrize("delivery", [Delivery.RECOVERABLE, Delivery.TRANSACTIONAL])
def test_the_disk_of_the_search_is_the_real_store(delivery: Delivery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes live on by chance, with many deaths; every start finds the same in both."""
    monkeypatch.setattr("triack.tools.search.host.Disk", DiskAndStore)
    part = Part(sends=200, delivery=delivery, reads=True, crashes=50, stops=20, breaks=20, patience=1_000)
    hosts = [Host(Scope("chance", "", (part, part)), side) for side in (0, 1)]
    random = Random(7)
    under_way: list[Datagram] = []
    for _ in range(1_500):
        host = random.choice(hosts)
        heard = [datagram for datagram in under_way[-8:] if datagram.to == host.side]
        usual = [choice for choice in host.choices() if choice[0] in ("submit", "disk", "read")]
        if heard and random.random() < 0.6:
            under_way += host.act(("deliver", None), random.choice(heard))
        elif usual and random.random() < 0.8:
            under_way += host.act(random.choice(usual))
        elif host.choices():
            under_way += host.act(random.choice(host.choices()))
    for host in hosts:
        assert host.disk.incarnation > 20
        assert len(host.witness.kept) > 5
        assert len(host.witness.read) > 5
