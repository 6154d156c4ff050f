"""The report live: a page on this machine that embeds again when asked to."""

from manifoldry.cli._explore.server import LOOPBACK, ExploreServer
from manifoldry.cli._explore.session import Session

__all__ = ["LOOPBACK", "ExploreServer", "Session"]
