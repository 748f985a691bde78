"""A server that answers requests for objects as a test says: refusals, half answers, silence."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request gets: `half` sends so many bytes of the body alone, then hangs up."""

    status: int = 200
    body: bytes = b""
    half: int | None = None
    silent_s: float = 0.0


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
    ended: threading.Event = field(default_factory=threading.Event)

    def say(self, *answers: Answer) -> None:
        """These come next."""
        self.queue[:] = answers
        self.seen.clear()


@contextmanager
def answering() -> Iterator[Answers]:
    """A server until the end of the block."""
    answers = Answers()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answers.seen.append(f"{self.command} {self.path}")
            queue = answers.queue
            said = queue.pop(0) if len(queue) > 1 else queue[0]
            answers.ended.wait(said.silent_s)
            self.send_response(said.status)
            self.send_header("Content-Length", str(len(said.body)))
            self.send_header("ETag", '"tag"')
            self.send_header("Last-Modified", "Mon, 30 Nov 2026 00:00:00 GMT")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(said.body if said.half is None else said.body[: said.half])
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
