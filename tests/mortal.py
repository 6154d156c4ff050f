"""What kills a worker of a cluster: in a module that workers can import, which those of the tests are not."""

import os
import signal
from contextlib import suppress


def die_once(block, flag):
    """Return the block; the first process that gets here, whichever it is, is killed."""
    with suppress(FileExistsError):
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))  # SIGTERM kills at once on Windows
    return block
