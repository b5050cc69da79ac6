"""The agent in Simulstream's own servers, with the usual faults of networks and clients."""

import asyncio
import gc
import json
import logging
import threading
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from http.server import ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest
import websockets
from simulstream.config import yaml_config
from simulstream.metrics.logger import METRICS_LOGGER
from simulstream.server.message_processor import MessageProcessor
from simulstream.server.speech_processors.remote.http_proxy_speech_processor import (
    HttpProxySpeechProcessor,
)
from simulstream.server.speech_processors.remote.http_speech_processor_server import (
    HttpSpeechProcessorHandler,
    SpeechProcessorSessionManager,
)
from simulstream.server.websocket_server import SpeechProcessorPool, connection_handler_factory

from tests.fakes import agent as fakes

CHUNK = 13_600
GERMAN = {"target_lang": "de", "source_lang": "en"}


def config_of(folder, **changes):
    config = yaml_config(str(fakes.write_config(folder, **changes)))
    config.type = "tests.fakes.agent.FakeAgent"
    return config


def expected(words):
    return [fakes.translated(fakes.word(k), chinese=False) for k in range(words)]


def pcm(words):
    samples = np.round(fakes.talk(words) * 32768).astype("<i2")
    return [samples[i : i + CHUNK].tobytes() for i in range(0, len(samples), CHUNK)]


def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# The WebSocket server


@asynccontextmanager
async def websocket_server(config, size=1, timeout=0.5):
    """Serve on the loopback interface; yields the address and the pool."""
    pool = SpeechProcessorPool(config, size, timeout)
    handler = connection_handler_factory(pool)
    async with websockets.serve(handler, "127.0.0.1", 0, ping_timeout=None) as server:
        port = server.sockets[0].getsockname()[1]
        yield f"ws://127.0.0.1:{port}/", pool


async def translated(address, words, metadata=GERMAN):
    """Stream a talk; return the words of all replies, and whether the server ended properly."""
    text = ""
    async with websockets.connect(address) as client:
        with suppress(websockets.ConnectionClosed):
            await client.send(json.dumps(metadata))
            for piece in pcm(words):
                await client.send(piece)
            await client.send(json.dumps({"end_of_stream": True}))
            async for message in client:
                reply = json.loads(message)
                if "end_of_processing" in reply:
                    return text.split(), True
                text += reply["new"]
    return text.split(), False


def test_nothing_of_a_client_that_is_gone_reaches_the_next(tmp_path):
    """Clients that disconnect in the middle of a chunk, or without end_of_stream, or silently."""

    async def run():
        async with websocket_server(config_of(tmp_path), timeout=20) as (address, pool):
            engine = fakes.FakeAgent.runtime.engines.translation
            for kind in ("in a chunk", "without an end", "silent"):
                async with websockets.connect(address) as client:
                    if kind != "silent":
                        await client.send(json.dumps({"target_lang": "zh", "source_lang": "en"}))
                    if kind == "in a chunk":
                        engine.released.clear()
                        engine.entered.clear()
                    for piece in pcm(9) if kind != "silent" else ():
                        await client.send(piece)
                    if kind == "in a chunk":
                        await asyncio.to_thread(engine.entered.wait, 20)
                        client.transport.abort()
                engine.released.set()
                assert await translated(address, 20) == (expected(20), True), kind
            await asyncio.to_thread(until, lambda: pool.available.qsize() == 1)

    fakes.FakeAgent.runtime.engines = fakes.FakeEngines()
    asyncio.run(run())


def test_clients_at_the_same_time_do_not_mix_and_too_many_are_sent_away(tmp_path):
    async def run():
        async with websocket_server(config_of(tmp_path), size=2) as (address, _):
            both = await asyncio.gather(translated(address, 20), translated(address, 14))
            assert both == [(expected(20), True), (expected(14), True)]
            async with websockets.connect(address), websockets.connect(address):  # silent
                assert await translated(address, 3) == ([], False)
            assert await translated(address, 14) == (expected(14), True)

    asyncio.run(run())


def test_a_client_that_does_not_read_gets_everything_later(tmp_path):
    async def run():
        async with (
            websocket_server(config_of(tmp_path)) as (address, _),
            websockets.connect(address, max_queue=1) as client,
        ):
            await client.send(json.dumps(GERMAN))
            for piece in pcm(20):
                await client.send(piece)
            await client.send(json.dumps({"end_of_stream": True}))
            await asyncio.sleep(1)
            text = ""
            async for message in client:
                reply = json.loads(message)
                if "end_of_processing" in reply:
                    break
                text += reply["new"]
            assert text.split() == expected(20)

    asyncio.run(run())


def test_languages_sent_again_in_mid_stream_do_not_end_the_stream(agent):
    processor = MessageProcessor(0, agent)
    outputs = []
    for piece in pcm(20):
        processor.process_metadata(GERMAN)
        outputs.append(processor.process_speech(piece))
    outputs.append(processor.end_of_stream())
    assert [token for output in outputs if output for token in output.new_tokens] == expected(20)


def test_a_refused_language_is_named_in_the_error_that_closes_the_connection(tmp_path, caplog):
    async def run():
        async with websocket_server(config_of(tmp_path)) as (address, _):
            refused = await translated(address, 20, {"target_lang": "Klingon"})
            assert refused == ([], False)
            assert await translated(address, 8) == (expected(8), True)

    asyncio.run(run())
    reason = "no target language, because the client's choice was refused: unknown language 'Kl"
    assert reason in caplog.text


def stream_threads():
    """Return the number of threads of streams; those of asyncio have other names."""
    return sum(thread.name.startswith("ThreadPoolExecutor") for thread in threading.enumerate())


def test_no_thread_stays_behind(tmp_path):
    """A discarded stream ends its threads at once, not with the next garbage collection."""

    async def run():
        async with websocket_server(config_of(tmp_path)) as (address, _):
            await translated(address, 14)
            before = stream_threads()
            for _ in range(8):
                async with websockets.connect(address) as client:
                    await client.send(json.dumps(GERMAN))
                    for piece in pcm(14):
                        await client.send(piece)
                await translated(address, 14)
            await asyncio.to_thread(until, lambda: stream_threads() <= before)

    gc.disable()
    try:
        asyncio.run(run())
    finally:
        gc.enable()


@pytest.fixture
def metrics(monkeypatch):
    """Simulstream's log, which contains the names of recordings."""
    fakes.FakeRecognizer.contexts.clear()
    monkeypatch.setattr(METRICS_LOGGER, "filters", [])
    METRICS_LOGGER.setLevel(logging.INFO)
    yield
    METRICS_LOGGER.setLevel(logging.NOTSET)


def named(talk):
    return {"metrics_metadata": {"wav_name": f"/somewhere/{talk}.wav"}}


def test_names_and_terms_of_a_talk_reach_only_its_own_client(tmp_path, metrics, caplog):
    """Clients name their languages and their talks in separate messages, one after the other."""
    contexts = {"a": ["AlignAtt"], "b": ["vLLM"]}
    config = config_of(
        tmp_path, target_language="de", speech={"hold_back_ms": 0, "context": contexts}
    )

    async def context(client):
        fakes.FakeRecognizer.contexts.clear()
        await client.send(b"".join(pcm(6)))
        await client.recv()
        (text,) = set(fakes.FakeRecognizer.contexts)
        return text

    async def run():
        async with (
            websocket_server(config, size=3) as (address, _),
            websockets.connect(address) as first,
            websockets.connect(address) as second,
            websockets.connect(address) as third,
        ):
            for client, message in [
                (first, GERMAN),
                (second, GERMAN),
                (first, named("a")),
                (third, named("b")),  # this client did not choose a language
                (second, named("b")),
            ]:
                await client.send(json.dumps(message))
                await asyncio.sleep(0.1)
            found = [await context(client) for client in (third, first, second)]
            assert found == ["", "AlignAtt", "vLLM"]

    asyncio.run(run())
    assert "names and terms of talk b are not used, because its client chose no" in caplog.text


@pytest.mark.parametrize("metadata", ["a", None, {"wav_name": None}, {}])
def test_other_metadata_of_a_recording_are_no_error(tmp_path, metrics, metadata):
    speech = {"hold_back_ms": 0, "context": {"a": ["AlignAtt"]}}
    agent = fakes.loaded_agent(tmp_path, speech=speech)
    MessageProcessor(0, agent).process_metadata(GERMAN | {"metrics_metadata": metadata})
    assert agent.talk == ""


# The HTTP server


@contextmanager
def http_server(config, size=1, ttl=60.0):
    """Serve on the loopback interface; yields a function that returns a new client."""
    manager = SpeechProcessorSessionManager(config, size, ttl)
    handler = partial(HttpSpeechProcessorHandler, speech_processor_manager=manager)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = SimpleNamespace(hostname="127.0.0.1", port=server.server_port)
    yield lambda: HttpProxySpeechProcessor(address), manager
    server.shutdown()
    server.server_close()
    manager._cleanup_stop_event.set()


def pieces(words):
    samples = fakes.talk(words)
    return [samples[i : i + CHUNK] for i in range(0, len(samples), CHUNK)]


def outputs(client, words):
    tokens = [token for piece in pieces(words) for token in client.process_chunk(piece).new_tokens]
    return tokens + client.end_of_stream().new_tokens


def in_thread(call):
    """Start a call in a thread; return a function that waits for its result."""
    results = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()

    def result():
        thread.join(20)
        return results[0]

    return result


def test_a_session_that_expires_in_a_chunk_delays_and_disturbs_nobody(tmp_path):
    """The server clears the processor from another thread, and gives it to the next client."""
    fakes.FakeAgent.runtime.engines = fakes.FakeEngines()
    engine = fakes.FakeAgent.runtime.engines.translation
    config = config_of(tmp_path, target_language="de")
    with http_server(config, size=2) as (connect, manager):
        slow, other, late = connect(), connect(), connect()
        head, tail = pieces(14)[:6], pieces(14)[6:]
        tokens = [token for piece in head for token in slow.process_chunk(piece).new_tokens]
        assert tokens
        assert outputs(other, 3) == expected(3)  # holds the second processor
        engine.entered.clear()
        engine.released.clear()
        last = in_thread(lambda: slow.process_chunk(np.concatenate(tail)))
        assert engine.entered.wait(20)
        expiry = in_thread(lambda: manager.close_session(slow.session_id))
        until(lambda: manager.available.qsize() == 1)  # before the chunk is finished
        assert other.speech_chunk_size == 0.85
        expiry()
        chunk_of_another = in_thread(lambda: late.process_chunk(pieces(20)[0]))
        until(lambda: manager.available.qsize() == 0)
        engine.released.set()
        tokens += last().new_tokens
        assert tokens == expected(14)[: len(tokens)]
        assert len(tokens) >= 12
        first = chunk_of_another().new_tokens
        rest = [t for piece in pieces(20)[1:] for t in late.process_chunk(piece).new_tokens]
        assert first + rest + late.end_of_stream().new_tokens == expected(20)


def test_the_servers_own_clock_ends_a_session_and_the_client_goes_on_with_a_new_one(tmp_path):
    config = config_of(tmp_path, target_language="de")
    with http_server(config, ttl=3.0) as (connect, manager):
        client = connect()
        client.process_chunk(pieces(3)[0])
        until(lambda: manager.available.qsize() == 1)
        assert outputs(client, 14) == expected(14)


def test_a_client_of_a_restarted_server_goes_on_with_a_new_stream(tmp_path):
    config = config_of(tmp_path, target_language="de")
    with http_server(config) as (connect, _):
        client = connect()
        assert outputs(client, 3) == expected(3)
    with http_server(config) as (connect, _):
        client.base_url = connect().base_url
        assert outputs(client, 14) == expected(14)
