"""Support for the workflows: the stacks that a change concerns, the waves of a rollout, and a text that fits into a
comment.

Reads stack files only for the names of files in them. Imports no Pulumi and reads no clock.
"""
