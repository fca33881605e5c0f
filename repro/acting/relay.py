"""Forwards a port of this machine to a server that may end and come again elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import threading

PIECE_BYTES = 1 << 18


class Relay:
    """A port that stays while its server does not: who connects tries again there, as Reverb's clients do.

    Bytes are passed on as they come. Connections wait while there is no server, and end when it is gone, also where its
    machine can say nothing any more.

    Args:
        host: interface that it listens on; "": every one.

    Attributes:
        port: that it listens on.
    """

    def __init__(self, host: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._target: tuple[str, int] | None = None
        self._has_target = asyncio.Event()
        self._connections: set[asyncio.Task] = set()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._connect, host or None, 0))
        self.port = int(self._server.sockets[0].getsockname()[1])
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="relay")
        self._thread.start()

    def forward_to(self, address: str | None) -> None:
        """Ends what is connected, and forwards from now on to a server at an address, or to none."""
        self._loop.call_soon_threadsafe(self._set_target, address)

    def close(self) -> None:
        """Ends everything."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _set_target(self, address: str | None) -> None:
        host, _, port = (address or "").rpartition(":")
        self._target = (host, int(port)) if address else None
        for connection in self._connections:
            connection.cancel()
        if self._target is None:
            self._has_target.clear()
        else:
            self._has_target.set()

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # sockets close in the loop's next round

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "it is one"
        with contextlib.suppress(asyncio.CancelledError, OSError), contextlib.closing(writer):
            await self._has_target.wait()
            self._connections.add(task)  # from now on, it ends with this server
            assert self._target is not None, "it was set"
            there_reader, there_writer = await asyncio.open_connection(*self._target)
            with contextlib.closing(there_writer):
                both = [_pass_on(reader, there_writer), _pass_on(there_reader, writer)]
                tasks = [asyncio.ensure_future(one) for one in both]
                try:
                    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for one in tasks:
                        one.cancel()
        self._connections.discard(task)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
