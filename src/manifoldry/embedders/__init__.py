"""The methods, one short file each (or a pair of twins).

The folder is not called ``methods`` because ``manifoldry.methods()`` is the function that lists them.
"""
