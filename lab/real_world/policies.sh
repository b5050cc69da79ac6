# Compare policies on the claims set with short and long chunks: sh -eu policies.sh OUTPUT PYTHON
# Valuable runs come first. Runs share transcripts and parts of drafts; the same command resumes.
output=$1 python=$2

sweep() {  # CHUNK_MS GRID TARGET... -- POINT...
    chunk=$1 grid=$2
    shift 2
    targets=""
    while [ "$1" != -- ]; do targets="$targets $1"; shift; done
    shift
    "$python" -m lab.curves --points "$grid" --set "chunk_ms=$chunk" --streams 24 \
        --config-low laptop-low --config-high laptop-high --devset "$output/claims" \
        --output "$output/policies-$chunk" --target $targets --only "$@"
}

agreement="local_agreement-c500-n3 local_agreement-c500-n2"
others="either-n3-c500-h100-b-8 local_agreement-c500-n4 alignatt-n2-c500-h100-b-2"
rules="either-n3-c500-h100-b-6"
set -x
for target in de it zh; do sweep 500 real-500 "$target" -- $agreement $rules; done
for target in de it zh; do sweep 500 real-500 "$target" -- $agreement $rules $others; done
sweep 1000 real de it zh -- either-n3-c1000-h100-b-6 local_agreement-c1000-n2
sweep 500 real-500 de it zh -- $agreement $rules $others
