"""The EC2 resources that components use. Import them from here.

`pulumi_aws.ec2` loads a module that emits a DeprecationWarning, even if it is not used. Where warnings are errors, as
in the tests, the import would fail.

Import from `pulumi_aws.ec2` and similar packages, not from their modules. The packages are lazy: if a module is
imported first, the package lacks that module's class for all later imports. Only modules of resources without nested
arguments (`cloudwatch.log_group`) are safe, and worth it if the package is large.
"""

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="aws.ec2/encryptioncontrol", category=DeprecationWarning)
    from pulumi_aws.ec2 import (
        DefaultSecurityGroup,
        Eip,
        FlowLog,
        InternetGateway,
        LaunchTemplate,
        NatGateway,
        Route,
        RouteTable,
        RouteTableAssociation,
        SecurityGroup,
        Subnet,
        Vpc,
        VpcEndpoint,
    )

__all__ = [
    "DefaultSecurityGroup",
    "Eip",
    "FlowLog",
    "InternetGateway",
    "LaunchTemplate",
    "NatGateway",
    "Route",
    "RouteTable",
    "RouteTableAssociation",
    "SecurityGroup",
    "Subnet",
    "Vpc",
    "VpcEndpoint",
]
