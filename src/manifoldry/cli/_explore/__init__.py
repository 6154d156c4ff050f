"""The live report: a page served on this machine that can embed again."""
