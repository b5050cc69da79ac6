"""The line on the time that a second of speech takes."""

from alignatt_agent.cascade.pace import describe


def test_a_fast_machine_gets_a_short_line():
    line = describe(0.42, 1000)
    assert line.startswith("a second of speech takes about 0.4 s for one target (")
    assert "behind" not in line


def test_a_slow_machine_learns_the_consequence_and_the_fixes():
    line = describe(3.2, 1000)
    assert "10 minutes of a recording take 32 minutes" in line
    assert "falls behind by 132 s every minute" in line
    assert "--set chunk_ms=2000" in line
    assert "laptop-high" in line
    assert "alignatt demo" in line
