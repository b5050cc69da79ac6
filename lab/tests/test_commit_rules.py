"""The table of commit rules."""

import json
import sys

from lab import commit_rules


def test_the_table_has_a_row_for_each_rule_and_chunk(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(commit_rules, "CHUNKS_MS", (850,))
    pieces = [[[0.0, 0.4, False], [0.5, 1.0, True], [1.2, 1.5, False]]]
    recorded = tmp_path / "pieces.json"
    recorded.write_text(json.dumps({"pieces": pieces}))
    monkeypatch.setattr(sys, "argv", ["commit_rules", "--recorded", str(recorded)])
    commit_rules.main()
    _, _, agreed, ended = capsys.readouterr().out.splitlines()
    assert agreed.split()[:4] == ["agreed", "850", "3", "0"]
    assert ended.split()[:4] == ["ended", "850", "3", "0"]
