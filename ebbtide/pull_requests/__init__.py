"""What a pull request needs around a preview: which stacks it changes, and one comment that is edited in place.

Standard library only, beside the stack file's names; knows no Pulumi and reads no clock of its own.
"""
