"""A simulated machine without its processes: its disk, its clock, its addresses."""

from triack.base.checks import LONGEST_LIFE_S, check_between
from triack.base.units import SECOND
from triack.testing.doors import Doors
from triack.testing.ground import Ground
from triack.tools.sim.disk import Disk, DiskFaults
from triack.tools.sim.world import WALL_NS


class Hardware:
    """The parts that all processes of a machine share.

    Attributes:
        world: its world.
        name: its name.
        random: its randomness.
        disk: its disk; ``disk.faults`` says how it misbehaves.
        doors: those of its nodes that other processes can reach.
        logs_begun: how many session logs its processes have begun.
    """

    def __init__(self, world: Ground, name: str) -> None:
        self.world = world
        self.name = name
        self.random = world.time.chance(f"machine {name}")
        self.disk = Disk(world.time.chance(f"disk {name}"))
        self.doors = Doors(world.loop)
        self._disk_delay = 0.001
        self.logs_begun = 0
        self._wall_offset_ns = WALL_NS

    @property
    def disk_delay(self) -> float:
        """How long the disk needs for a commit, in seconds: up to half of it more or less."""
        return self._disk_delay

    @disk_delay.setter
    def disk_delay(self, seconds: float) -> None:
        check_between(f"disk_delay of machine {self.name}, in seconds,", seconds, 0, LONGEST_LIFE_S)
        self._disk_delay = seconds

    def wall_ns(self) -> int:
        """Its wall clock in nanoseconds."""
        return self.world.time.now_ns + self._wall_offset_ns

    def uptime(self) -> tuple[bytes, int]:
        """Which of its starts this is, and nanoseconds since then."""
        return self.disk.uptime(self.world.time.now_ns)

    def clock(self) -> float:
        """Its wall clock, as ``time.time`` would give it; for services that use a clock that they are given."""
        return self.wall_ns() / SECOND

    def jump_clock(self, seconds: float) -> None:
        """Set its wall clock forward, or back. Virtual time continues as before.

        Raises:
            UsageError: that is no number of seconds, or more than a century.
        """
        check_between(f"jump_clock of machine {self.name}: seconds", seconds, -LONGEST_LIFE_S, LONGEST_LIFE_S)
        self.world.tell(f"{self.name}: clock jumps by {seconds:g} s")
        self._wall_offset_ns += round(seconds * SECOND)

    def draw_disk_delay(self) -> float:
        """How long the disk needs this time, in seconds."""
        return self.disk_delay * (0.5 + self.random.random())

    def fill_disk(self) -> None:
        """Let every further write fail for want of space, until ``mend_disk``."""
        self.world.tell(f"{self.name}: disk full")
        self.disk.faults = DiskFaults(full=1.0)

    def break_disk(self) -> None:
        """Let every further write and sync fail, until ``mend_disk``."""
        self.world.tell(f"{self.name}: disk broken")
        self.disk.faults = DiskFaults(write=1.0, sync=1.0)

    def mend_disk(self) -> None:
        """The disk works again."""
        self.world.tell(f"{self.name}: disk mended")
        self.disk.faults = DiskFaults()

    def rebind(self) -> None:
        """Send from other addresses from now on, as behind a router that forgot this machine."""
        self.world.tell(f"{self.name}: new address")
        for route in self.world.links.routes_of(self.name):
            self.world.network.rebind(route)
