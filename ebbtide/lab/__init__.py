"""Estimates and bills: replays, sweeps, pages, advice and the ledger. Nothing of it runs in a cluster."""
