import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from manifoldry import datasets
from manifoldry._core.markup import GHOST
from manifoldry.cli._flow import demo as sheets


def drawn(tmp_path, n_panels, scale=1.0):
    """Return the pixels of a picture in which every method found the truth times ``scale``."""
    roll = datasets.swiss_roll(300, random_state=1)
    panels = [sheets.Panel(f"method {i}", "caption", scale * roll.truth) for i in range(n_panels)]
    path = tmp_path / "picture.png"
    sheets.draw_sheets(roll, panels, path, title="a title", subtitle="a subtitle")
    return imread(path)[:, :, :3]


def region(picture, i):
    """Return the pixels of the i-th panel."""
    height, width = picture.shape[:2]
    left, bottom, across, up = sheets._box(i, width / sheets.DPI, height / sheets.DPI)
    return picture[
        round((1 - bottom - up) * height) : round((1 - bottom) * height),
        round(left * width) : round((left + across) * width),
    ]


@pytest.mark.parametrize(("n_panels", "n_rows"), [(1, 1), (4, 2), (9, 3)])
def test_the_picture_grows_by_rows(tmp_path, n_panels, n_rows):
    height = sheets.TOP + n_rows * sheets.PANEL_INCHES[1] + (n_rows - 1) * sheets.DOWN + sheets.BOTTOM
    width = sheets.LEFT + 5 * sheets.PANEL_INCHES[0] + 4 * sheets.ACROSS + sheets.RIGHT
    # Sizes are cut to whole pixels.
    assert np.abs(np.array(drawn(tmp_path, n_panels).shape[:2]) - sheets.DPI * np.array([height, width])).max() <= 1


def test_every_panel_holds_color_and_unused_places_none(tmp_path):
    picture = drawn(tmp_path, 5)
    colored = [np.ptp(region(picture, i), axis=2).max() > 0.5 for i in range(10)]
    assert colored == [True] * 7 + [False] * 3


def test_a_perfect_embedding_hides_the_gray_sheet_and_one_elsewhere_shows_it(tmp_path):
    def gray(scale):
        pixels = region(drawn(tmp_path, 1, scale), 2)
        return np.isclose(pixels, to_rgb(GHOST), atol=1 / 255).all(axis=2).mean()

    # A dot's rim, one of its six or so pixels across, is smoothed towards the paper and may pass for gray by chance.
    assert gray(1.0) < gray(0.2) / 20


def test_the_frame_holds_the_sheet_and_nearly_all_else_and_has_the_shape_of_a_panel():
    sheet = np.array([[0.0, 0.0], [10.0, 1.0]])
    other = np.concatenate([np.tile([[2.0, -7.0], [3.0, 3.0]], (500, 1)), [[1e3, 1e3]]])
    low, high = sheets._frame([sheet, other])
    every = np.concatenate([sheet, other[:-1]])
    assert (low < every.min(axis=0)).all()
    assert (high > every.max(axis=0)).all()
    assert high.max() < 100  # one stray point does not make all others small
    assert np.divide(*(high - low)) == pytest.approx(sheets.PANEL_INCHES[0] / sheets.PANEL_INCHES[1], rel=1e-12)


def test_data_without_a_flat_truth_are_refused(tmp_path):
    with pytest.raises(ValueError, match="two true coordinates"):
        sheets.draw_sheets(datasets.sphere(50), [], tmp_path / "no.png", title="", subtitle="")
