-- Functions that act with the installer's rights are for the installer alone until it grants them.
revoke all on all functions in schema _tidewire from public;
