"""Options that several commands share: how data are read and prepared, the method, the seed, JSON."""

from __future__ import annotations

import csv
import functools
import glob
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.shell_completion import CompletionItem

from manifoldry._core.registry import METHODS
from manifoldry.cli._errors import tell
from manifoldry.cli._method_names import AUTO_METHOD, method_name

if TYPE_CHECKING:
    from manifoldry.cli._flow.scaling import AskedScale, MixedUnits
    from manifoldry.data._tables import ReadOptions, Table

F = TypeVar("F", bound=Callable[..., Any])

FORMAT_CHOICES = ("csv", "tsv", "parquet", "arrow", "npy", "npz", "mtx", "h5ad", "images", "dataset")
"""What can be read, as `tables` has it; said here again so that the help does not load it."""
DATASET_NAMES = (
    "cylinder",
    "dual_spiral",
    "fishbowl",
    "gaussian_clusters",
    "half_globe",
    "helix",
    "open_box",
    "s_curve",
    "sphere",
    "spiral",
    "star",
    "swiss_roll",
    "torus",
    "twin_peaks",
    "v_shape",
    "wave",
)
"""The data sets that are generated, as `datasets` has them; said here again so that a completion does not load it."""
SCALE_CHOICES = ("auto", "none", "standard", "robust", "unit", "log1p")
"""How the columns, or for "unit" the rows, are scaled before a fit."""
IMPUTED = "; to be imputed."
"""How the remark of a table on missing values that stay ends; who looks at them says so itself."""
MAX_SEED = 2**32 - 1
"""The largest seed that numpy and scikit-learn take."""


@dataclass(frozen=True)
class Reading:
    """How a source is read and prepared, as the options say."""

    options: ReadOptions
    scale: AskedScale = "none"
    pca: int | None = None
    units: MixedUnits | None = None

    @property
    def changes(self) -> bool:
        """Whether the features are changed after they were read."""
        return self.scale not in ("auto", "none") or self.pca is not None or self.options.missing == "impute"

    def table(self, source: str, *, as_it_is: bool = False) -> Table:
        """Return the table of a file, a built-in data set or standard input ("-"), and tell what was left out of it.

        With ``as_it_is`` missing values stay, and nothing is said of them.
        """
        from manifoldry.cli._flow.column_remarks import with_remarks
        from manifoldry.data._tables import read_table

        options = replace(self.options, missing="impute") if as_it_is else self.options
        table = with_remarks(read_table(source, options))
        for remark in table.remarks:
            if not (as_it_is and remark.endswith(IMPUTED)):
                tell(remark)
        return table

    def scaled(self, table: Table, *, nonnegative: bool = False) -> Reading:
        """Return the same with "auto" replaced by how the columns of a table are scaled, see `resolved_scale`."""
        from manifoldry.cli._flow.scaling import resolved_scale

        scale, units = resolved_scale(self.scale, table.X, table.features, nonnegative=nonnegative)
        return replace(self, scale=scale, units=units)

    def prepare(self, table: Table, seed: int) -> tuple[Any, list[tuple[str, Any]]]:
        """Return the features of a table after all preparation, and its named transformers, fitted."""
        from manifoldry.data._tables import preparation

        assert self.scale != "auto"
        X, impute = table.X, self.options.missing == "impute"
        steps: list[tuple[str, Any]] = preparation(self.scale, self.pca, impute, seed, X=X) if self.changes else []
        for _, step in steps:
            X = step.fit_transform(X)
        return X, steps

    def prepared(self, source: str, seed: int) -> tuple[Table, Any, MixedUnits | None]:
        """Return the table of a source, its features after all preparation, and why they were standardized."""
        table = self.table(source)
        known = self.scaled(table)
        if known.units is not None:
            tell(known.units.told)
        return table, known.prepare(table, seed)[0], known.units


class Columns(click.ParamType):
    """Names of columns, separated by commas; a name that has a comma stands in double quotes."""

    name = "columns"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:  # noqa: ARG002
        """Return the names."""
        if not isinstance(value, str):
            return tuple(value)
        rows = list(csv.reader([value], skipinitialspace=True))
        return tuple(name for row in rows for name in row if name)


class SourceType(click.ParamType):
    """A file, a folder of images, the name of a built-in data set, or "-" for standard input."""

    name = "file"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Return that files complete it; where no file begins so, the built-in data sets that do."""
        word = incomplete.replace("-", "_").lower()
        names = [name.replace("_", "-") for name in DATASET_NAMES if word and name.startswith(word)]
        if names and not glob.glob(glob.escape(incomplete) + "*"):
            return [CompletionItem(name) for name in names]
        return [CompletionItem(incomplete, type="file")]


def complete_methods(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Return the names of methods that begin so."""
    return [CompletionItem(name.lower()) for name in METHODS if name.lower().startswith(incomplete.lower())]


class MethodName(click.ParamType):
    """The name of a method, in any case, with or without hyphens."""

    name = "method"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name of the class."""
        try:
            return method_name(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin so."""
        auto = [CompletionItem(AUTO_METHOD)] if AUTO_METHOD.startswith(incomplete.lower()) else []
        return [*auto, *complete_methods(ctx, param, incomplete)]


class SeedType(click.ParamType):
    """A seed: an integer that numpy and scikit-learn take."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the integer."""
        if not str(value).isdecimal() or int(value) > MAX_SEED:
            self.fail(f"A seed is an integer from 0 to {MAX_SEED}; got {value!r}.", param, ctx)
        return int(value)


_READING = (
    click.option("--id", "id", metavar="COLUMN", help="Column that names the rows; not embedded."),
    click.option("--label", metavar="COLUMN", help="Column of classes; not embedded, but judged and colored by."),
    click.option(
        "--color", type=Columns(), multiple=True, metavar="COLUMNS", help="Columns to color by; not embedded."
    ),
    click.option(
        "--features",
        type=Columns(),
        multiple=True,
        metavar="COLUMNS",
        help="The columns to embed, separated by commas.  [default: all columns of numbers named nowhere else]",
    ),
    click.option("--drop", type=Columns(), multiple=True, metavar="COLUMNS", help="Columns to leave out altogether."),
    click.option(
        "--header/--no-header", default=None, help="Whether the first line holds names.  [default: found out]"
    ),
    click.option(
        "--delimiter",
        metavar="TEXT",
        help="What separates the fields of a text file: a character, or tab, comma, semicolon, space, pipe.  "
        "[default: found out]",
    ),
    click.option(
        "--missing",
        type=click.Choice(("refuse", "drop", "impute", "keep")),
        default="refuse",
        show_default=True,
        help="Missing values: refuse them with counts, drop their rows, impute the median of the column, or keep them "
        "for a method that takes them (ProbabilisticPCA).",
    ),
    click.option(
        "--key", metavar="NAME", help="Which array of an .npz file, or X, obsm/X_pca, layers/counts of an .h5ad file."
    ),
    click.option(
        "--format",
        "format",
        type=click.Choice(FORMAT_CHOICES),
        help="What the file is.  [default: by its name and first bytes]",
    ),
    click.option(
        "--scale",
        type=click.Choice(SCALE_CHOICES),
        default="auto",
        show_default=True,
        help="Scale the columns (standard: mean 0 and variance 1; robust: by median and quartiles), the rows to length "
        "1 (unit), or take logarithms of counts (log1p). auto: standard if a few columns dominate all distances "
        "because of their units, otherwise none.",
    ),
    click.option(
        "--pca", type=click.IntRange(1), metavar="N", help="Reduce to N principal components first, after the scaling."
    ),
)


def reading_options(command: F) -> F:
    """Add the options by which data are read and prepared; the command gets them as ``reading``, a `Reading`."""

    @functools.wraps(command)
    def with_reading(*args: Any, scale: AskedScale, pca: int | None, **values: Any) -> Any:
        from manifoldry.data._tables import ReadOptions

        given = {field.name: values.pop(field.name) for field in fields(ReadOptions)}
        joined = {name: tuple(column for part in given[name] for column in part) for name in ("color", "drop")}
        features = tuple(column for part in given["features"] for column in part) or None
        options = ReadOptions(**{**given, **joined, "features": features})
        return command(*args, reading=Reading(options, scale, pca), **values)

    decorated: Any = with_reading
    for option in reversed(_READING):
        decorated = option(decorated)
    return cast(F, decorated)


source_argument = click.argument("source", metavar="FILE", type=SourceType())
"""The data: the command gets them as ``source``."""

seed_option = click.option(
    "--seed",
    type=SeedType(),
    default=0,
    show_default=True,
    help="Seed of everything random: the same seed gives the same result.",
)

_BLOCKS = (
    click.option(
        "--blocks/--no-blocks",
        "blocks",
        default=None,
        help="Read the file in blocks, not whole.  [default: if it would take more than 2 GB in memory]",
    ),
    click.option("--resume", is_flag=True, help="Go on with a run in blocks that was interrupted or killed."),
)


def block_options(command: F) -> F:
    """Add the options by which large files are read: the command gets them as ``blocks`` and ``resume``."""
    decorated: Any = command
    for option in reversed(_BLOCKS):
        decorated = option(decorated)
    return cast(F, decorated)


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on standard output, and nothing else."
)
"""The command gets it as ``as_json``; `apps.json_text` writes it."""


def method_option(default: str) -> Callable[[F], F]:
    """Return the option that names the method; the command gets the name of the class as ``method``."""
    return click.option(
        "--method",
        type=MethodName(),
        default=default,
        show_default=True,
        help="A method of manifoldry methods, or auto: the best of several, as compare ranks them.",
    )
