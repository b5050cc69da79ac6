"""Pages of results: the committed pages are those that the command writes from the JSON."""

import json

import pytest

from lab.results_pages import __main__ as results_pages
from lab.results_pages import rows
from lab.results_pages.cells import Cells


def test_the_committed_pages_are_those_of_the_json():
    for path, text in results_pages.pages().items():
        assert path.read_text() == text, f"{path}: run `make results`"


@pytest.fixture
def folders(tmp_path, monkeypatch):
    for name in ("RESULTS", "DOCS"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(results_pages, name, tmp_path / name)
    return tmp_path


def test_new_figures_get_commit_and_date(folders):
    (folders / "figures.json").write_text("[1, 2]")
    results_pages.add(folders / "figures.json", "figures")
    found = json.loads((folders / "RESULTS/figures.json").read_text())
    assert found["rows"] == [1, 2]
    assert found["recorded"].keys() == {"commit", "date"}
    found["recorded"] = {"commit": "older"}
    (folders / "figures.json").write_text(json.dumps(found))
    results_pages.add(folders / "figures.json", "figures")
    found = json.loads((folders / "RESULTS/figures.json").read_text())
    assert found["recorded"]["commit"] != "older"


def test_scores_of_the_dev_set_are_collected(folders):
    scores = {
        "bleu": 76.3, "chrf": 88.4, "longyaal_cu_ms": 1774.0, "longyaal_ca_ms": 1840.0,
        "rtf": 0.12, "stream_laal_cu_ms": 1784.0, "transcript": {"wer": 4.2},
        "signature": {"config": "micro-low", "target": "de", "versions": {}, "device": "cpu",
                      "audio": "297 s"},
    }  # fmt: skip
    folder = folders / "outputs/dev-low/de"
    folder.mkdir(parents=True)
    (folder / "scores.json").write_text(json.dumps(scores))
    results_pages.add_devset(folders / "outputs")
    data = json.loads((folders / "RESULTS/devset.json").read_text())
    (row,) = rows.embedded_summary(data)
    columns = results_pages.PAGES["embedded"]["columns"].values()
    cells = [Cells().vformat(template, (), row) for template in columns]
    assert cells == ["`make dev-low`", "de", "76.3", "88.4", "1.77 s", "1.84 s", "0.12"]
    with pytest.raises(SystemExit, match="run make dev-low first"):
        results_pages.add_devset(folders / "nothing")


def test_a_page_of_other_figures_shows_the_tables_that_have_files(tmp_path, capsys):
    (tmp_path / "lab/results").mkdir(parents=True)
    row = {"bleu": 15.8, "chrf": 48, "wer": 9, "wer_interval": [8, 10]}
    (tmp_path / "lab/results/real-offline.json").write_text(json.dumps({"rows": [row]}))
    results_pages.main(["--real", str(tmp_path)])
    shown = capsys.readouterr().out
    assert "9.0 [8.0, 10.0]" in shown
    assert shown.count("## ") == 1


def test_a_readme_without_marks_is_refused(monkeypatch, tmp_path):
    (tmp_path / "README.md").write_text("# Title")
    monkeypatch.setattr(results_pages, "MARKED", {tmp_path / "README.md": ("real",)})
    with pytest.raises(SystemExit, match="lacks the lines"):
        results_pages.pages()
