"""Container images without a registry: built from Debian's packages and this repository, kept outside the tree."""
