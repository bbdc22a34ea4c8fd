"""Everything that crosses a process boundary: records, codecs and the rules for reading them. Pure: no IO, no clock."""
