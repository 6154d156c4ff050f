"""What people and programs write into text tables: every case is read as it is meant, or refused with what to do."""

import gzip

import pytest

from manifoldry import chunked_data
from manifoldry.data._tables import read_table

ROWS = 12
NBSP, THIN = "\u00a0", "\u202f"


def column(*values, name="a", delimiter=";", quote=False):
    """Return a table of 12 rows: a column that repeats values, and one of numbers with a decimal point."""
    mark = '"' if quote else ""
    lines = [f"{mark}{values[i % len(values)]}{mark}{delimiter}{i}.5" for i in range(ROWS)]
    return "\n".join([f"{name}{delimiter}b", *lines]) + "\n"


def alone(*values, name="a"):
    """Return the same with whole numbers beside it, which do not tell what a point or a comma is."""
    return "\n".join([f"{name};b", *(f"{values[i % len(values)]};{i * i}" for i in range(ROWS))]) + "\n"


READ = {
    "commas": (column("801,900.00", "1,234.50"), [801900, 1234.5]),
    "commas in quotes": (column("801,900.00", "950.25", delimiter=",", quote=True), [801900, 950.25]),
    "two commas": (column("1,801,900", "950"), [1801900, 950]),
    "whole thousands where others have a point": (column("1,234", "950", delimiter=",", quote=True), [1234, 950]),
    "apostrophes": (column("801'900.00", "12.5"), [801900, 12.5]),
    "typographic apostrophes": (column("801’900.00", "12.5"), [801900, 12.5]),
    "blanks": (column("801 900.00", "12.5"), [801900, 12.5]),
    "points": (alone("801.900,00", "1.234,50"), [801900, 1234.5]),
    "points alone": (alone("1.801.900", "801.900"), [1801900, 801900]),
    "no-break spaces": (column(f"801{NBSP}900.00", "12.5"), [801900, 12.5]),
    "narrow no-break spaces": (column(f"801{THIN}900.00", "12.5"), [801900, 12.5]),
    "numbers in no-break spaces": (column(f"{NBSP}12.5{NBSP}", f"{NBSP}3"), [12.5, 3]),
    "percent": (column("12.5%", "3%"), [12.5, 3]),
    "percent after a blank": (column("12.5 %", "-3 %"), [12.5, -3]),
    "dollars": (column("$12.50", "-$3"), [12.5, -3]),
    "euros": (column("12.50 €", "3 €"), [12.5, 3]),
    "currency as a word": (column("EUR 12.50", "EUR 3"), [12.5, 3]),
    "losses": (column("$(3.50)", "$12"), [-3.5, 12]),
    "Arabic digits": (column("١٢٫٥", "٣"), [12.5, 3]),
    "full-width digits": (column("１２．５", "３"), [12.5, 3]),
    "typographic minus": (column("\u221212.5", "3"), [-12.5, 3]),
    "percent with gaps": (column("12.5%", "NA", "3%"), None),
    "decimal comma beside a decimal point": (column("12,5", "3,25"), [12.5, 3.25]),
    "plain": (column("12.5", "3"), [12.5, 3]),
}


@pytest.fixture
def save(tmp_path):
    def run(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return run


@pytest.mark.parametrize("case", READ)
def test_numbers_are_read_as_they_are_meant(save, case):
    text, values = READ[case]
    table = read_table(save(text), missing="keep")
    assert table.features == ("a", "b")
    if values is None:
        assert table.X[:3, 0].tolist()[::2] == [12.5, 3]
        assert table.X[1, 0] != table.X[1, 0]
    else:
        assert table.X[:, 0].tolist() == [values[i % 2] for i in range(ROWS)]
    converted = [remark for remark in table.remarks if "were converted: a (" in remark]
    assert len(converted) == (case != "plain")


HEADERS = {
    "years": ("2001,2002,2003", "1.5,2.5,3.5", True),
    "years above counts": ("2001,2002,2003", "15,25,35", True),
    "every fifth year": ("1990,1995,2000", "15,25,35", True),
    "years after a word": ("country,2001,2002,2003", "DE,1.5,2.5,3.5", True),
    "wavelengths above fractions": ("400,450,512", "0.15,0.25,0.35", True),
    "whole numbers in no order": ("400,350,512", "0.15,0.25,0.35", False),
    "years above years": ("2001,2002,2003", "2004,2005,2006", False),
    "counts above counts": ("17,4,6", "12,5,3", False),
    "fractions": ("4.5,5.5,6.5", "1.5,2.5,3.5", False),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_first_line_of_whole_numbers(save, case):
    first, row, named = HEADERS[case]
    path = save("\n".join([first, *[row] * ROWS]))
    table = read_table(path)
    assert table.X.shape[0] == ROWS + (not named)
    assert (table.features[-1] == first.split(",")[-1]) == named
    converted = [remark for remark in table.remarks if "The first line" in remark]
    assert len(converted) == (case not in ("years above years", "counts above counts", "fractions"))
    if converted:
        assert ("was read as names of columns; header=False" in converted[0]) == named
    if not first.startswith("country"):
        assert read_table(path, header=not named).X.shape[0] == ROWS + named


HUGE = "7" * 400
COLLAPSING = [str(2**60 + i) for i in range(ROWS)]
BEYOND = [str(2**66 + i) for i in range(ROWS)]
REFUSED = {
    "infinity": (
        column("1.5", "inf"),
        r"Column 'a' is infinite in row 2 \(counted from 1\) \(5 other values are too\)",
    ),
    "overflow": (column("1.5", "1e999"), "Column 'a' .* row 2 .* beyond the largest one in double precision"),
    "400 digits": (column("1.5", HUGE), "Column 'a' .* row 2 .* beyond the largest one in double precision"),
    "400 digits in whole numbers": (
        column("1", HUGE),
        "Column 'a' .* row 2 .* beyond the largest one in double precision",
    ),
    "5,000 digits everywhere": (
        column("7" * 5000),
        "Column 'a' .* row 1 .* beyond the largest one in double precision",
    ),
    "5,000 digits in three columns": (f"{'7' * 5000};8;9\n" * 5, "Column 'x0' .* row 1 .* beyond the largest one"),
    "overflow with a sign": (
        column("$1.5", "$1e999"),
        "Column 'a' .* row 2 .* beyond the largest one in double precision",
    ),
    "ambiguous commas": (alone('"1,234"', '"950"').replace(";", ","), "'1,234' can be read as 1.234 and as 1234"),
    "ambiguous points": (alone("$1.234", "$950"), r"'\$1.234' can be read as 1.234 and as 1234"),
    "two currencies": (column("$12", "€13"), "different units, .*convert them to one"),
    "percent and none": (column("12%", "13"), "different units, '12%' and '13'"),
    "two ways": (column("1,234.5", "1.234,5"), "'1,234.5' has separators that do not fit"),
    "a word": (column("1.5", "2.5", "cheap"), "'cheap' in row 3 is not read as a number, unlike most of the column"),
    "a word among amounts": (column("$1.5", "$2.5", "cheap"), "'cheap' in row 3 is not read as a number"),
    "integers that collapse": (column(*COLLAPSING), "12 different integers of column 'a' .* only 1 value would remain"),
    "integers beyond 64 bits": (column(*BEYOND), "12 different integers of column 'a' .* only 1 value would remain"),
    "packed twice": (gzip.compress(gzip.compress(column("1").encode())), "compressed twice"),
}


@pytest.mark.parametrize("missing", ["refuse", "drop", "impute", "keep"])
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_with_an_example(save, case, missing):
    content, match = REFUSED[case]
    path = save(content, "data.csv.gz" if isinstance(content, bytes) else "data.csv")
    with pytest.raises(ValueError, match=match):
        read_table(path, missing=missing)


BLOCKS_REFUSED = ["infinity", "overflow", "400 digits", "a word", "a word among amounts", "integers beyond 64 bits"]


@pytest.mark.parametrize("missing", ["refuse", "drop"])
@pytest.mark.parametrize("case", [*BLOCKS_REFUSED, *(case for case in READ if case != "plain")])
def test_files_in_blocks_are_refused_with_an_example(save, case, missing):
    text = READ[case][0] if case in READ else REFUSED[case][0]
    with pytest.raises(ValueError, match=r"is infinite|hold no numbers: 'a' \(text, such as .+, which only read_table"):
        sum(len(rows) for _, rows in chunked_data(save(text), missing=missing).blocks())


LEFT_ALONE = {
    "dates": ("01.02.2020", "03.04.2021"),
    "addresses": ("192.168.0.1", "10.0.0.12"),
    "versions": ("1.2.3", "1.10.0"),
    "telephones": ("0171 1234567", "030 12345"),
    "sizes": ("5 kg", "7 kg"),
    "ranges": ("1-5", "6-10"),
    "codes": ("A12", "B13"),
}


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_texts_with_digits_stay_texts(save, case):
    table = read_table(save(column(*LEFT_ALONE[case])))
    assert table.features == ("b",)
    assert table.columns["a"][:2].tolist() == [*LEFT_ALONE[case]]


def test_large_integers_name_rows_and_are_dropped(save):
    path = save(column(*COLLAPSING, name="id"))
    assert read_table(path).ids.tolist() == [2**60 + i for i in range(ROWS)]
    assert read_table(save(column(*COLLAPSING)), drop=["a"]).features == ("b",)
    far = [str(2**60 + 2**40 * i) for i in range(ROWS)]  # the differences are exact
    assert read_table(save(column(*far)), features=["a", "b"]).X[:, 0].tolist() == [float(each) for each in far]
