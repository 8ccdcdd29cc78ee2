"""What a pull request needs around a preview: which stacks it changes, and one comment that is edited in place.

Reads stack files for the names of files in them; knows no Pulumi and reads no clock of its own.
"""
