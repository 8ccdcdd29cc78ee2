"""Support for previews of pull requests: the stacks that a change concerns, and a text that fits into a comment.

Reads stack files only for the names of files in them. Imports no Pulumi and reads no clock.
"""
