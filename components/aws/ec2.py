"""The EC2 resources that components use. Import them from here.

Loading `pulumi_aws.ec2` loads a module that warns that it is deprecated, even when nobody uses it. Who turns warnings
into errors, as the tests do, could not import anything.

Import from `pulumi_aws.ec2` and its like, not from a module below: the packages are lazy, and one that is first entered
by the back door is left without the very class that was imported, for everybody. Only modules of resources without
nested arguments (`cloudwatch.log_group`) are safe, and worth it where the package is large.
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
