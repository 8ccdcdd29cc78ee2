"""A team's own repository, as `ebbtide init` writes it.

`repository/` holds the files that are copied. Its workflows and its lock are links to those of this repository, so each
has one source; a wheel contains their text.
"""
