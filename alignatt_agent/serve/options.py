"""Check the options of ``alignatt serve``, and convert them to limits of the server."""

import contextlib
import hashlib
import re
import socket
from argparse import Namespace

from alignatt_agent.config.errors import ConfigError
from alignatt_agent.serve.access import LOCAL_HOSTS, Limits, is_loopback
from alignatt_agent.serve.journal import Journal

_ADDRESS = re.compile(r"(https?://[\w.:\[\]-]+)(/[\w/.~-]*)?")
"""Pattern of an address: its origin, and an optional path."""


def read_limits(arguments: Namespace) -> Limits:
    """Return the limits; require a token if other machines can reach the server.

    Raises:
        ConfigError: an option is invalid, or a token is missing.
    """
    is_local = is_loopback(arguments.host)
    if not is_local and not arguments.token:
        raise ConfigError(
            f"--host {arguments.host} lets other machines connect: set a secret with "
            "ALIGNATT_TOKEN or --token, e.g. export ALIGNATT_TOKEN=$(openssl rand -hex 16)"
        )
    _check_addresses("origin", arguments.origin)
    _check_addresses("embed", arguments.embed)
    _check_positive("max-speakers", arguments.max_speakers)
    _check_positive("max-viewers", arguments.max_viewers)
    _check_positive("keep", arguments.keep)
    if not 0 <= arguments.port < 2**16:
        raise ConfigError(f"--port must be between 0 and 65535, got {arguments.port}")
    if arguments.port == 0 and arguments.ray is not None:
        raise ConfigError("--port 0 does not work with --ray: specify a port from 1 to 65535")
    hosts: tuple[str, ...] = ()
    # A token protects from DNS rebinding, too, and a proxy may send another name.
    if is_local and not arguments.token:
        hosts = LOCAL_HOSTS
    address = None
    if arguments.origin:
        address = arguments.origin[0]
    elif not is_local:
        address = base_address(arguments.host, arguments.port)
    viewer_token = None
    if arguments.token:
        viewer_token = _viewer_token(arguments.token)
    return Limits(
        token=arguments.token,
        viewer_token=viewer_token,
        origins=[_ADDRESS.sub(r"\1", url) for url in arguments.origin],
        embed=[_ADDRESS.sub(r"\1", url) for url in arguments.embed],
        hosts=hosts,
        address=address,
        max_speakers=arguments.max_speakers,
        max_viewers=arguments.max_viewers,
        keep_s=arguments.keep,
        publish=tuple(arguments.publish),
        journal=Journal(arguments.journal).folder,
    )


def read_replicas(arguments: Namespace) -> tuple[int, int]:
    """Return the minimum and maximum number of replicas.

    Raises:
        ConfigError: the numbers are invalid, or there is no cluster.
    """
    counts = arguments.replicas
    if counts is None:
        return 1, 1
    if arguments.ray is None:
        raise ConfigError("--replicas needs --ray")
    if len(counts) > 2 or not 1 <= counts[0] <= counts[-1]:
        raise ConfigError(f"--replicas must be a number, or a minimum and a maximum; got {counts}")
    return counts[0], counts[-1]


def base_address(host: str, port: int) -> str:
    """Return a server's address without a path; other machines reach an unspecified host, too."""
    if host in ("0.0.0.0", "::"):
        with contextlib.suppress(OSError), socket.socket(type=socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # sends no packet, but selects the outgoing address
            host = probe.getsockname()[0]
    # An IPv6 address contains colons.
    if ":" in host:
        host = f"[{host}]"
    return f"http://{host}:{port}"


def _check_addresses(option: str, addresses: list[str]) -> None:
    for address in addresses:
        if not _ADDRESS.fullmatch(address):
            expected = f"--{option} must be an address such as https://talks.example.org"
            raise ConfigError(f"{expected}, got {address!r}")


def _check_positive(option: str, value: float) -> None:
    # This form also rejects NaN.
    if not value > 0:
        raise ConfigError(f"--{option} must be greater than 0, got {value}")


def _viewer_token(token: str) -> str:
    """Return the viewers' token for a speakers' token, the same after each restart."""
    # scrypt is slow, so a viewer cannot guess the speakers' token.
    key = hashlib.scrypt(token.encode(), salt=b"viewers", n=2**14, r=8, p=1, dklen=12)
    return key.hex()
