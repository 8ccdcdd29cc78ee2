"""Advice on sizes: what each container asks for against what it used, and which nodes would carry the pods cheaper.

`containers` says what the stack file has, `reading` what Prometheus recorded, `rules` decide one amount each (pure),
`shapes` packs what ran on other nodes, `advice` puts them together, `text` lays them out.
"""
