"""What tests of the report share."""

NASTY = "</script><img src=http://example.invalid/x.png onerror=alert(1)>"
