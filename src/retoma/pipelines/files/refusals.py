"""The codes with which a route that takes files may refuse one."""

REFUSED = (
    "file_empty",
    "file_missing",
    "multipart_invalid",
    "file_too_large",
    "too_many_fields",
    "too_many_files",
    "payload_too_large",
    "file_type_mismatch",
    "file_type_unsupported",
    "multipart_expected",
    "archive_limits",
    "file_encrypted",
    "file_truncated",
    "store_unavailable",
    "store_full",
)
"""Why files may not be taken."""
