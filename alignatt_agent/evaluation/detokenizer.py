"""Run the official scorers with units joined by the tokenizer of any local checkpoint.

Simulstream would download a processor and load its tokenizer; text models have no processor.
``python -m alignatt_agent.evaluation.detokenizer omnisteval|latency ...`` is OmniSTEval's or
Simulstream's own command with another tokenizer.
"""

import sys
from typing import Any


def load_tokenizer(folder: str) -> Any:
    """Return the Transformers tokenizer in a folder."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True)


def main() -> None:
    """Run the official command line that the first argument names."""
    from simulstream.metrics import detokenizers

    detokenizers._DETOKENIZER_BUILDER_MAP["hf"] = lambda config: (
        load_tokenizer(config.hf_model_name).convert_tokens_to_string
    )
    if sys.argv.pop(1) == "omnisteval":
        from omnisteval import cli

        cli.main()
    else:
        from simulstream.metrics import score_latency

        score_latency.cli_main()


if __name__ == "__main__":
    main()
