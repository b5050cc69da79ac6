#!/bin/sh
# Packs what a GPU machine without network lacks beside PyTorch, see README.md:
# `sh lab/gpu/bundle.sh OUT [PYTHON]` writes OUT/bundle.00, OUT/bundle.01, ... and OUT/SHA256SUMS.
set -eu
out=${1:?usage: sh lab/gpu/bundle.sh OUT [PYTHON]} python=${2:-3.12}
cd "$(dirname "$0")/../.."
rm -rf "$out/site" "$out"/bundle.?? "$out/SHA256SUMS"
mkdir -p "$out/site"
# This package's metadata, by which engines find its plug-in; its code is the checkout.
uv pip install --quiet --no-deps --no-build-isolation --target "$out/site" .
rm -r "$out/site/alignatt_agent"
uv pip install --quiet --no-deps --only-binary :all: --target "$out/site" \
    --python-version "$python" --python-platform x86_64-manylinux_2_35 \
    --constraints requirements/cuda.txt --requirements lab/gpu/carried.txt vllm
# Of vLLM: operators that our models do not need (Triton attention needs none), and data. Those that
# stay are built on torch's stable ABI: they load under other versions of torch than the pinned one.
find "$out/site/vllm" -type f \( -name '*.so' -o -name '*.so.*' -o -name '*.cu' -o -name '*.cuh' \
    -o -name '*.cpp' -o -name '*.pyc' -o -path '*/third_party/deep_gemm/*' \
    -o -path '*/third_party/flashmla/*' -o -path '*/fused_moe/configs/*' -o -path '*/assets/*' \) \
    ! -name _C_stable_libtorch.abi3.so ! -name cumem_allocator.abi3.so ! -name fs_io_C.abi3.so \
    ! -name spinloop.abi3.so -delete
XZ_OPT="-3 -T0" tar -cJf "$out/all.tar.xz" -C "$out/site" .
cd "$out"
split -d -b "${PART:-27000000}" all.tar.xz bundle. # after tar: in a pipe nobody would see it fail
rm all.tar.xz
sha256sum bundle.?? > SHA256SUMS
ls -l bundle.??
