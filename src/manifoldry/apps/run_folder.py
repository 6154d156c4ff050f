"""What a run in blocks keeps beside its output until it has ended, so that a killed one can go on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from manifoldry.apps.json_text import plain
from manifoldry.atomic import new_file
from manifoldry.blocks.checkpoint import Checkpoint
from manifoldry.blocks.store import Parts, parts_folder
from manifoldry.storage import load_model, read_metadata, save_model


class RunFolder:
    """The folder ``NAME.parts`` of a run: what it does, the state of its fit, the fitted model, and placed rows.

    Parameters
    ----------
    output : Path
        The coordinates.
    """

    def __init__(self, output: Path) -> None:
        self.folder = parts_folder(output)
        self._task, self._model = self.folder / "task.json", self.folder / "model.mfy"

    def begin(self, facts: Mapping[str, Any], *, resume: bool, overwrite: bool) -> bool:
        """Make the folder, or check that it is of the same run; return whether there is something to go on with.

        Parameters
        ----------
        facts : mapping
            What determines the result.
        resume, overwrite : bool
            Whether to go on with a run that did not end, or to begin it anew.
        """
        told = plain(facts)
        if self.folder.exists() and resume:
            self._refuse_another(told)
            return True
        if self.folder.exists():
            if not overwrite:
                raise FileExistsError(
                    f"{str(self.folder)!r} is of a run that did not end: --resume goes on with it, --force begins anew."
                )
            self.remove()
        self.folder.mkdir(exist_ok=True)
        with new_file(self._task) as part:
            part.write_text(json.dumps(told), encoding="utf-8")
        return False

    def _refuse_another(self, told: Any) -> None:
        try:
            stored = json.loads(self._task.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            stored = {}
        other = [name for name in told if not isinstance(stored, dict) or stored.get(name) != told[name]]
        if other:
            raise ValueError(
                f"The run in {str(self.folder)!r} was another one (by its {', '.join(other)}): --resume goes on only "
                "with the same; --force without --resume begins anew."
            )

    @property
    def checkpoint(self) -> Checkpoint:
        """Where passes of the fit keep their state."""
        return Checkpoint(self.folder / "passes")

    def keep_model(self, model: Any, facts: Mapping[str, Any]) -> None:
        """Keep the fitted model and what is known of the fit."""
        save_model(model, self._model, metadata=plain(facts), overwrite=True)

    def kept_model(self) -> tuple[Any, dict[str, Any]] | None:
        """Return the fitted model and what is known of the fit, if it had ended."""
        return (load_model(self._model), read_metadata(self._model)) if self._model.exists() else None

    def remove(self) -> None:
        """Remove all that was kept, and the folder if nothing else is in it."""
        passes = self.checkpoint.folder
        for path in (
            *passes.glob("*.npz"),
            *passes.glob(".*.part"),
            self._task,
            self._model,
            *self.folder.glob(".*.part"),
        ):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            passes.rmdir()
        Parts(self.folder).remove()
