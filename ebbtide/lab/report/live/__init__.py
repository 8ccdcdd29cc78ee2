"""Report of a running stack from Prometheus: `reading` queries, `record` holds the values, the others draw the page.

The page looks like a replay's. Nothing is drawn where nothing was recorded.
"""
