"""Translate talks live, with a page for the speaker and captions for viewers.

Examples:
  serve the embedded models, which translate only talks such as those in micro_models/devset:
    alignatt serve --config micro-low

  Open http://127.0.0.1:8080/ to translate speech from a microphone or a file. If the room has a
  name such as "talk", viewers can open its captions at any time:
    http://127.0.0.1:8080/captions?room=talk&target=de      for OBS, a projector, or a phone
    http://127.0.0.1:8080/transcript?room=talk&target=de&format=srt      srt, vtt, txt, or jsonl
  show captions on an event's page:
    alignatt serve --config micro-low --embed https://event.example.org

  serve a lecture hall; the microphone requires HTTPS, which a proxy provides (docs/serve.md):
    export ALIGNATT_TOKEN=$(cat speaker.txt)      # openssl rand -hex 16 > speaker.txt
    alignatt serve --config default-low --host 0.0.0.0
    alignatt serve --config default-low --origin https://captions.example.org

  serve many rooms with 4 to 20 engine replicas on a Ray cluster, up to six speakers per replica:
    alignatt serve --config default-low --ray 10.0.0.1:6379 --replicas 4 20 --max-speakers 6

Audio is never stored. Text is kept in memory until its room has been empty for ten minutes. With
--journal DIR, text is also stored on disk, so that talks survive a server restart. After Ctrl-C,
the server translates the last words of every speaker and then stops. With --journal, the open
sentence waits for the restart instead.

exit status: 0 stopped by a signal; 1 engine failure; 2 failure before the start
"""

import argparse
import os
import signal
import threading
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from alignatt_agent.cascade.runtime import Runtime
from alignatt_agent.cluster import connection
from alignatt_agent.config.agent_config import load_config, parse_overrides
from alignatt_agent.config.command_line import page, shared_options
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.serve.access import Limits
from alignatt_agent.serve.options import base_address, read_limits, read_replicas
from alignatt_agent.serve.output import unblocked
from alignatt_agent.serve.publish import destination


def build_parser() -> argparse.ArgumentParser:
    """Build the command-line parser."""
    parser = argparse.ArgumentParser("alignatt serve", **page(__doc__))
    add = parser.add_argument
    shared_options(parser, "set", config={"required": True})
    text = "address to listen on; non-loopback addresses require --token; default %(default)s"
    add("--host", default="127.0.0.1", help=text)
    add("--port", type=int, default=8080, help="port to listen on; default %(default)s")
    text = "secrets of speakers, one per line, sent as ?token=... or as a bearer token; "
    text += "default: the environment variable ALIGNATT_TOKEN, which ps does not show"
    add("--token", default=os.environ.get("ALIGNATT_TOKEN"), help=text)
    text = "public address of the server, for links; repeat to allow speakers' pages on other hosts"
    add("--origin", action="append", default=[], metavar="URL", help=text)
    text = "origins of pages that may show captions, e.g. https://event.example.org"
    add("--embed", nargs="+", default=[], metavar="ORIGIN", help=text)
    text = "maximum number of speakers (with --ray, per replica); default %(default)s"
    add("--max-speakers", type=int, default=2, metavar="N", help=text)
    add("--max-viewers", type=int, default=200, metavar="N", help="default %(default)s")
    text = "time for which the text of an empty room is kept, in seconds; default %(default)g"
    add("--keep", type=float, default=600.0, metavar="SECONDS", help=text)
    text = "post the captions of a room to YouTube or Zoom (docs/serve.md); repeatable"
    add("--publish", action="append", default=[], metavar="ROOM:LANGUAGE=URL", help=text)
    text = "store text (never audio) in this folder, so that talks and links survive a restart"
    add("--journal", type=Path, metavar="DIR", help=text)
    connection.add_options(parser, "serve")
    text = "number of engine replicas, or its minimum and maximum; requires --ray; default 1"
    add("--replicas", type=int, nargs="+", metavar="N", help=text)
    return parser


def main(argv: Sequence[str] | None = None, begin: Callable[[str], None] | None = None) -> int:
    """Run the command; return the exit status.

    As soon as clients can connect, ``begin`` is called with the address of the page.
    """
    arguments = build_parser().parse_args(argv)
    limits = read_limits(arguments)
    cluster = connection.options_of(arguments)
    replicas = read_replicas(arguments)
    config = load_config(arguments.config, parse_overrides(arguments.overrides))
    runtime = Runtime()
    resolved = runtime.resolve(config)
    # An invalid destination is reported before the engines are loaded.
    for text in limits.publish:
        destination(text, [*resolved.head_sets, config.source_language])
    with unblocked():
        if cluster is not None:
            return serve_on_ray(arguments, resolved, limits, cluster, replicas)
        return serve_here(arguments, resolved, limits, runtime, begin)


def serve_here(
    arguments: Namespace,
    resolved: Resolved,
    limits: Limits,
    runtime: Runtime,
    begin: Callable[[str], None] | None,
) -> int:
    """Serve with engines of this machine until a signal arrives; return the exit status."""
    # These imports take seconds, so the arguments are checked first.
    from alignatt_agent.serve.engines import SharedEngines
    from alignatt_agent.serve.server import Server, listen
    from alignatt_agent.serve.service import Service

    # The port is reserved first: loading the engines takes minutes.
    reserved = listen(arguments.host, arguments.port)
    try:
        print(f"loading the engines of {arguments.config} ...", flush=True)
        engines = SharedEngines(resolved, runtime)
        engines.load()
        for warning in resolved.other_prompts():
            print(f"warning: {warning}", flush=True)
        host, port, *_ = reserved.getsockname()
        # With --port 0, the system has chosen the port.
        if limits.address and not arguments.origin:
            limits = replace(limits, address=base_address(arguments.host, port))

        def ready() -> None:
            _announce(resolved, limits, host, port)
            if begin is not None:
                begin(f"{base_address(host, port)}/")

        server = Server(Service(engines, limits), ready)
        server.run(sockets=[reserved])
    finally:
        reserved.close()
        runtime.close()
    return 0


def serve_on_ray(
    arguments: Namespace,
    resolved: Resolved,
    limits: Limits,
    cluster: connection.ClusterOptions,
    replicas: tuple[int, int],
) -> int:
    """Serve on a cluster until a signal arrives; return the exit status."""
    with connection.joined(cluster.address):
        from alignatt_agent.serve.on_ray import deployed
        from alignatt_agent.serve.replicas import Scale

        least, most = replicas
        scale = Scale(
            least=least,
            most=most,
            speakers=limits.max_speakers,
            share=cluster.share(),
        )
        print(f"starting {least} replica(s) of {arguments.config} ...", flush=True)
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        with deployed(resolved, limits, scale, arguments.host, arguments.port):
            _announce(resolved, limits, arguments.host, arguments.port)
            stop.wait()
    return 0


def _announce(resolved: Resolved, limits: Limits, host: str, port: int) -> None:
    """Print the server's address and a link for viewers."""
    address = base_address(host, port)
    source = resolved.config.source_language
    # Without head sets, the policy accepts any target.
    targets = ", ".join(resolved.head_sets) or "any language"
    print(f"{address}/ translates {source} into {targets}", flush=True)
    if limits.address:
        link = limits.viewers("", room="talk")
        print(f"link for viewers of the room talk: {link}", flush=True)
