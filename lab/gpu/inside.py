"""Run one part in a separate process: ``MODULE:FUNCTION OPTIONS PART OUT [self-test]``."""

import json
import sys
import traceback
from pathlib import Path
from pkgutil import resolve_name

from lab.gpu.parts import Context


def main(function: str, options: str, part: str, output: str, *self_test: str) -> int:
    """Measure, and write the result to the file of the part."""
    context = Context(Path(output), bool(self_test))
    path = context.output / f"{part}.json"
    try:
        result = dict(resolve_name(function)(context, **json.loads(options)))
    except Exception as error:  # the next part still runs
        traceback.print_exc()
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        path.write_text(json.dumps({"problem": text}), encoding="utf-8")
        return 1
    # Figures are also kept if a bound is exceeded.
    summary = result.pop("summary", "ok")
    problem = result.pop("problem", "")
    document = {"summary": summary, "problem": problem, "result": result}
    path.write_text(json.dumps(document), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
