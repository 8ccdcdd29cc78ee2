"""Report of a running stack from Prometheus: `reading` asks, `record` holds the values, the others draw the page.

The same look as a replay's page. Nothing is drawn where nothing was recorded.
"""
