"""How fast it is, as ratios within one run: absolute figures of a shared machine say little."""
