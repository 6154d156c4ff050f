"""Folders of images."""

import numpy as np
import pytest

from manifoldry.data._tables import read_table

Image = pytest.importorskip("PIL.Image")

GRAY = np.random.default_rng(0).integers(0, 256, size=(6, 9, 7), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path):
    """Save six gray images of 7 x 9 pixels in two folders."""
    for i, pixels in enumerate(GRAY):
        (tmp_path / "ab"[i % 2]).mkdir(exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "ab"[i % 2] / f"{i}.png")
    return tmp_path


def test_images_are_rows_of_pixels_and_folders_are_labels(folder):
    table = read_table(folder)
    order = [0, 2, 4, 1, 3, 5]
    np.testing.assert_array_equal(table.X, GRAY[order].reshape(6, -1))
    np.testing.assert_array_equal(table.thumbnails, GRAY[order])
    assert (table.X.dtype, table.id_name, table.label) == (np.float32, "image", "folder")
    assert table.ids.tolist() == ["a/0.png", "a/2.png", "a/4.png", "b/1.png", "b/3.png", "b/5.png"]
    assert table.labels.tolist() == ["a", "a", "a", "b", "b", "b"]


def test_a_folder_without_folders_has_no_label(folder):
    table = read_table(folder / "a")
    assert (table.label, table.ids.tolist()) == (None, ["0.png", "2.png", "4.png"])


def test_other_sizes_and_colors(folder):
    color = np.random.default_rng(1).integers(0, 256, size=(30, 200, 3), dtype=np.uint8)
    Image.fromarray(color).save(folder / "large.bmp")
    table = read_table(folder)
    assert table.X.shape == (7, 9 * 7 * 3)
    assert "1 image of 7 resized to 7 x 9 pixels." in table.remarks
    assert table.labels.tolist()[-1] == ""
    resized = read_table(folder, key="100x4")
    assert resized.X.shape == (7, 100 * 4 * 3)
    assert resized.thumbnails.shape == (7, 3, 64, 3)
    with pytest.raises(ValueError, match=r"a size of width x height, such as 32x32; got '0x5'"):
        read_table(folder, key="0x5")


def test_sixteen_bits(tmp_path):
    Image.fromarray((GRAY[0].astype(np.uint16) << 8) + 7).save(tmp_path / "deep.png")
    np.testing.assert_array_equal(read_table(tmp_path).X, GRAY[:1].reshape(1, -1))


def test_broken_images_are_named(folder):
    (folder / "b" / "broken.png").write_bytes(b"nothing")
    whole = (folder / "a" / "0.png").read_bytes()
    (folder / "a" / "cut.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"2 of 8 images cannot be read: a/cut.png, b/broken.png; remove them"):
        read_table(folder)
    table = read_table(folder, missing="drop")
    assert table.X.shape == (6, 63)
    assert any("left out" in remark for remark in table.remarks)


def test_folders_without_images(tmp_path):
    with pytest.raises(ValueError, match=r"a folder without images .* it holds no files"):
        read_table(tmp_path)
    (tmp_path / "data.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"it holds data.csv: name one of these files"):
        read_table(tmp_path)
    (tmp_path / "x.png").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"No image in .* can be read: x.png"):
        read_table(tmp_path)


def test_images_of_too_many_pixels(tmp_path, folder, monkeypatch):
    monkeypatch.setattr("manifoldry.data._tables.images.MAX_PIXELS", 60)
    with pytest.raises(ValueError, match=r"0.png is an image of 7 x 9 pixels, which is too large"):
        read_table(folder)
    monkeypatch.undo()
    monkeypatch.setattr("manifoldry.data._tables.errors.available_memory", lambda: 1000)
    with pytest.raises(ValueError, match=r"The images in .* resize them with key='32x32'"):
        read_table(folder)
