"""Trainings resume where they were stopped, and end with the same weights."""

import random
import re
from itertools import islice

import pytest
import torch

from alignatt_agent.config.languages import language
from alignatt_agent.translation.history import History
from alignatt_agent.translation.prompt import PromptBuilder
from lab.micro_world import tokenizers, training
from lab.micro_world.corpus import sentences
from lab.micro_world.speech_data import ClipMaker
from lab.micro_world.training import Plan, ResumeError, fit
from lab.micro_world.translation_data import (
    CONTEXT_WEIGHT,
    PROMPTS,
    SPELLED,
    ExampleMaker,
    Shown,
    listed,
)

PLAN = Plan("toy", 12, 0.1, seed=3)


class Stopped(Exception):
    pass


def train(work, plan=PLAN, stop_at=None):
    training.seed_everything(0)
    model = torch.nn.Linear(4, 4)

    def step(number):
        if number == stop_at:
            raise Stopped
        loss = (model(torch.rand(8, 4)) - number).square().mean()
        return loss, {"loss": loss.item()}

    fit(model, step, plan, work)
    return model.weight.detach().clone()


def test_a_training_that_was_stopped_ends_in_the_same_weights(tmp_path, monkeypatch):
    whole = train(tmp_path / "whole")
    monkeypatch.setattr(training, "SAVE_EVERY_S", 0.0)
    with pytest.raises(Stopped):
        train(tmp_path / "stopped", stop_at=7)
    assert torch.load(tmp_path / "stopped" / "toy.pt")["done"] == 7
    assert torch.equal(train(tmp_path / "stopped"), whole)


def test_a_finished_training_is_not_run_again_and_not_taken_for_another_one(tmp_path):
    first = train(tmp_path)
    assert torch.equal(train(tmp_path, stop_at=0), first)
    with pytest.raises(ResumeError, match=r"toy\.pt is for the training .*'steps': 12.*delete it"):
        train(tmp_path, Plan("toy", 13, 0.1, seed=3))


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizers.gemma(samples=400)


def plain(batch):
    return [[part.tolist() if hasattr(part, "tolist") else part for part in row] for row in batch]


def test_batches_depend_on_their_number_alone(tokenizer):
    for make in (lambda: ExampleMaker(tokenizer, 5), lambda: ClipMaker(60, 5)):
        first, second = make(), make()
        first.batch(9, 2)
        batch = plain(first.batch(3, 2))
        assert batch == plain(second.batch(3, 2))
        assert batch != plain(second.batch(4, 2))


def test_targets_under_the_instruction_to_follow_end_where_the_source_does(tokenizer):
    maker = ExampleMaker(tokenizer, 5)
    rows = [row for number in range(24) for row in maker.batch(number, 10)]
    said = tokenizer.decode
    follows = [row for row in rows if "said so far" in said(row.ids[: row.first])]
    assert len(rows) / 3 < len(follows) < 2 * len(rows) / 3
    # A word that the source does not decide is never scored: only where one is forced is it there.
    assert {weight for row in follows for weight in row.weights} == {0.0, 1.0, CONTEXT_WEIGHT}
    others = [row for row in rows if row not in follows]
    assert any(0.0 < weight < 1.0 for row in others for weight in row.weights)
    assert sum(len(row.ids) == row.first + 1 for row in follows) > 0
    assert all(len(row.ids) > row.first + 1 for row in others)


def test_a_history_is_written_as_the_product_writes_it_and_scored_as_well(tokenizer):
    maker = ExampleMaker(tokenizer, 5)
    rows = [row for number in range(8) for row in maker.batch(number, 10)]
    listless = [row for row in rows if not re.search("Names|Use these", tokenizer.decode(row.ids))]
    row = max(listless, key=lambda row: len(row.ids))
    end = tokenizer.convert_tokens_to_ids("<turn|>")
    turns = tokenizer.decode(row.ids).split("<|turn>model\n")
    assert len(turns) > 5
    assert [row.ids[place] for place in row.places].count(end) == len(turns) - 1
    english, target = (
        language(re.search(rf"{side} (\w+)", turns[0])[1]) for side in ("from", "into")
    )
    behavior = "follows" if "said so far" in turns[0] else "finishes"
    builder = PromptBuilder.of(tokenizer, PROMPTS[behavior], english, target)
    sources = [turn.rpartition("<|turn>user\n")[2].partition("\n\n")[0] for turn in turns[:-1]]
    history = History(builder, 6, 2000)
    for source, turn in zip(sources[:-1], turns[1:], strict=False):
        history = history.add(source.split(), builder.ids(turn.partition("<turn|>")[0]))
    asked = history.prompt(sources[-1].split(), ()).token_ids
    assert list(asked) == row.ids[: row.first]


def test_names_are_as_the_list_says(tokenizer):
    rng, differ = random.Random(5), {"list": 0, "line": 0}
    for pair in islice(sentences(5), 600):
        words, side = list(pair.words), pair.targets["de"]
        lines, shown, told = listed(rng, words, Shown(words, len(words)), side)
        terms = dict(line.split(" = ") for line in lines if " = " in line)
        for word, heard in zip(words, shown.words, strict=True):
            name = word.strip(".,")
            if name in SPELLED and heard != word:
                assert SPELLED[name] == heard.strip(".,")
                assert name in lines
                assert name in re.findall(r"\w+", told.text)
                differ["list"] += 1
            if name in SPELLED and terms.get(name, name) != name:
                assert SPELLED[name] in re.findall(r"\w+", told.text)
                differ["line"] += 1
    assert min(differ.values()) > 10


def test_names_are_guided_to_where_a_list_has_them(tokenizer):
    maker = ExampleMaker(tokenizer, 5)
    near = [
        (tokenizer.decode(row.ids[where]).strip(), tokenizer.decode(row.ids[place - 3 : place + 4]))
        for number in range(8)
        for row in maker.batch(number, 20)
        for place, places in zip(row.places, row.names, strict=True)
        for where in places
    ]
    assert len(near) > 20
    assert all(name in SPELLED and name in text for name, text in near)


def test_half_of_the_clips_come_with_the_names_that_are_said_in_them():
    maker = ClipMaker(120, 5)
    clips = [clip for number in range(16) for clip in maker.batch(number, 4)]
    told = [
        (SPELLED[name] in clip.context.split("\n"), name in clip.context.split("\n"))
        for clip in clips
        if clip.context
        for word in clip.words
        if (name := word.text.rstrip(".,")) in SPELLED
    ]
    assert set(told) == {(False, True)}
    assert 0.3 < sum(bool(clip.context) for clip in clips) / len(clips) < 0.7
