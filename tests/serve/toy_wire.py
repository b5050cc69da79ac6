"""A wire as docs/architecture.md says: audio in; German text out, in messages of its own."""

from typing import Literal

from alignatt_agent.serve.messages import Message, Said, Start, text_of

PATHS = ("/toy",)


class Text(Message):
    type: Literal["text"] = "text"
    text: str


async def serve(connection, service):
    async def deliver(found):
        for said in found:
            if isinstance(said, Said):
                await connection.send(Text(text=text_of(said.units)))

    async def listen():
        while isinstance(audio := await connection.receive(), bytes):
            await speech.stream.feed(audio)

    async with service.speech(Start(targets=("de",)), deliver) as speech:
        await connection.run_stream(speech.stream, listen())


async def refuse(connection, service, error):
    await connection.send(Text(text=f"refused: {error.code}"))
