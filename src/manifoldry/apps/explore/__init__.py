"""The report live: a page on this machine that embeds again when asked to."""

from manifoldry.apps.explore.server import LOOPBACK, ExploreServer
from manifoldry.apps.explore.session import Session

__all__ = ["LOOPBACK", "ExploreServer", "Session"]
