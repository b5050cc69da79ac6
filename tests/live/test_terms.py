"""``alignatt terms``: names by their capitals, from text, papers and glossaries."""

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
