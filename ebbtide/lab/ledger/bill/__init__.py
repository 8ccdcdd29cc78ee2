"""The ledger's second source: AWS' Cost and Usage Report 2.0, and what follows from it.

No account id, ARN, instance id or other text of the report leaves this package: it returns dollars, hours and names
that Ebbtide or the stack file defines, names of the cluster's namespaces, workloads and Services, and single words for
an unknown type of row or a currency. Messages name files, rows and columns, but no cell.
"""
