"""Objects behind a URL (s3://, gs://, ...): how fsspec reaches them, and its errors in one line.

Credentials, region and endpoint come from the environment, as the store's own tools read it: for S3
`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_PROFILE`, `AWS_REGION`, `AWS_ENDPOINT_URL`.
"""

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, cast

import fsspec
from upath import UPath

from mlmdist.errors import ConfigError, DataError, UserError

PART_BYTES = 16 << 20
"""Bytes that a writer holds of an object: it goes in parts of so many, at most 10,000 of them."""

MANIFEST_NAME = "manifest.json"
PACKAGES = {"s3": "mlmdist[s3]", "s3a": "mlmdist[s3]", "gs": "gcsfs", "gcs": "gcsfs"}
TRANSPORTS = ("botocore", "aiobotocore", "aiohttp", "google", "gcsfs", "azure", "fsspec")
OF_THE_MACHINE = {
    errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.EBUSY,
    errno.ETIMEDOUT, errno.ECONNREFUSED, errno.EPERM,
}  # fmt: skip
ENVIRONMENT_PREFIXES = ("AWS_", "GOOGLE_", "AZURE_", "FSSPEC_")

# A refused connection is given up after seconds, a store that is silent after some minutes.
_S3_CONFIG = {
    "connect_timeout": 10,
    "read_timeout": 20,
    "retries": {"mode": "standard", "total_max_attempts": 4},
}


def object_path(url: str) -> UPath:
    """The path of a URL; raises ConfigError if its scheme is unknown or its package is missing."""
    scheme = url.partition("://")[0]
    try:
        fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        package = PACKAGES.get(scheme)
        way = f"pip install {package}" if package else str(error)
        raise ConfigError(f"{url}: {scheme}:// needs a package that is missing; {way}") from None
    except ValueError:
        raise ConfigError(
            f"{url}: {scheme}:// is no known kind of storage; take a path, s3://, gs://, ..."
        ) from None
    return UPath(url.rstrip("/"), **store_options(scheme))


def store_options(scheme: str) -> dict[str, Any]:
    """What fsspec is told of a store.

    Listings are not remembered, for other processes write beside this one; and a store that does
    not answer is given up in bounded time.
    """
    options: dict[str, Any] = {"use_listings_cache": False}
    if scheme in ("s3", "s3a"):
        for client in ("botocore", "aiobotocore"):  # they tell at each start where the keys are
            logging.getLogger(client).setLevel(logging.WARNING)
        options["config_kwargs"] = _S3_CONFIG
    return options


def filesystem(path: UPath) -> fsspec.AbstractFileSystem:
    """The file system of a path in this process: `path.fs` does not outlive a fork."""
    return fsspec.filesystem(path.protocol, **path.storage_options)


@contextmanager
def upload(path: UPath) -> Iterator[BinaryIO]:
    """A writer of an object that appears when the block ends well, and not at all otherwise.

    Holds up to two parts of PART_BYTES. An upload of parts that a killed process began is no
    object; the store drops it by its rule for incomplete uploads.
    """
    with named_errors(path):
        file: Any = filesystem(path).open(path.path, "wb", block_size=PART_BYTES)
        try:
            yield file
            file.close()
        except BaseException:
            with suppress(Exception):  # the store may be away, which is why we are here
                file.discard()
            file.closed = True  # or the collector would upload what there is
            raise


def size(path: UPath) -> int:
    """The bytes of an object; raises FileNotFoundError if there is none."""
    with named_errors(path):
        return int(filesystem(path).info(path.path)["size"])


def read_range(path: UPath, start: int, end: int) -> bytes:
    """The bytes of an object from `start` to `end`, or to where it ends."""
    with named_errors(path):
        try:
            return cast("bytes", filesystem(path).cat_file(path.path, start=start, end=end))
        except OSError as error:
            if _code(error) == "InvalidRange":  # another object is there now, a shorter one
                return b""
            raise


def create(path: UPath, data: bytes) -> None:
    """Write a small object that must not be there yet; raises FileExistsError if it is.

    One of two that do it at once fails, where the store knows conditional writes (S3, GCS and most
    that speak S3). A store that refuses them is asked first whether the object is there.
    """
    store = filesystem(path)
    with named_errors(path):
        try:
            store.pipe_file(path.path, data, mode="create")
        except FileExistsError:
            raise
        except (NotImplementedError, OSError) as error:
            code = _code(error)
            if code in ("PreconditionFailed", "ConditionalRequestConflict") or (
                code == "NotImplemented" and store.exists(path.path)
            ):
                raise FileExistsError(errno.EEXIST, "is there", str(path)) from None
            if code != "NotImplemented":
                raise
            store.pipe_file(path.path, data)


def remove_below(folder: UPath, *, keep: UPath | None = None) -> None:
    """Remove all objects whose path begins with `folder/`, but for `keep`; none is no error.

    Manifests go first, so that no reader finds one whose set is going.
    """
    with named_errors(folder), suppress(FileNotFoundError):
        store = filesystem(folder)
        kept = store._strip_protocol(keep.path) if keep else None
        found = [path for path in store.find(folder.path) if path != kept]
        manifests = [path for path in found if path.endswith(f"/{MANIFEST_NAME}")]
        for paths in (manifests, [path for path in found if path not in manifests]):
            if paths:
                store.rm(paths)


@contextmanager
def named_errors(path: object) -> Iterator[None]:
    """Turns what a store or the machine refuses into a UserError of one line that names `path`.

    FileNotFoundError and FileExistsError of an object pass: they are answers.
    """
    try:
        yield
    except (FileNotFoundError, FileExistsError) as error:
        if "bucket does not exist" in str(error):
            raise ConfigError(f"{path}: {_text(error)}; make the bucket, or name another") from None
        raise
    except Exception as error:
        found = user_error(error, path)
        if found is None or found is error:
            raise
        raise found from None


def user_error(error: BaseException, path: object = None) -> UserError | None:
    """What an error of storage says to a user, in one line; None for an error of another kind."""
    if isinstance(error, UserError):
        return error
    where = path or getattr(error, "filename", None) or "storage"
    text = _text(error if path else error.__cause__ or error)
    kinds = {each.__module__.partition(".")[0] for each in type(error).__mro__}
    if kinds & set(TRANSPORTS):
        return ConfigError(f"{where}: {text}; {_way(error)}, then the same command goes on")
    machine = isinstance(error, PermissionError | TimeoutError | ConnectionError)
    if machine or (isinstance(error, OSError) and error.errno in OF_THE_MACHINE):
        return ConfigError(f"{where}: {text}; mend that, then the same command goes on")
    if isinstance(error, OSError):
        return DataError(f"{where}: {text}; mend that, then the same command goes on")
    return None


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turns errors of storage that nobody named into a UserError; for the edge of a program."""
    try:
        yield
    except Exception as error:
        found = user_error(error)
        if found is None or found is error:
            raise
        raise found from error


def environment() -> dict[str, str]:
    """What of this process's environment a worker on another machine needs to reach the stores."""
    return {key: value for key, value in os.environ.items() if key.startswith(ENVIRONMENT_PREFIXES)}


def _code(error: BaseException) -> str:
    """What S3 calls an error; the empty string where another store raised it."""
    if isinstance(error, NotImplementedError):
        return "NotImplemented"
    response = getattr(error.__cause__ or error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def _way(error: BaseException) -> str:
    name = type(error).__name__
    if "Credentials" in name or "Token" in name:
        return "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
    return "see that the store answers at AWS_ENDPOINT_URL, or where the URL's scheme looks"


def _text(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())
