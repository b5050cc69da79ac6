"""What ``alignatt calibrate COMMAND --help`` ends with."""

from alignatt_agent.calibration.pairs_file import FORMAT

RUN = f"""\
heads are scored by Translation Score: how often a head's peak hits the source word that the target
word is aligned to, under the prompt that the agent uses

examples
  the embedded model on generated pairs with gold alignments, 60 to choose and 60 to judge on:
    alignatt calibrate run --model micro_models/gemma4 --direction en-de \\
        --pairs micro:60:77 --held-out micro:60:78 --figures

  a configuration's translation model, under its prompt:
    alignatt calibrate run --config hy-mt-1.8b-low --direction en-de --pairs pairs.en-de.tsv

  a real model, words aligned by eflomal, which learns from more text than is scored:
    alignatt calibrate run --model google/gemma-4-E4B-it --revision 83df0a8 --direction en-de \\
        --pairs pairs.en-de.tsv --aligner eflomal --aligner-corpus corpus.en-de.tsv

  words aligned by a chat model; shows what it will cost, and goes on with --yes:
    alignatt calibrate run ... --aligner openai --endpoint https://HOST/v1 --aligner-model NAME \\
        --price 0.25 2.00 --yes

{FORMAT}

a run writes
  OUTPUT.json      the head set; name it under head_sets in a configuration
  OUTPUT.sqlite    word alignments and scores of every pair: the same command goes on from there,
                   and one with more pairs computes only what is new
  OUTPUT-heads, OUTPUT-top-k (.png, .svg)   with --figures

exit status: 0 written; 1 the run failed; 2 nothing was started
"""
EXPLAIN = """\
example
  alignatt calibrate explain "We have trained the large model that our students should" \\
      --config micro-low --target de --accessible 7 --prefix "Wir haben"
"""
EXPORT = "example\n  alignatt calibrate export --pairs micro:60 --direction en-de pairs.jsonl"
UNITE = "example\n  alignatt calibrate unite micro-en-de micro-en-it --output micro-en-de-it.json"
