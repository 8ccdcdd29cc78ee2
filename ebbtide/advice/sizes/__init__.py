"""Advice on sizes: what each container asks for against what it used, and which nodes would carry the pods cheaper.

`containers` says what the stack file has, `reading` what Prometheus recorded, `rules` decide one amount each, `groups`
and `shapes` pack what ran on other nodes, `advice` puts them together, `text` lays them out. Only `answers`, `courses`
and `ran` ask Prometheus; all else is pure.
"""
