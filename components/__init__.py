"""Pulumi components, one subpackage per concern.

`ebbtide.program` exports the public ones. A module here imports only what its component needs, since `pulumi_aws` takes
seconds to import.
"""
