"""The AWS types that take tags, of those that a stack has or that a program beside it is likely to add.

A list, since asking the SDK's classes would load all of its packages. A test asks them.
"""

TAGGABLE = frozenset(
    f"aws:{name}"
    for name in (
        "cloudwatch/logGroup:LogGroup",
        "cloudwatch/metricAlarm:MetricAlarm",
        "dynamodb/table:Table",
        "ebs/volume:Volume",
        "ec2/defaultSecurityGroup:DefaultSecurityGroup",
        "ec2/eip:Eip",
        "ec2/flowLog:FlowLog",
        "ec2/instance:Instance",
        "ec2/internetGateway:InternetGateway",
        "ec2/launchTemplate:LaunchTemplate",
        "ec2/natGateway:NatGateway",
        "ec2/routeTable:RouteTable",
        "ec2/securityGroup:SecurityGroup",
        "ec2/subnet:Subnet",
        "ec2/vpc:Vpc",
        "ec2/vpcEndpoint:VpcEndpoint",
        "ecr/repository:Repository",
        "efs/fileSystem:FileSystem",
        "eks/accessEntry:AccessEntry",
        "eks/addon:Addon",
        "eks/cluster:Cluster",
        "eks/nodeGroup:NodeGroup",
        "eks/podIdentityAssociation:PodIdentityAssociation",
        "elasticache/parameterGroup:ParameterGroup",
        "elasticache/replicationGroup:ReplicationGroup",
        "elasticache/subnetGroup:SubnetGroup",
        "iam/role:Role",
        "kms/key:Key",
        "lb/loadBalancer:LoadBalancer",
        "rds/cluster:Cluster",
        "rds/instance:Instance",
        "s3/bucket:Bucket",
        "secretsmanager/secret:Secret",
        "sns/topic:Topic",
        "sqs/queue:Queue",
        "vpc/securityGroupEgressRule:SecurityGroupEgressRule",
        "vpc/securityGroupIngressRule:SecurityGroupIngressRule",
    )
)
