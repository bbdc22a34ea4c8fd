"""The settings by which the text of a query means or prints something else."""

# What a text means must not depend on the server's defaults.
MEANING = {"row_security": "on", "standard_conforming_strings": "on", "transform_null_equals": "off"}
# Settings by which the same text means or prints something else: a subscriber's query brings his values along.
BROUGHT = (
    "array_nulls",
    "default_text_search_config",
    "lc_monetary",
    "lc_numeric",
    "lc_time",
    "quote_all_identifiers",
    "transform_null_equals",
    "xmlbinary",
    "xmloption",
)
