"""Publishing: the site's sources, the files of a release, and the workflows."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from lab import docs_site

ROOT = Path(__file__).resolve().parents[2]
URL = "https://example.org/someone/alignatt_agent"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def pages(nav):
    for item in nav:
        if isinstance(item, str):
            yield item
        else:
            yield from pages(next(iter(item.values())))


def test_the_site_has_every_page_and_every_link_leads_somewhere(tmp_path):
    assert docs_site.main([str(tmp_path / "site")]) == 0
    site = tmp_path / "site"
    written = {path.relative_to(site).as_posix() for path in site.rglob("*.md")}
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(pages(settings["nav"])) == sorted(written)
    for name in written:
        text = (site / name).read_text(encoding="utf-8")
        for link in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text):
            assert ((site / name).parent / link).exists(), (name, link)
    modules = re.findall("^::: (.+)", (site / "reference.md").read_text(encoding="utf-8"), re.M)
    assert "alignatt_agent.agent" in modules
    for module in modules:
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__init__.py").exists(), module


def test_troubleshooting_is_what_the_doctor_says():
    text = docs_site.troubleshooting()
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 15
    for said in (
        "| … checkpoint | … | run `alignatt fetch …` |",
        "| torchvision | installed but cannot be imported: … | run `pip uninstall torchvision",
        "| python | …, expected … | run `make setup PYTHON=python3.11` in a checkout |",
    ):
        assert said in text


def test_a_release_links_to_its_own_files(tmp_path):
    for name in ("README.md", "pyproject.toml"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    script = ROOT / "requirements" / "release.sh"
    subprocess.run(["sh", script, f"{URL}/", "v0.1.0"], cwd=tmp_path, check=True)
    readme = (tmp_path / "README.md").read_text(encoding="utf-8")
    links = set(re.findall(r"\]\(([^)\s]+)", readme))
    assert {link for link in links if not re.match("https?:|#", link)} == set()
    assert f"{URL}/raw/v0.1.0/docs/page.gif" in links
    for path in re.findall(rf"{URL}/(?:blob|raw)/v0.1.0/([^)#\s]+)", readme):
        assert (ROOT / path).exists(), path
    before, after = (
        tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        for folder in (ROOT, tmp_path)
    )
    assert after["project"].pop("urls")["Repository"] == URL
    assert after == before
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert citation["license"] == before["project"]["license"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_name_what_exists(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for name, job in workflow["jobs"].items():
        assert job.get("permissions", {}) == ({"id-token": "write"} if name == "publish" else {})
        for line in filter(None, (step.get("run") for step in job["steps"])):
            for target in re.findall(r"\bmake ([a-z-]+)", line):
                assert f"\n{target}:" in makefile
            for script in re.findall(r"\b(?:lab|requirements|tests)/[\w./-]+", line):
                assert (ROOT / script).exists(), script
    if linter := shutil.which("actionlint"):  # not on the package index as a program
        assert subprocess.run([linter, path], check=False).returncode == 0
