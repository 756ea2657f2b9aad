"""From the address of a picture in Label Studio to the name of its image, and back."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote, urlsplit

_UPLOAD = re.compile(r"^(?:https?://[^/]+)?(?:/[^?#]*)?/data/upload/(?:\d+/)?([^?#]+)")
_LOCAL = re.compile(r"^(?:https?://[^/]+)?(?:/[^?#]*)?/data/[^?#]*\?d=(.+)$", re.DOTALL)
_STORAGE = re.compile(r"^(?:s3s?|gs|azure-blob|redis)://[^/]+/(.+)$", re.DOTALL)
_WEB = re.compile(r"^https?://", re.IGNORECASE)
#: Label Studio puts eight hexadecimal digits before the name of a file that is uploaded
_PREFIX = re.compile(r"^[0-9a-f]{8}-(?=.)")


def image_name(address: str, rule: str) -> tuple[str, str]:
    """Return the name of an image, and what makes its picture another one than that of an image of the same name.

    Args:
        address: ``/data/upload/1/1a2b3c4d-cat.jpg``, ``/data/local-files/?d=pets/cat.jpg``, ``s3://bucket/cat.jpg``,
            ``https://...`` or a plain path.
        rule: ``path`` (the path in the storage; of uploads the name before the upload), ``file`` (the last part) or
            ``url``.

    Raises:
        ValueError: an address without a path.
    """
    address = address.strip()
    if rule == "url":
        return address, address
    identity = address
    is_upload = False
    if local := _LOCAL.match(address):
        path = unquote(local[1].split("&")[0]).replace("\\", "/").lstrip("/")
    elif upload := _UPLOAD.match(address):
        is_upload = True
        path, identity = unquote(upload[1]), upload[0]
    elif storage := _STORAGE.match(address):
        path = storage[1]
    elif _WEB.match(address):
        parts = urlsplit(address)
        path, identity = unquote(parts.path).lstrip("/"), f"{parts.netloc}{parts.path}"  # signatures differ
    else:
        path = address
    if rule == "file":
        path = path.rpartition("/")[2]
    elif is_upload:
        path = _PREFIX.sub("", path)
    if not path:
        raise ValueError("no path")
    return path, identity


def local_address(name: str) -> str:
    """Return the address under which Label Studio serves a picture of its local storage; addresses stay as they are."""
    if "://" in name or name.startswith("/data/"):
        return name
    return "/data/local-files/?d=" + quote(name)
