"""A real server that speaks S3, on loopback, with faults to order: moto behind a small gate."""

import os
from collections.abc import Callable, Iterable
from functools import cached_property
from threading import Lock, Thread
from typing import Any

import boto3
import pytest
from moto.moto_server.werkzeug_app import (
    MotoRequestHandler,
    create_backend_app,
)
from s3fs import S3FileSystem
from werkzeug.serving import BaseWSGIServer, make_server

BUCKET = "corpora"
CHANGES = ("PUT", "POST", "DELETE")
DENIED = (
    b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
)
BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Slow Down</Message></Error>"


class QuietHandler(MotoRequestHandler):
    """Says nothing of each request."""

    def log(self, *arguments: Any, **named: Any) -> None:
        pass


class S3Server:
    """The server and, while it is entered, an environment that leads to it.

    It keeps its objects when it is stopped and started again. `allow(n)` lets n more requests that
    change something come through, and denies all that come after, as if the client had died there.
    `stop_after(n)` stops it after n more changes. `be_away(n)` answers n more requests with 503.
    """

    def __init__(self) -> None:
        self.port = 0
        self.server: BaseWSGIServer | None = None
        self.thread: Thread | None = None
        self.application = create_backend_app("s3")
        self.patch = pytest.MonkeyPatch()
        self.lock = Lock()
        self.left: int | None = None
        self.last: int | None = None
        self.away = 0
        self.changes = 0
        self.requests = 0

    def __enter__(self) -> "S3Server":
        self.start()
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            self.patch.delenv(name)
        for name, value in self.environment.items():
            self.patch.setenv(name, value)
        S3FileSystem.clear_instance_cache()
        self.client.create_bucket(Bucket=BUCKET)
        return self

    def __exit__(self, *_: object) -> None:
        self.reset()
        self.stop()
        self.patch.undo()
        S3FileSystem.clear_instance_cache()

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs to find the server."""
        return {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
        }

    @cached_property
    def client(self) -> Any:
        """A client of its own, to look from outside at what is there."""
        return boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{self.port}",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            region_name="us-east-1",
        )

    def start(self) -> None:
        """Answer, at the port of before if there was one."""
        self.server = make_server(
            "127.0.0.1", self.port, self._gate, threaded=True, request_handler=QuietHandler
        )
        self.port = self.server.server_port
        self.thread = Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Refuse connections."""
        assert self.server
        assert self.thread
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def allow(self, changes: int | None) -> None:
        """Let so many more changes through; None: all of them."""
        with self.lock:
            self.left, self.last, self.changes = changes, None, 0

    def be_away(self, requests: int) -> None:
        """Be too busy for so many more requests."""
        with self.lock:
            self.away = requests

    def stop_after(self, changes: int) -> None:
        """Stop after so many more changes; `wait` says when."""
        with self.lock:
            self.last, self.changes = changes, 0
            self.stopper = Thread(target=self.stop)

    def wait(self) -> None:
        """Wait until it has stopped as it was told to."""
        self.stopper.join()
        self.last = None

    def reset(self) -> None:
        """Forget all objects and uploads, and all orders."""
        self.allow(None)
        self.be_away(0)
        if keys := self.keys():
            rows = [{"Key": key} for key in keys]
            self.client.delete_objects(Bucket=BUCKET, Delete={"Objects": rows})
        for row in self._uploads():
            name = {"Key": row["Key"], "UploadId": row["UploadId"]}
            self.client.abort_multipart_upload(Bucket=BUCKET, **name)

    def keys(self, prefix: str = "") -> list[str]:
        """The keys of all objects that begin with `prefix`."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [row["Key"] for page in pages for row in page.get("Contents", ())]

    def read(self, key: str) -> bytes:
        """An object's bytes."""
        return self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()

    def uploads(self) -> list[str]:
        """The keys of uploads that were begun and neither completed nor aborted."""
        return [row["Key"] for row in self._uploads()]

    def _uploads(self) -> list[dict[str, Any]]:
        return self.client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])

    def tree(self, prefix: str) -> dict[str, bytes]:
        """Every object below a prefix but the stages' own notes, by its name."""
        names = [key.removeprefix(f"{prefix}/") for key in self.keys(f"{prefix}/")]
        return {
            name: self.read(f"{prefix}/{name}")
            for name in names
            if name.rpartition("/")[2] not in ("stage.json", ".lock")
        }

    def _gate(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with self.lock:
            self.requests += 1
            away = self.away > 0
            self.away -= away
            denied = self.left == 0
            if environ["REQUEST_METHOD"] in CHANGES and not denied:
                self.changes += 1
                self.left = None if self.left is None else self.left - 1
                if self.changes == self.last:
                    self.stopper.start()
        if denied or away:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            status, answer = ("403 Forbidden", DENIED) if denied else ("503 Slow Down", BUSY)
            start_response(status, [("Content-Type", "application/xml")])
            return [] if environ["REQUEST_METHOD"] == "HEAD" else [answer]
        return self.application(environ, start_response)
