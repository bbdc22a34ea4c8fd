"""The processes of Tidewire, one package each, and what they are built on."""
