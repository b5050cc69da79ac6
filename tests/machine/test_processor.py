"""The instruction set and the allowed cores, read from files of the kernel."""

import os

import pytest

from alignatt_agent.machine import device, processor

CPU_INFO = """processor\t: 0
model name\t: Some Processor
flags\t\t: fpu {flags}
"""


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ("avx2 f16c", "AVX2"),
        ("avx2 avx_vnni", "AVX-VNNI"),
        ("avx2 avx512f avx512bw", "AVX-512 without VNNI"),
        ("avx2 avx512f avx512_vnni", "AVX-512 VNNI"),
        ("avx2 avx512f avx512_vnni avx_vnni amx_int8", "AMX"),
    ],
)
def test_the_most_capable_instruction_set_is_named(tmp_path, flags, name):
    info = tmp_path / "cpuinfo"
    info.write_text(CPU_INFO.format(flags=flags))
    assert processor.instruction_set(info) == name
    assert processor.model_name(info) == "Some Processor"


def test_arm_processors_report_features_and_no_name(tmp_path):
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nFeatures\t: fp asimd asimddp i8mm\n")
    assert processor.instruction_set(info) == "Armv8 i8mm"
    info.write_text("processor\t: 0\nFeatures\t: fp asimd asimddp\n")
    assert processor.instruction_set(info) == "Armv8 dot product"
    assert processor.model_name(info) == os.uname().machine


def test_a_signature_names_the_instruction_set(monkeypatch):
    monkeypatch.setattr(device, "gpus", lambda: ())
    assert device.device().endswith(f"cores, {processor.instruction_set()}")


def write_group(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)


def test_the_smallest_quota_of_all_parent_groups_counts(tmp_path):
    own = tmp_path / "cgroup"
    own.write_text("0::/user.slice/app.scope\n")
    root = tmp_path / "fs"
    write_group(root / "user.slice/app.scope", cpu__max="max 100000\n")
    write_group(root / "user.slice", cpu__max="150000 100000\n")
    assert processor.cpu_quota(own, root) == 1.5
    write_group(root / "user.slice/app.scope", cpu__max="50000 100000\n")
    assert processor.cpu_quota(own, root) == 0.5


def test_the_group_of_a_container_is_the_root(tmp_path):
    own = tmp_path / "cgroup"
    own.write_text("0::/\n")
    write_group(tmp_path / "fs", cpu__max="300000 100000\n")
    assert processor.cpu_quota(own, tmp_path / "fs") == 3.0


def test_quotas_of_version_1_are_read(tmp_path):
    own = tmp_path / "cgroup"
    own.write_text("5:memory:/other\n4:cpu,cpuacct:/docker/abc\n0::/\n")
    group = tmp_path / "fs/cpu,cpuacct/docker/abc"
    write_group(group, cpu__cfs_quota_us="-1\n", cpu__cfs_period_us="100000\n")
    assert processor.cpu_quota(own, tmp_path / "fs") is None
    write_group(group, cpu__cfs_quota_us="250000\n", cpu__cfs_period_us="100000\n")
    assert processor.cpu_quota(own, tmp_path / "fs") == 2.5


@pytest.mark.parametrize(
    ("affinity", "quota", "expected"),
    [(4, None, 4), (4, 1.5, 1), (4, 2.0, 2), (4, 0.5, 1), (1, 8.0, 1)],
)
def test_no_more_threads_than_affinity_and_quota_allow(monkeypatch, affinity, quota, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(affinity)))
    monkeypatch.setattr(processor, "cpu_quota", lambda: quota)
    assert processor.cores() == expected
