"""The policy pack of every stack: pulumi up --policy-pack policies"""

from ebbtide.policies.pack.__main__ import main

main()
