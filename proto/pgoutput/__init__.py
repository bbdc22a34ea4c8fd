"""PostgreSQL's logical replication messages (pgoutput, protocol version 1): vocabulary and stateless decoder.

The text of a value depends on settings of the session that decodes the WAL. These are the ones we pin.
"""

PINNED_TEXT_SETTINGS = {
    "DateStyle": "ISO, MDY",
    "TimeZone": "UTC",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "client_encoding": "UTF8",
}
