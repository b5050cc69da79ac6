"""The sources of the documentation site."""

import re
from pathlib import Path

import yaml

from lab import docs_site

ROOT = Path(__file__).resolve().parents[2]


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
