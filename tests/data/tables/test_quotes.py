"""Quotes in text tables: one that is not closed must not swallow rows."""

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manifoldry import chunked_data
from manifoldry.data._tables import quotes, read_table
from manifoldry.data._tables.quotes import QuoteChecker, quoted_fields


def table(changes, n=100, head="a,b,kind\n"):
    """Return the text of n rows, with other classes in some of them."""
    return head + "".join(f"{i / 4},{i % 7},{changes.get(i, 'u')}\n" for i in range(n))


@pytest.fixture
def save(tmp_path):
    def run(text, name="data.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return run


def blocks_of(path):
    return np.vstack([rows for _, rows in chunked_data(path, columns=["a", "b"]).blocks()])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("late", [False, True])  # beyond what is looked at to find out how the file is written
def test_an_unclosed_quote_is_refused_with_its_line(save, monkeypatch, encoding, late):
    if late:
        monkeypatch.setattr("manifoldry.data._tables.sniffing.HEAD_BYTES", 200)
        monkeypatch.setattr("manifoldry.data._tables.quotes.TEXT_CHUNK", 64)
    path = save(table({30: '"ü'}), encoding=encoding)
    with pytest.raises(ValueError, match="the quote opened in line 32 is never closed"):
        read_table(path)
    with pytest.raises(ValueError, match="the quote opened in line 32 is never closed"):
        blocks_of(path)


@pytest.mark.parametrize("text", ['1.5,2,"u\n', '1.5,2,"u', '"1.5,2,u\n', '1.5,2,"u""\n', '1.5,2,"u""'])
def test_an_unclosed_quote_in_the_last_line(save, text):
    path = save(table({}) + text)
    with pytest.raises(ValueError, match="the quote opened in line 102 is never closed"):
        read_table(path)
    with pytest.raises(ValueError, match="the quote opened in line 102 is never closed"):
        blocks_of(path)


@pytest.mark.parametrize("other", ['"v', 'v"', '"v"', '"'])
def test_two_stray_quotes_do_not_swallow_the_rows_between(save, other):
    path = save(table({30: '"u', 50: other}))
    sentence = r"the quote opened in line 32 is (closed in line 52, and the lines between look like rows|never closed)"
    with pytest.raises(ValueError, match=sentence):
        read_table(path)
    with pytest.raises(ValueError, match=sentence):
        blocks_of(path)


def test_an_unclosed_quote_in_the_header(save):
    with pytest.raises(ValueError, match="the quote opened in line 2 is not closed within 10 lines"):
        read_table(save("# note\n" + table({}, head='"a,b,kind\n')))


def test_an_unclosed_quote_between_blanks(save):
    with pytest.raises(ValueError, match="the quote opened in line 32 is never closed"):
        read_table(save(table({30: '"u'}).replace(",", " ")))


def test_inch_signs_are_characters(save):
    found = read_table(save(table({0: '5" pipe', 30: 'u"', 50: 'say "hi" now', 70: "'\"'"})))
    assert found.X.shape == (100, 2)
    assert found.columns["kind"][[0, 30, 50, 70]].tolist() == ['5" pipe', 'u"', 'say "hi" now', "'\"'"]


def test_a_long_text_is_read_with_a_remark(save):
    poem = "\n".join(f"line {i}, and more" for i in range(15))
    path = save(table({30: f'"{poem}"'}))
    found = read_table(path)
    assert found.X.shape == (100, 2)
    assert found.columns["kind"][30] == poem
    assert [each for each in found.remarks if "quoted" in each] == [
        "One quoted field spans lines 32 to 46; if these are several rows, a quote is not closed."
    ]
    assert blocks_of(path).shape == (100, 2)
    short = read_table(save(table({30: '"two\nlines"'})))
    assert not any("quoted" in each for each in short.remarks)


QUOTE = '"'
PARTS = st.text(st.sampled_from([*'",ab\n']), max_size=30)


@settings(max_examples=300, deadline=None)
@given(PARTS.filter(lambda text: QUOTE in text))
def test_quotes_are_followed_as_by_the_csv_module(text):
    body = text.encode()
    opens, closes, unclosed = quoted_fields(body, b",")
    slow = quotes._followed(body, b",")
    assert (opens.tolist(), closes.tolist(), unclosed) == (slow[0].tolist(), slow[1].tolist(), slow[2])
    within = [body[i + 1 : j].replace(b'""', b'"').decode() for i, j in zip(opens, closes, strict=True)]
    if unclosed < 0:
        fields = [field for row in csv.reader(io.StringIO(text, newline="")) for field in row]
        places = iter(fields)
        assert all(any(field.startswith(each) for field in places) for each in within)  # in this order


@settings(max_examples=200, deadline=None)
@given(PARTS, st.sampled_from([1, 2, 3, 7]))
def test_blocks_are_whole_and_do_not_depend_on_chunks(text, size):
    def blocks(chunk):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(quotes, "TEXT_CHUNK", chunk)
            try:
                return [*QuoteChecker(io.BytesIO(text.encode()), "n", ",", 3, "utf-8", 0).blocks()]
            except ValueError as error:
                return str(error)

    found, whole = blocks(size), blocks(1000)
    if isinstance(whole, str):
        assert found == whole
    else:
        assert b"".join(found) == text.encode() == b"".join(whole)
        assert all(quoted_fields(block, b",")[2] < 0 for block in found if b'"' in block)
