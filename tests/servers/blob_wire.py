"""One blob, as Azure Storage and S3 hand it out."""

from __future__ import annotations

from retoma.testing.wire import Asked, Given

WHOLE = bytes(range(250)) * 400


def whole(asked: Asked) -> Given:
    headers = {"etag": '"1"', "last-modified": "Wed, 18 Nov 2026 10:00:00 GMT", "content-type": "application/pdf"}
    if "x-ms-range" not in asked.headers and "range" not in asked.headers:
        return Given(WHOLE, headers=headers)
    headers |= {"content-range": f"bytes 0-{len(WHOLE) - 1}/{len(WHOLE)}", "x-ms-blob-type": "BlockBlob"}
    return Given(WHOLE, status=206, headers=headers)


ROUTES = [("/whole", whole)]
