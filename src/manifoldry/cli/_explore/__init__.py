"""The live report: a page served on this machine that can embed again."""

from manifoldry.cli._explore.server import LOOPBACK, ExploreServer
from manifoldry.cli._explore.session import Session

__all__ = ["LOOPBACK", "ExploreServer", "Session"]
