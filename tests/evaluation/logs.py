"""Logs of imagined runs over the dev set of fake talks."""

import itertools
import json
from pathlib import Path

import yaml

from alignatt_agent.evaluation.score import scorer_settings
from tests.fakes.agent import evaluate, translated, word

CHUNK_S = 1.0


def chunk(number, heard_s, tokens, computation_s=0.1):
    """Return Simulstream's line about a chunk of stream ``number``."""
    return {
        "id": number,
        "total_audio_processed": heard_s,
        "computation_time": computation_s,
        "generated_tokens": list(tokens),
        "deleted_tokens": [],
    }


def lines(lengths=(13, 8), target="de", computation_s=0.1, lag_words=2, spoil=lambda text: text):
    """Return Simulstream's log of a system that emits each word ``lag_words`` after its speech."""
    log = [{"model_loading_time": 1.0}]
    for number, words in enumerate(lengths):
        log.append({"id": number, "metadata": {"wav_name": f"/somewhere/talk{number}.wav"}})
        seconds = words / 2 + 1 / 16000
        done, heard = 0, 0.0
        while True:
            last = heard + CHUNK_S >= seconds
            heard = min(heard + CHUNK_S, seconds)
            upto = words if last else max(done, int(heard * 2) - lag_words)
            tokens = []
            for k in range(done, upto):
                text = spoil(translated(word(k), target == "zh"))
                tokens += list(text) if target == "zh" else [text]
            done = upto
            log.append(chunk(number, heard, tokens, computation_s))
            if last:
                break
    return log


def with_revisions(log):
    """Make the system say the first word of every chunk wrongly at the end of the chunk before."""
    log = json.loads(json.dumps(log))
    steps = [line for line in log if "generated_tokens" in line]
    for before, line in itertools.pairwise(steps):
        if line["generated_tokens"] and before["id"] == line["id"]:
            before["generated_tokens"].append("falsch")
            line["deleted_tokens"].append("falsch")
    return log


def write(path: Path, log, target="de") -> Path:
    """Write a log and the YAML that scorers need."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in log))
    (path.parent / "agent.yaml").write_text(yaml.safe_dump(scorer_settings(target)))
    return path


def rescore(path: Path, devset: Path, out: Path, target="de", config=None):
    """Score a log by ``simulstream-eval``; return exit status and scores, if there are any."""
    given = ["--score-only", path, "--target", target, "--devset", devset, "--output", out]
    given += ["--log-config", config] if config else []
    status = evaluate([str(item) for item in given])
    scores = Path(out) / target / "scores.json"
    return status, json.loads(scores.read_text()) if scores.is_file() else None


def as_jsonl(log, target="de"):
    """Return the same run as OmniSTEval's JSONL."""
    entries = []
    for line in log:
        if "metadata" in line:
            source = line["metadata"]["wav_name"]
            entries.append({"source": source, "prediction": [], "delays": [], "elapsed": []})
        for token in line.get("generated_tokens", ()):
            heard = 1000 * line["total_audio_processed"]
            entries[-1]["prediction"].append(token)
            entries[-1]["delays"].append(heard)
            entries[-1]["elapsed"].append(heard + 1000 * line["computation_time"])
    joiner = "" if target == "zh" else " "
    return [entry | {"prediction": joiner.join(entry["prediction"])} for entry in entries]
