"""What a stack did, from what Prometheus recorded: read (`reading`), kept as values (`record`), drawn as a page.

The same look as a replay's page. Nothing is drawn where nothing was recorded.
"""
