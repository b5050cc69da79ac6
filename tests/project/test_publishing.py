"""Publishing: the files of a release, and the workflows."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
URL = "https://example.org/someone/alignatt_agent"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


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
