"""The functions of ``fabric.functions``, a family a file."""
