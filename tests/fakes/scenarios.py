"""Scenarios: text with a paragraph for each test and a line for each call."""

import re

import pytest
import yaml


class Scenario:
    """Plays the lines of a scenario: ``reset``, or a call, an arrow and the expected result."""

    def play(self, script):
        for line in script:
            if line == "reset":
                self.reset()
                continue
            call, _, expected = line.partition("->")
            self.step(*(part.strip() for part in call.split("|")), expected.strip())
        return self


def read(text):
    """Return parameters of a test: the lines of every paragraph and the settings of its title.

    A title is ``# what holds (setting: value, ...)``. ``3 x`` before a line repeats it, and a line
    that begins with an arrow goes on with the one before.
    """
    found = []
    for paragraph in text.strip().split("\n\n"):
        title, _, script = paragraph.strip().partition("\n")
        sentence, _, settings = title.lstrip("# ").rstrip(")").partition(" (")
        lines = re.sub(r"\n\s*->", " ->", script).splitlines()
        repeated = [re.fullmatch(r"(?:(\d+) x )?(.*)", line.strip()).groups() for line in lines]
        calls = [line for count, line in repeated for _ in range(int(count or 1))]
        settings = yaml.safe_load(f"{{{settings}}}") if settings else {}
        found.append(pytest.param(calls, settings, id=sentence))
    return found
