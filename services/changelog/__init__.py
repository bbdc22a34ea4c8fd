"""Reading `changes` and finding places in it: follower, barrier, snapshot."""
