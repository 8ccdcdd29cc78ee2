"""What a pull request needs around a preview: which stacks it changes, and a text that fits into a comment.

Reads stack files for the names of files in them; knows no Pulumi and reads no clock.
"""
