"""Score in the COMET environment: ``python comet_worker.py MODEL SEGMENTS.json SCORES.json``.

The script imports nothing from this package, which is not installed in that environment.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

NO_MODEL = 3


def main() -> int:
    """Score segments and return the exit status."""
    model_name, data, output = sys.argv[1:4]
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # download only when the user asks for it
    # After the setting above, which the hub's client reads when it is imported.
    import comet
    import torch

    path = model_name
    if not Path(path).is_file():
        try:
            path = comet.download_model(model_name)
        except Exception as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return NO_MODEL
    model: Any = comet.load_from_checkpoint(path)
    gpus = 1 if torch.cuda.is_available() else 0
    rows = json.loads(Path(data).read_text(encoding="utf-8"))
    prediction = model.predict(rows, batch_size=8, gpus=gpus, progress_bar=False)
    Path(output).write_text(json.dumps([float(score) for score in prediction.scores]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
