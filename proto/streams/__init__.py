"""How each topic is read: fences, duplicates and gaps, as code that every reader shares."""
