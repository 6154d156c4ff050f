"""Text tables: what is found out about them, and what is refused."""

import csv
import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manifoldry.data._tables import ReadOptions, read_table


@pytest.fixture
def read(tmp_path):
    """Return a function that writes a text or bytes to a file and reads it as a table."""

    def run(content, name="data.csv", **settings):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_table(path, **settings)

    return run


def refused(read, content, match, **settings):
    with pytest.raises(ValueError, match=match):
        read(content, **settings)


IRIS = "id,length,width,species\n7,5.1,3.5,setosa\n8,4.9,3.0,virginica\n9,4.7,3.2,setosa\n"


def test_columns_are_used_as_they_look(read):
    table = read(IRIS)
    assert table.features == ("length", "width")
    np.testing.assert_array_equal(table.X, [[5.1, 3.5], [4.9, 3.0], [4.7, 3.2]])
    assert table.X.dtype == np.float64
    assert table.X.flags.c_contiguous
    assert (table.id_name, table.ids.tolist(), table.label) == ("id", [7, 8, 9], None)
    assert {name: column.tolist() for name, column in table.columns.items()} == {
        "species": ["setosa", "virginica", "setosa"]
    }
    assert table.source == "data.csv"
    assert any("'id'" in remark for remark in table.remarks)
    assert any("species" in remark for remark in table.remarks)


def test_columns_are_used_as_the_options_say(read):
    table = read(IRIS, id="species", label="id", color=["width"], features=["length"])
    assert (table.features, table.id_name, table.label) == (("length",), "species", "id")
    assert table.columns["id"].tolist() == [7, 8, 9]
    assert table.columns["width"].tolist() == [3.5, 3.0, 3.2]
    assert table.ids.tolist() == ["setosa", "virginica", "setosa"]
    assert read(IRIS, features=["width", "length"]).X[0].tolist() == [3.5, 5.1]
    assert read(IRIS, drop="species").columns == {}
    assert read(IRIS, features=("id", "width")).features == ("id", "width")


def test_options_may_come_as_one_value_and_be_replaced(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(IRIS)
    table = read_table(str(path), ReadOptions(label="species", drop=("id",)), drop=("id", "width"))
    assert (table.features, table.label, table.id_name) == (("length",), "species", "row")
    with pytest.raises(TypeError, match=r"no option 'labl'; did you mean 'label'\?"):
        read_table(path, labl="species")


def test_unknown_columns_get_the_nearest_name(read):
    refused(read, IRIS, r"There is no column 'Specis'; did you mean 'species'\?", label="Specis")
    refused(read, IRIS, "There is no column 'zzz'; there are id, length, width, species.", color=["zzz"])


def test_a_column_has_one_use(read):
    refused(read, IRIS, "'length' cannot be the label and a feature", label="length", features=["length"])
    refused(read, IRIS, "'length' cannot be the id and dropped", id="length", drop=["length"])
    refused(read, IRIS, "features and dropped at once; name them once: length", drop=["length"], features=["length"])
    refused(read, IRIS, "'species' cannot be a feature: it holds text, such as 'setosa'", features=["species"])


def test_without_names_columns_have_positions(read):
    table = read("5.1,3.5,setosa\n4.9,3.0,setosa\n")
    assert (table.features, list(table.columns)) == (("x0", "x1"), ["x2"])
    assert read("5.1,3.5,setosa\n4.9,3.0,setosa\n", label="-1", id="0").label == "x2"
    refused(read, "1,2\n3,4\n", "There is no column 2; there are 2, numbered from 0", label="2")
    refused(read, "1,2\n3,4\n", "the columns have no names: use a number from 0 to 1", label="species")


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|", " ", "   "])
@pytest.mark.parametrize("header", [True, False])
def test_delimiter_and_header_are_found_out(read, delimiter, header):
    lines = [["a", "b", "c"]] * header + [["1.5", "-2", "3e2"], ["4", "5", "6"]]
    table = read("\n".join(map(delimiter.join, lines)), name="data.txt")
    assert table.X.tolist() == [[1.5, -2, 300], [4, 5, 6]]
    assert table.features == (("a", "b", "c") if header else ("x0", "x1", "x2"))


@pytest.mark.parametrize(
    ("text", "features", "first"),
    [
        ("label,1,2,3,4\n5,0,0,0,1\n3,1,2,2,2\n", ("1", "2", "3", "4"), [0, 0, 0, 1]),  # numbers as names
        (",0,1,2\n0,1.5,2,3\n1,4,5,6\n", ("0", "1", "2"), [1.5, 2, 3]),  # a frame with its index
        ("# about\n# more\n1,2\n3,4\n", ("x0", "x1"), [1, 2]),  # comments
        ("# x y\n1 2\n3 4\n", ("x", "y"), [1, 2]),  # a header in a comment, as numpy.savetxt writes it
        ("#,hp\n1,45\n7,60\n", ("#", "hp"), [1, 45]),  # a name that is a hash
        ("sep=;\na;b\n1;2\n", ("a", "b"), [1, 2]),  # spreadsheets say so
        ("a,b\n1,2,\n3,4,\n", ("a", "b"), [1, 2]),  # a delimiter at the end of every row
        ('"mpg" "cyl"\n"Mazda RX4" 21 6\n"Datsun" 22.8 4\n', ("mpg", "cyl"), [21, 6]),  # R: row names have no name
        (" a , b \n 1 , 2 \n", ("a", "b"), [1, 2]),
        ("a,b\r\n1,2\r\n3,4\r\n", ("a", "b"), [1, 2]),
        ("a,b\n\n1,2\n\n", ("a", "b"), [1, 2]),
        ('"a\nb",c\n1,2\n', ("a b", "c"), [1, 2]),  # a name of two lines
    ],
)
def test_files_of_other_programs(read, text, features, first):
    table = read(text)
    assert table.features == features
    assert table.X[0].tolist() == first


def test_what_is_found_out_can_be_said_instead(read):
    assert read("1,2\n3,4\n", header=True).features == ("1", "2")
    refused(read, "a,b\n1,2\n", "'a' in row 1 is not read as a number", header=False)
    assert read("1!2\n3!4\n", delimiter="!").X.tolist() == [[1, 2], [3, 4]]
    assert read("1\t2\n", delimiter="tab").X.tolist() == [[1, 2]]
    refused(read, "a,b\n1,2\n", "delimiter must be one character, or one of tab", delimiter="<>")
    refused(read, "a,b\n1,2\n", "no column of numbers to embed; .* delimiter=", delimiter=";")


def test_decimal_commas(read):
    table = read("a;b\n1,5;2\n3,25;4\n")
    assert table.X.tolist() == [[1.5, 2], [3.25, 4]]
    assert "Numbers are read with a decimal comma." in table.remarks
    assert read("x\n1,5\n2,5\n").X.tolist() == [[1.5], [2.5]]
    assert read("a;b\n1.234,5;2\n1.000,5;4\n").X.tolist() == [[1234.5, 2], [1000.5, 4]]


def test_truth_values_are_numbers_and_dates_are_not(read):
    table = read("flag,day,x\ntrue,2020-01-02,1\nfalse,2020-01-03,2\n")
    assert table.features == ("flag", "x")
    assert table.X.tolist() == [[1, 1], [0, 2]]
    assert table.columns["day"].tolist() == ["2020-01-02", "2020-01-03"]


def test_constant_columns_stay_and_empty_ones_go(read):
    table = read("a,b,c\n1,,2\n1,,3\n")
    assert table.features == ("a", "c")
    assert "1 column without any value left out: b." in table.remarks
    refused(read, "a,b\n1,\n2,\n", "'b' holds no value at all", features=["a", "b"])


def test_quoted_fields(read):
    table = read('name,x,y\n"a, b",1,"2"\n"say ""hi""",3,4\n"two\nlines",5,6\n"a, b",7,8\n')
    assert table.columns["name"].tolist() == ["a, b", 'say "hi"', "two\nlines", "a, b"]
    assert table.X.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]


MISSING = "a,b,c\n1,,7\n,2,7\nNA,?,7\n3,nan,7\nnull,4,7\n5,6,7\n"


def test_missing_values_are_counted_and_refused(read):
    refused(
        read,
        MISSING,
        r"5 rows of 6 have missing values, in columns a \(3\), b \(3\): missing='drop' .* missing='impute'",
    )
    refused(read, "a,b\n1,2\n3,NaN\n", r"1 row of 2 has missing values, in column b \(1\)")


def test_missing_values_are_dropped_with_their_rows(read):
    table = read(MISSING.replace("c\n", "kind\n").replace("7\n", "u\n"), missing="drop", label="kind")
    assert table.X.tolist() == [[5, 6]]
    assert table.ids.tolist() == [5]
    assert table.labels.tolist() == ["u"]
    assert any(remark.endswith("left out.") for remark in table.remarks)
    refused(read, "a,b\n1,\n,2\n", "so no row is left", missing="drop")


def test_missing_values_are_kept_for_an_imputer(read):
    table = read(MISSING, missing="impute")
    nan = np.nan
    np.testing.assert_array_equal(
        table.X, [[1, nan, 7], [nan, 2, 7], [nan, nan, 7], [3, nan, 7], [nan, 4, 7], [5, 6, 7]]
    )
    with pytest.raises(ValueError, match="missing must be one of 'refuse', 'drop', 'impute', 'keep'; got 'skip'"):
        read(MISSING, missing="skip")


def test_missing_words_are_texts_in_a_column_of_text(read):
    table = read("country,x\nNA,1\nDE,2\nNA,3\n,4\n", color=["country"])
    assert table.columns["country"].tolist() == ["NA", "DE", "NA", ""]


def test_a_column_that_was_to_be_numbers_is_refused(read):
    text = "price,b\n" + "1,2\n" * 11 + "cheap,3\n"
    refused(read, text, r"Column 'price': 'cheap' in row 12 is not read as a number.*drop='price'.*color='price'")
    assert read(text, color=["price"]).features == ("b",)
    assert read(text, drop=["price"]).features == ("b",)


def test_ids_are_never_embedded_silently(read):
    rows = "".join(f"{i},{i * i},{i % 3}\n" for i in range(12))
    table = read("k,x,patient_id\n" + rows)
    assert (table.id_name, table.features) == ("k", ("x",))  # it counts the rows
    assert table.columns["patient_id"].tolist() == [i % 3 for i in range(12)]
    assert any("patient_id" in remark for remark in table.remarks)
    assert read("geonameid,x\n12,1.5\n38,2.5\n").ids.tolist() == [12, 38]
    assert read("acid,x\n12,1.5\n12,2.5\n").features == ("acid", "x")
    assert read("PassengerId,x\n3,1.5\n1,2.5\n").ids.tolist() == [3, 1]
    assert read("x\n" + "".join(f"{i}\n" for i in range(20))).features == ("x",)  # nothing else is there
    large = read("id,x\n9007199254740993,1\n9007199254740995,2\n")
    assert large.ids.tolist() == [9007199254740993, 9007199254740995]


def test_labels_are_never_embedded_silently(read):
    table = read("target,x\n1,5\n2,6\n2,7\n")
    assert (table.label, table.features) == ("target", ("x",))
    continuous = read("target,x\n1.5,5\n2.25,6\n")
    assert (continuous.label, continuous.columns["target"].tolist()) == (None, [1.5, 2.25])
    assert read("label,x\n1,5\n2,6\n", features=["label", "x"]).features == ("label", "x")


def test_long_texts_are_no_names(read):
    table = read("review,x\n" + "".join(f"{'word ' * 60}{i},{i}\n" for i in range(3)))
    assert table.id_name == "row"
    assert table.columns["review"][2].endswith("word 2")


def test_repeated_names_are_numbered(read):
    table = read("a,a,a.1,a\n1,2,3,4\n")
    assert table.features == ("a", "a.2", "a.1", "a.3")
    assert "Repeated names of columns were numbered: a." in table.remarks


def test_encodings(read):
    assert read("é,b\n1,2\n").features == ("é", "b")
    assert read("\ufeffé,b\n1,2\n").features == ("é", "b")
    assert read("\ufeff1,2\n3,4\n").X.tolist() == [[1, 2], [3, 4]]
    assert read("é,b\n1,2\n".encode("utf-16")).features == ("é", "b")
    western = read("é,€\n1,2\n".encode("cp1252"))
    assert western.features == ("é", "€")
    assert any("read as Windows-1252" in remark for remark in western.remarks)
    assert any("Latin-1" in remark for remark in read("é\x81,b\n1,2\n".encode("latin-1")).remarks)


def test_bytes_of_another_encoding_far_behind_the_beginning(read):
    late = read(b"kind,x\n" + b"red,1\nblue,2\n" * 90_000 + "grün,3\n".encode("latin-1"))
    assert late.columns["kind"][-1] == "grün"
    assert any("not entirely UTF-8" in remark for remark in late.remarks)


def test_compressed_text(read):
    assert read(gzip.compress(IRIS.encode()), name="data.csv.gz").features == ("length", "width")
    assert read(gzip.compress(b"a\tb\n1\t2\n"), name="data.tsv.gz").features == ("a", "b")
    with pytest.raises(ValueError, match=r"data.csv.gz cannot be read as a text table: it is cut off"):
        read(
            gzip.compress(np.random.default_rng(0).normal(size=500).tobytes().hex().encode())[:-100], name="data.csv.gz"
        )


def test_ragged_rows_are_named(read):
    refused(read, "a,b\n1,2\n3\n4,5\n", "line 3 has 1 field, the first lines have 2")
    refused(read, "a,b\n" + "1,2\n" * 300 + "1,2,3\n", "line 302 has 3 fields, the first lines have 2")
    refused(read, "# note\n1 2\n3 4\n5 6 7\n", "line 4 has 3 fields, the first lines have 2")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "is empty"),
        (b"\n \n\n", "is empty"),
        (b"\xff\xfe", "is empty"),
        (b"a,b,c\n", r"holds only names of columns \(a, b, c\)"),
        (b"a,b,c", r"holds only names of columns \(a, b, c\)"),
        (b"# nothing\n# at all\n", "holds comments only"),
        (b"a,b\n1,\0\n", "holds a NUL byte at byte 6"),
        (b"name,x\nfoo,bar\nq,z\n", "no column of numbers to embed; its columns are name, x"),
    ],
)
def test_what_is_no_table(read, content, match):
    refused(read, content, match)


def test_lines_of_megabytes(read):
    table = read("text,x\n" + "y" * 5_000_000 + ",2\nz,3\n")
    assert (len(table.columns["text"][0]), table.X.tolist()) == (5_000_000, [[2], [3]])


def test_one_column_comes_with_advice(read):
    table = read("a\n1\n2\n")
    assert table.X.tolist() == [[1], [2]]
    assert any("delimiter=..." in remark for remark in table.remarks)


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=5)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(NUMBERS, NUMBERS, WORDS), min_size=1, max_size=20))
def test_numbers_come_back_to_the_bit(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("numbers") / "data.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("a", "b", "word"), *rows])
    table = read_table(path, color=["word"])
    np.testing.assert_array_equal(table.X, [row[:2] for row in rows])
