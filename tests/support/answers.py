"""A server that answers requests for objects as a test says: refusals, half answers, silence."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request gets: `half` sends so many bytes of the body alone, then hangs up.

    A request for a part of the body gets that part.
    """

    status: int = 200
    body: bytes = b""
    half: int | None = None
    silent_s: float = 0.0
    headers: tuple[tuple[str, str], ...] = ()

    def part(self, wanted: str | None) -> tuple[int, bytes, str]:
        """The status, bytes and ``Content-Range`` of a part of the body, or of all of it."""
        if self.status != 200 or wanted is None:
            return self.status, self.body, ""
        first, last = wanted.removeprefix("bytes=").split("-")
        part = self.body[int(first) : int(last) + 1]
        return 206, part, f"bytes {first}-{int(first) + len(part) - 1}/{len(self.body)}"


def refusal(status: int, code: str) -> Answer:
    """An error as S3 says it."""
    text = f"<Error><Code>{code}</Code><Message>AKSECRET is no key</Message></Error>"
    return Answer(status, text.encode())


@dataclass(slots=True)
class Answers:
    """The answers to come, the last one for ever, and the requests that there were."""

    url: str = ""
    queue: list[Answer] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    """Of each request, by names in lower case."""
    ended: threading.Event = field(default_factory=threading.Event)

    def say(self, *answers: Answer) -> None:
        """These come next."""
        self.queue[:] = answers
        self.seen.clear()
        self.headers.clear()


@contextmanager
def answering() -> Iterator[Answers]:
    """A server until the end of the block."""
    answers = Answers()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answers.seen.append(f"{self.command} {self.path}")
            answers.headers.append({k.lower(): v for k, v in self.headers.items()})
            queue = answers.queue
            said = queue.pop(0) if len(queue) > 1 else queue[0]
            answers.ended.wait(said.silent_s)
            status, body, content_range = said.part(self.headers.get("Range"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if content_range:
                self.send_header("Content-Range", content_range)
            for name, value in said.headers:
                self.send_header(name, value)
            self.send_header("ETag", '"tag"')
            self.send_header("Last-Modified", "Mon, 30 Nov 2026 00:00:00 GMT")
            self.end_headers()
            if self.command != "HEAD":
                with suppress(ConnectionError):  # nobody wants the rest
                    self.wfile.write(body if said.half is None else body[: said.half])
            self.close_connection = said.half is not None

        do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = answer

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    answers.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield answers
    finally:
        answers.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
