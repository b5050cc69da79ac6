"""Join a Ray cluster, or start one on this machine; Ray is imported only for ``--ray``."""

import argparse
import contextlib
import importlib.util
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alignatt_agent.machine.environment import environment
from alignatt_agent.machine.packages import versions
from alignatt_agent.types import AlignAttError

LOCAL, AUTO = "local", "auto"

OBJECT_STORE = 128 * 1024**2
"""Shared memory of a local cluster for recordings and results, in bytes. Ray's minimum is 75 MiB,
and its default is 30 % of the machine's memory."""

REACH_S = 5.0

SHARED = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
"""Environment variables of a cluster; Ray's default niceness for workers is 15."""

ALONE = {**SHARED, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Environment variables of a one-machine cluster, whose processes listen only on loopback."""


class ClusterError(AlignAttError):
    """A cluster cannot be reached or used."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """A cluster, and the number and resources of its sets of engines."""

    address: str  # HOST:PORT, LOCAL, or AUTO (RAY_ADDRESS or the cluster of this machine)
    gpus: float | None = None  # GPUs per set, possibly a fraction; default: 1 if any node has GPUs
    count: int | None = None  # number of sets; default: as many as fit

    def share(self) -> dict[str, float]:
        """Return the resources of each set of engines as Ray options.

        Without a GPU, a set gets all logical CPUs of a node.
        """
        nodes = _resources()
        gpus = self.gpus
        if gpus is None:
            gpus = float(any(node.get("GPU") for node in nodes))
        cpus = 1.0
        if not gpus:
            # A set without a GPU would compete with another set on the same node. The smallest
            # node decides, because all sets get the same resources.
            cpus = min((node["CPU"] for node in nodes if node.get("CPU")), default=1.0)
        share = {"num_cpus": cpus, "num_gpus": gpus}
        if not _number_of_sets(nodes, share):
            listed = [f"{node.get('CPU', 0):g} and {node.get('GPU', 0):g}" for node in nodes]
            raise ClusterError(
                f"no node of the cluster has {cpus:g} CPUs and {gpus:g} GPUs; found "
                f"{'; '.join(listed)}: lower --ray-gpus"
            )
        return share

    def room(self, share: Mapping[str, float]) -> int:
        """Return the requested number of sets of engines or, by default, the number that fits."""
        return self.count or _number_of_sets(_resources(), share)


def add_options(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--ray`` and related options; ``what`` is a verb for the help, e.g. "serve"."""
    title = "several machines (docs/scale.md; requires the extra alignatt_agent[ray])"
    group = parser.add_argument_group(title)
    add = group.add_argument
    text = (
        f"{what} on a Ray cluster: HOST:PORT of its head node; auto (default), this machine's "
        "cluster; or local, a cluster on only this machine that stops with the command"
    )
    add("--ray", nargs="?", const=AUTO, metavar="ADDRESS", help=text)
    text = "GPUs per set of engines, possibly a fraction; default: 1 if any node has GPUs"
    add("--ray-gpus", type=float, metavar="N", help=text)


def options_of(arguments: argparse.Namespace, count: int | None = None) -> ClusterOptions | None:
    """Return the cluster options of a command line, or ``None`` without ``--ray``."""
    if arguments.ray is None:
        without_cluster: list[str] = []
        if arguments.ray_gpus is not None:
            without_cluster.append("--ray-gpus")
        if count is not None:
            without_cluster.append("--ray-workers")
        if without_cluster:
            raise ClusterError(f"{', '.join(without_cluster)}: add --ray, or omit the option")
        return None
    if importlib.util.find_spec("ray") is None:
        raise ClusterError("--ray needs Ray: pip install 'alignatt_agent[ray]'")
    return ClusterOptions(arguments.ray, arguments.ray_gpus, count)


@contextlib.contextmanager
def joined(address: str) -> Iterator[None]:
    """Join a cluster or start one on this machine; on exit, leave or stop the cluster.

    Raises:
        ClusterError: the cluster is unreachable, or a node's versions differ from this machine's.
    """
    local = address == LOCAL
    if address not in (LOCAL, AUTO):
        _knock(address)
    variables = ALONE if local else SHARED
    with environment(variables), contextlib.ExitStack() as stack:
        # Ray reads some of the variables when it is imported.
        import ray

        settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if local:
            folder = tempfile.TemporaryDirectory(prefix="alignatt-ray-", ignore_cleanup_errors=True)
            settings["include_dashboard"] = False
            settings["object_store_memory"] = OBJECT_STORE
            settings["_temp_dir"] = stack.enter_context(folder)
        try:
            ray.init(address, **settings)
        except Exception as error:  # Ray also raises plain ``Exception``
            raise ClusterError(_unreachable(address, error)) from None
        stack.callback(ray.shutdown)
        check_nodes(versions())
        yield


def check_nodes(here: Mapping[str, str]) -> None:
    """Check that the versions on all nodes match this machine's versions."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    # All nodes answer at the same time: the first task on a node starts a worker, which takes
    # seconds.
    answers: list[tuple[str, Any]] = []
    for node in _live_nodes():
        task = ray.remote(versions).options(
            num_cpus=0, max_retries=0, scheduling_strategy=On(node["NodeID"], soft=False)
        )
        answers.append((node["NodeManagerAddress"], task.remote()))
    for name, answer in answers:
        try:
            check_versions(here, ray.get(answer), name)
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            raise ClusterError(
                f"node {name} cannot run this package ({one_line(cause)}): install this machine's "
                "environment on the node"
            ) from None


def check_versions(here: Mapping[str, str], there: Mapping[str, str], node: str) -> None:
    """Compare the versions of this machine and a node; the error lists all differences."""
    differences: list[str] = []
    for package in {**here, **there}:
        version = there.get(package, "none")
        local_version = here.get(package, "none")
        if version != local_version:
            differences.append(f"{package} {version} (here {local_version})")
    if differences:
        raise ClusterError(
            f"node {node} runs {', '.join(differences)}: results would not be comparable; install "
            "this machine's environment on the node"
        )


def _knock(address: str) -> None:
    """Reject an address that does not answer, because Ray would wait for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ClusterError(f"--ray {address}: expected HOST:PORT, auto or local")
    try:
        socket.create_connection((host, int(port)), REACH_S).close()
    except (OSError, OverflowError) as error:  # a port above 65535 overflows
        raise ClusterError(_unreachable(address, error)) from None


def _unreachable(address: str, error: Exception) -> str:
    reason = one_line(error)
    if address == LOCAL:
        return f"cannot start a cluster on this machine: {reason}"
    return (
        f"no Ray cluster at {address} ({reason}): start one with `ray start --head`, specify "
        "another with --ray HOST:PORT, or use only this machine with --ray local"
    )


def one_line(error: BaseException) -> str:
    """Return the beginning of an error message, on one line."""
    return " ".join(str(error).split())[:400] or type(error).__name__


def _live_nodes() -> list[dict[str, Any]]:
    """Return Ray's descriptions of the nodes that have not left the cluster."""
    import ray

    return [node for node in ray.nodes() if node["Alive"]]


def _resources() -> list[dict[str, float]]:
    """Return the amount of each resource, by Ray's name of the resource, for every node."""
    return [node["Resources"] for node in _live_nodes()]


def _number_of_sets(nodes: Sequence[Mapping[str, float]], share: Mapping[str, float]) -> int:
    """Return the number of sets with the resources ``share`` that fit on the nodes."""
    cpus, gpus = share["num_cpus"], share["num_gpus"]
    if not cpus and not gpus:
        return 1
    total = 0
    for node in nodes:
        limits: list[int] = []
        if cpus:
            limits.append(int(node.get("CPU", 0) / cpus))
        if gpus:
            limits.append(int(node.get("GPU", 0) / gpus))
        total += min(limits)
    return total
