"""``alignatt terms``: names by their capitals, from text, papers and glossaries."""

import csv
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from alignatt_agent.cli import main
from alignatt_agent.config.terms import read_terms
from alignatt_agent.live.terms import propose

PAPER = """Simulstream streams. The AlignAtt policy of Sara Papi reads attention by Sara Papi, Papi
and AlignAtt's users run Simulstream on GPT-4 or iPhone. A Model is a model. The Model of a model.
In Brno the iPhone and GPT-4 work: In Brno, transla-
tion works with Simulstream.

5 References
Doe, Doe and Doe. Doe by Doe.
"""


def test_names_are_counted_inside_sentences():
    found = ["AlignAtt", "Sara Papi", "Simulstream", "GPT-4", "iPhone", "Brno"]
    assert sorted(propose(PAPER)) == sorted(found)
    assert propose(PAPER, 1)[0] in found
    assert "Papi" in propose(PAPER, 1)
    assert propose("") == []


def terms(capsys, *arguments):
    status = main(["terms", *map(str, arguments)])
    printed = capsys.readouterr()
    return status, printed.out.splitlines(), printed.err


def test_text_and_glossaries(tmp_path, capsys):
    notes = tmp_path / "notes.txt"
    notes.write_text(PAPER, encoding="utf-8-sig")
    assert terms(capsys, notes, "--most", "2")[:2] == (0, propose(PAPER)[:2])
    table = tmp_path / "glossary.tsv"
    table.write_text("en\tde\tit\nhead\tKopf\ttesta\nBrno\tBrünn\t\nvLLM\t\t\n", encoding="utf-8")
    status, lines, _ = terms(capsys, table)
    assert (status, lines) == (0, ["head = de: Kopf | it: testa", "Brno = de: Brünn", "vLLM"])
    found = [item.translation("it") for item in read_terms("\n".join(lines))]
    assert found == ["testa", None, None]
    table.write_text(" \n")
    assert "contains no text" in terms(capsys, table)[2]
    table.write_text("Number\tText\n1\tWe like Brno.\n2\tYou like Brno.\n", encoding="utf-8")
    assert terms(capsys, table)[1] == ["Brno"]


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("a.tsv", "EN\tDE\tIT"),
        ("a.tsv", "en-US\tde_DE\tit-CH"),
        ("a.tsv", "English\tgerman\tItalian"),
        ("a.tsv", "\ufeffen\tde\tit\t"),
        ("a.tsv", '"en"\t"de"\t"it"'),
        ("a.txt", "EN\tDE\tIT"),
        ("a.csv", "EN,DE,IT"),
        ("a.CSV", "EN;DE;IT"),
        ("a.tsv", "ID\tEN\tDE\tNotes\tIT"),
    ],
)
def test_headers_of_glossaries(tmp_path, capsys, name, header):
    columns = {"en": "head", "de": "Kopf", "it": "testa", "id": "1", "notes": "a part"}
    sign = next(char for char in "\t;," if char in header)
    heads = [part.strip('"\ufeff').lower() for part in header.split(sign)]
    longer = {"english": "en", "german": "de", "italian": "it"}
    cells = [columns.get(longer.get(head, head[:5] if head == "notes" else head[:2]), "")
             for head in heads]  # fmt: skip
    (tmp_path / name).write_text(f"{header}\r\n{sign.join(cells)}\r\n", encoding="utf-8")
    status, lines, error = terms(capsys, tmp_path / name)
    assert (status, lines) == (0, ["head = de: Kopf | it: testa"])
    assert ("columns that name no language are ignored: ID, Notes" in error) == ("ID" in header)


def test_cells_of_glossaries_survive_both_ways(tmp_path, capsys):
    cells = {
        "E = mc²": "E = mc²",
        "a|b": "c | d",
        "=": "gleich =",
        'the "new" model': '"neu"',
        "back\\slash \\|": "\\= \\\\",
        "two\nlines": "zwei\r\nZeilen",
        "soft\vbreak": "weicher\u2028Umbruch\x85",
        "cat=dog": "de: Hund",
        "Brno": "",
    }
    table = tmp_path / "glossary.tsv"
    with table.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter="\t")
        writer.writerows([("EN", "DE"), *cells.items(), ("", "ohne Begriff")])
    status, lines, error = terms(capsys, table)
    assert (status, len(lines)) == (0, len(cells))
    assert "glossary.tsv: 1 row(s) without a term in the first language are skipped" in error
    found = {term.text: term.translation("de") or "" for term in read_terms("\n".join(lines))}
    assert found == {" ".join(a.split()): " ".join(b.split()) for a, b in cells.items()}


@pytest.mark.parametrize("begin", ["sep=;\n", "\n\n", ";;\n ;;\n", "sep=;\n;;\n"])
def test_lines_of_excel_before_the_header(tmp_path, capsys, begin):
    table = tmp_path / "a.csv"
    table.write_text(f"{begin}EN;DE;\nhead, part;Kopf;\n", encoding="utf-8")
    assert terms(capsys, table)[:2] == (0, ["head, part = de: Kopf"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("en\tde\na\u2063b\tc\n", "contains U+2063, which is no text"),
        ("en\tde\na\t\x07c\n", "contains U+0007, which is no text"),
        ("eng\tdeu\na\tb\n", "the first row (eng, deu) names no language, so the file is read"),
        ("en\tde\n", "the glossary has no row with a term in the first language"),
        ("en-US\ten-GB\na\tb\n", "'en-GB' is the second column of the language en; keep one"),
        ("en\tKlingon\na\tb\n", "only one column names a language; ignored would be Klingon"),
        ("Number\tText\n1\tnothing\n", "no name or term occurs at least 2 times"),
        ("only small words\n", "no name or term occurs at least 2 times"),
    ],
)
def test_a_file_without_terms_is_refused(tmp_path, capsys, content, message):
    (tmp_path / "glossary.tsv").write_text(content, encoding="utf-8")
    status, lines, error = terms(capsys, tmp_path / "glossary.tsv")
    assert (status, lines) == (2, [])
    assert message in error


def test_quotation_marks_that_are_not_csv_are_text(tmp_path, capsys):
    (tmp_path / "a.tsv").write_text('en\tde\n"open\tAuf\nhead\tKopf\n', encoding="utf-8")
    status, lines, error = terms(capsys, tmp_path / "a.tsv")
    assert (status, lines) == (0, ['"open = de: Auf', "head = de: Kopf"])
    assert "quotation marks are read as text" in error


def test_names_of_any_script_in_a_locale_of_one(tmp_path):
    made = ["localedef", "-i", "de_DE", "-f", "ISO-8859-1", str(tmp_path / "de_DE")]
    if not shutil.which("localedef") or subprocess.run(made, capture_output=True).returncode:
        pytest.skip("this machine cannot make a locale of ISO-8859-1")
    notes = tmp_path / "notes.txt"
    notes.write_text("We saw Łódź there. And in Łódź again.", encoding="utf-8")
    command = [sys.executable, "-m", "alignatt_agent.cli", "terms", str(notes)]
    environment = {**os.environ, "LOCPATH": str(tmp_path), "LC_ALL": "de_DE"}
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert done.stdout.decode() == "Łódź\n"


def test_papers(tmp_path, capsys, monkeypatch):
    class NotOneError(Exception):
        pass

    def reader(path):
        if path.stat().st_size == 0:
            raise NotOneError("empty")
        return SimpleNamespace(pages=[SimpleNamespace(extract_text=path.read_text)])

    paper = tmp_path / "paper.pdf"
    paper.write_text(PAPER)
    monkeypatch.setitem(sys.modules, "pypdf", None)
    status, _, error = terms(capsys, paper)
    assert (status, "pip install 'alignatt_agent[pdf]'" in error) == (2, True)
    errors = SimpleNamespace(PyPdfError=NotOneError)
    monkeypatch.setitem(sys.modules, "pypdf", SimpleNamespace(PdfReader=reader, errors=errors))
    monkeypatch.setitem(sys.modules, "pypdf.errors", errors)
    assert terms(capsys, paper)[1] == propose(PAPER)
    paper.write_text("")
    assert "paper.pdf is not a PDF that pypdf can read: empty" in terms(capsys, paper)[2]
