"""Reading, preparing, storing and opening catalogues; bad records and damaged folders."""

import json

import pytest

from harness.errors import RequestError
from tasks.webshop import nouns, stored
from tasks.webshop.catalogue import Catalogue, write
from tasks.webshop.reading import read_instructions, read_products, read_table
from tests.tasks.webshop import cases


def raw(asin="B000000001", **changes):
    return {
        "name": "Tea",
        "full_description": "Green tea.",
        "pricing": "$5.00",
        "images": ["a.jpg"],
        "product_category": "Grocery › Tea",
        "small_description": ["Fresh"],
        "customization_options": "",
        "asin": asin,
        "category": "grocery",
        "query": " Tea ",
        **changes,
    }


def files_of(tmp_path, products, attributes=None):
    (tmp_path / "products.json").write_text(json.dumps(products))
    (tmp_path / "attributes.json").write_text(json.dumps(attributes or {}))
    return read_products(str(tmp_path / "products.json")), read_table(str(tmp_path / "attributes.json"))


def test_a_stored_catalogue_is_the_same_as_one_in_memory(tmp_path, measured):
    source = read_products(str(cases.CATALOGUE / "items_shuffle_1000.json"))
    tables = [
        read_table(str(cases.CATALOGUE / name)) for name in ("items_ins_v2_1000.json", "items_human_ins.json")
    ]
    write(tmp_path / "shop", source, *tables)
    opened = Catalogue.open(tmp_path / "shop")
    assert opened.sha256() == measured.sha256()
    assert opened.product(7) == measured.product(7)
    assert opened.search("hdmi cables") == measured.search("hdmi cables")
    assert opened.goal(3, "human", "original") == measured.goal(3, "human", "original")


def test_prepared_files_are_a_function_of_the_sources(tmp_path):
    for name in ("one", "two"):
        write(tmp_path / name, *files_of(tmp_path, [raw(), raw("B000000002")]), {})
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_bad_records_are_reported_and_the_load_goes_on(tmp_path):
    products = [
        raw(),
        raw(),
        raw("nan"),
        raw("B00000000001"),
        raw("B000000003", images=[]),
        raw("B000000004", pricing="cheap"),
        raw("B000000005", customization_options={"Size": [{"price": 3}]}),
        raw("B000000006", name=None),
        17,
        {"asin": 3},
        raw("B000000007", name="\ud800"),
        raw("B000000008"),
    ]
    facts = write(tmp_path / "shop", *files_of(tmp_path, products), {})
    report = facts["report"]
    assert (report["read"], report["kept"]) == (12, 2)
    assert sum(report["skipped"].values()) == 3
    assert report["bad"] == {
        "asin": 2,
        "customization_options": 1,
        "images": 1,
        "name": 1,
        "pricing": 1,
        "text": 1,
    }
    assert ["B000000004", "pricing", "'cheap': 'cheap' has no dollar sign"] in report["examples"]


def test_bytes_that_are_not_utf8_spoil_only_their_record(tmp_path):
    text = (
        json.dumps([raw(), raw("B000000002", name="XX"), raw("B000000003")])
        .encode()
        .replace(b"XX", b"\xff\xfe")
    )
    (tmp_path / "products.json").write_bytes(text)
    facts = write(tmp_path / "shop", read_products(str(tmp_path / "products.json")), {}, {})
    assert facts["report"]["kept"] == 2
    assert facts["report"]["bad"] == {"text": 1}


@pytest.mark.parametrize("text", ["", "{", "[1, 2", '[{"a": }]', "[1 2]", "nonsense", "[" * 100_000])
def test_a_malformed_file_is_named_with_the_place(tmp_path, text):
    (tmp_path / "products.json").write_text(text)
    with pytest.raises(RequestError, match=r"products\.json: character \d+"):
        list(read_products(str(tmp_path / "products.json")))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(RequestError, match=r"none\.json: cannot be read"):
        list(read_products(str(tmp_path / "none.json")))


def test_long_files_are_read_across_pieces(tmp_path):
    items = [{"asin": f"é{i}", "text": "x" * (i % 5000)} for i in range(3000)] + [12345]
    (tmp_path / "products.json").write_text(json.dumps(items, ensure_ascii=False))
    assert list(read_products(str(tmp_path / "products.json"))) == items
    table = {item["asin"]: item for item in items[:-1]}
    (tmp_path / "table.json").write_text(json.dumps(table, indent=1))
    assert dict(read_table(str(tmp_path / "table.json"))) == table


def test_parquet_files_are_read_by_the_same_columns(tmp_path):
    import pyarrow
    import pyarrow.parquet

    options = {"Size": [{"value": "S"}]}
    rows = [raw(customization_options=json.dumps(options)), raw("B000000002")]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "products.parquet")
    got = list(read_products(str(tmp_path / "products.parquet")))
    assert [row["asin"] for row in got] == ["B000000001", "B000000002"]
    assert got[0]["customization_options"] == options
    asked = [
        {
            "asin": "B000000001",
            "instruction": text,
            "instruction_attributes": ["x"],
            "instruction_options": [],
        }
        for text in "ab"
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(asked), tmp_path / "human.parquet")
    human = read_instructions(str(tmp_path / "human.parquet"))
    assert [entry["instruction"] for entry in human["B000000001"]] == ["a", "b"]
    shop = Catalogue.in_memory(got, {}, human)
    assert shop.goal_count("human") == 2


@pytest.mark.parametrize("damage", ["cut", "flip", "delete", "format"])
def test_a_damaged_catalogue_is_refused(tmp_path, damage):
    write(tmp_path / "shop", *files_of(tmp_path, [raw()]), {})
    path = tmp_path / "shop" / "prices_original.npy"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    elif damage == "flip":
        path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    elif damage == "delete":
        path.unlink()
    else:
        facts = json.loads((tmp_path / "shop" / stored.FACTS).read_text())
        (tmp_path / "shop" / stored.FACTS).write_text(json.dumps(facts | {"format": 99}))
    with pytest.raises(RequestError, match="prepare it anew"):
        Catalogue.open(tmp_path / "shop")


def test_nothing_is_left_where_preparing_fails(tmp_path):
    source, table = files_of(tmp_path, [raw(images=[])])
    with pytest.raises(RequestError, match="none of its 1 records"):
        write(tmp_path / "shop", source, table, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attributes.json", "products.json"]


def test_an_existing_folder_is_not_overwritten(tmp_path):
    with pytest.raises(RequestError, match="accepted: a new folder"):
        write(tmp_path, *files_of(tmp_path, [raw()]), {})


def test_an_unknown_tagger_is_refused(tmp_path):
    with pytest.raises(RequestError, match="spacy:en_core_web_lg"):
        write(tmp_path / "shop", *files_of(tmp_path, [raw()]), {}, tagger_name="words")


def test_nouns_come_from_spacy_where_a_model_is_named(monkeypatch):
    class Token:
        def __init__(self, text):
            self.text, self.pos_ = text, {"Tea": "NOUN", "Luméa": "PROPN"}.get(text, "ADJ")

    loaded = []

    class FakeSpacy:
        @staticmethod
        def load(name):
            loaded.append(name)
            return lambda title: [Token(word) for word in title.split()]

    monkeypatch.setattr(nouns, "import_module", lambda name: FakeSpacy)
    shop = Catalogue.in_memory([raw(name="Luméa Green Tea")], {}, tagger_name="spacy:en_core_web_lg")
    assert loaded == ["en_core_web_lg"]
    assert shop.product(0).nouns == ("luméa", "tea")
    assert shop.facts["tagger"] == "spacy:en_core_web_lg"
